"""Rows to the GPU and codes back: while a block is computed, the next one is on its way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy as cp
import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes
from supquant.inputs.gpu_arrays import is_on_gpu
from supquant.interrupts import check_interrupt
from supquant.kernels.cuda.compiling import THREADS, blocks_for, kernel, n_multiprocessors
from supquant.parallel import row_blocks

__all__ = ["NotFiniteError", "encode_blocks"]

BLOCK_ROWS = 1 << 15
"""The number of rows in a block. More of them would not be faster."""

MIN_ROWS = 256
"""A GPU with too little memory for this number of rows is given up."""

_SIDES = 2
"""The number of blocks that are under way at a time."""


class NotFiniteError(ValueError):
    """Some numbers of the rows are not finite in float32."""


def encode_blocks(
    X: Any, encode: Callable[[Any, slice], Any], n_codebooks: int, centre: NDArray[np.float64] | None = None
) -> Any:
    """Return the codes (n, M) uint8 of rows X (n, p): an array of NumPy, or of CuPy if the rows are on a GPU.

    Parameters
    ----------
    X : array (n, p)
        Any real dtype. Rows of an array of NumPy, or of anything like one, are read block by block.
    encode : callable
        Takes a block (b, p) float32 on the GPU and its slice of the rows; returns codes (b, M) on the GPU.
    n_codebooks : int
        M.
    centre : array (p,) float64, default=None
        What is taken off rows that are on a GPU.

    Raises
    ------
    NotFiniteError
        If a number is not finite.
    MemoryError
        If there is too little memory for `MIN_ROWS` rows.
    """
    rows = BLOCK_ROWS
    while True:
        try:
            if is_on_gpu(X):
                return _on_gpu(X, encode, n_codebooks, centre, rows)
            return _from_host(X, encode, n_codebooks, rows)
        except cp.cuda.memory.OutOfMemoryError as error:
            cp.get_default_memory_pool().free_all_blocks()
            rows //= 2
            if rows < MIN_ROWS:
                free = cp.cuda.runtime.memGetInfo()[0]
                raise MemoryError(
                    f"the GPU has too little memory to encode {MIN_ROWS} rows at a time: {free} bytes are free ({error})"
                ) from error


def _on_gpu(
    X: Any, encode: Callable[[Any, slice], Any], n_codebooks: int, centre: Any, block_rows: int
) -> Any:
    x = X if isinstance(X, cp.ndarray) else cp.from_dlpack(X)
    codes = cp.empty((len(x), n_codebooks), dtype=cp.uint8)
    middle = None if centre is None else cp.asarray(centre)
    bad = cp.zeros(1, dtype=cp.int32)
    for start, stop in row_blocks(len(x), block_rows):
        check_interrupt()
        block = x[start:stop]
        own = _as_float32(block if middle is None else block - middle, bad)
        codes[start:stop] = encode(own, slice(start, stop))
    _refuse(bad)
    return codes


def _from_host(X: Any, encode: Callable[[Any, slice], Any], n_codebooks: int, block_rows: int) -> Codes:
    codes = np.empty((len(X), n_codebooks), dtype=np.uint8)
    sides: list[_Side] = []
    for number, (start, stop) in enumerate(row_blocks(len(X), block_rows)):
        check_interrupt()
        block = np.asarray(X[start:stop])
        if len(sides) < _SIDES:
            sides.append(_Side(block, n_codebooks))
        side = sides[number % _SIDES]
        side.finish(codes)
        side.begin(block, slice(start, stop), encode)
    for side in sides:
        side.finish(codes)
    return codes


class _Side:
    """One of the blocks that are under way, with pinned memory of its own, from and to which the GPU copies by itself."""

    def __init__(self, block: NDArray[Any], n_codebooks: int) -> None:
        dtype = block.dtype.newbyteorder("=")
        if dtype.kind not in "fiu" or dtype.itemsize > 8:  # the GPU has no such numbers
            dtype = np.dtype(np.float64)
        self._stream = cp.cuda.Stream(non_blocking=True)
        self._rows = _pinned(block.shape, dtype)
        self._codes = _pinned((len(block), n_codebooks), np.dtype(np.uint8))
        self._bad = _pinned((1,), np.dtype(np.int32))
        self._running: slice | None = None

    def begin(self, block: NDArray[Any], rows: slice, encode: Callable[[Any, slice], Any]) -> None:
        """Send a block on its way."""
        n = len(block)
        np.copyto(self._rows[:n], block, casting="same_kind")
        with self._stream:
            moved = cp.empty(block.shape, dtype=self._rows.dtype)
            moved.set(self._rows[:n], stream=self._stream)
            bad = cp.zeros(1, dtype=cp.int32)
            codes = encode(_as_float32(moved, bad), rows)
            codes.get(stream=self._stream, out=self._codes[:n], blocking=False)
            bad.get(stream=self._stream, out=self._bad, blocking=False)
        self._running = rows

    def finish(self, codes: Codes) -> None:
        """Wait for the block, and put its codes in their place."""
        if self._running is None:
            return
        self._stream.synchronize()
        _refuse(self._bad)
        codes[self._running] = self._codes[: self._running.stop - self._running.start]
        self._running = None


def _pinned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array that the system keeps in its place."""
    size = int(np.prod(shape))
    memory = cp.cuda.alloc_pinned_memory(max(1, size * dtype.itemsize))
    return np.frombuffer(memory, dtype, size).reshape(shape)


def _as_float32(block: Any, bad: Any) -> Any:
    """Return rows as C-contiguous float32, and write to `bad` whether a number is not finite."""
    x = cp.ascontiguousarray(block, dtype=cp.float32)
    if x.size:
        grid = min(blocks_for(x.size), 8 * n_multiprocessors())
        kernel("features", "find_unusable")((grid,), (THREADS,), (x, bad, np.int64(x.size)))
    return x


def _refuse(bad: Any) -> None:
    if int(bad[0]):
        raise NotFiniteError("some numbers of the rows are not finite in float32")
