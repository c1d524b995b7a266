"""Below the flow: work over fixed blocks on several threads, always handed back in order.

Python threads are enough, since the work inside a block is BLAS and compiled kernels, which release the GIL. BLAS itself is
kept to one thread meanwhile: on two cores its threads and ours would fight, and two BLAS threads were seen to change bits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import TypeVar

from threadpoolctl import threadpool_limits

BLOCK_ROWS = 4096
"""Rows of one block, whatever the number of threads, so that sums are made in the same order everywhere."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """Apply a function to items on `n_jobs` threads; results come in the order of the items.

    At most ``n_jobs + 1`` results wait at a time, so memory does not grow with the number of items.

    Examples
    --------
    >>> list(ordered_map(lambda x: x * x, range(5), n_jobs=2))
    [0, 1, 4, 9, 16]
    """
    if n_jobs == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def row_blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> list[tuple[int, int]]:
    """Give the (start, stop) of every block.

    Examples
    --------
    >>> row_blocks(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    return [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]


def single_blas() -> AbstractContextManager[object]:
    """Keep BLAS, LAPACK and OpenMP to one thread inside a `with` block."""
    limits: AbstractContextManager[object] = threadpool_limits(1)
    return limits
