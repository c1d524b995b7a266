"""Codes and tables to the first rows: `Kernels.scan` and `Kernels.scan_within` on a GPU.

The codes of an index are sent there at their first scan, and stay while the arrays do that they were made from. They take as many
bytes as codes have: rows are in order, whatever order the CPU scans them in.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import cupy as cp
import numpy as np

from supquant.arrays import Float32, RowNumbers
from supquant.kernels import arguments
from supquant.kernels.cuda.compiling import (
    THREADS,
    blocks_for,
    kernel,
    largest_shared_memory,
    n_multiprocessors,
)
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Scanned
from supquant.kernels.selection import (
    FIRST_ROWS,
    NO_BOUND,
    ROOM,
    group_entries,
    keys_of,
    lowest_keys,
    sums_of,
)
from supquant.parallel import row_blocks

__all__ = ["forget_codes", "resident_bytes", "scan", "scan_within"]

MAX_FIRST = FIRST_ROWS // 8
"""The largest k for which bounds are sought. For a larger one all rows are sorted."""

MIN_GROUPED = 3
"""From this number of queries on, groups of queries are scanned together."""

MAX_QUERIES = 256
"""The number of queries that are answered at a time. Each has room for a MiB of keys."""

SENT_ROWS = 1 << 22
"""The number of codes that are sent at a time."""

_SCAN_THREADS = 1024
"""Threads of a block that scans: one block shares the tables in its shared memory."""

_LARGEST_COPIES, _LARGEST_GROUP_COPIES = 16, 4
"""Copies of a table in shared memory. With them, look-ups of a warp wait for each other about twice, not three times."""

_ENTRY_BYTES, _GROUP_BYTES = 4, 16
"""Bytes of the entry of a table, and of the entries of a group of queries."""


@dataclass(frozen=True, eq=False)
class _Codes:
    """Codes of rows on the GPU, in the planes that `sources/scan.cu` describes."""

    planes: Any  # (M * stride,) uint8
    n: int
    M: int
    stride: int  # n, filled up to a multiple of 64

    @classmethod
    def of(cls, scanned: Scanned, n_rows: int) -> _Codes:
        """Send codes to the GPU."""
        M = scanned.blocks.shape[1]
        stride = blocks_for(max(n_rows, 1), BLOCK_ROWS) * BLOCK_ROWS
        needed = M * stride
        try:
            planes = cp.zeros(needed, dtype=cp.uint8)
            codes = cls(planes, n_rows, M, stride)
            for first in range(0, scanned.n, SENT_ROWS):
                codes._place(scanned, first, min(first + SENT_ROWS, scanned.n))
        except cp.cuda.memory.OutOfMemoryError as error:
            cp.get_default_memory_pool().free_all_blocks()
            free = cp.cuda.runtime.memGetInfo()[0]
            raise MemoryError(
                f"codes of {n_rows:,} rows need {needed:,} bytes of memory of the GPU, and {free:,} are free"
            ) from error
        return codes

    def _place(self, scanned: Scanned, first: int, end: int) -> None:
        """Send the codes from `first` up to `end`; `first` is the first one of a block."""
        blocks = cp.asarray(scanned.blocks[first // BLOCK_ROWS : blocks_for(end, BLOCK_ROWS)])
        starts, members, n, before = None, None, end - first, 0
        if scanned.starts is not None:
            assert scanned.members is not None
            before, stop = int(scanned.starts[first]), int(scanned.starts[end])
            starts = cp.asarray(scanned.starts[first:end])
            members, n = cp.asarray(scanned.members[before:stop]), stop - before
        elif scanned.members is not None:
            members = cp.asarray(scanned.members[first:end])
        if n:
            null, sizes = np.uint64(0), (np.int64(before), np.int64(end - first))
            given = (null if each is None else each for each in (starts, members))
            launch = kernel("scan", "place_codes", **self._numbers(1))
            launch(
                (blocks_for(n),),
                (THREADS,),
                (blocks, np.int64(n), np.int64(first), *given, *sizes, self.planes, np.int64(self.stride)),
            )

    def _numbers(self, K: int) -> dict[str, int]:
        """Return the macros of `sources/scan.cu` for tables of K codewords: as many copies as fit into shared memory."""
        room = largest_shared_memory() // (self.M * K)
        copies = min(_LARGEST_COPIES, _power_below(room // _ENTRY_BYTES))
        return {
            "M": self.M,
            "K": K,
            "COPIES": max(copies, 1),
            "GROUP_COPIES": max(1, min(_LARGEST_GROUP_COPIES, _power_below(room // _GROUP_BYTES))),
        }


def _power_below(number: int) -> int:
    """Return the largest power of two that is at most `number`; 0 if there is none."""
    return 1 << number.bit_length() - 1 if number else 0


class _Resident:
    """The codes of all segments that were scanned, while their arrays live."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a reference may die inside
        self._codes: dict[tuple[int, int], tuple[weakref.ref[Any], _Codes]] = {}

    def of(self, scanned: Scanned, n_rows: int) -> _Codes:
        """Return codes on the GPU."""
        blocks = scanned.blocks
        key = id(blocks), cp.cuda.Device().id
        with self._lock:
            known = self._codes.get(key)
            if known is not None and known[0]() is blocks:
                return known[1]
            codes = _Codes.of(scanned, n_rows)
            self._codes[key] = weakref.ref(blocks, lambda _: self._codes.pop(key, None)), codes
            return codes

    def clear(self) -> None:
        """Forget all codes."""
        with self._lock:
            self._codes.clear()
        cp.get_default_memory_pool().free_all_blocks()

    @property
    def nbytes(self) -> int:
        """The number of bytes of all codes."""
        return sum(codes.planes.nbytes for _, codes in list(self._codes.values()))


