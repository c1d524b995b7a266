"""Report: a search with a filter, on two threads, with hostile tables, and its memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.index import CodeIndex
from supquant.index.segments import Segment
from supquant_lab.bench.search.answers import check_same, check_sums
from supquant_lab.bench.search.cells import (
    ASKED_ANSWERS,
    ASKED_ROWS,
    BITS,
    QUERIES,
    SIZES,
    Stock,
    counted,
)
from supquant_lab.bench.search.codes import uniform
from supquant_lab.bench.search.figures import Figure
from supquant_lab.bench.search.timing import REPEATS, time_in_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from supquant_lab.bench.search.codes import CodeSource, SearchData

FILTERED_SHARE = 0.01
"""Share of the rows that filters keep."""

MEMORY_SPARE = 1 << 20
"""Bytes that an index may take beside those for its rows."""


def filter_figures(rows: int = ASKED_ROWS, repeats: int = REPEATS) -> list[Figure]:
    """Return the time of a query over 1 % of the rows, over its time for all rows."""
    data, index, tables = _indexed(Stock("uniform", rows, 64))
    random = np.random.default_rng(4).random(rows) < FILTERED_SHARE
    contiguous = np.zeros(rows, dtype=bool)
    contiguous[rows // 3 : rows // 3 + int(FILTERED_SHARE * rows)] = True
    wheres = {
        "random 1 % mask": (random, 0.35),
        "random 1 %, prepared": (index.filter(random), 0.15),
        "contiguous 1 % mask": (contiguous, 0.05),
        "contiguous 1 %, prepared": (index.filter(contiguous), 0.05),
    }
    calls = {"all rows": partial(index.search_tables, tables, ASKED_ANSWERS, n_jobs=1)}
    for name, (where, _) in wheres.items():
        calls[name] = partial(calls["all rows"], where=where)
        mask = random if "random" in name else contiguous
        sums, ids = calls[name]()
        among = np.searchsorted(np.flatnonzero(mask), ids)  # places of the answers among the rows of the mask
        check_sums(name, tables, data.codes[mask], sums, among)
        check_same(name, "the filter", ids, np.flatnonzero(mask)[among])
    spent = time_in_turn(calls, repeats=repeats)
    whole = spent.pop("all rows").seconds
    return [
        Figure(f"{name}: time over that of no filter", spent[name].seconds / whole, at_most=ceiling)
        for name, (_, ceiling) in wheres.items()
    ]


def thread_figure(rows: int = max(SIZES), repeats: int = REPEATS) -> Figure:
    """Return the time of a query on one thread over that on two."""
    data, index, tables = _indexed(Stock("uniform", rows, 64))
    calls = {jobs: partial(index.search_tables, tables, ASKED_ANSWERS, n_jobs=jobs) for jobs in (1, 2)}
    for jobs, call in calls.items():
        check_sums(f"{jobs} threads, {rows:,} rows", tables, data.codes, *call())
    spent = time_in_turn(calls, repeats=repeats)
    gain = spent[1].seconds / spent[2].seconds
    return Figure(f"one thread over two: 1 query, 64 bits, {rows:,} rows", gain, at_least=1.7)


def hostile_figures(rows: int = ASKED_ROWS, repeats: int = REPEATS) -> list[Figure]:
    """Return the time of scans of hostile tables, where pruning cannot help, over that of a scan without pruning."""
    kernel = kernels.active()
    worst: dict[str, tuple[float, str]] = {}
    for bits in BITS:
        data = uniform(Stock("uniform", rows, bits))
        scanned = Segment.of_codes(data.codes).scanned()
        for q in QUERIES:
            for name, tables in hostile_tables(q, bits // 8):
                scan: Callable[..., Any] = partial(kernel.scan, scanned, tables, ASKED_ANSWERS)
                found, plain = scan(), scan(prune=False)
                where = f"{bits} bits, {counted(q, 'query', 'queries')}"
                check_same(f"tables of {name}, {where}", "pruning", found[1], plain[1])
                calls: dict[str, Callable[[], Any]] = {"pruned": scan, "plain": partial(scan, prune=False)}
                spent = time_in_turn(calls, repeats=repeats)
                share = spent["pruned"].seconds / spent["plain"].seconds
                worst[name] = max(worst.get(name, (0.0, "")), (share, where))
    return [
        Figure(f"tables of {name}: time over a plain scan, worst at {where}", share, at_most=1.2)
        for name, (share, where) in worst.items()
    ]


def hostile_tables(q: int, M: int) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Yield tables (q, M, 256) with few distinct values, so that many rows have nearly equal sums."""
    rng = np.random.default_rng(5)
    shape = (q, M, 256)
    yield "equal entries", np.ones(shape, dtype=np.float32)
    yield "two values", rng.integers(2, size=shape).astype(np.float32)
    rare = (rng.random(shape) < 1 / 256).astype(np.float32)
    yield "one value with rare exceptions", 1 - rare
    huge = rng.random(shape, dtype=np.float32)
    huge[:, 0, 0] = 1e6  # takes the whole range of an integer table
    yield "one huge entry", huge
    last = np.zeros(shape, dtype=np.float32)
    last[:, -1] = rng.random((q, 256), dtype=np.float32)
    yield "one codebook that decides", last


def memory_figure(source: CodeSource, stock: Stock) -> Figure:
    """Return the bytes of an index without its codec, over the bytes that it may take."""
    data = source.make(stock)
    index = CodeIndex(data.codec).add_codes(data.codes)
    allowed = (data.codes.shape[1] + 4 + 1 / 4) * stock.rows + MEMORY_SPARE
    return Figure(f"memory over what it may take: {stock.brief}", index.nbytes / allowed, at_most=1.0)


def _indexed(stock: Stock) -> tuple[SearchData, CodeIndex, npt.NDArray[np.float32]]:
    """Return codes, their index, and the tables of one query."""
    data = uniform(stock)
    return data, CodeIndex(data.codec).add_codes(data.codes), data.codec.query_tables(data.queries[:1]).tables
