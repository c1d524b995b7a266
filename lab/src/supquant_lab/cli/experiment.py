"""`supquant experiment` and `supquant results`: cells as files, and a table of them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import out, print_table, progress_bars
from supquant.cli.files import check_output, make_folder
from supquant.cli.options import Parameters, read_parameters
from supquant.errors import InputError
from supquant.storage.replacing import write_json
from supquant_lab.cell import RANKINGS, Cell, check_cells, run_cells
from supquant_lab.cli.bench import read_numbers
from supquant_lab.datasets import NAMES, load
from supquant_lab.methods import METHODS, OPPONENTS, KeptFits, Settings
from supquant_lab.records import CELL_FOLDERS, cell_name, fold_cells
from supquant_lab.splits import FIT_ROWS, PROTOCOLS, resolve_fit_rows
from supquant_lab.table import VALUES, read_cells, result_table
from supquant_lab.tuning import Tuning

app = typer.Typer()

FitsFolder = Annotated[
    Path | None,
    typer.Option(help="Folder for fits, so that a cell that is measured again needs no training."),
]
Download = Annotated[
    bool, typer.Option("--download", help="Fetch data sets that are not there and are public.")
]

_MAPS = {"MAP": ("map", ".4f"), "learned": ("map_learned", ".4f"), "encoded": ("map_encoded", ".4f")}
_OPEN_MAPS = {
    "known": ("map_known", ".4f"),
    "new": ("map_new", ".4f"),
    "harmonic": ("map", ".4f"),
    "known only": ("map_known_only", ".4f"),
    "new only": ("map_new_only", ".4f"),
}
_COLUMNS = {
    "recall@10": ("recall_at_10", ".4f"),
    "in class": ("recall_within_class", ".4f"),
    "codes": ("distinct_codes", ","),
    "error": ("quantization_error", ".4f"),
    "fit s": ("fit_seconds", ".1f"),
}
"""Columns of the printed table: header, field of a cell, and format."""


@app.command()
def experiment(
    *,
    dataset: Annotated[
        str, typer.Option(help=f"{', '.join(NAMES)}, or the path of an .npz file with X and y.")
    ] = "digits",
    method: Annotated[
        str,
        typer.Option(
            help=f"{', '.join((*METHODS, *OPPONENTS))}, or a class of your own as package.module:Class."
        ),
    ] = "sq",
    bits: Annotated[
        str, typer.Option(help="One length, or several: 16,32,64,128. A longer code starts from the shorter.")
    ] = "16",
    protocol: Annotated[str, typer.Option(help=", ".join(PROTOCOLS))] = "paper",
    ranking: Annotated[
        str | None, typer.Option(help=f"{', '.join(RANKINGS)}; the method's own by default.")
    ] = None,
    fit_rows: Annotated[
        str | None,
        typer.Option(
            help=f"{' or '.join(FIT_ROWS)}: all also gives the rows of the database to the fit, without labels. "
            "By default all under the protocol open, labelled under the others."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the split and of the method.", min=0)] = 0,
    json: Annotated[
        Path | None, typer.Option(help="Write the cell here (a list of cells, if several lengths).")
    ] = None,
    out_dir: Annotated[
        Path | None, typer.Option(help="Write each cell to a file of its own in this folder.")
    ] = None,
    solver: Annotated[str | None, typer.Option(help="joint or alternating.")] = None,
    anchors: Annotated[
        int | None,
        typer.Option(
            help="Anchors of the kernel features; 0: vectors as they are. By default the published 1000; "
            "for sq with the ranking label or position, the default features of the library.",
            min=0,
        ),
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Of the kernel features; by the published rule by default.")
    ] = None,
    kernel_for_all: Annotated[
        bool,
        typer.Option("--kernel-for-all", help="Kernel features also for methods published without them."),
    ] = False,
    parameters: Parameters = None,
    quantization_weight: Annotated[float | None, typer.Option(help="gamma, above 0.")] = None,
    constraint_weight: Annotated[float | None, typer.Option(help="mu.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of iterations of a fit.")] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(help="alternating: turns of W, P, eps and C between two passes; 1 as published."),
    ] = None,
    missing_labels: Annotated[
        str, typer.Option(help="Encode items without labels by predict or drop.")
    ] = "predict",
    tuning: Annotated[
        str | None,
        typer.Option(
            help="`validate`: choose parameters by validation MAP; or a file of points found in this way."
        ),
    ] = None,
    tuning_file: Annotated[
        Path | None,
        typer.Option(help="Where `validate` keeps finished points, from which a stopped run continues."),
    ] = None,
    tuning_rows: Annotated[
        int, typer.Option(help="Maximum number of training rows that `validate` uses.", min=2)
    ] = 20_000,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds that a fit may take; it ends with the model it has.", min=1)
    ] = None,
    keep: FitsFolder = None,
    download: Download = False,
    queries: Annotated[int | None, typer.Option(help="Number of queries.", min=1)] = None,
    rows: Annotated[
        int | None, typer.Option(help="Number of random rows of the data set; all by default.", min=1)
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads; all cores by default.")] = None,
) -> None:
    """Measure one method on one data set, at one code length or several."""
    lengths = read_numbers(bits, "bits")
    check_cells(method, lengths, protocol, ranking)
    resolve_fit_rows(protocol, fit_rows)
    if json is not None:
        check_output(json)
    if out_dir is not None:
        make_folder(out_dir)
    if keep is not None:
        make_folder(keep)
    given = {
        "solver": solver,
        "quantization_weight": quantization_weight,
        "constraint_weight": constraint_weight,
        "max_iter": max_iter,
        "max_turns": max_turns,
    }
    settings = Settings(
        seed=seed,
        anchors=anchors,
        bandwidth=bandwidth,
        kernel_for_all=kernel_for_all,
        missing_labels=missing_labels,
        n_jobs=jobs,
        time_limit=time_limit,
        parameters={name: value for name, value in given.items() if value is not None}
        | read_parameters(parameters),
    )
    chosen = tuning if tuning in (None, "validate") else Tuning.load(tuning)
    command = shlex.join(["supquant", *sys.argv[1:]])
    with progress_bars() as callback:
        data = load(dataset, download=download, callback=callback)
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
            fit_rows=fit_rows,
            settings=settings,
            tuning=chosen,
            tuning_file=tuning_file,
            tuning_rows=tuning_rows,
            kept=None if keep is None else KeptFits(keep),
            callback=callback,
        ):
            cells.append(replace(cell, command=command))
            if out_dir is not None:
                write_json(out_dir / _file_name(cell), cells[-1].to_json())
            if json is not None:  # after every cell, so that a stop loses no finished one
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
    fold: Annotated[
        bool,
        typer.Option(
            "--fold",
            help="Print no table: move cells that have a file of their own into one .jsonl.xz file per data set.",
        ),
    ] = False,
) -> None:
    """Make a table from a folder of cells, each figure the mean over its seeds."""
    if fold:
        _fold(folder)
        return
    table = result_table(read_cells(folder), value)
    if markdown:
        out.print(table.markdown(), markup=False, soft_wrap=True)
    else:
        print_table(table.header, table.rows, title=f"{value}, mean over seeds")


def _fold(folder: Path) -> None:
    """Fold a folder of cells, or the cells of a folder that `supquant paper` wrote."""
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    for each in [folder / name for name in CELL_FOLDERS if (folder / name).is_dir()] or [folder]:
        for name, count in fold_cells(each).items():
            out.print(f"{each / name}: {count:,} cells moved into it", soft_wrap=True, markup=False)


def _file_name(cell: Cell) -> str:
    parameters = cell.parameters
    variants = (
        parameters.get("solver") if parameters.get("solver") != "joint" else None,
        "kernel" if parameters.get("features") == "kernel, ours" else None,
        f"fit-{parameters['fit_rows']}"
        if parameters["fit_rows"] != resolve_fit_rows(cell.protocol)
        else None,
    )
    variant = "-".join(part for part in variants if part)
    name = cell_name(cell.dataset, cell.protocol, cell.method, variant, cell.ranking, cell.bits, cell.seed)
    return f"{name}.json"


def _print_cells(cells: list[Cell]) -> None:
    first = cells[0]
    columns = {**(_OPEN_MAPS if first.protocol == "open" else _MAPS), **_COLUMNS}
    print_table(
        ["bits", *columns, "query ms", "bytes"],
        [
            [
                str(cell.bits),
                *(_figure(getattr(cell, field), form) for field, form in columns.values()),
                f"{cell.query_ms['total']:.2f}",
                f"{cell.index_bytes_per_item:.0f}",
            ]
            for cell in cells
        ],
        title=f"{first.dataset}, {first.method}, {first.protocol}, {first.ranking}, seed {first.seed}",
    )


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
