"""`supquant bench`: queries, searches, sorted codes, and the judging of rankings. Answers are checked before they are timed."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_facts, print_table, progress_bars
from supquant.cli.files import check_output
from supquant.errors import InputError
from supquant_lab.bench.cells import ENCODED, ROWS, bench_cells
from supquant_lab.bench.evaluate import bench_evaluate
from supquant_lab.bench.query import bench_query
from supquant_lab.bench.refine import DATA, TIMED_ROWS, bench_refine
from supquant_lab.bench.search import bench_search, plot_search
from supquant_lab.cli.bench import JsonFile, Quick, benchmark, describe, print_records, write_figures

app = typer.Typer()


@benchmark(app)
def query(quick: Quick = False) -> dict[str, Any]:
    """Compare queries from raw vectors to answers with FAISS, and time their features and tables for both rankings."""
    with progress_bars() as callback:
        record = bench_query(quick=quick, callback=callback)
    print_facts(
        [
            ("data", f"{record['dataset']}, {record['rows']:,} rows, {record['bits']} bits"),
            ("machine", f"{describe(record['machine'])}, queries on one thread, {record['batch']} at a time"),
        ]
    )
    print_records(
        {
            "features": "{features}",
            "fit, s": "{fit_seconds:.1f}",
            "features, us": "{features_microseconds:.1f}",
            "label tables, us": "{tables_microseconds[label]:.2f}",
            "tables of the other ranking, us": "{other:.2f}",
            "ratio": "{ratio:.2f}",
        },
        [model | {"other": _other(model["tables_microseconds"])} for model in record["models"]],
        title=f"A query before the scan (ratio of at most {record['ratio_limit']:g} wanted)",
    )
    print_table(
        ["from raw vectors, on one thread", "measured", "asked"],
        [
            [figure["name"], f"{figure['measured']:,.2f} {figure['unit']}".strip(), figure["asked"]]
            for figure in record["figures"]
        ],
        title=f"Default models of {record['texts']} and of random rows",
    )
    return record


def _other(tables: dict[str, float]) -> float:
    """Return the time of the ranking that is not the label one."""
    return next(time for ranking, time in tables.items() if ranking != "label")


@benchmark(app)
def search(
    json: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the speeds to this .png file.")] = None,
    quick: Quick = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="Every size, length and number of answers: hours.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells that the --json file already holds.")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="Where an index of 1 GB is made and opened.")] = None,
) -> dict[str, Any]:
    """Compare searching with the indexes of FAISS in one process; wrong answers end it with exit code 1."""
    if plot is not None:
        check_output(plot, (".png",))
    earlier = _read_record(json) if resume else None
    with progress_bars() as callback:
        record = bench_search(
            quick=quick,
            grid=grid,
            folder=folder,
            resume=earlier,
            callback=callback,
            on_record=lambda record: write_figures(json, record),
        )
    print_facts([("machine", describe(record["machine"])), ("FAISS", record["faiss"])])
    _print_cells(record, "tables_to_answers", "from tables to answers; FAISS makes its tables inside")
    _print_cells(record, "query_to_answers", "from queries to answers")
    _print_figures(record)
    if plot is not None:
        plot_search(record, plot)
    return record


def _read_record(path: Path | None) -> Any:
    if path is None or not path.is_file():
        raise InputError("--resume needs the --json file of an earlier run")
    try:
        return json_text.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is not a JSON file: {error}") from error


def _print_cells(record: Mapping[str, Any], way: str, title: str) -> None:
    names = [side["name"] for side in record["cells"][0]["sides"]]
    print_table(
        ["codes", "rows", "queries", "k", "threads", *names],
        [
            [
                f"{cell['source']}, {cell['bits']} bits",
                *(f"{cell[field]:,}" for field in ("rows", "queries", "k", "threads")),
                *(f"{1e3 * side[way]['seconds']:.3g}" for side in cell["sides"]),
            ]
            for cell in record["cells"]
        ],
        title=f"Milliseconds {title}",
    )


def _print_figures(record: Mapping[str, Any]) -> None:
    """Print the figures of a record with their limits."""
    print_table(
        ["figure", "asked", "measured", "reached"],
        [
            [
                figure["name"],
                figure["asked"] or "-",
                f"{figure['measured']:.3g} {figure['unit']}".strip(),
                {True: "yes", False: "no", None: "-"}[figure["reached"]],
            ]
            for figure in record["figures"]
        ],
        title="Figures; one thread and k 100 unless they say otherwise"
        + (" (a quick run, whose figures mean nothing)" if record["quick"] else ""),
    )


@benchmark(app)
def cells(
    quick: Quick = False,
    model: Annotated[Path | None, typer.Option(help="A fitted model; without it one is fitted.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of trained codes.")] = ROWS,
    encoded: Annotated[int, typer.Option(min=1, help="Number of vectors that are encoded.")] = ENCODED,
) -> dict[str, Any]:
    """Compare one query over the cells of trained codes with a scan of all of them; wrong answers end it with exit code 1."""
    with progress_bars() as callback:
        record = bench_cells(quick=quick, model=model, rows=rows, encoded=encoded, callback=callback)
    print_facts([("machine", describe(record["machine"])), ("FAISS", record["faiss"])])
    _print_figures(record)
    return record


@benchmark(app)
def refine(
    quick: Quick = False,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Data set; may be repeated; two by default.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of items whose search is timed.")] = TIMED_ROWS,
    models: Annotated[
        Path | None,
        typer.Option(help="Folder where fitted models are kept, and read from if they are there."),
    ] = None,
) -> dict[str, Any]:
    """Measure the order of first answers by vectors next to codes, and what it costs, with the refine of FAISS."""
    with progress_bars() as callback:
        record = bench_refine(
            quick=quick, data=tuple(data or DATA), rows=rows, folder=models, callback=callback
        )
    print_facts([("machine", describe(record["machine"])), ("FAISS", record["faiss"])])
    _print_figures(record)
    return record


@benchmark(app)
def evaluate(
    queries: Annotated[int, typer.Option(min=1, help="How many rankings.")] = 1000,
    rows: Annotated[int, typer.Option(min=1, help="How many items are ranked.")] = 69_000,
    bits: Annotated[int, typer.Option(min=8, help="Of a code, a multiple of 8.")] = 64,
) -> dict[str, Any]:
    """Time MAP, precision and recall of random rankings; wrong answers end it with exit code 1."""
    record = bench_evaluate(
        queries=queries,
        rows=rows,
        bits=bits,
        on_kind=lambda kind: err.print(f"Judging the scores of {kind} ..."),
    )
    print_facts(
        [
            ("rankings", f"{queries:,} queries, {rows:,} random rows, {bits} bits"),
            ("machine", f"{describe(record['machine'])}, {record['threads']} threads"),
            ("load before", f"{record['load_before']:.2f}"),
        ]
    )
    limits = f"{record['seconds_limit']:g} s, {record['memory_limit_mb']:g} MB"
    print_records(
        {
            "scores": "{kind}",
            "seconds, median": "{seconds:.2f}",
            "fastest": "{fastest:.2f}",
            "slowest": "{slowest:.2f}",
            "CPU seconds": "{cpu_seconds:.2f}",
            "peak MB": "{peak_memory_mb:.0f}",
        },
        [
            each | {"fastest": min(each["all_seconds"]), "slowest": max(each["all_seconds"])}
            for each in record["kinds"]
        ],
        title=f"Judging all rankings (asked of 1,000 queries and 69,000 rows: {limits})",
    )
    return record
