"""Sums over blocks of rows, in an order that depends on the number of blocks alone.

Blocks are added in runs of sixteen, then sums of runs in runs of sixteen, and so on. So a whole run can be added up anywhere, and
the bits of the sum stay the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Array, Float64

__all__ = ["RUN", "FeatureCache", "RunSum", "sum_results"]

Kept = TypeVar("Kept", bound=np.generic)

RUN = 16
"""Number of blocks, or of sums of blocks, that are added one after the other."""

REPORTS = 8
"""A sum over blocks reports its progress at most this number of times."""


class RunSum:
    """A sum of tuples of arrays, in float64. Its parts may come in any order, and its bits depend on their number alone.

    Parameters
    ----------
    n_parts : int
        The number of parts: blocks, or sums of whole runs of them.

    Examples
    --------
    >>> total = RunSum(20)
    >>> for number in reversed(range(20)):
    ...     total.add(number, [np.array([number])])
    >>> total.total()
    (array([190.]),)
    """

    def __init__(self, n_parts: int) -> None:
        self._n_parts = n_parts
        self._runs: dict[int, _Run] = {}
        self._of_runs = RunSum(-(-n_parts // RUN)) if n_parts > RUN else None
        self._total: tuple[Float64, ...] = ()

    def add(self, number: int, parts: Sequence[Array]) -> None:
        """Add the arrays of the part with a number. They wait until those before them in their run are there."""
        run_number, place = divmod(number, RUN)
        run = self._runs.setdefault(run_number, _Run())
        run.add(place, parts)
        if run.n_added < min(RUN, self._n_parts - RUN * run_number):
            return
        del self._runs[run_number]
        if self._of_runs is None:
            self._total = tuple(run.sums)
        else:
            self._of_runs.add(run_number, run.sums)

    def total(self) -> tuple[Float64, ...]:
        """Return the sums of all parts; they are empty if there are none."""
        return self._total if self._of_runs is None else self._of_runs.total()


@dataclass
class _Run:
    """Parts that are added one after the other."""

    n_added: int = 0
    sums: list[Float64] = field(default_factory=list)
    waiting: dict[int, Sequence[Array]] = field(
        default_factory=dict
    )  # parts whose predecessors are not there

    def add(self, place: int, parts: Sequence[Array]) -> None:
        self.waiting[place] = parts
        while self.n_added in self.waiting:
            next_ = self.waiting.pop(self.n_added)
            if self.n_added == 0:
                self.sums = [np.array(part, dtype=np.float64) for part in next_]
            else:
                for each, part in zip(self.sums, next_, strict=True):
                    np.add(each, part, out=each)
            self.n_added += 1


def sum_results(
    results: Iterable[tuple[int, Sequence[Array]]],
    n: int,
    advance: Callable[[float], None] | None = None,
) -> tuple[Float64, ...]:
    """Return the sums of the arrays of `n` parts, which come with their numbers, in any order.

    If `advance` is given, it is called at most `REPORTS` times, with the finished fraction of the parts.
    """
    total = RunSum(n)
    for n_done, (number, parts) in enumerate(results, 1):
        total.add(number, parts)
        if advance is not None and n_done * REPORTS // n > (n_done - 1) * REPORTS // n:
            advance(n_done / n)
    return total.total()


class FeatureCache:
    """Features of blocks of rows, kept as long as they fit.

    Parameters
    ----------
    n_bytes : int
        Maximum number of bytes of all kept blocks. A block that no longer fits is computed again whenever it is asked for.

    Attributes
    ----------
    name : str
        Tells the cache from all others, also in other processes; empty if nothing is kept.

    Examples
    --------
    >>> cache = FeatureCache(1000)
    >>> first = cache.get(0, lambda: np.zeros((10, 20), np.float32))
    >>> cache.get(0, lambda: np.ones((10, 20), np.float32)) is first
    True
    """

    def __init__(self, n_bytes: int) -> None:
        self.name = uuid.uuid4().hex if n_bytes else ""
        self._bytes_left = n_bytes
        self._blocks: dict[int, Array] = {}

    def get(self, key: int, compute: Callable[[], NDArray[Kept]]) -> NDArray[Kept]:
        """Return the block (b, d) under a key, such as the number of its first row; compute it unless it is kept."""
        if key in self._blocks:
            return cast("NDArray[Kept]", self._blocks[key])
        block = compute()
        if block.nbytes <= self._bytes_left:
            self._bytes_left -= block.nbytes
            self._blocks[key] = block
        return block
