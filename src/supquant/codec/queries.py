"""Rows of queries through dense algebra, so that a query alone and in a batch comes out as the same bits.

A BLAS adds in another order for one row than for many, and for many threads than for one. Here it always sees
`GROUP_ROWS` rows, padded with zeros, and runs on one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.validation import as_float32

Block = NDArray[np.float32]

GROUP_ROWS = 8
"""A compromise: one query pays for eight rows, and many pay for small products."""


def by_groups(
    function: Callable[[Block], tuple[NDArray[Any], ...]],
    rows: NDArray[Any],
    made: tuple[NDArray[Any], ...],
    n_jobs: int,
) -> None:
    """Fill arrays (n, ...) with what a function makes of rows (n, p), given to it as float32 blocks of `GROUP_ROWS`."""

    def fill(block: tuple[int, int]) -> None:
        group = as_float32(rows[slice(*block)])
        n = len(group)
        if n < GROUP_ROWS:
            group = np.concatenate([group, np.zeros((GROUP_ROWS - n, group.shape[1]), dtype=np.float32)])
        for whole, part in zip(made, function(group), strict=True):
            whole[slice(*block)] = part[:n]

    groups = row_blocks(len(rows), GROUP_ROWS)
    with single_blas():
        for _ in ordered_map(fill, groups, max(1, min(n_jobs, len(groups)))):
            pass
