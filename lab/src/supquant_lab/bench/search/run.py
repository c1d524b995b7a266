"""Report: the whole search benchmark.

Every index is checked against a brute force before it is timed. Figures with limits come first, then the grid. The record is
passed on after every stock of codes, and a later run can continue from it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError
from supquant.interchange import import_faiss
from supquant.progress import Reporter
from supquant_lab.bench.search.codes import (
    ASKED_ROWS,
    QUICK_ROWS,
    Cell,
    CodeSource,
    Stock,
    asked_cells,
    check_same,
    check_sums,
    grid_cells,
)
from supquant_lab.bench.search.figures import (
    OPENED_ROWS,
    filter_figures,
    hostile_figures,
    memory_figure,
    opening_figures,
    speed_figures,
    thread_figure,
)
from supquant_lab.bench.search.sides import TABLES_TO_ANSWERS, our_sides, their_sides, thread_limit
from supquant_lab.bench.timing import REPEATS, Figure, time_in_turn
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from supquant.progress import Progress, Stage
    from supquant_lab.bench.search.codes import SearchData
    from supquant_lab.bench.search.sides import OurSide, Side

QUICK_REPEATS = 2
"""Number of repeats of a quick run."""

GRID_REPEATS = 3
"""Number of repeats in the grid."""

GRID_BUDGET = 10.0
"""Seconds for the repeats of one cell of the grid."""


def bench_search(
    *,
    quick: bool = False,
    grid: bool = False,
    folder: Path | None = None,
    resume: Mapping[str, Any] | None = None,
    callback: Callable[[Progress], None] | None = None,
    on_record: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Compare the time of our search with that of the indexes of FAISS in one process, after a check of the answers.

    Parameters
    ----------
    quick : bool
        Whether to take ten thousand rows and few repeats, only to see that it runs.
    grid : bool
        Whether to measure also every combination of sizes, lengths, queries, answers and threads.
    folder : path, optional
        The folder in which an index of 1 GB is made and opened.
    resume : mapping, optional
        An earlier record of this machine; its cells are not measured again.
    callback : callable, optional
        Gets `Progress`.
    on_record : callable, optional
        Gets the record so far after every stock of codes.

    Returns
    -------
    dict
        A record for `json`: `figures` with limits, and `cells` with the seconds of every side.

    Raises
    ------
    WrongAnswersError
        If a search does not find what a brute force finds. The message names the case.
    """
    run = _Run(import_faiss(), CodeSource(quick=quick, callback=callback), quick, on_record)
    run.continue_from(resume)
    asked = asked_cells(QUICK_ROWS if quick else ASKED_ROWS)
    rest = [cell for cell in grid_cells() if cell not in asked] if grid else []
    repeats = QUICK_REPEATS if quick else REPEATS
    with Reporter(callback).stage("measure", total=len(asked) + len(rest)) as stage:
        run.measure(asked, stage, repeats=repeats)
        run.add_figures(speed_figures({cell: run.results[cell] for cell in asked}))
        for figures in _pieces(run.source, quick, repeats, folder):
            run.add_figures(figures)
        run.measure(rest, stage, repeats=GRID_REPEATS, budget=GRID_BUDGET)
    return run.record()


