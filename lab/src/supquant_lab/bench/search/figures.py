"""Report: the figures of the search benchmark, each beside its limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from supquant import kernels
from supquant_lab.bench.search.sides import ADDITIVE, FAST_SCAN, OURS, PQ, TABLES_TO_ANSWERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from supquant_lab.bench.search.cells import Cell

ONE_QUERY_FLOORS = {"neon": 1.6, "avx2": 1.0, "avx512bw": 4.0, "avx512": 4.0}
"""Least speed over that of `IndexPQ`, for one query and 64 bits, by instruction set: they differ in the width of look-ups."""


@dataclass(frozen=True)
class Figure:
    """One measured figure, with a floor or a ceiling or none.

    Examples
    --------
    >>> Figure("memory", 0.9, at_most=1.0).reached
    True
    """

    name: str
    measured: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    @property
    def asked(self) -> str | None:
        """The floor or the ceiling in words; None without a limit."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}{self.unit}"
        return None if self.at_most is None else f"at most {self.at_most:g}{self.unit}"

    @property
    def reached(self) -> bool | None:
        """Whether the figure keeps its limit; None without a limit."""
        if self.at_least is not None:
            return self.measured >= self.at_least
        return None if self.at_most is None else self.measured <= self.at_most

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the record."""
        return {
            "name": self.name,
            "asked": self.asked,
            "measured": self.measured,
            "unit": self.unit.strip(),
            "instruction_set": kernels.isa(),
            "reached": self.reached,
        }


def ratios(cell: Mapping[str, Any]) -> dict[str, float]:
    """Return the time of every other side over ours, from tables to answers."""
    seconds = {side["name"]: side[TABLES_TO_ANSWERS]["seconds"] for side in cell["sides"]}
    return {name: spent / seconds[OURS] for name, spent in seconds.items() if name != OURS}


def speed_figures(measured: Mapping[Cell, Mapping[str, Any]]) -> list[Figure]:
    """Return the ratios that have limits, for measured cells."""
    return [
        Figure(f"{side} over ours: {cell.brief}", ratios(result)[side], at_least=floor)
        for cell, result in measured.items()
        for side, floor in _floors(cell).items()
    ]


def _floors(cell: Cell) -> dict[str, float | None]:
    match cell.source, cell.bits, cell.queries:
        case "uniform", 64, 1:
            return {PQ: ONE_QUERY_FLOORS.get(kernels.isa()), ADDITIVE: 8.0}
        case "uniform", 64, 64:
            return {PQ: 6.0, ADDITIVE: 30.0, FAST_SCAN: 2.0}
        case "uniform", 128, 64:
            return {PQ: 5.0, ADDITIVE: 25.0}
        case "trained", 16, 1:
            return {PQ: 20.0, ADDITIVE: 100.0}
    return {}
