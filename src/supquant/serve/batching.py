"""Requests to answers: queries of several requests, searched in one scan.

A scan of 32 queries takes about as long as three scans of one query. So a search that arrives during a scan waits for the next
one, together with all others that arrive in the meantime.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Executor
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supquant.serve.limits import Limits, RefusalError

__all__ = ["Batcher", "Found", "Scan", "settle"]

Found = tuple[NDArray[Any], ...]
"""What was found for q queries: arrays of q rows, such as scores and ids (q, k)."""

Scan = Callable[[Any, NDArray[Any]], Found]
"""Searches or encodes q queries; the key says how."""


class _Job(NamedTuple):
    """The queries of one request that waits for its answer."""

    key: Hashable
    queries: NDArray[Any]  # (q, p)
    answer: asyncio.Future[Found]


class Batcher:
    """Joins queries with the same key, and searches them in another thread, one batch at a time.

    While a batch is searched, the next one gathers. Clients that were just answered often ask again at once, so the next scan
    waits for them: for as many queries as the last scan had and as arrived during it. It starts earlier if no query arrives for
    `max_wait_ms`, or when it has waited as long as the last scan took. A single client never waits.

    Parameters
    ----------
    scan : callable
        Searches queries (q, p) with one key.
    limits : Limits
    executor : Executor
        Runs the scans in one thread.
    on_batch : callable
        Gets the number of queries of each scan.
    """

    def __init__(
        self, scan: Scan, limits: Limits, executor: Executor, on_batch: Callable[[int], None]
    ) -> None:
        self._scan = scan
        self._limits = limits
        self._max_wait = limits.max_wait_ms / 1000
        self._executor = executor
        self._on_batch = on_batch
        self._jobs: deque[_Job] = deque()
        self._waiting = 0  # queries of all jobs
        self._running = False
        self._timer: asyncio.TimerHandle | None = None
        self._expected = 1  # queries that the next scan waits for
        # Times by the clock of the event loop:
        self._began = 0.0  # the last scan
        self._quiet_until = 0.0  # the next scan begins if no query arrives before
        self._patient_until = 0.0  # the next scan begins at the latest

    async def search(self, key: Hashable, queries: NDArray[Any]) -> Found:
        """Return what the scan finds for q queries, such as scores and ids (q, k).

        Raises
        ------
        RefusalError
            If too many requests are already waiting.
        """
        if len(self._jobs) >= self._limits.max_queue:
            raise RefusalError(429, "too many searches are waiting: try again later", {"retry-after": "1"})
        loop = asyncio.get_running_loop()
        job = _Job(key, queries, loop.create_future())
        self._jobs.append(job)
        self._waiting += len(queries)
        if not self._running:
            self._quiet_until = loop.time() + self._max_wait
            if self._timer is None or self._waiting >= self._expected:
                self._start_if_due()
        return await job.answer

    def _start_if_due(self) -> None:
        """Start a scan, unless one is running or more queries are worth waiting for."""
        if self._running or not self._jobs:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = min(self._quiet_until, self._patient_until)
        if self._waiting < self._expected and now < due:
            if self._timer is None:
                self._timer = loop.call_at(due, self._look_again)
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._running = True
        self._began = now
        jobs = self._take()
        done = loop.run_in_executor(self._executor, self._search_all, jobs)
        done.add_done_callback(lambda future: self._finish(jobs, future))

    def _look_again(self) -> None:
        # The loop first reads queries that have already arrived.
        self._timer = asyncio.get_running_loop().call_later(0, self._stop_waiting)

    def _stop_waiting(self) -> None:
        self._timer = None
        self._start_if_due()

    def _take(self) -> list[_Job]:
        """Take jobs with at most `max_batch` queries, but at least one job, from the queue; skip those that were given up."""
        jobs: list[_Job] = []
        n_queries = 0
        while self._jobs and (not jobs or n_queries + len(self._jobs[0].queries) <= self._limits.max_batch):
            job = self._jobs.popleft()
            self._waiting -= len(job.queries)
            if not job.answer.done():
                jobs.append(job)
                n_queries += len(job.queries)
        return jobs

    def _search_all(self, jobs: Sequence[_Job]) -> list[Found | Exception]:
        """Search jobs with the same key together; return an answer or an error for each job."""
        groups: dict[Hashable, list[int]] = {}
        for number, job in enumerate(jobs):
            groups.setdefault(job.key, []).append(number)
        answers: dict[int, Found | Exception] = {}
        for key, numbers in groups.items():
            answers |= zip(
                numbers, self._search_group(key, [jobs[each].queries for each in numbers]), strict=True
            )
        return [answers[number] for number in range(len(jobs))]

    def _search_group(self, key: Hashable, parts: list[NDArray[Any]]) -> list[Found | Exception]:
        try:
            found = self._scan(key, parts[0] if len(parts) == 1 else np.concatenate(parts))
        except Exception as error:  # noqa: BLE001  # each request gets its own answer, whatever it is
            if len(parts) == 1:
                return [error]
            half = len(parts) // 2  # one of them is at fault; the others are searched together
            return self._search_group(key, parts[:half]) + self._search_group(key, parts[half:])
        self._on_batch(len(found[0]))
        ends = accumulate(map(len, parts))
        rows = [slice(end - len(part), end) for part, end in zip(parts, ends, strict=True)]
        return [tuple(array[each] for array in found) for each in rows]

    def _finish(self, jobs: Sequence[_Job], done: asyncio.Future[list[Found | Exception]]) -> None:
        """Hand out the answers of a batch, and consider the next one."""
        self._running = False
        settle([job.answer for job in jobs], done)
        answered = sum(len(job.queries) for job in jobs)
        self._expected = min(answered + self._waiting, self._limits.max_batch)
        now = asyncio.get_running_loop().time()
        self._quiet_until = now + self._max_wait
        self._patient_until = now + max(self._max_wait, now - self._began)
        self._start_if_due()


def settle(answers: Sequence[asyncio.Future[Any]], done: asyncio.Future[list[Any]]) -> None:
    """Give each answer its result or error, unless its request was given up. An error of the work as a whole reaches all."""
    if done.cancelled():  # the service ends
        results: list[Any] = [RefusalError(503, "the service is shutting down")] * len(answers)
    else:
        error = done.exception()
        results = done.result() if error is None else [error] * len(answers)
    for answer, result in zip(answers, results, strict=True):
        if answer.done():
            continue
        if isinstance(result, BaseException):
            answer.set_exception(result)
        else:
            answer.set_result(result)
