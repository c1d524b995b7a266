"""`supquant bench evaluate`: the speed of judging rankings, after a check of the answers."""

from __future__ import annotations

from typing import Annotated

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant_lab.bench.evaluate import bench_evaluate
from supquant_lab.bench.search import WrongAnswersError
from supquant_lab.cli.bench_search import WRONG_ANSWERS
from supquant_lab.cli.options import JsonFile, check_figures, describe, write_figures

app = typer.Typer()


@app.command("evaluate")
def evaluate(
    json: JsonFile = None,
    queries: Annotated[int, typer.Option(min=1, help="How many rankings.")] = 1000,
    rows: Annotated[int, typer.Option(min=1, help="How many items are ranked.")] = 69_000,
    bits: Annotated[int, typer.Option(min=8, help="Of a code, a multiple of 8.")] = 64,
) -> None:
    """Time MAP, precision and recall of random rankings; wrong answers end it with exit code 1."""
    check_figures(json)
    try:
        record = bench_evaluate(
            queries=queries,
            rows=rows,
            bits=bits,
            on_kind=lambda kind: err.print(f"Judging the scores of {kind} ..."),
        )
    except WrongAnswersError as error:
        err.print(f"Wrong answers: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(WRONG_ANSWERS) from None
    print_facts(
        [
            ("rankings", f"{queries:,} queries, {rows:,} random rows, {bits} bits"),
            ("machine", f"{describe(record['machine'])}, {record['threads']} threads"),
            ("load before", f"{record['load_before']:.2f}"),
        ]
    )
    print_table(
        ["scores", "seconds, median", "fastest", "slowest", "CPU seconds", "peak MB"],
        [
            [
                measured["kind"],
                f"{measured['seconds']:.2f}",
                f"{min(measured['all_seconds']):.2f}",
                f"{max(measured['all_seconds']):.2f}",
                f"{measured['cpu_seconds']:.2f}",
                f"{measured['peak_memory_mb']:.0f}",
            ]
            for measured in record["kinds"]
        ],
        title=f"Judging all rankings (asked of 1,000 queries and 69,000 rows: {record['seconds_limit']:g} s, "
        f"{record['memory_limit_mb']:g} MB)",
    )
    write_figures(json, record)
