"""Below the flow: work over fixed blocks of rows on several threads, with results in order.

Python threads are enough: the work inside a block is BLAS and compiled kernels, which release the GIL. Meanwhile BLAS is limited
to one thread. On two cores its threads and ours would compete, and two BLAS threads were seen to change bits.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from supquant import system
from supquant.interrupts import check_interrupt

BLOCK_ROWS = 4096
"""The number of rows in a block. It does not depend on the number of threads, so sums are always made in the same order."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> Iterator[Result]:
    """Apply a function to items on several threads.

    At most ``n_jobs + 1`` results wait at a time, so memory does not grow with the number of items. An interrupt that a fit has
    deferred is raised between two items.

    Parameters
    ----------
    function : callable
        Takes an item and returns its result.
    items : iterable
        The items.
    n_jobs : int
        The number of threads. With 1, or for a single item, the caller's own thread does the work.

    Returns
    -------
    iterator
        The results, in the order of the items.

    Examples
    --------
    >>> list(ordered_map(lambda x: x * x, range(5), n_jobs=2))
    [0, 1, 4, 9, 16]
    """
    if n_jobs == 1 or (isinstance(items, Sized) and len(items) <= 1):
        for item in items:
            check_interrupt()
            yield function(item)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            for item in items:
                check_interrupt()
                waiting.append(_submit(pool, function, item))
                if len(waiting) > n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                check_interrupt()
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _submit(pool: ThreadPoolExecutor, function: Callable[[Item], Result], item: Item) -> Future[Result]:
    """Give work to a thread of the pool, or do it here if there can be no more threads.

    That is so while the interpreter ends, when daemon threads still work, and at the system's limit of threads.
    """
    try:
        return pool.submit(function, item)
    except RuntimeError:
        done: Future[Result] = Future()
        try:
            done.set_result(function(item))
        except BaseException as error:  # noqa: BLE001, it is raised in its turn
            done.set_exception(error)
        return done


def row_blocks(n_rows: int, block_rows: int = BLOCK_ROWS) -> list[tuple[int, int]]:
    """Cut rows into blocks.

    Parameters
    ----------
    n_rows : int
        The number of rows.
    block_rows : int, default=4096
        The number of rows in a block. The last block may have fewer.

    Returns
    -------
    list of (int, int)
        The first row of every block, and one past its last row.

    Examples
    --------
    >>> row_blocks(10, 4)
    [(0, 4), (4, 8), (8, 10)]
    """
    return [(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows)]


def single_blas() -> AbstractContextManager[object]:
    """Limit BLAS and LAPACK to one thread inside a `with` block.

    Any number of threads may be inside at the same time.

    Returns
    -------
    context manager
    """
    return _blas_limit


class _BlasLimit:
    """Limits BLAS to one thread while any thread is inside. The last one to leave restores the old number.

    The number belongs to the process. If each thread set and restored it alone, the first one to leave would lift the limit for
    the others, and the last one would restore the limit itself.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._n_inside = 0
        self._numbers_before: list[tuple[Any, int]] = []  # libraries, and their threads without the limit
        self._own = threading.local()  # `n_inside` of the current thread alone

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                if not self._numbers_before:
                    libraries = _find_blas(len(sys.modules))
                    self._numbers_before = [(library, library.num_threads) for library in libraries]
                for library, _ in self._numbers_before:
                    _set_threads(library, 1)
            self._count(1)

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._count(-1)
            if self._n_inside == 0:
                self._lift()

    def _lift(self) -> None:
        """Restore the numbers of threads."""
        for library, n_threads in self._numbers_before:
            _set_threads(library, n_threads)
        self._numbers_before = []

    def _count(self, change: int) -> None:
        self._n_inside += change
        self._own.n_inside = getattr(self._own, "n_inside", 0) + change

    def before_fork(self) -> None:
        """Wait until no thread is setting a number: in a child, BLAS's own lock would stay closed forever."""
        self._lock.acquire()

    def after_fork(self) -> None:
        """Let the threads of the parent continue."""
        self._lock.release()

    def in_child(self) -> None:
        """Forget the threads that a forked child does not have, and lift the limit if only they were inside."""
        self._lock = threading.RLock()
        self._n_inside = max(0, getattr(self._own, "n_inside", 0))  # below 0: it left for another thread
        if self._n_inside == 0:
            self._lift()


@lru_cache(maxsize=1)
def _find_blas(n_modules: int) -> list[Any]:
    """Return the controllers of the BLAS libraries whose number of threads belongs to the process.

    The search takes milliseconds. It is done again only when the number of modules has changed, because a new module may have
    loaded a library.
    """
    del n_modules
    libraries = ThreadpoolController().lib_controllers
    return [
        library
        for library in libraries
        if library.user_api == "blas" and getattr(library, "threading_layer", None) != "openmp"
    ]


def _set_threads(library: Any, n_threads: int) -> None:
    """Set a library's number of threads.

    threadpoolctl 3.8 ignores all threads but the first one that set a number. So that thread is cleared.
    """
    forget = getattr(library, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)
    library.set_num_threads(n_threads)
    if forget is not None:
        forget(force=True)


_cached_properties: dict[str, tuple[int, list[Any]]] = {}
"""By the name of a module of the library: the number of its names, and the cached properties of the classes among them."""


def _find_cached_properties() -> None:
    """Note the cached properties of the library before a fork. Only modules with other names than before are searched.

    The search reads all classes. In a child, it would make the system copy the memory that they lie in.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "supquant":
            n_names, _ = _cached_properties.get(name, (0, []))
            if len(vars(module)) != n_names:
                classes = [each for each in list(vars(module).values()) if isinstance(each, type)]
                attributes = [attribute for each in classes for attribute in list(vars(each).values())]
                found = [attribute for attribute in attributes if isinstance(attribute, cached_property)]
                _cached_properties[name] = len(vars(module)), found


def _renew_property_locks() -> None:
    """Renew the lock of every cached property of the library.

    In Python 3.11 a `cached_property` holds a lock of its class while a value is computed. If a thread computes one during a
    fork, the lock would stay closed in the child forever. Python 3.12 has no such lock.
    """
    for _, properties in _cached_properties.values():
        for each in properties:
            each.lock = threading.RLock()


_blas_limit = _BlasLimit()
system.at_fork(
    before=_blas_limit.before_fork,
    after_in_parent=_blas_limit.after_fork,
    after_in_child=_blas_limit.in_child,
)
if sys.version_info < (3, 12):
    system.at_fork(before=_find_cached_properties, after_in_child=_renew_property_locks)
