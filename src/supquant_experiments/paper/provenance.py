"""Report: how each number was made: commands, machines, versions, splits, time."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from supquant_experiments.paper.measurements import machine_of
from supquant_experiments.paper.results import title
from supquant_experiments.paper.tables import MISSING, Entry, Row, Table, identity, source, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supquant_experiments.paper.results import Cell, Results

VERSIONS = ("supquant", "python", "numpy", "scipy", "scikit-learn", "blas")


def command_of(cell: Cell) -> str:
    """Give the command that makes a cell; one that was not recorded is written from what the cell is.

    Examples
    --------
    >>> from supquant_experiments.paper.results import Cell, Series
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
    """Lay out cells with their MAP, time and command."""
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
    return Table(name, caption, ["method", "bits", "seed", "MAP", "seconds", "command"], rows)


def machines_table(results: Results) -> Table:
    """Lay out machines and versions, with how many cells each measured and the time that took."""
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
    """Lay out how many rows trained, were searched and asked, by data set and protocol."""
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
    """Lay out what failed and why."""
    rows = [
        Row(Entry(str(failure["name"])), [Entry(str(failure["error"]), kind="words")])
        for failure in results.failures
    ]
    return Table("failed", "Tasks that failed.", ["task", "what happened"], rows)


def time_spent(cells: Sequence[Cell]) -> float:
    """Give the seconds that cells took together, as far as they say."""
    return sum(cell.value("cell_seconds") or 0.0 for cell in cells)


def time_words(cells: Sequence[Cell]) -> str:
    """Say what cells took together."""
    return write(time_spent(cells), "time")


def cell_order(cell: Cell) -> tuple[object, ...]:
    """Sort cells as readers look for them: by protocol, series, length and seed."""
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
