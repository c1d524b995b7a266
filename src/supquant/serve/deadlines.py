"""Requests to answers: requests that take too long are given up.

One timer serves all requests. With `asyncio.timeout`, which sets one for each, a search would take a quarter more of the time of
the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Deadlines"]

T = TypeVar("T")


class Deadlines:
    """Cancels tasks that take longer than `seconds`. As all may take equally long, the first to begin is the first to be due."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[asyncio.Task[Any], float] = {}  # in order of their beginning
        self._timer: asyncio.TimerHandle | None = None

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what some work of this task returns; raise a TimeoutError if it takes too long."""
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self._due[task] = due = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(due, self._cancel_late_tasks)
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._due:  # somebody else cancelled the task
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            self._due.pop(task, None)

    def left(self) -> float:
        """Return the time in seconds that is left to this task."""
        task = asyncio.current_task()
        assert task is not None
        now = task.get_loop().time()
        return max(0.0, self._due.get(task, now + self._seconds) - now)

    def _cancel_late_tasks(self) -> None:
        """Cancel all tasks that are due, and set the timer for the next one."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._cancel_late_tasks)
                break
            del self._due[task]
            task.cancel()
