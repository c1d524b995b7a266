"""Below the flow: work over fixed blocks on several threads, always handed back in order.

Python threads are enough, since the work inside a block is BLAS and compiled kernels, which release the GIL. BLAS itself is
kept to one thread meanwhile: on two cores its threads and ours would fight, and two BLAS threads were seen to change bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

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
    """Keep BLAS and LAPACK to one thread inside a `with` block; cheap, and may overlap with others in other threads."""
    return _blas_limit


class _BlasLimit:
    """Keeps BLAS to one thread while anyone, in whichever thread, is inside; the last one to leave restores its number.

    That number belongs to the process: if each thread set and restored it by itself, the first one to leave would take
    the limit from the others, and the last one would leave it there for good.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._before: list[tuple[Any, int]] = []
        self._lock = threading.RLock()

    def before_fork(self) -> None:
        """Let no thread be about to set a number of threads: the lock inside the library would never open in a child."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Let others go on."""
        self._lock.release()

    def in_child(self) -> None:
        """Do not wait for threads that a forked child does not have."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [(library, library.num_threads) for library in _blas(len(sys.modules))]
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, n_threads in self._before:
                    _set_threads(library, n_threads)


@lru_cache(maxsize=1)
def _blas(n_modules: int) -> list[Any]:
    """Find the BLAS libraries whose number of threads belongs to the process.

    That takes milliseconds, so it is done again only where there are more modules than before: one of them may have
    brought a library.
    """
    del n_modules
    libraries = ThreadpoolController().lib_controllers
    return [
        each
        for each in libraries
        if each.user_api == "blas" and getattr(each, "threading_layer", None) != "openmp"
    ]


def _set_threads(library: Any, n_threads: int) -> None:
    """Set a library's number of threads; threadpoolctl 3.8 obeys only the thread that set it first, so it is told to forget."""
    forget = getattr(library, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)
    library.set_num_threads(n_threads)
    if forget is not None:
        forget(force=True)


_blas_limit = _BlasLimit()
os.register_at_fork(
    before=_blas_limit.before_fork,
    after_in_parent=_blas_limit.after_fork,
    after_in_child=_blas_limit.in_child,
)