class _Run:
    """The measurements so far."""

    def __init__(
        self, faiss: Any, source: CodeSource, quick: bool, on_record: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self.source = source
        self.results: dict[Cell, dict[str, Any]] = {}
        self._faiss = faiss
        self._figures: list[Figure] = []
        self._on_record = on_record
        self._setting = {
            "benchmark": "search",
            "quick": quick,
            "faiss": faiss.__version__,
            "machine": describe_machine(),
        }

    def record(self) -> dict[str, Any]:
        """Return the record for `json`."""
        return {
            **self._setting,
            "figures": [figure.to_json() for figure in self._figures],
            "cells": [{**asdict(cell), **result} for cell, result in self.results.items()],
        }

    def continue_from(self, earlier: Mapping[str, Any] | None) -> None:
        """Take the cells of an earlier record."""
        if earlier is None:
            return
        own = json.loads(json.dumps(self._setting))
        if not isinstance(earlier, dict) or any(earlier.get(name) != value for name, value in own.items()):
            raise InputError(
                "the record to continue from was measured elsewhere or with other versions: begin a new one"
            )
        names = [field.name for field in fields(Cell)]
        for result in earlier["cells"]:
            cell = Cell(**{name: result.pop(name) for name in names})
            self.results[cell] = result

    def add_figures(self, figures: Iterable[Figure]) -> None:
        """Add figures, and pass the record on."""
        self._figures += figures
        self._pass_on()

    def measure(self, cells: Sequence[Cell], stage: Stage, **timing: Any) -> None:
        """Measure the cells that were not measured before, those of one stock of codes together."""
        for stock, group in groupby(cells, key=attrgetter("stock")):
            of_stock = list(group)
            missing = [cell for cell in of_stock if cell not in self.results]
            if missing:
                self.results |= measure_stock(self._faiss, self.source.make(stock), missing, **timing)
                self._pass_on()
            for _ in of_stock:
                stage.step()

    def _pass_on(self) -> None:
        if self._on_record is not None:
            self._on_record(self.record())


def measure_stock(
    faiss: Any, data: SearchData, cells: Sequence[Cell], **timing: Any
) -> dict[Cell, dict[str, Any]]:
    """Return the times of all cells of one stock: build the index of every side, check our answers, and time all sides."""
    ours = our_sides(data)
    for side in ours:
        check_side(side, data, cells)
    (segment,) = ours[0].index.info()["segments"]
    about = {**data.about, "grouped": segment["grouped"], "distinct_codes": segment["distinct_codes"]}
    sides = [*ours, *their_sides(faiss, data)]
    return {cell: {**about, "sides": time_cell(faiss, sides, cell, **timing)} for cell in cells}


def check_side(side: OurSide, data: SearchData, cells: Sequence[Cell]) -> None:
    """Check our answers to the largest question against a brute force, and those to every cell against these."""
    most = max(cell.k for cell in cells)
    sums, rows = side.index.search_tables(side.tables, most, n_jobs=1)
    check_sums(f"{side.name}, {cells[0].stock}, k {most}", side.tables, data.codes, sums, rows)
    for cell in cells:
        for way, ask in side.ways.items():
            found = ask(cell.queries, cell.k, cell.threads)[1]
            check_same(f"{side.name}, {cell}", way, found, rows[: cell.queries, : cell.k])


def time_cell(faiss: Any, sides: Sequence[Side], cell: Cell, **timing: Any) -> list[dict[str, Any]]:
    """Return the times of all sides, measured in turn, from tables and from queries."""
    calls = {
        (side.name, way): partial(ask, cell.queries, cell.k, cell.threads)
        for side in sides
        for way, ask in side.ways.items()
    }
    with thread_limit(faiss, cell.threads):
        spent = time_in_turn(calls, **timing)
    sums = 1e-6 * cell.queries * cell.rows
    return [
        {
            "name": side.name,
            "million_sums_per_second": sums / spent[side.name, TABLES_TO_ANSWERS].seconds,
            **{way: asdict(spent[side.name, way]) for way in side.ways},
        }
        for side in sides
    ]


def _pieces(source: CodeSource, quick: bool, repeats: int, folder: Path | None) -> Iterator[list[Figure]]:
    """Yield the figures that are not comparisons with FAISS, one group after the other."""
    rows = QUICK_ROWS if quick else ASKED_ROWS
    yield filter_figures(rows, repeats)
    yield [thread_figure(10 * rows, repeats)]
    yield hostile_figures(rows, repeats)
    yield [memory_figure(source, Stock(*stock)) for stock in (("uniform", rows, 64), ("trained", rows, 16))]
    yield opening_figures(OPENED_ROWS // 100 if quick else OPENED_ROWS, folder=folder)
