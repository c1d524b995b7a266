"""`supquant experiment` and `supquant results`: cells written as files, and the table made from them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.app import app
from supquant.cli.console import out, print_table, progress_bars
from supquant.cli.files import check_output, write_json
from supquant.codec import RANKINGS
from supquant.datasets import NAMES, load
from supquant.errors import InputError
from supquant.evaluation import PROTOCOLS, PenaltySelection
from supquant.experiments.cell import Cell, run_cells
from supquant.experiments.methods import METHODS, Settings
from supquant.experiments.table import VALUES, read_cells, result_table


@app.command()
def experiment(
    *,
    dataset: Annotated[
        str, typer.Option(help=f"{', '.join(NAMES)}, or the path of an .npz file with X and y.")
    ] = "digits",
    method: Annotated[str, typer.Option(help=", ".join(METHODS))] = "sq",
    bits: Annotated[
        str, typer.Option(help="One length, or several: 16,32,64,128. A longer code starts from the shorter.")
    ] = "16",
    protocol: Annotated[str, typer.Option(help=", ".join(PROTOCOLS))] = "paper",
    ranking: Annotated[str, typer.Option(help=", ".join(RANKINGS))] = "euclidean",
    seed: Annotated[int, typer.Option(help="Of the split and of the method.", min=0)] = 0,
    json: Annotated[
        Path | None, typer.Option(help="Write the cell here (a list of cells, if several lengths).")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option(help="Write each cell to a file of its own in this folder.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="joint or alternating.")] = None,
    anchors: Annotated[
        int, typer.Option(help="Anchors of the kernel features; 0: vectors as they are.", min=0)
    ] = 1000,
    quantization_weight: Annotated[float | None, typer.Option(help="gamma, above 0.")] = None,
    constraint_weight: Annotated[float | None, typer.Option(help="mu.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Iterations of a fit at the most.")] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(help="alternating: turns of W, P, eps and C between two passes; 1 as published."),
    ] = None,
    missing_labels: Annotated[
        str, typer.Option(help="Encode items without labels by predict or drop.")
    ] = "predict",
    penalties: Annotated[
        str | None,
        typer.Option(
            help="`validate`: choose gamma and mu by validation MAP; or a file of points so chosen."
        ),
    ] = None,
    penalties_file: Annotated[
        Path | None, typer.Option(help="Where `validate` keeps finished points, to go on from after a stop.")
    ] = None,
    queries: Annotated[int | None, typer.Option(help="Number of queries.", min=1)] = None,
    rows: Annotated[int | None, typer.Option(help="Use so many random rows of the data set.", min=1)] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
) -> None:
    """Measure one method on one data set, at one code length or several."""
    lengths = _lengths(bits)
    if json is not None:
        check_output(json)
    if out_dir is not None:
        out_dir.mkdir(parents=True, exist_ok=True)
    settings = Settings(
        seed=seed,
        anchors=anchors,
        solver=solver,
        quantization_weight=quantization_weight,
        constraint_weight=constraint_weight,
        max_iter=max_iter,
        max_turns=max_turns,
        missing_labels=missing_labels,
        n_jobs=jobs,
    )
    chosen = penalties if penalties in (None, "validate") else PenaltySelection.load(penalties)
    data = load(dataset)
    if rows is not None:
        data = data.sample(rows)
    cells: list[Cell] = []
    with progress_bars() as callback:
        for cell in run_cells(
            data,
            method=method,
            bits=lengths,
            protocol=protocol,
            ranking=ranking,
            n_queries=queries,
            settings=settings,
            penalties=chosen,
            penalties_file=penalties_file,
            callback=callback,
        ):
            cells.append(cell)
            if out_dir is not None:
                write_json(out_dir / _file_name(cell), cell.to_json())
            if json is not None:  # after every cell, so that a stop loses none
                records = [each.to_json() for each in cells]
                write_json(json, records[0] if len(lengths) == 1 else records)
    _print_cells(cells)


@app.command()
def results(
    folder: Annotated[
        Path, typer.Argument(help="A folder of cells, as `experiment` writes them.", show_default=False)
    ],
    value: Annotated[str, typer.Option(help=f"What to show: {', '.join(VALUES)}.")] = "map",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Make a table from a folder of cells, each figure the mean over its seeds."""
    table = result_table(read_cells(folder), value)
    if markdown:
        out.print(table.markdown(), markup=False, soft_wrap=True)
    else:
        print_table(table.header, table.rows, title=f"{value}, mean over seeds")


def _lengths(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"bits must be whole numbers with commas between them, such as 16,32; got {text!r}"
        ) from None


def _file_name(cell: Cell) -> str:
    solver = cell.parameters.get("solver")
    parts = (
        Path(cell.dataset).stem,
        cell.method,
        solver,
        cell.protocol,
        cell.ranking,
        f"{cell.bits}bits",
        f"seed{cell.seed}",
    )
    return "-".join(part for part in parts if part) + ".json"


def _print_cells(cells: list[Cell]) -> None:
    first = cells[0]
    print_table(
        ["bits", "MAP", "learned", "encoded", "codes", "error", "fit s", "query ms", "bytes"],
        [
            [
                str(cell.bits),
                f"{cell.map:.4f}",
                _figure(cell.map_learned, ".4f"),
                _figure(cell.map_encoded, ".4f"),
                _figure(cell.distinct_codes, ","),
                _figure(cell.quantization_error, ".4f"),
                f"{cell.fit_seconds:.1f}",
                f"{cell.query_ms['total']:.2f}",
                f"{cell.index_bytes_per_item:.0f}",
            ]
            for cell in cells
        ],
        title=f"{first.dataset}, {first.method}, {first.protocol}, {first.ranking}, seed {first.seed}",
    )


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