_resident = _Resident()


def forget_codes() -> None:
    """Give the memory of all codes on the GPU back. The next scan of an index sends its codes again."""
    _resident.clear()


def resident_bytes() -> int:
    """Return the number of bytes that codes take on the GPU."""
    return _resident.nbytes


class _Tables:
    """One scan: codes, the rows that may be returned, and the tables of queries, all on the GPU."""

    def __init__(self, scanned: Scanned, n_rows: int, tables: Float32) -> None:
        self._codes = _resident.of(scanned, n_rows)
        self._eligible = _eligible(scanned)
        self.tables = cp.asarray(tables)
        self._numbers = self._codes._numbers(tables.shape[2])

    def __len__(self) -> int:
        return len(self.tables)

    def visit(self, every: int, bounds: Any, room: int) -> tuple[Any, Any]:
        """Return the keys of rows within bounds, as `supquant.kernels.selection.Visit` says."""
        q, M, K = self.tables.shape
        codes, numbers = self._codes, self._numbers
        keys, counts = cp.empty((q, room), dtype=cp.uint64), cp.zeros(q, dtype=cp.uint32)
        null = np.uint64(0)
        rows = (
            codes.planes,
            np.int64(codes.n),
            np.int64(codes.stride),
            np.int64(every),
            null if self._eligible is None else self._eligible,
            self.tables,
        )
        to = keys, counts, np.uint32(room)
        group_bytes = M * K * _GROUP_BYTES * numbers["GROUP_COPIES"]
        if every == 1 and q >= MIN_GROUPED and group_bytes <= largest_shared_memory():
            entries, starts = group_entries(self.tables, bounds, cp)
            kernel("scan", "scan_groups", **numbers)(
                (self._blocks(every), len(entries)),
                (_SCAN_THREADS,),
                (*rows, entries, starts, bounds, *to, np.int32(q)),
                shared_mem=group_bytes,
            )
        else:
            kernel("scan", "scan", **numbers)(
                (self._blocks(every), q),
                (_SCAN_THREADS,),
                (*rows, bounds, *to),
                shared_mem=M * K * _ENTRY_BYTES * numbers["COPIES"],
            )
        return keys, counts

    def _blocks(self, every: int) -> int:
        """Return the number of blocks for each query: no more than have rows to visit."""
        return max(1, min(n_multiprocessors(), blocks_for(self._codes.n // every, 4 * _SCAN_THREADS)))

    def first(self, keys: Any, counts: Any, k: int) -> tuple[Any, Any]:
        """Return the k lowest keys, as `supquant.kernels.selection.First` says."""
        found, bounds = cp.empty((len(keys), k), dtype=cp.uint64), cp.empty(len(keys), dtype=cp.uint64)
        arrays = keys, counts, np.uint32(keys.shape[1]), np.int32(k), found, bounds
        kernel("select", "first_keys")((len(keys),), (_SCAN_THREADS,), arrays)
        return found, bounds


def _answers(keys: Any) -> tuple[Float32, RowNumbers]:
    """Return the sums and row numbers (q, k) of keys (q, k) on the GPU, as arrays of NumPy."""
    there = cp.asnumpy(keys)
    return sums_of(there), (there & np.uint64(2**32 - 1)).astype(np.int64)


def _eligible(scanned: Scanned) -> Any:
    """Return the bits of the rows that may be returned, on the GPU; None stands for all rows."""
    if scanned.eligible is None:
        return None
    key = "cuda", cp.cuda.Device().id
    if (known := scanned.prepared.get(str(key))) is None:
        known = scanned.prepared[str(key)] = cp.asarray(scanned.eligible)
    return known


def scan(
    scanned: Scanned,
    tables: Float32,
    k: int,
    query_bits: Bytes | None = None,
    prune: bool = True,
    n_threads: int = 1,
) -> tuple[Float32, RowNumbers]:
    """Do as `Kernels.scan`."""
    del prune
    M, n_rows = arguments.check_scanned(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_k(k)
    _refuse_unbounded(tables)
    k = min(k, n_rows)
    if not q or not n_rows:
        return np.empty((q, k), dtype=np.float32), np.empty((q, k), dtype=np.int64)
    answers, n_queries = (_first_answers, MAX_QUERIES) if k <= MAX_FIRST else (_sorted_answers, 1)
    found = [
        answers(_Tables(scanned, n_rows, tables[start:stop]), n_rows, k)
        for start, stop in row_blocks(q, n_queries)
    ]
    sums, rows = (np.concatenate(each) for each in zip(*found, strict=True))
    return sums, rows


def _first_answers(asked: _Tables, n_rows: int, k: int) -> tuple[Float32, RowNumbers]:
    """Return the answers to some queries, of which only rows within bounds are kept."""
    bounds = cp.full(len(asked), NO_BOUND, dtype=cp.uint64)
    return _answers(lowest_keys(asked.visit, asked.first, bounds, n_rows, k))


def _sorted_answers(asked: _Tables, n_rows: int, k: int) -> tuple[Float32, RowNumbers]:
    """Return the answers to one query, of which all sums are sorted."""
    keys, counts = asked.visit(1, cp.full(1, NO_BOUND, dtype=cp.uint64), n_rows)
    return _answers(cp.sort(keys[:, : int(counts[0])], axis=1)[:, :k])


def scan_within(
    scanned: Scanned,
    tables: Float32,
    limits: Float32,
    query_bits: Bytes | None = None,
    n_threads: int = 1,
) -> tuple[RowNumbers, Float32, RowNumbers]:
    """Do as `Kernels.scan_within`."""
    M, n_rows = arguments.check_scanned(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_limits(limits, q)
    _refuse_unbounded(tables)
    starts = np.zeros(q + 1, dtype=np.int64)
    found = [(np.empty(0, dtype=np.float32), np.empty(0, dtype=np.int64))]
    for i in range(q if n_rows else 0):
        one = _Tables(scanned, n_rows, tables[i : i + 1])
        bounds = cp.asarray(keys_of(limits[i : i + 1], np.array([2**32 - 1])))
        keys, counts = one.visit(1, bounds, ROOM)
        if (count := int(counts[0])) > ROOM:
            keys, _ = one.visit(1, bounds, count)
        sums, rows = _answers(cp.sort(keys[:, :count], axis=1))
        found.append((sums[0], rows[0]))
        starts[i + 1] = count
    sums, rows = (np.concatenate(each) for each in zip(*found, strict=True))
    return starts.cumsum(), sums, rows


def _refuse_unbounded(tables: Float32) -> None:
    bounded = np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64) < arguments.MAX_SUM  # False for NaN
    if not bounded.all():
        arguments.refuse_unbounded(int(np.argmin(bounded)))
