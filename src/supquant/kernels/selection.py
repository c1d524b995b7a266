"""Which bounds a scan on a GPU has, so that few rows come through and none is lost: the logic, for arrays of NumPy and of CuPy.

A scan there keeps the keys of all rows that are at most a bound. The key of a row is its sum, in an order of whole numbers, and
then its number: keys are distinct, and in the order of answers. The k-th lowest key of some rows is never below that of all of
them. So the bounds of a scan come from a scan of fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32

__all__ = ["GROUP_QUERIES", "NO_BOUND", "group_entries", "keys_of", "lowest_keys", "samples", "sums_of"]

NO_BOUND = 2**64 - 1
"""The bound that every key is within."""

GROUP_QUERIES = 8
"""The number of queries whose entries lie next to each other."""

FIRST_ROWS = 1 << 14
"""The number of rows of the first sample."""

EXPECTED_ROWS = 1 << 14
"""The number of rows that are expected to come through a bound."""

MAX_EXPECTED = 3 * EXPECTED_ROWS
"""All rows are visited as soon as no more rows than this are expected to come through the bound of a sample."""

ROOM = 1 << 17
"""The number of keys for which there is room. It is `FIRST_ROWS` or more, and far above `EXPECTED_ROWS`."""

_MAX_SUM = 2**15 - 1
"""The largest sum of entries of 16 bits that leaves the highest bit free."""

Visit = Callable[[int, Any, int], tuple[Any, Any]]
"""Takes the distance of the rows of a sample, the bounds (q,) uint64, and for how many keys there is room.

Returns keys (q, room), of which those after the last one are anything, and how many rows (q,) uint32 are within the bounds, which
may be more."""

First = Callable[[Any, Any, int], tuple[Any, Any]]
"""Takes what `Visit` returns, and k. Returns the k lowest keys (q, k), in order and filled up with `NO_BOUND`, and the last one
of each query (q,)."""


def lowest_keys(visit: Visit, first: First, bounds: Any, n: int, k: int) -> Any:
    """Return the k' lowest keys (q, k') of n rows for every query, in order; k' is k, or the number of eligible rows if smaller.

    Parameters
    ----------
    visit, first : callable
        As `Visit` and `First` say.
    bounds : array (q,) uint64
        `NO_BOUND` for every query.
    n, k : int
        k is at most `FIRST_ROWS` / 8.
    """
    for every in samples(n, k):
        bounds = np.minimum(bounds, first(*visit(every, bounds, ROOM), k)[1])
    while True:
        keys, counts = visit(1, bounds, ROOM)
        found, nearer = first(keys, counts, k)
        if int(counts.max()) <= ROOM:
            return found[:, : int(counts.min())]
        bounds = nearer  # of the rows that were kept; ROOM - k of them fall out


def samples(n: int, k: int) -> Iterator[int]:
    """Return the distances of the rows of samples, the smallest sample first, whose k-th lowest keys bound those of the next one.

    Examples
    --------
    >>> list(samples(10**9, 100)), list(samples(10**9, 2048)), list(samples(1000, 10))
    ([61036, 381], [61036, 7629, 953, 119, 14], [])
    """
    every, step = -(-n // FIRST_ROWS), min(max(8, EXPECTED_ROWS // k), 160)
    while every > 1:
        yield every
        every = every // step if k * every > MAX_EXPECTED else 1


def keys_of(sums: Float32, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the keys of rows with sums, both (...).

    Examples
    --------
    >>> keys_of(np.float32([-1, -0.0, 0, 2]), np.arange(4)).argsort()
    array([0, 1, 2, 3])
    """
    bits = (sums + np.float32(0)).view(np.uint32)  # -0 becomes 0
    ordered = bits ^ np.where(bits >> 31, np.uint32(0xFFFFFFFF), np.uint32(0x80000000))
    keys: NDArray[np.uint64] = ordered.astype(np.uint64) << np.uint64(32) | rows.astype(np.uint64)
    return keys


def sums_of(keys: Any, xp: Any = np) -> Any:
    """Return the sums (...) float32 that keys (...) uint64 have; that of `NO_BOUND` is no number.

    Examples
    --------
    >>> sums_of(keys_of(np.float32([-1, -0.0, 2]), np.arange(3)))
    array([-1.,  0.,  2.], dtype=float32)
    """
    ordered = (keys >> xp.uint64(32)).astype(xp.uint32)
    bits = ordered ^ xp.where(ordered >> xp.uint32(31), xp.uint32(0x80000000), xp.uint32(0xFFFFFFFF))
    return bits.view(xp.float32)


def group_entries(tables: Any, bounds: Any, xp: Any = np) -> tuple[Any, Any]:
    """Return look-up tables for groups of queries, whose entries are lower bounds in 16 bits.

    A row is above the bound of a query if its start and its entries add up to 2**15 or more. Others may be within it.

    Parameters
    ----------
    tables : array (q, M, K) float32
    bounds : array (q,) uint64
    xp : module, default=numpy
        The one whose arrays these are.

    Returns
    -------
    entries : array (groups, M, K, GROUP_QUERIES) uint16
    starts : array (groups, GROUP_QUERIES) uint16
        No row comes within the bounds of queries that only fill up the last group.
    """
    q, M, K = tables.shape
    groups = -(-q // GROUP_QUERIES)
    most = _MAX_SUM // M  # of an entry
    exact = tables.astype(xp.float64)
    low, sizes = exact.min(axis=2), xp.abs(exact).max(axis=2).sum(axis=1)  # (q, M), (q,)
    sums = xp.fmin(
        sums_of(bounds, xp).astype(xp.float64), exact.max(axis=2).sum(axis=1)
    )  # without a bound: the second
    # A sum in float32 is off by less than M roundings of the sum of magnitudes. CuPy takes subnormal entries for zeros.
    reach = xp.maximum(sums + 2.0**-23 * M * sizes + 2.0**-125 * M - low.sum(axis=1), 0.0)
    step = xp.maximum(reach / (most - 1), 1e-60)
    whole = xp.minimum(xp.floor((exact - low[:, :, None]) / step[:, None, None]), most)
    padded = xp.zeros((groups * GROUP_QUERIES, M, K), dtype=xp.uint16)
    padded[:q] = whole.astype(xp.uint16)
    starts = xp.full(groups * GROUP_QUERIES, _MAX_SUM + 1, dtype=xp.uint16)
    starts[:q] = (_MAX_SUM - xp.floor(reach / step + 1e-6)).astype(xp.uint16)
    entries = padded.reshape(groups, GROUP_QUERIES, M, K).transpose(0, 2, 3, 1)
    return xp.ascontiguousarray(entries), starts.reshape(groups, GROUP_QUERIES)
