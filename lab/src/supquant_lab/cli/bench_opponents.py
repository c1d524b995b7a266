"""`supquant bench opponents`: the default model and what a user would take in its place, under every protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from supquant.cli.console import err, out
from supquant.errors import InputError
from supquant_lab.bench.opponents.plan import COMPARED, DATA, PROTOCOLS, plan_cells
from supquant_lab.bench.opponents.run import read_folder, run_cells
from supquant_lab.cli.bench import benchmark, read_numbers
from supquant_lab.cli.opponent_tables import rendered, tables

app = typer.Typer()


@benchmark(app)
def opponents(
    data: Annotated[
        str | None, typer.Option(help=f"Only these, with commas between: {', '.join(DATA)}.")
    ] = None,
    protocol: Annotated[
        str | None, typer.Option(help=f"Only these, with commas between: {', '.join(PROTOCOLS)}.")
    ] = None,
    method: Annotated[
        str | None, typer.Option(help=f"Only these, with commas between: {', '.join(COMPARED)}.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Of splits and fits: 0,1 by default.")] = None,
    bits: Annotated[
        int, typer.Option(help="Of an item, for methods that have a choice.", min=8, max=512)
    ] = 64,
    rows: Annotated[int | None, typer.Option(help="Draw this many rows of a larger data set.", min=1)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rows of Tiny-ImageNet.")] = False,
    results: Annotated[
        Path, typer.Option(help="Folder of the records. Those of the same sources are not measured again.")
    ] = Path("results/opponents"),
    page: Annotated[
        Path | None,
        typer.Option(help="Measure nothing: write the tables of all records between the comments of a page."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads of every method.", min=1)] = 1,
) -> dict[str, Any]:
    """Compare the default model with classifiers and stored labels, codes of FAISS, small embeddings and others."""
    if page is not None:
        records = read_folder(results)
        if not records:
            raise InputError(f"{results} holds no record of opponents; write some with --results {results}")
        page.write_text(rendered(page.read_text(encoding="utf-8"), records), encoding="utf-8")
        return {"benchmark": "opponents", "records": records}
    cells = plan_cells(
        data.split(",") if data else None,
        protocol.split(",") if protocol else None,
        method.split(",") if method else None,
        seeds=read_numbers(seeds, "seeds") if seeds else None,
        bits=bits,
        rows=rows,
        quick=quick,
    )
    records = run_cells(
        cells,
        results,
        n_jobs=jobs,
        on_cell=lambda number, name: err.print(
            f"Measuring {name} ({number} of {len(cells)}) ...", soft_wrap=True
        ),
    )
    out.print(tables(records), markup=False, soft_wrap=True)
    return {"benchmark": "opponents", "records": records}
