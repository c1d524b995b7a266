"""`supquant bench search`: the speed of searching beside FAISS, after a check of the answers."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supquant.cli.console import err, print_facts, print_table, progress_bars
from supquant.cli.files import check_output
from supquant.errors import InputError
from supquant_lab.bench.search import WrongAnswersError, bench_search, plot_search
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

if TYPE_CHECKING:
    from collections.abc import Mapping

app = typer.Typer()

WRONG_ANSWERS = 1
"""Exit code of a benchmark whose answers are wrong."""


@app.command("search")
def search(
    *,
    json: JsonFile = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the speeds to this .png file.")] = None,
    quick: Quick = False,
    grid: Annotated[
        bool, typer.Option("--grid", help="Every size, length and number of answers: hours.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells that the --json file holds already.")
    ] = False,
    folder: Annotated[Path | None, typer.Option(help="Where an index of 1 GB is made and opened.")] = None,
) -> None:
    """Compare searching with the indexes of FAISS in one process; wrong answers end it with exit code 1."""
    if plot is not None:
        check_output(plot, (".png",))
    check_figures(json)
    earlier = _read_record(json) if resume else None
    try:
        with progress_bars() as callback:
            record = bench_search(
                quick=quick,
                grid=grid,
                folder=None if folder is None else str(folder),
                resume=earlier,
                callback=callback,
                on_record=lambda record: write_figures(json, record),
            )
    except WrongAnswersError as error:
        err.print(f"Wrong answers: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(WRONG_ANSWERS) from None
    print_facts([("machine", describe(record["machine"])), ("FAISS", record["faiss"])])
    _print_cells(record, "tables_to_answers", "from tables to answers; FAISS makes its tables inside")
    _print_cells(record, "query_to_answers", "from queries to answers")
    print_figures(record)
    if plot is not None:
        plot_search(record, plot)


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


def print_figures(record: Mapping[str, Any]) -> None:
    """Print the figures of a record beside their limits."""
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
        title="Figures asked for; one thread and k 100 unless they say otherwise"
        + (" (a quick run: not to be taken for figures)" if record["quick"] else ""),
    )
