"""Ctrl-C during long computations: it is raised between two blocks of rows or two steps, so it is never lost.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In the finaliser of a generator or in a callback of
`ctypes` it is printed and forgotten. Inside a lock of a thread pool it can leave the lock closed forever. So a fit only notes an
interrupt, and raises it where nothing can be lost or left half done.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import wraps
from types import FrameType
from typing import Any, ParamSpec, TypeVar

__all__ = ["check_interrupt", "defers_interrupts"]

PATIENCE = 1.0
"""An interrupt waits for the next call of `check_interrupt`, but a second one more than this many seconds later does not."""

NONE_LEFT = -1.0
"""The patience of a handler whose function has ended: someone may still hold it, but no check follows."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def defers_interrupts(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Make a function raise an interrupt only where it calls `check_interrupt`, or else at its end.

    Nothing changes in threads other than the main one, which receive no interrupts, or if SIGINT is ignored.

    Parameters
    ----------
    function : callable
        A long computation.

    Returns
    -------
    callable
        It takes the same arguments and returns the same result. While it runs, SIGINT has a handler of ours. It calls the former
        handler, which usually raises `KeyboardInterrupt`.

    Examples
    --------
    >>> @defers_interrupts
    ... def fit():
    ...     signal.raise_signal(signal.SIGINT)
    ...     print("not yet")
    ...     check_interrupt()
    ...     print("never")
    >>> former = signal.signal(signal.SIGINT, signal.default_int_handler)
    >>> try:
    ...     fit()
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    ... finally:
    ...     _ = signal.signal(signal.SIGINT, former)
    not yet
    interrupted
    """

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        former = signal.getsignal(signal.SIGINT)
        if not callable(former) or _is_deferral(former) or not _in_main_thread():
            return function(*args, **kwargs)
        deferral = _Deferral(former)
        signal.signal(signal.SIGINT, deferral)
        try:
            return function(*args, **kwargs)
        finally:
            deferral.patience = math.inf  # nothing is raised before the former handler is back
            if signal.getsignal(signal.SIGINT) is deferral:
                signal.signal(signal.SIGINT, former)
            deferral.patience = NONE_LEFT
            deferral.deliver()

    return call


def check_interrupt() -> None:
    """Raise the interrupt that has come since the last call, if there was one.

    It does nothing outside a function that defers interrupts or in threads other than the main one.
    """
    if not _waiting:  # looking up the handler would be the slowest part of a small search
        return
    handler = signal.getsignal(signal.SIGINT)
    if isinstance(handler, _Deferral) and _in_main_thread():
        handler.deliver()


class _Deferral:
    """A handler of SIGINT that notes an interrupt; `deliver` passes it to the former handler."""

    def __init__(self, former: Callable[[int, FrameType | None], Any]) -> None:
        self.patience = PATIENCE
        self._former = former
        self._came: float | None = None  # time of the interrupt that waits

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._came is None:
            self._came = now
            _waiting.add(self)
        if now - self._came > self.patience:
            self._forget()
            self._former(number, frame)

    def deliver(self) -> None:
        """Call the former handler if an interrupt waits."""
        if self._came is not None:
            self._forget()
            self._former(signal.SIGINT, sys._getframe())

    def _forget(self) -> None:
        self._came = None
        _waiting.discard(self)


_waiting: set[_Deferral] = set()
"""Handlers that have noted an interrupt and not yet passed it on."""


def _is_deferral(handler: object) -> bool:
    return isinstance(handler, _Deferral) and handler.patience != NONE_LEFT


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
