"""Tasks for workers: each worker runs one task at a time, and a lost worker is started again and gets its task again.

A task depends only on its item and on the common part of the pass. So results do not depend on the number of workers, on
which worker did what, or on how often one was lost.
"""

from __future__ import annotations

import itertools
import pickle
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from supquant.distributed.worker import Answer, Packed, Request, Task, pack
from supquant.errors import WorkerError
from supquant.inputs.parameters import check_integer
from supquant.interrupts import check_interrupt

__all__ = ["Failure", "Lost", "Workers"]

WAIT_SECONDS = 0.2
"""The driver checks for Ctrl-C at least this often while it waits for answers, in seconds."""


@dataclass(frozen=True)
class Failure:
    """Instead of a result: what a task raised, or that its worker was lost too often."""

    error: BaseException


@dataclass(frozen=True)
class Lost:
    """Instead of an answer: the worker has ended, for this reason."""

    reason: str


class Workers(ABC):
    """Processes that run tasks: `ProcessWorkers` or `RayWorkers`. Any number of threads may use them; passes run one at a time.

    Attributes
    ----------
    n_workers : int
        The number of workers.
    bytes_sent, bytes_received : int
        The number of bytes of all requests, and of all answers.
    n_restarts : int
        How often workers were started again.
    """

    def __init__(self, n_workers: int, restarts: int) -> None:
        self.n_workers = n_workers
        self.bytes_sent = self.bytes_received = self.n_restarts = 0
        self._allowed_restarts = check_integer(restarts, "restarts", 0)
        self._common: dict[int, str] = {}  # the fingerprint of the common part that each worker has
        self._unread: set[int] = set()  # workers whose answer to an earlier pass is not read yet
        self._numbers = itertools.count()
        self._lock = threading.RLock()
        self._is_open = True
        try:
            self._start(list(range(n_workers)))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers."""
        self._is_open = False
        for number in range(self.n_workers):
            self._stop(number)

    def run(
        self,
        task: Task,
        items: Sequence[Any],
        common: object = None,
        *,
        pinned: bool = False,
        restarts: int | None = None,
        catch: bool = False,
        only: Sequence[int] | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Run a task for every item.

        Parameters
        ----------
        task : callable
            A function of a module, as in `worker.Task`.
        items : sequence
            What the task is run for. A worker begins with a run of consecutive items, then helps others with theirs.
        common : object, default=None
            What the task needs for every item. It is sent to each worker once.
        pinned : bool, default=False
            Whether item i is for worker i alone. Then there are at most as many items as workers.
        restarts : int or None, default=None
            How often lost workers are started again. None takes the number that the workers were made with.
        catch : bool, default=False
            Whether an item that cannot be done has a `Failure` as its result. Otherwise its error ends the pass.
        only : sequence of int or None, default=None
            The numbers of the items that are done. None does all.

        Yields
        ------
        number : int
            The number of an item.
        result : object
            Its result, as soon as it arrives.

        Raises
        ------
        WorkerError
            If workers were lost more often than they may be started again.
        Exception
            What a task raised.
        """
        with self._lock:
            if not self._is_open:
                raise WorkerError("the workers were closed")
            allowed = self._allowed_restarts if restarts is None else restarts
            yield from _Pass(self, task, items, pack(common), pinned, allowed, catch, only).results()

    def map(self, task: Task, items: Sequence[Any], common: object = None) -> list[Any]:
        """Run a task for every item, as `run` does, and return the results in the order of the items."""
        results: dict[int, Any] = dict(self.run(task, items, common))
        return [results[number] for number in range(len(items))]

    def restart(self, number: int) -> None:
        """Start a worker again. Its memory is empty then."""
        self._stop(number)
        self._common.pop(number, None)
        self._unread.discard(number)
        self.n_restarts += 1
        self._start([number])

    @abstractmethod
    def free_bytes(self) -> int:
        """Return the number of bytes of memory that each worker may use."""

    @abstractmethod
    def _start(self, numbers: list[int]) -> None:
        """Start workers, and return when they run."""

    @abstractmethod
    def _send(self, number: int, request: bytes, common: bytes | None) -> None:
        """Send a request to a worker that has none. If the worker has ended, `_receive` reports it."""

    @abstractmethod
    def _receive(self, numbers: list[int], seconds: float) -> Iterator[tuple[int, bytes | Lost]]:
        """Wait for answers of some workers, at most for some seconds, and yield those that are there."""

    @abstractmethod
    def _stop(self, number: int) -> None:
        """End a worker if it is still running."""


