"""The compiled scans, a part of `native`: checks, arrays for the results, calls of `_native`."""

# ruff: noqa: D103  (`Kernels` documents these functions)

import numpy as np
from numpy.typing import NDArray

import supquant.kernels._native as _native  # noqa: PLR0402
from supquant.arrays import Float32, RowNumbers
from supquant.kernels.arguments import (
    LARGEST_SUM,
    check_array,
    check_codes,
    check_k,
    check_limit,
    check_limits,
    check_scan,
    check_taken,
    check_threads,
    refuse_unbounded,
)
from supquant.kernels.protocol import BLOCK_ROWS, Bytes, Scanned

__all__ = ["count_bits", "count_distinct", "pack_mask", "scan", "scan_within", "set_bits", "take"]


def scan(
    scanned: Scanned,
    tables: Float32,
    k: int,
    query_bits: Bytes | None = None,
    prune: bool = True,
    n_threads: int = 1,
) -> tuple[Float32, RowNumbers]:
    q, n_rows = check_scan(scanned, tables, query_bits)
    _check_bounded(tables)
    check_threads(n_threads)
    check_k(k)
    shape = (q, min(k, n_rows))
    sums, rows = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int64)
    if sums.size == 0:
        return sums, rows
    found = _native.scan(*_space(scanned), tables, query_bits, prune, sums, rows, n_threads)
    if found == shape[1]:
        return sums, rows
    return sums[:, :found].copy(), rows[:, :found].copy()


def scan_within(
    scanned: Scanned,
    tables: Float32,
    limits: Float32,
    query_bits: Bytes | None = None,
    n_threads: int = 1,
) -> tuple[RowNumbers, Float32, RowNumbers]:
    q, _ = check_scan(scanned, tables, query_bits)
    _check_bounded(tables)
    check_limits(limits, q)
    check_threads(n_threads)
    found = _native.scan_within(*_space(scanned), tables, query_bits, limits, n_threads)
    starts = np.zeros(q + 1, dtype=np.int64)
    np.cumsum(found.counts(), out=starts[1:])
    sums, rows = np.empty(starts[-1], dtype=np.float32), np.empty(starts[-1], dtype=np.int64)
    found.write(sums, rows)
    return starts, sums, rows


def _check_bounded(tables: Float32) -> None:
    query = _native.first_unbounded(tables, LARGEST_SUM)
    if query < len(tables):
        refuse_unbounded(query)


def _space(
    scanned: Scanned,
) -> tuple[Bytes, int, NDArray[np.uint32] | None, NDArray[np.uint32] | None, NDArray[np.uint64] | None]:
    return scanned.blocks, scanned.n, scanned.starts, scanned.members, scanned.eligible


def count_distinct(codes: Bytes, limit: int) -> int:
    check_codes(codes, 256)
    check_limit(limit)
    return _native.count_distinct(codes, limit)


def take(blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
    n, M = check_taken(blocks, rows)
    taken = np.zeros((-(-n // BLOCK_ROWS), M, BLOCK_ROWS), dtype=np.uint8)
    _native.take(blocks, rows, taken)
    return taken


def pack_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    (n,) = check_array(mask, "mask", (None,), np.bool_)
    words = np.empty(-(-n // BLOCK_ROWS), dtype=np.uint64)
    _native.pack_mask(mask, words)
    return words


def count_bits(words: NDArray[np.uint64]) -> int:
    check_array(words, "words", (None,), np.uint64)
    return _native.count_bits(words)


def set_bits(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    rows = np.empty(count_bits(words), dtype=np.uint32)
    _native.set_bits(words, rows)
    return rows
