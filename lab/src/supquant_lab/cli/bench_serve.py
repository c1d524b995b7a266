"""`supquant bench serve`: the speed of a service, and what it does under load, kills and requests that make no sense."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant.errors import InputError
from supquant_lab.bench.serving.checked import bench_kills, bench_load
from supquant_lab.bench.serving.fuzzing import bench_fuzzing
from supquant_lab.bench.serving.speed import bench_serve
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

app = typer.Typer()


@app.command("serve")
def serve(
    load: Annotated[
        float | None,
        typer.Option(help="Instead, load a service for this number of minutes.", show_default=False),
    ] = None,
    kills: Annotated[
        int | None, typer.Option(help="Instead, kill a service this number of times.", show_default=False)
    ] = None,
    fuzz: Annotated[
        int | None, typer.Option(help="Instead, send this number of odd requests.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often speed is measured.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Of all choices.", min=0)] = 0,
    json: JsonFile = None,
    quick: Quick = False,
) -> None:
    """Compare a service with direct searches, or load it, kill it, or send it odd requests, with every answer checked."""
    check_figures(json)
    if sum(each is not None for each in (load, kills, fuzz)) > 1:
        raise InputError("give one of --load, --kills and --fuzz")
    if load is not None:
        record = bench_load(load, seed)
    elif kills is not None:
        record = bench_kills(kills, seed, on_kill=lambda number: err.print(f"Kill {number + 1} ..."))
    elif fuzz is not None:
        record = bench_fuzzing(fuzz, seed)
    else:
        record = bench_serve(
            rounds=rounds, quick=quick, on_round=lambda number: err.print(f"Round {number + 1} ...")
        )
        _print_speed(record)
    if "medians" not in record:
        facts = record.get("counts") or record.get("statuses") or {}
        print_facts(
            [
                *((name, f"{count:,}") for name, count in facts.items()),
                ("machine", describe(record["machine"])),
            ]
        )
    if "memory_mb" in record:
        print_facts([(f"memory, {name}", f"{size:.0f} MB") for name, size in record["memory_mb"].items()])
    write_figures(json, record)
    for failure in record.get("failures", []):
        err.print(f"Failed: {failure}", markup=False)
    if record.get("failures"):
        raise typer.Exit(1)


def _print_speed(record: dict[str, Any]) -> None:
    found, asked = record["medians"], record["asked"]
    print_facts(
        [
            ("index", f"{record['rows']:,} uniform codes of {record['bits']} bits, k = {record['k']}"),
            (
                "machine",
                f"{describe(record['machine'])}, service on one core, load average {record['load']:.1f}",
            ),
        ]
    )
    print_table(
        ["what", "median", "asked"],
        [
            ["direct searches of 32 queries, queries a second", f"{found['direct_per_second']:.0f}", ""],
            [
                f"{record['clients']} clients of a service, queries a second",
                f"{found['served_per_second']:.0f}",
                "",
            ],
            ["the same with queries as JSON", f"{found['json_per_second']:.0f}", ""],
            ["the same with max_batch = 1", f"{found['unjoined_per_second']:.0f}", ""],
            ["queries in a scan, mean", f"{found['served_scan_queries']:.1f}", ""],
            ["share of direct searches", f"{found['served_share']:.2f}", f">= {asked['served_share']}"],
            ["the same by processor time", f"{found['served_processor_share']:.2f}", ""],
            ["times that of max_batch = 1", f"{found['joined_ratio']:.1f}", f">= {asked['joined_ratio']:g}"],
            ["direct searches of 32 queries over those of one", f"{found['joined_bound']:.1f}", ""],
            ["processor ms of a search: direct", f"{found['direct_processor_ms']:.3f}", ""],
            ["processor ms of a search: served", f"{found['served_processor_ms']:.3f}", ""],
            ["processor ms of a search: its client", f"{found['client_processor_ms']:.3f}", ""],
            ["one search alone, direct, ms", f"{found['direct_one_ms']:.2f}", ""],
            ["added to one search of one client, ms", f"{found['added_ms']:.2f}", f"< {asked['added_ms']:g}"],
        ],
        title="A service compared with direct searches",
    )