class _Pass:
    """One pass: the items that are waiting, and those that workers have."""

    def __init__(
        self,
        workers: Workers,
        task: Task,
        items: Sequence[Any],
        common: Packed,
        pinned: bool,
        restarts: int,
        catch: bool,
        only: Sequence[int] | None,
    ) -> None:
        self._catch = catch
        self._workers, self._task, self._items, self._common = workers, task, items, common
        self._pinned, self._restarts_left = pinned, restarts
        n, W = len(items), workers.n_workers
        edges = list(range(W + 1)) if pinned else [n * number // W for number in range(W + 1)]
        chosen = range(n) if only is None else frozenset(only)
        self._waiting = [
            deque(item for item in range(a, min(n, b)) if item in chosen)
            for a, b in itertools.pairwise(edges)
        ]
        self._working: dict[int, tuple[int, int]] = {}  # worker: number of its item, number of its request

    def results(self) -> Iterator[tuple[int, Any]]:
        workers = self._workers
        try:
            for worker in range(workers.n_workers):
                if worker not in workers._unread:
                    self._give_next(worker)
            while self._working or any(self._waiting):
                check_interrupt()
                listening = sorted(self._working.keys() | workers._unread)
                for worker, received in workers._receive(listening, WAIT_SECONDS):
                    yield from self._take(worker, received)
        finally:
            workers._unread |= self._working.keys()

    def _take(self, worker: int, received: bytes | Lost) -> Iterator[tuple[int, Any]]:
        """Take what came from a worker, and give the worker its next item."""
        workers = self._workers
        if isinstance(received, Lost):
            yield from self._start_again(worker, received.reason)
            return
        workers.bytes_received += len(received)
        answer: Answer = pickle.loads(received)
        workers._unread.discard(worker)
        item, number = self._working.pop(worker, (-1, -1))
        if answer.number != number:  # it answers an earlier pass
            self._give_next(worker)
        elif answer.is_stale:
            workers._common.pop(worker, None)
            self._give(worker, item)
        elif isinstance(answer.error, MemoryError):
            self._working[worker] = item, number
            yield from self._start_again(worker, f"out of memory: {answer.error}")
        elif answer.error is not None:
            self._give_next(worker)
            yield from self._fail(item, answer.error)
        elif answer.fingerprint != self._common.fingerprint:
            raise WorkerError(f"worker {worker} answered for another model")
        else:
            self._give_next(worker)
            yield item, answer.result

    def _start_again(self, worker: int, reason: str) -> Iterator[tuple[int, Any]]:
        """Start a lost worker again, and give it its item again if a restart is left."""
        item, _ = self._working.pop(worker, (-1, -1))
        is_over = self._restarts_left == 0
        self._restarts_left -= not is_over
        try:
            self._workers.restart(worker)  # also when it is over: the next pass finds all workers at work
        except WorkerError as error:
            is_over, reason = True, f"{reason}; {error}"
        if is_over:
            name = getattr(self._task, "__name__", "a task")
            yield from self._fail(
                item, WorkerError(f"worker {worker} was lost in {name!r}, and no restart is left: {reason}")
            )
        elif item < 0:
            self._give_next(worker)
        else:
            self._give(worker, item)

    def _fail(self, item: int, error: BaseException) -> Iterator[tuple[int, Any]]:
        if not self._catch:
            raise error
        if item >= 0:
            yield item, Failure(error)

    def _give_next(self, worker: int) -> None:
        """Give a worker the next of its own items, or the last one of the worker that has most left."""
        if self._waiting[worker]:
            self._give(worker, self._waiting[worker].popleft())
            return
        longest = max(self._waiting, key=len)
        if longest and not self._pinned:
            self._give(worker, longest.pop())

    def _give(self, worker: int, item: int) -> None:
        workers, common = self._workers, self._common
        number = next(workers._numbers)
        request = pickle.dumps(Request(number, self._task, common.fingerprint, self._items[item]), protocol=5)
        needed = workers._common.get(worker) != common.fingerprint
        workers._common[worker] = common.fingerprint
        workers.bytes_sent += len(request) + needed * len(common.data)
        self._working[worker] = item, number
        workers._send(worker, request, common.data if needed else None)
