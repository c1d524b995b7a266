"""Report: the figures of the search benchmark, each with its limit.

The first ones compare the sides. Others measure filters, two threads, hostile tables, memory, and the opening of a large index.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.index.segments import Segment
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.bench.search.codes import (
    ASKED_ANSWERS,
    ASKED_ROWS,
    BITS,
    QUERIES,
    SIZES,
    Stock,
    check_same,
    check_sums,
    counted,
    uniform,
)
from supquant_lab.bench.search.sides import ADDITIVE, FAST_SCAN, OURS, PQ, TABLES_TO_ANSWERS
from supquant_lab.bench.timing import REPEATS, Figure, seconds_of, time_in_turn
from supquant_lab.machine import resident_memory_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from supquant_lab.bench.search.codes import Cell, CodeSource, SearchData

FILTERED = 0.01
"""Fraction of the rows that filters keep."""

SPARE_BYTES = 1 << 20
"""Bytes that an index may take in addition to those for its rows."""

OPENED_BYTES = 16
"""Bytes per code of the index that is opened."""

OPENED_ROWS = 10**9 // OPENED_BYTES
"""Number of its codes: one gigabyte of them."""

OPENINGS = 5
"""Number of timed openings; the median is reported."""

ONE_QUERY_FLOORS = {"neon": 1.6, "avx2": 1.0, "avx512bw": 4.0, "avx512": 4.0}
"""Minimum ratio of the time of `IndexPQ` to ours, for one query and 64 bits, by instruction set: they differ in the width of
look-ups."""


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


def filter_figures(rows: int = ASKED_ROWS, repeats: int = REPEATS) -> list[Figure]:
    """Return the time of a query over 1% of the rows, over its time for all rows."""
    data, index, tables = _indexed(Stock("uniform", rows, 64))
    random = np.random.default_rng(4).random(rows) < FILTERED
    contiguous = np.zeros(rows, dtype=bool)
    contiguous[rows // 3 : rows // 3 + int(FILTERED * rows)] = True
    wheres = {
        "random 1% mask": (random, 0.35),
        "random 1%, prepared": (index.filter(random), 0.15),
        "contiguous 1% mask": (contiguous, 0.05),
        "contiguous 1%, prepared": (index.filter(contiguous), 0.05),
    }
    calls = {"all rows": partial(index.search_tables, tables, ASKED_ANSWERS, n_jobs=1)}
    for name, (where, _) in wheres.items():
        calls[name] = partial(calls["all rows"], where=where)
        mask = random if "random" in name else contiguous
        sums, ids = calls[name]()
        among = np.searchsorted(
            np.flatnonzero(mask), ids
        )  # positions of the answers among the rows of the mask
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
    """Return the time of scans of hostile tables, where pruning cannot help, over that of scans without it."""
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
                ratio = spent["pruned"].seconds / spent["plain"].seconds
                worst[name] = max(worst.get(name, (0.0, "")), (ratio, where))
    return [
        Figure(f"tables of {name}: time over a plain scan, worst at {where}", ratio, at_most=1.2)
        for name, (ratio, where) in worst.items()
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
    allowed = (data.codes.shape[1] + 4 + 1 / 4) * stock.rows + SPARE_BYTES
    return Figure(f"memory over what it may take: {stock.brief}", index.nbytes / allowed, at_most=1.0)


def _indexed(stock: Stock) -> tuple[SearchData, CodeIndex, npt.NDArray[np.float32]]:
    """Return codes, their index, and the tables of one query."""
    data = uniform(stock)
    return data, CodeIndex(data.codec).add_codes(data.codes), data.codec.query_tables(data.queries[:1]).tables


def opening_figures(rows: int = OPENED_ROWS, *, folder: Path | None = None) -> list[Figure]:
    """Return the milliseconds and the memory of opening an index of codes of 128 bits.

    Parameters
    ----------
    rows : int
    folder : path, optional
        The folder for the index, 16 bytes per row; the system's folder for temporary files by default.
    """
    if not Path("/proc/self/statm").exists():
        raise InputError("resident memory is read from /proc, which this system does not have")
    with temporary_folder(folder) as place:
        run_fresh(_make_indexes, place, rows, purpose="make an index")
        size = sum(file.stat().st_size for file in (place / "large").iterdir())
        found = run_fresh(_open_index, place, purpose="open an index")
    assert found["rows"] == rows
    name = f"opening an index of {size / 1e9:.2f} GB"
    return [
        Figure(name, found["ms"], at_most=50, unit=" ms"),
        Figure(f"memory of {name}", found["mb"], at_most=20, unit=" MB"),
    ]


def _make_indexes(folder: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    codec = AdditiveCodec(codebooks=rng.standard_normal((OPENED_BYTES, 256, 8), dtype=np.float32))
    for name, n in (("small", 1000), ("large", rows)):
        codes = rng.integers(256, size=(n, OPENED_BYTES), dtype=np.uint8)
        CodeIndex(codec).add_codes(codes).save(Path(folder, name))


def _open_index(folder: str) -> dict[str, float]:
    """Open the large index of a folder; return the milliseconds, the memory in MB, and the number of rows."""
    # A small index goes first: imports and other work that is done only once do not count.
    CodeIndex.load(Path(folder, "small"))
    before = resident_memory_mb()
    kept = CodeIndex.load(Path(folder, "large"))
    grown = resident_memory_mb() - before
    spent = [seconds_of(lambda: CodeIndex.load(Path(folder, "large"))) for _ in range(OPENINGS)]
    return {"ms": 1e3 * median(spent), "mb": grown, "rows": len(kept)}
