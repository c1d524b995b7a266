"""Report: what the search benchmark measures: cells, their codes with codec and queries, and the answers that are right.

Answers are compared with a brute force before anything is timed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.arrays import Codes, Float32, RowNumbers
from supquant.codec.additive import AdditiveCodec
from supquant.inputs.parameters import resolve_jobs
from supquant.model import SupervisedCodec
from supquant.published import AnchorKernel, PublishedQuantizer
from supquant_lab.bench import WrongAnswersError
from supquant_lab.bench.data import benchmark_data

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from supquant.progress import Progress
    from supquant_lab.problem import Problem

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
    """One question that is put to every side.

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


DIMENSIONS = 32
"""Dimensions of uniform codes. With so few, FAISS spends almost no time on tables, and 32 sub-quantizers divide them."""

ANCHORS = 1000
"""Number of anchors of the published model whose codes are searched."""

LEARNED_ROWS = 10_000
"""Number of rows that it is trained on."""

MAX_ITER = 5
"""Training iterations of that model."""


@dataclass(frozen=True)
class SearchData:
    """Codes, their codec, and queries."""

    codec: AdditiveCodec | SupervisedCodec
    codes: npt.NDArray[np.uint8]  # (n, M)
    queries: npt.NDArray[np.float32]  # (64, p), before the features
    about: dict[str, Any]


class CodeSource:
    """Makes codes of both kinds; the same stock gives the same codes.

    Trained codes are drawn with replacement from the codes of a model for labelled rows.

    Parameters
    ----------
    quick : bool
        Whether to train a model in about a second.
    callback : callable, optional
        Gets the fits' `Progress`.
    """

    def __init__(self, *, quick: bool = False, callback: Callable[[Progress], None] | None = None) -> None:
        self._quick = quick
        self._callback = callback
        self._models: dict[int, tuple[PublishedQuantizer, npt.NDArray[np.uint8]]] = {}

    def make(self, stock: Stock) -> SearchData:
        """Return the codes of a stock."""
        if stock.source == "uniform":
            return uniform(stock)
        quantizer, codes = self._model(stock.bits)
        drawn = codes[np.random.default_rng(0).integers(len(codes), size=stock.rows)]
        about = {
            "dataset": self._data[0],
            "model_rows": len(codes),
            "model_distinct_codes": len(kernels.active().distinct(codes)[0]),
        }
        return SearchData(quantizer.codec_, drawn, self._data[1].queries[: max(QUERIES)], about)

    @cached_property
    def _data(self) -> tuple[str, Problem]:
        return benchmark_data(quick=self._quick)

    def _model(self, bits: int) -> tuple[PublishedQuantizer, npt.NDArray[np.uint8]]:
        """Return a fitted model, which starts from that of the shorter code, and the codes of all labelled rows."""
        if bits not in self._models:
            learned, anchors, max_iter = (1000, 100, 1) if self._quick else (LEARNED_ROWS, ANCHORS, MAX_ITER)
            quantizer = PublishedQuantizer(
                bits // 8,
                features=AnchorKernel(anchors, random_state=0),
                init=self._model(bits // 2)[0] if bits > min(BITS) else None,
                max_iter=max_iter,
                random_state=0,
                callback=self._callback,
            )
            X, y = self._data[1].X, self._data[1].y
            quantizer.fit(X[:learned], y[:learned])
            self._models[bits] = quantizer, quantizer.encode(X, y)
        return self._models[bits]


def uniform(stock: Stock) -> SearchData:
    """Return random codes of random codebooks.

    Examples
    --------
    >>> from supquant_lab.bench.search.codes import Stock
    >>> uniform(Stock("uniform", 1000, 64)).codes.shape
    (1000, 8)
    """
    rng = np.random.default_rng(0)
    M = stock.bits // 8
    codes = rng.integers(256, size=(stock.rows, M), dtype=np.uint8)
    codebooks = rng.standard_normal((M, 256, DIMENSIONS), dtype=np.float32)
    queries = rng.standard_normal((max(QUERIES), DIMENSIONS), dtype=np.float32)
    return SearchData(AdditiveCodec(codebooks=codebooks), codes, queries, {})


def check_sums(case: object, tables: Float32, codes: Codes, sums: Float32, rows: RowNumbers) -> None:
    """Raise an error if answers (q, k) are not those of all sums of tables (q, M, K) at codes (n, M).

    There are two checks. Rows and sums must equal those of float32 sums in codebook order, where ties are ordered by row.
    The float64 sum at each rank must equal the exact one at that rank, within the rounding of float32.

    Examples
    --------
    >>> tables = np.array([[[3, 1]]], dtype=np.float32)
    >>> codes = np.array([[0], [1]], dtype=np.uint8)
    >>> check_sums("two rows", tables, codes, np.array([[1, 3]], np.float32), np.array([[1, 0]]))
    >>> check_sums("two rows", tables, codes, np.array([[1, 3]], np.float32), np.array([[0, 1]]))
    Traceback (most recent call last):
        ...
    supquant_lab.bench.WrongAnswersError: two rows: query 0 has other answers than float32 sums
    """
    # two sums of M parts, each with an error of at most half of it
    unit = tables.shape[1] * np.finfo(np.float32).eps
    rounding = unit * np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64)  # (q,)
    for query, (single, double) in enumerate(_all_sums(tables, codes)):
        expected = smallest(single, rows.shape[1])
        if not np.array_equal(rows[query], expected) or not np.array_equal(sums[query], single[expected]):
            raise WrongAnswersError(f"{case}: query {query} has other answers than float32 sums")
        best = double[smallest(double, rows.shape[1])]
        if np.abs(double[rows[query]] - best).max(initial=0) > rounding[query]:
            raise WrongAnswersError(f"{case}: query {query} has other answers than float64 sums")


def smallest(values: npt.NDArray[np.floating], k: int) -> RowNumbers:
    """Return the positions of the k smallest values, ties in their order.

    Examples
    --------
    >>> smallest(np.array([2.0, 1.0, 2.0, 0.0]), 3)
    array([3, 1, 0])
    """
    limit = np.partition(values, k - 1)[k - 1] if 0 < k < len(values) else np.inf
    candidates = np.flatnonzero(values <= limit)
    return candidates[values[candidates].argsort(kind="stable")[:k]]


def check_same(case: object, what: str, found: RowNumbers, expected: RowNumbers) -> None:
    """Raise an error if two ways to ask the same question have different answers."""
    if not np.array_equal(found, expected):
        raise WrongAnswersError(f"{case}: {what} gives other answers")


def _all_sums(tables: Float32, codes: Codes) -> Iterator[tuple[Float32, npt.NDArray[np.float64]]]:
    """Yield the sums of all codes for each table: (n,) float32 in codebook order, and (n,) float64."""
    columns = [np.ascontiguousarray(column) for column in codes.T]
    for table in tables:
        single = table[0][columns[0]]
        double = single.astype(np.float64)
        for entries, column in zip(table[1:], columns[1:], strict=True):
            part = entries[column]
            single += part
            double += part
        yield single, double
