"""`supquant bench`: services, disturbed indexes, and workers. Each command imports what needs extras when it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_facts, print_line, print_table
from supquant.errors import InputError
from supquant_lab.cli.bench import JsonFile, Quick, benchmark, describe, write_figures

app = typer.Typer()

QUICK_CLUSTER = {
    "rows": 5000,
    "columns": 16,
    "codes": 20_000,
    "anchors": 50,
    "kills": 2,
    "rounds": 3,
    "n_files": 4,
    "kinds": ("processes",),
}
"""The sizes of a quick run of `cluster`."""


@benchmark(app)
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
    changes: Annotated[
        int | None, typer.Option(help="Instead, change a service this number of times.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="With --changes: the folder in which the index lies.")
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often speed is measured.", min=1)] = 3,
    seed: Annotated[int, typer.Option(help="Of all choices.", min=0)] = 0,
    quick: Quick = False,
) -> dict[str, Any]:
    """Compare a service with direct searches, or load, change or kill it, or send it odd requests, with every answer checked."""
    from supquant_lab.bench.serving import changes as changing  # noqa: PLC0415  # extras
    from supquant_lab.bench.serving import checked, fuzzing, speed  # noqa: PLC0415  # extras

    if sum(each is not None for each in (load, kills, fuzz, changes)) > 1:
        raise InputError("give only one of --load, --kills, --fuzz and --changes")
    if load is not None:
        record = checked.bench_load(load, seed)
    elif kills is not None:
        record = checked.bench_kills(kills, seed, on_kill=lambda n: err.print(f"Kill {n + 1} ..."))
    elif changes is not None:
        record = changing.bench_changes(changes, seed, folder, lambda n: err.print(f"{n:,} changes"))
    elif fuzz is not None:
        record = fuzzing.bench_fuzzing(
            fuzz,
            seed,
            lambda n, failures: err.print(
                f"{n:,} requests", *failures[-1:], sep=", last failure: ", markup=False
            ),
        )
    else:
        record = speed.bench_serve(
            rounds=rounds, quick=quick, on_round=lambda n: err.print(f"Round {n + 1} ...")
        )
        _print_speed(record)
        return record
    counts = record.get("counts") or record.get("statuses") or {}
    facts = [(name, f"{count:,}") for name, count in counts.items()]
    print_facts([*facts, ("machine", describe(record["machine"]))])
    if "memory_mb" in record:
        print_facts([(f"memory, {name}", f"{size:.0f} MB") for name, size in record["memory_mb"].items()])
    return record


def _print_speed(record: dict[str, Any]) -> None:
    found, asked = record["medians"], record["asked"]
    machine = f"{describe(record['machine'])}, service on one core, load average {record['load']:.1f}"
    codes = f"{record['rows']:,} uniform codes of {record['bits']} bits, k = {record['k']}"
    print_facts([("index", codes), ("machine", machine)])
    clients = f"{record['clients']} clients of a service, queries per second"
    print_table(
        ["what", "median", "asked"],
        [
            ["direct searches of 32 queries, queries per second", f"{found['direct_per_second']:.0f}", ""],
            [clients, f"{found['served_per_second']:.0f}", ""],
            ["the same with queries as JSON", f"{found['json_per_second']:.0f}", ""],
            ["the same with max_batch = 1", f"{found['unjoined_per_second']:.0f}", ""],
            ["queries per scan, mean", f"{found['served_scan_queries']:.1f}", ""],
            ["fraction of direct searches", f"{found['served_share']:.2f}", f">= {asked['served_share']}"],
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


@benchmark(app)
def soak(
    minutes: Annotated[float, typer.Option(help="How long to run.")] = 5.0,
    processes: Annotated[int, typer.Option(help="How many soak at once, with children of their own.")] = 2,
    seed: Annotated[int, typer.Option(help="Of all choices.", min=0)] = 0,
    service: Annotated[
        bool, typer.Option("--service", help="Instead, disturb a service by hostile clients and kills.")
    ] = False,
) -> dict[str, Any]:
    """Change, search, save, load, kill, interrupt, starve and damage indexes at random, and check every answer."""
    from supquant_lab.soak.run import run_soak  # noqa: PLC0415  # an extra
    from supquant_lab.soak.service import soak_service  # noqa: PLC0415  # extras

    err.print(f"Soaking for {minutes:g} minutes ...")
    if service:
        record = soak_service(minutes, seed)
        print_facts([(name, f"{n:,}") for name, n in record["counts"].items()])
        print_facts([(f"seconds, {name}", f"{n:.3f}") for name, n in record["seconds"].items()])
        return record
    record = run_soak(minutes, processes, seed)
    print_facts(
        [
            ("time", f"{record['minutes']:.1f} minutes, {processes} processes, seed {seed}"),
            ("machine", describe(record["machine"])),
        ]
    )
    asked = record["asked_an_hour"]
    print_table(
        ["what", "how often", "asked of an hour"],
        [
            [name, f"{n:,}", f"{asked[name]:,}" if name in asked else ""]
            for name, n in record["counts"].items()
        ],
    )
    return record


@benchmark(app)
def cluster(
    json: JsonFile = None,
    rows: Annotated[int, typer.Option(help="Number of vectors.", min=1000)] = 2_000_000,
    columns: Annotated[int, typer.Option(help="Number of dimensions.", min=2)] = 384,
    codes: Annotated[int, typer.Option(help="Number of codes of the large index.", min=1000)] = 10_000_000,
    anchors: Annotated[int, typer.Option(help="Anchors of the classifier, or 0.", min=0)] = 1000,
    kills: Annotated[int, typer.Option(help="How often the encoding is killed.", min=0)] = 20,
    part: Annotated[
        list[str] | None, typer.Option(help="fit, encode or search; all by default. Repeat it for several.")
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option(
            help="A fit to measure, such as ray-2 or processes-2-worker; all by default. Repeat it for several."
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the files: two bytes per number, 1.5 GB by default.")
    ] = None,
    quick: Quick = False,
) -> dict[str, Any]:
    """Fit, encode and search with local processes and on a simulated Ray cluster of two nodes, also when workers are lost."""
    from supquant_lab.bench.cluster.run import LIMITS, PARTS, bench_cluster  # noqa: PLC0415  # extras

    sizes: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "codes": codes,
        "anchors": anchors,
        "kills": kills,
    }
    record = bench_cluster(
        **(QUICK_CLUSTER if quick else sizes),
        parts=tuple(part or PARTS),
        fits=None if fit is None else tuple(fit),
        folder=folder,
        on_part=lambda name: print_line(f"Measuring {name} ..."),
        on_figures=lambda figures: write_figures(json, figures),
    )
    print_facts(_cluster_facts(record, LIMITS))
    return record


def _cluster_facts(record: dict[str, Any], limits: dict[str, float]) -> list[tuple[str, object]]:
    """Return what is printed of the record of a cluster."""
    facts: list[tuple[str, object]] = [("machine", describe(record["machine"]))]
    for each in record.get("fits", ()):
        name = f"fit, {each['kind']}, {each['workers']} workers, lost: {each['fault']}"
        facts.append((name, f"{each['seconds']:.1f} s, driver {each['driver_mb']:.0f} MB"))
    facts += [
        (name.replace("_", " "), f"{record[name]}, asked {limits.get(name, True)}")
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
                f"{call['overhead_ms']:.2f} ms, at best {call['best_overhead_ms']:.2f}, asked {limits['call_ms']}",
            ),
            (
                f"overhead of a batch, {kind}",
                f"{batch['overhead_share']:.1%}, at best {batch['best_overhead_share']:.1%}, asked {limits['batch_share']:.0%}",
            ),
            (
                f"a lost shard answers after, {kind}",
                f"at most {max(found['recovery_seconds']):.1f} s, asked {limits['recovery_seconds']}",
            ),
            (f"answers equal, {kind}", found["equal"]),
        ]
    return facts
