"""Requests to answers: work that takes too long is given up. One timer serves all requests."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["Deadlines"]

T = TypeVar("T")


class Deadlines:
    """Gives up tasks after the same time for all, so that the first one that began is the first one that is due.

    Parameters
    ----------
    seconds : float
        The time that a task may take.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: dict[asyncio.Task[Any], float] = {}  # in the order of their beginning
        self._timer: asyncio.TimerHandle | None = None

    async def limit(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what some work of this task returns.

        Raises
        ------
        TimeoutError
            If it takes too long.
        """
        task = asyncio.current_task()
        assert task is not None
        loop = task.get_loop()
        self._due[task] = due = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_at(due, self._give_up)
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._due:  # somebody else cancelled the task
                raise
            task.uncancel()
            raise TimeoutError from None
        finally:
            self._due.pop(task, None)

    def _give_up(self) -> None:
        """Cancel all tasks that are due, and wait for the next one."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for task, due in list(self._due.items()):
            if due > now:
                self._timer = loop.call_at(due, self._give_up)
                break
            del self._due[task]
            task.cancel()
