"""`supquant bench cells`: single queries over sorted codes, after a check of the answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import err, print_facts, progress_bars
from supquant_lab.bench.cells import ENCODED, ROWS, bench_cells
from supquant_lab.bench.search import WrongAnswersError
from supquant_lab.cli.bench_search import WRONG_ANSWERS, print_figures
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

app = typer.Typer()


@app.command("cells")
def cells(
    *,
    json: JsonFile = None,
    quick: Quick = False,
    model: Annotated[Path | None, typer.Option(help="A fitted model; without it one is fitted.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of trained codes.")] = ROWS,
    encoded: Annotated[int, typer.Option(min=1, help="Number of vectors that are encoded.")] = ENCODED,
) -> None:
    """Compare one query over the cells of trained codes with a scan of all of them; wrong answers end it with exit code 1."""
    check_figures(json)
    try:
        with progress_bars() as callback:
            record = bench_cells(quick=quick, model=model, rows=rows, encoded=encoded, callback=callback)
    except WrongAnswersError as error:
        err.print(f"Wrong answers: {error}", markup=False, soft_wrap=True)
        raise typer.Exit(WRONG_ANSWERS) from None
    print_facts([("machine", describe(record["machine"])), ("FAISS", record["faiss"])])
    print_figures(record)
    write_figures(json, record)
