"""Sums over blocks of rows, in an order that depends on the number of blocks alone.

Blocks are added in runs of sixteen, then sums of runs in runs of sixteen, and so on. So a whole run can be added up anywhere, and
the bits of the sum stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Array, Float64
from supquant.parallel import ordered_map, row_blocks
from supquant.remote import RemoteBlock, RemoteRows

__all__ = ["RUN", "OrderedSum", "sum_in_order", "sum_rows"]

RUN = 16
"""Number of blocks, or of sums of blocks, that are added one after the other."""


class OrderedSum:
    """A sum of tuples of arrays, in float64.

    Examples
    --------
    >>> total = OrderedSum()
    >>> for part in range(20):
    ...     total.add([np.array([part])])
    >>> total.total()
    (array([190.]),)
    """

    def __init__(self) -> None:
        self._levels: list[
            tuple[int, list[Float64]]
        ] = []  # number of parts of the current run, and their sums

    def add(self, parts: Sequence[Array], level: int = 0) -> None:
        """Add the arrays of the next block, or of the next whole run of a level: 1 for sixteen blocks."""
        while len(self._levels) <= level:
            self._levels.append((0, []))
        count, sums = self._levels[level]
        if count == 0:
            sums = [np.array(part, dtype=np.float64) for part in parts]
        else:
            for each, part in zip(sums, parts, strict=True):
                np.add(each, part, out=each)
        self._levels[level] = count + 1, sums
        if count + 1 == RUN:
            self._levels[level] = 0, []
            self.add(sums, level + 1)

    def total(self) -> tuple[Float64, ...]:
        """Return the sums; they are empty if nothing was added."""
        level = 0
        while level < len(self._levels):
            count, sums = self._levels[level]
            if level == len(self._levels) - 1:
                return tuple(sums)
            if count:
                self._levels[level] = 0, []
                self.add(sums, level + 1)
            level += 1
        return ()


def sum_in_order(
    function: Callable[[Any], Sequence[Array]], blocks: Iterable[Any], n_jobs: int
) -> tuple[Float64, ...]:
    """Return the sums of the arrays that a function returns for blocks, made on several threads."""
    total = OrderedSum()
    for parts in ordered_map(function, blocks, n_jobs):
        total.add(parts)
    return total.total()


def sum_rows(
    function: Callable[[Array, Any], Sequence[Array]],
    X: NDArray[Any] | RemoteRows,
    shared: object,
    n_jobs: int,
) -> tuple[Float64, ...]:
    """Return the sums over rows of the arrays that a function returns for every block of them.

    Parameters
    ----------
    function : callable
        A function of a module. It takes a block (b, p) and `shared`, and returns arrays.
    X : ndarray or RemoteRows of shape (n, p)
        The rows, here or elsewhere.
    shared : object
        What the function needs for every block.
    n_jobs : int
        Number of threads, if the rows are here.
    """
    blocks = row_blocks(len(X))
    if isinstance(X, RemoteRows):
        return X.sum_blocks(_of_vectors, blocks, (function, shared))
    return sum_in_order(lambda block: function(X[slice(*block)], shared), blocks, n_jobs)


def _of_vectors(block: RemoteBlock, own: None, shared: tuple[Any, Any]) -> Sequence[Array]:
    del own
    function, its_shared = shared
    parts: Sequence[Array] = function(block.x, its_shared)
    return parts
