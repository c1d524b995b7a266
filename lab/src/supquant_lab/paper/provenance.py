"""Report: the origin of each number: commands, machines, versions, splits, time."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from supquant_lab.paper.measurements import machine_of
from supquant_lab.paper.results import title
from supquant_lab.paper.tables import MISSING, Entry, Row, Table, identity, source, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supquant_lab.paper.results import Cell, Results

VERSIONS = ("supquant", "python", "numpy", "scipy", "scikit-learn", "blas")
"""The packages whose versions are shown."""


def command_of(cell: Cell) -> str:
    """Return the command that measures a cell, as recorded, or made from the fields of the cell.

    Examples
    --------
    >>> from supquant_lab.paper.results import Cell, Series
    >>> command_of(Cell("a", {"command": "supquant experiment --seed 1"}, Series("sq")))
    'supquant experiment --seed 1'
    """
    recorded = cell.content.get("command")
    if recorded:
        return str(recorded)
    names = ("dataset", "method", "bits", "protocol", "ranking", "seed")
    solver = cell["parameters"].get("solver")
    given = [f"--{name} {shlex.quote(str(cell[name]))}" for name in names] + (
        [f"--solver {solver}"] if solver else []
    )
    return " ".join(["supquant experiment", *given])


def cells_table(cells: Sequence[Cell], name: str, caption: str) -> Table:
    """Return the table of cells with their MAP, time and command, which is too long to be kept in the repository."""
    rows = []
    for cell in cells:
        seconds = cell.value("cell_seconds")
        mark = "†" if cell.truncated else ""
        entries = [
            Entry(str(cell["bits"])),
            Entry(str(cell["seed"])),
            Entry(
                write(cell["map"]) + mark,
                data={**identity(cell), **source("map", [cell], float(cell["map"]))},
            ),
            _seconds(cell, "cell_seconds", seconds),
            Entry(command_of(cell), kind="code words"),
        ]
        rows.append(
            Row(Entry(cell.series.label, cell["protocol"]), entries, "ours" if cell.series.is_ours else "")
        )
    return Table(name, caption, ["method", "bits", "seed", "MAP", "seconds", "command"], rows, kept=False)


def machines_table(results: Results) -> Table:
    """Return the table of machines and versions, with the number of cells and their time."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in results.cells:
        key = (machine_of(cell), *(_version(cell, name) for name in VERSIONS))
        groups.setdefault(key, []).append(cell)
    rows = [
        Row(
            Entry(key[0]),
            [
                Entry(f"{len(cells):,}"),
                Entry(write(time_spent(cells), "time")),
                Entry(
                    ", ".join(f"{name} {text}" for name, text in zip(VERSIONS, key[1:], strict=True)),
                    kind="words",
                ),
            ],
        )
        for key, cells in sorted(groups.items())
    ]
    return Table("machines", "Machines and versions.", ["machine", "cells", "time", "versions"], rows)


def splits_table(results: Results) -> Table:
    """Return the table of training rows, database rows and queries, by data set and protocol."""
    groups: dict[tuple[str, ...], set[int]] = {}
    for dataset in results.datasets:
        for cell in results.select(dataset=dataset):
            sizes = tuple(_size(cell, name) for name in ("n_training", "n_database", "n_queries"))
            cut = "all" if cell.content.get("cut") is None else f"{cell['cut']:,}"
            groups.setdefault((dataset, cell["protocol"], *sizes, cut), set()).add(cell["seed"])
    rows = [
        Row(
            Entry(title(dataset), protocol),
            [*map(Entry, sizes), Entry(", ".join(map(str, sorted(seeds))))],
        )
        for (dataset, protocol, *sizes), seeds in groups.items()
    ]
    header = ["data set", "training rows", "database rows", "queries", "items that count in MAP", "seeds"]
    return Table("splits", "Splits: seeded, the same for every method.", header, rows)


def failures_table(results: Results) -> Table:
    """Return the table of tasks that failed, and why."""
    rows = [
        Row(Entry(str(failure["name"])), [Entry(str(failure["error"]), kind="words")])
        for failure in results.failures
    ]
    return Table("failed", "Tasks that failed.", ["task", "what happened"], rows)


def time_spent(cells: Sequence[Cell]) -> float:
    """Return the seconds of all cells together; cells without a time count as zero."""
    return sum(cell.value("cell_seconds") or 0.0 for cell in cells)


def time_words(cells: Sequence[Cell]) -> str:
    """Return the time of all cells together in words."""
    return write(time_spent(cells), "time")


def cell_order(cell: Cell) -> tuple[object, ...]:
    """Return the sort key of a cell: protocol, series, length, seed."""
    return (cell["protocol"], cell.series.order, cell["bits"], cell["seed"])


def _seconds(cell: Cell, field: str, value: float | None) -> Entry:
    if value is None:
        return Entry(MISSING, kind="missing")
    return Entry(write(value, "seconds"), data={**identity(cell), **source(field, [cell], value)})


def _version(cell: Cell, name: str) -> str:
    found = cell["machine"].get(name, MISSING)
    return " + ".join(map(str, found)) if isinstance(found, list) else str(found)


def _size(cell: Cell, name: str) -> str:
    found = cell["parameters"].get(name)
    return MISSING if found is None else f"{found:,}"
