"""Functions of rows block by block, and products of rows with the same bits for a row alone and in a batch.

BLAS adds in a different order for one row than for many, and for several threads than for one. So products go through our own
kernel, which is also faster for a few rows. Everything else that is done with a query or an item is arithmetic on its row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.inputs.validation import as_float32
from supquant.kernels import Packed, pack_rows
from supquant.parallel import ordered_map

__all__ = ["QUERY_ROWS", "fill_blocks", "pack_rows", "row_products"]

QUERY_ROWS = 128
"""Number of queries in a block."""


def row_products(x: Float32, y: Packed, n_threads: int = 1) -> Float32:
    """Multiply rows x (b, d) and a packed matrix y (n, d): ``x y'`` (b, n). A product does not depend on the other rows.

    Examples
    --------
    >>> row_products(np.float32([[1, 2]]), pack_rows(np.float32([[3, 4], [5, 6]])))
    array([[11., 17.]], dtype=float32)
    """
    return kernels.active().products(np.ascontiguousarray(x), y, n_threads)


def fill_blocks(
    function: Callable[[Float32, tuple[int, int]], tuple[NDArray[Any], ...]],
    rows: NDArray[Any],
    results: tuple[NDArray[Any], ...],
    blocks: Sequence[tuple[int, int]],
    n_jobs: int,
) -> None:
    """Fill arrays (n, ...) with the results of a function for rows (n, p), block by block.

    Parameters
    ----------
    function : callable
        Takes a block (b, p) float32 and its (start, stop); returns one array (b, ...) for each array to fill.
    rows : ndarray of shape (n, p)
        Any real dtype.
    results : tuple of ndarray
        The arrays to fill.
    blocks : sequence of (start, stop)
    n_jobs : int
        Number of threads.
    """

    def fill(block: tuple[int, int]) -> None:
        for whole, part in zip(results, function(as_float32(rows[slice(*block)]), block), strict=True):
            whole[slice(*block)] = part

    for _ in ordered_map(fill, blocks, n_jobs):
        pass
