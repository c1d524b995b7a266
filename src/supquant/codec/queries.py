"""Rows of queries through dense algebra, so that a query alone and in a batch comes out as the same bits.

A BLAS adds in another order for one row than for many, and for many threads than for one. A few rows therefore go through a
kernel of our own, which is also the faster one for them; the rest of a query is arithmetic of one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.parallel import ordered_map, row_blocks
from supquant.validation import as_float32

QUERY_ROWS = 128
"""Queries that are made at a time; more rows than that are none of queries."""


def row_products(x: Float32, y: Float32) -> Float32:
    """Multiply rows x (b, d) and y (n, d), which is contiguous: ``x y'`` (b, n).

    Up to `QUERY_ROWS` rows come out as the same bits whatever stands beside them; for more a BLAS is faster.

    Examples
    --------
    >>> row_products(np.float32([[1, 2]]), np.float32([[3, 4], [5, 6]]))
    array([[11., 17.]], dtype=float32)
    """
    if len(x) > QUERY_ROWS:
        return np.asarray(x @ y.T)
    return kernels.active().products(np.ascontiguousarray(x), y)


def by_queries(
    function: Callable[[Float32], tuple[NDArray[Any], ...]],
    rows: NDArray[Any],
    made: tuple[NDArray[Any], ...],
    n_jobs: int,
) -> None:
    """Fill arrays (q, ...) with what a function makes of rows (q, p), given to it as float32 blocks of `QUERY_ROWS`."""

    def fill(block: tuple[int, int]) -> None:
        for whole, part in zip(made, function(as_float32(rows[slice(*block)])), strict=True):
            whole[slice(*block)] = part

    blocks = row_blocks(len(rows), QUERY_ROWS)
    for _ in ordered_map(fill, blocks, max(1, min(n_jobs, len(blocks)))):
        pass
