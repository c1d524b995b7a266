"""Report: what the search benchmark measures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from supquant.validation import resolve_jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (100_000, 1_000_000, 10_000_000)
BITS = (16, 32, 64, 128)
QUERIES = (1, 64)
ANSWERS = (10, 100, 1000)
SOURCES = ("uniform", "trained")

ASKED_ROWS = 1_000_000
ASKED_ANSWERS = 100
QUICK_ROWS = 10_000


@dataclass(frozen=True)
class Stock:
    """Codes to search, for which every side builds its index once."""

    source: str
    rows: int
    bits: int

    @property
    def brief(self) -> str:
        """Which codes, however many."""
        return f"{self.source} codes, {self.bits} bits"

    def __str__(self) -> str:
        return f"{self.brief}, {self.rows:,} rows"


@dataclass(frozen=True)
class Cell:
    """One question put to every side.

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
        """The codes it is put to."""
        return Stock(self.source, self.rows, self.bits)

    @property
    def brief(self) -> str:
        """Which codes and how many queries."""
        return f"{self.stock.brief}, {counted(self.queries, 'query', 'queries')}"

    def to_json(self) -> dict[str, Any]:
        """Give the fields."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"{self.stock}, {counted(self.queries, 'query', 'queries')}, k {self.k}, "
            f"{counted(self.threads, 'thread', 'threads')}"
        )


def asked_cells(rows: int = ASKED_ROWS) -> list[Cell]:
    """List the cells that figures are asked of, and those of the picture: one thread, k 100.

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
    """List all cells, the quick ones first, one thread before all cores.

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
    """Name a number of things.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(64, "query", "queries")
    ('1 query', '64 queries')
    """
    return f"{number} {one if number == 1 else many}"
