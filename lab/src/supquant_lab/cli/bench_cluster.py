"""`supquant bench cluster`: training, encoding and searching with workers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import print_facts, print_line
from supquant_lab.bench.cluster.run import LIMITS, PARTS, bench_cluster
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

app = typer.Typer()


@app.command("cluster")
def cluster(
    *,
    rows: Annotated[int, typer.Option(help="Number of vectors.", min=1000)] = 2_000_000,
    columns: Annotated[int, typer.Option(help="Number of dimensions.", min=2)] = 384,
    codes: Annotated[int, typer.Option(help="Number of codes of the large index.", min=1000)] = 10_000_000,
    anchors: Annotated[int, typer.Option(help="Anchors of the classifier, or 0.", min=0)] = 1000,
    kills: Annotated[int, typer.Option(help="How often the encoding is killed.", min=0)] = 20,
    part: Annotated[
        list[str] | None, typer.Option(help="fit, encode or search; all by default. Give it again for each.")
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            help="A fit to measure, such as ray-2 or processes-2-worker; all by default. Give it again for each."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the files: two bytes a number, 1.5 GB by default.")
    ] = None,
    quick: Quick = False,
    json: JsonFile = None,
) -> None:
    """Fit, encode and search with local processes and on a simulated Ray cluster of two nodes, also when workers are lost."""
    check_figures(json)
    sizes: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "codes": codes,
        "anchors": anchors,
        "kills": kills,
    }
    if quick:
        sizes = {
            "rows": 5000,
            "columns": 16,
            "codes": 20_000,
            "anchors": 50,
            "kills": 2,
            "rounds": 3,
            "n_files": 4,
            "kinds": ("processes",),
        }
    record = bench_cluster(
        **sizes,
        parts=tuple(part or PARTS),
        fits=None if fit is None else tuple(fit),
        folder=None if folder is None else str(folder),
        on_part=lambda name: print_line(f"Measuring {name} ..."),
        on_figures=lambda figures: write_figures(json, figures),
    )
    facts: list[tuple[str, object]] = [("machine", describe(record["machine"]))]
    for each in record.get("fits", ()):
        name = f"fit, {each['kind']}, {each['workers']} workers, lost: {each['fault']}"
        facts.append((name, f"{each['seconds']:.1f} s, driver {each['driver_mb']:.0f} MB"))
    facts += [
        (name.replace("_", " "), f"{record[name]}, asked {LIMITS.get(name, True)}")
        for name in (
            "same_bits",
            "driver_mb",
            "bytes_over_computed",
            "two_workers_over_one",
            "seconds_of_faults",
        )
        if name in record
    ]
    if "encode" in record:
        facts.append(("encoding", ", ".join(f"{name} {value}" for name, value in record["encode"].items())))
    for kind, found in record.get("search", {}).items():
        call, batch = found["call"], found["batch"]
        facts += [
            (
                f"overhead of a call, {kind}",
                f"{call['overhead_ms']:.2f} ms, at best {call['best_overhead_ms']:.2f}, asked {LIMITS['call_ms']}",
            ),
            (
                f"overhead of a batch, {kind}",
                f"{batch['overhead_share']:.1%}, at best {batch['best_overhead_share']:.1%}, asked {LIMITS['batch_share']:.0%}",
            ),
            (
                f"a lost shard answers after, {kind}",
                f"{max(found['recovery_seconds']):.1f} s at most, asked {LIMITS['recovery_seconds']}",
            ),
            (f"answers equal, {kind}", found["equal"]),
        ]
    print_facts(facts)
    write_figures(json, record)
