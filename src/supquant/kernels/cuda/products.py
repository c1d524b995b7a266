"""Products of rows with matrices, with the bits of the CPU, and the kernels of Gaussians that are made from them."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from supquant.arrays import Float32
from supquant.kernels.cuda.compiling import THREADS, blocks_for, kernel

__all__ = ["Matrix", "apply_gaussian", "squared_lengths", "unit_rows"]

_TILE = 128
"""Rows and columns of a tile of `sources/products.cu`."""

_STEP = 16
"""The depth of a matrix is filled up to a multiple of this number with zeros, which change no sum."""

_MAX_ROWS = 65535 * _TILE
"""A launch has at most this number of rows."""


class Matrix:
    """A matrix y (n, d) on the GPU, of which every row is multiplied with other rows.

    Parameters
    ----------
    y : ndarray (n, d) float32
    """

    def __init__(self, y: Float32) -> None:
        self.n, self.d = y.shape
        self._stride = blocks_for(max(self.n, 1), _TILE) * _TILE
        columns = np.zeros((blocks_for(max(self.d, 1), _STEP) * _STEP, self._stride), dtype=np.float32)
        columns[: self.d, : self.n] = y.T
        self._columns = cp.asarray(columns)

    def products(self, x: Any) -> Any:
        """Return the inner products (q, n) of rows x (q, d), both float32 on the GPU."""
        sums = cp.empty((len(x), self.n), dtype=cp.float32)
        if not self.d:
            sums.fill(0)
        elif sums.size:
            launch = kernel("products", "products")
            for first in range(0, len(x), _MAX_ROWS):
                rows, to = x[first : first + _MAX_ROWS], sums[first : first + _MAX_ROWS]
                grid = (self._stride // _TILE, blocks_for(len(rows), _TILE))
                sizes = np.int64(len(rows)), np.int32(self.n), np.int32(self.d), np.int32(self._stride)
                launch(grid, (THREADS,), (rows, self._columns, to, *sizes))
        return sums


def unit_rows(x: Any, mean: Any = None) -> tuple[Any, Any]:
    """Return rows x (n, p) divided by their lengths, less a mean (p,) if there is one, and the squared lengths (n,) float64."""
    made, squares = cp.empty_like(x), cp.empty(len(x), dtype=cp.float64)
    _launch_unit_rows(x, mean, made, squares)
    return made, squares


def squared_lengths(x: Any) -> Any:
    """Return the squared lengths (n,) float64 of rows x (n, p)."""
    squares = cp.empty(len(x), dtype=cp.float64)
    _launch_unit_rows(x, None, None, squares)
    return squares


def _launch_unit_rows(x: Any, mean: Any, made: Any, squares: Any) -> None:
    if x.size:
        arguments = x, _address(mean), _address(made), squares, np.int32(x.shape[1])
        kernel("features", "unit_rows")((len(x),), (128,), arguments)


def apply_gaussian(values: Any, squares: Any, norms: Any, scale: float) -> None:
    """Turn products (n, h) of rows with anchors into ``exp(scale |x - a|^2)``, in place.

    Parameters
    ----------
    values : array (n, h) float32
    squares : array (n,) float64
        The squared lengths of the rows.
    norms : array (h,) float32
        The squared lengths of the anchors.
    scale : float
        It is rounded to float32.
    """
    if values.size:
        arguments = values, squares, norms, np.float32(scale), np.int32(values.shape[1])
        kernel("features", "gaussian")((len(values),), (THREADS,), arguments)


def _address(array: Any) -> Any:
    """Return an array as an argument of a kernel; none is a null pointer."""
    return np.uint64(0) if array is None else array
