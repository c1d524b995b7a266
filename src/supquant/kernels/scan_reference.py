"""Scans and Hamming distances in NumPy, a part of `reference`: the sums of all rows, sorted."""

# ruff: noqa: D103  (`Kernels` documents these functions)

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, RowNumbers
from supquant.kernels import arguments
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Scanned, zero_blocks

# (256,) number of set bits of every byte
_POPCOUNTS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint16)


def scan(
    scanned: Scanned,
    tables: Float32,
    k: int,
    query_bits: Bytes | None = None,
    prune: bool = True,
    n_threads: int = 1,
) -> tuple[Float32, RowNumbers]:
    M, _ = arguments.check_scanned(scanned)
    arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_k(k)
    _check_bounded(tables)
    del prune
    sums, rows = _eligible_sums(scanned, tables)
    order = sums.argsort(axis=1, kind="stable")[:, :k]  # (q, k); stable, so rows of equal sums ascend
    return np.take_along_axis(sums, order, axis=1), rows[order]


def scan_within(
    scanned: Scanned,
    tables: Float32,
    limits: Float32,
    query_bits: Bytes | None = None,
    n_threads: int = 1,
) -> tuple[RowNumbers, Float32, RowNumbers]:
    M, n_rows = arguments.check_scanned(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_limits(limits, q)
    all_sums, all_rows = scan(scanned, tables, max(1, n_rows), query_bits, n_threads=n_threads)
    within = all_sums <= limits[:, None]  # (q, N), true up to a place in each line, since sums ascend
    return np.concatenate([[0], within.sum(axis=1).cumsum()]), all_sums[within], all_rows[within]


def scores(
    sums: Float32,
    offsets: Float32,
    descending: bool = False,
    curves: Float32 | None = None,
    curve_of: RowNumbers | None = None,
) -> Float32:
    arguments.check_scores(sums, offsets, curves, curve_of)
    made = offsets[:, None] - sums if descending else offsets[:, None] + sums
    if curves is None:
        return made
    which = np.zeros(len(sums), dtype=np.int64) if curve_of is None else curve_of
    if not ((which >= 0) & (which < len(curves))).all():
        arguments.refuse_curves()
    for each in np.unique(which):
        rows = which == each
        made[rows] = np.interp(made[rows], *curves[each])
    return made


def count_distinct(codes: Bytes, limit: int) -> int:
    arguments.check_codes(codes, 256)
    arguments.check_limit(limit)
    return min(len(np.unique(codes, axis=0)), limit + 1)


def take(blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
    n, M = arguments.check_taken(blocks, rows)
    taken = zero_blocks(n, M)
    place = np.arange(n)
    taken[place // BLOCK_ROWS, :, place % BLOCK_ROWS] = blocks[rows // BLOCK_ROWS, :, rows % BLOCK_ROWS]
    return taken


def pack_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    (n,) = arguments.check_array(mask, "mask", (None,), np.bool_)
    words = np.zeros(-(-n // BLOCK_ROWS), dtype=np.uint64)
    words.view(np.uint8)[: -(-n // 8)] = np.packbits(mask, bitorder="little")
    return words


def count_bits(words: NDArray[np.uint64]) -> int:
    return len(set_bits(words))


def set_bits(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    arguments.check_array(words, "words", (None,), np.uint64)
    return np.flatnonzero(_bits(words, len(words) * BLOCK_ROWS)).astype(np.uint32)


def hamming(codes: Bytes, queries: Bytes, n_threads: int = 1) -> NDArray[np.uint16]:
    q, n = arguments.check_hamming(codes, queries, n_threads)
    distances = np.empty((q, n), dtype=np.uint16)
    for query, distance in zip(queries, distances, strict=True):
        _POPCOUNTS[codes ^ query].sum(axis=1, dtype=np.uint16, out=distance)
    return distances


def _check_bounded(tables: Float32) -> None:
    largest = np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64)  # (q,)
    bounded = largest < arguments.MAX_SUM  # False for NaN
    if not bounded.all():
        arguments.refuse_unbounded(int(np.argmin(bounded)))


def _eligible_sums(scanned: Scanned, tables: Float32) -> tuple[Float32, RowNumbers]:
    """Return the sums (q, N) of all eligible rows and the numbers (N,) of these rows, ascending."""
    codes = scanned.blocks.transpose(0, 2, 1).reshape(-1, tables.shape[1])[: scanned.n]  # (n, M)
    sums = np.zeros((len(tables), scanned.n), dtype=np.float32)
    for m in range(tables.shape[1]):
        part = tables[:, m, codes[:, m]]
        sums = part if m == 0 else sums + part
    if scanned.members is not None:
        counts = 1 if scanned.starts is None else scanned.starts[1:] - scanned.starts[:-1]
        code_of_row = np.empty(len(scanned.members), dtype=np.intp)
        code_of_row[scanned.members] = np.repeat(np.arange(scanned.n), counts)
        sums = sums[:, code_of_row]
    rows = np.arange(sums.shape[1], dtype=np.int64)
    if scanned.eligible is not None:
        rows = rows[_bits(scanned.eligible, len(rows))]
    return sums[:, rows] + np.float32(0), rows  # adding 0 turns -0 into 0


def _bits(words: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """Return the first n bits of words (w,), the lowest bit of each word first."""
    assert len(words) * BLOCK_ROWS >= n
    return np.unpackbits(words.view(np.uint8), bitorder="little", count=n).astype(bool)
