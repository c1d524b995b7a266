"""Report: the cells that the search benchmark measures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from supquant.inputs.parameters import resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (100_000, 1_000_000, 10_000_000)
"""Numbers of codes in the grid."""

BITS = (16, 32, 64, 128)
"""Code lengths."""

QUERIES = (1, 64)
"""Numbers of queries at once."""

ANSWERS = (10, 100, 1000)
"""Numbers of answers in the grid."""

SOURCES = ("uniform", "trained")
"""Kinds of codes."""

ASKED_ROWS = 1_000_000
"""Number of codes for figures that have limits."""

ASKED_ANSWERS = 100
"""Number of answers for figures that have limits."""

QUICK_ROWS = 10_000
"""Number of codes of a quick run."""


@dataclass(frozen=True)
class Stock:
    """Codes to search; every side builds one index of them."""

    source: str
    rows: int
    bits: int

    @property
    def brief(self) -> str:
        """Kind and length of the codes, without their number."""
        return f"{self.source} codes, {self.bits} bits"

    def __str__(self) -> str:
        return f"{self.brief}, {self.rows:,} rows"


@dataclass(frozen=True)
class Cell:
    """One question to every side.

    Examples
    --------
    >>> print(Cell("uniform", 1_000_000, 64, queries=1, k=100, threads=1))
    uniform codes, 64 bits, 1,000,000 rows, 1 query, k 100, 1 thread
    """

    source: str
    rows: int
    bits: int
    queries: int
    k: int
    threads: int

    @property
    def stock(self) -> Stock:
        """The codes that are searched."""
        return Stock(self.source, self.rows, self.bits)

    @property
    def brief(self) -> str:
        """Kind and length of the codes, and the number of queries."""
        return f"{self.stock.brief}, {counted(self.queries, 'query', 'queries')}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.stock}, {counted(self.queries, 'query', 'queries')}, k {self.k}, "
            f"{counted(self.threads, 'thread', 'threads')}"
        )


def asked_cells(rows: int = ASKED_ROWS) -> list[Cell]:
    """Return the cells of figures with limits and those of the picture: one thread, k 100.

    Examples
    --------
    >>> len(asked_cells())
    10
    """
    uniform = [
        Cell("uniform", rows, bits, queries, ASKED_ANSWERS, 1) for bits, queries in product(BITS, QUERIES)
    ]
    return uniform + [Cell("trained", rows, 16, queries, ASKED_ANSWERS, 1) for queries in QUERIES]


def grid_cells(sizes: Sequence[int] = SIZES) -> list[Cell]:
    """Return all cells, fast ones first, one thread before all cores.

    Examples
    --------
    >>> len(grid_cells()) >= 144
    True
    """
    threads = sorted({1, resolve_jobs(None)})
    return [
        Cell(source, rows, bits, queries, k, jobs)
        for rows, source, bits, queries, k, jobs in product(sizes, SOURCES, BITS, QUERIES, ANSWERS, threads)
    ]


def counted(number: int, one: str, many: str) -> str:
    """Return a number with the right form of its noun.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(64, "query", "queries")
    ('1 query', '64 queries')
    """
    return f"{number} {one if number == 1 else many}"
