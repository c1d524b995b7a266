"""Ctrl-C and SIGTERM end a command within seconds and in one line, whatever it is doing.

Python raises `KeyboardInterrupt` when the main thread runs Python code again, and waits for all threads before the process ends.
Either may take minutes. So a thread ends a command that goes on for too long: files are written whole or not at all at any
moment, and workers end with the process that started them.

A command that says that it was interrupted has written none of its outputs. From the moment that the first one takes its place,
a signal comes too late: the command writes the others, and ends as if there had been no signal.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from supquant import system

__all__ = ["INTERRUPTED", "announce_end", "keeping_result", "run_command", "writing"]

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

TERMINATED = 143
"""Exit status after SIGTERM."""

GRACE_SECONDS = 1.5
"""How long a command may take to end by itself."""


class _End:
    """How the running command ends."""

    status = INTERRUPTED
    announced = False
    has_signals = False  # the process is this command alone
    is_done = False  # an output takes its place, or all is over
    lock = threading.Lock()
    has_result: Callable[[], bool] = staticmethod(lambda: False)
    bells: tuple[socket.socket, ...] = ()


def run_command(run: Callable[[], object]) -> None:
    """Run a command in the main thread, and end the process if it is interrupted."""
    _End.status, _End.announced, _End.has_signals, _End.is_done = INTERRUPTED, False, True, False
    try:
        bell, ringing = _End.bells = socket.socketpair()
        ringing.setblocking(False)
        signal.set_wakeup_fd(ringing.fileno(), warn_on_full_buffer=False)
        system.at_fork(after_in_child=_forget_signals)
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _terminate)
        threading.Thread(target=_watch, args=(bell,), daemon=True).start()
        atexit.register(_ignore_signals)
        try:
            run()
        except SystemExit as end:
            if end.code != INTERRUPTED:
                _be_done()
            raise
        _be_done()
    except (KeyboardInterrupt, SystemExit) as end:
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending
        announce_end()
        raise SystemExit(_End.status) from None


def announce_end(text: str | None = None) -> None:
    """Say in one line that the command was interrupted, unless that was said."""
    if not _End.announced:
        _End.announced = True
        said = text or ("Interrupted." if _End.status == INTERRUPTED else "Terminated.")
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # bars hide the cursor
        sys.stderr.write(f"{said}\n")
        sys.stderr.flush()


@contextmanager
def keeping_result(has_result: Callable[[], bool]) -> Iterator[None]:
    """Let the block go on after Ctrl-C for as long as it takes, if it then has a result to write. A second Ctrl-C ends it."""
    _End.has_result = staticmethod(has_result)
    try:
        yield
    finally:
        _End.has_result = staticmethod(lambda: False)


@contextmanager
def writing(*outputs: Path) -> Iterator[None]:
    """Let no signal end the command once one of its outputs takes its place in the block, which writes all of them.

    Parameters
    ----------
    *outputs : Path
        The files of the command. That of an index is its manifest: before it takes its place, nobody reads the others.
    """
    from supquant.storage.replacing import before_replacing  # noqa: PLC0415  # a signal may come while it is imported

    places = {output.resolve() for output in outputs}
    with before_replacing(lambda path: _be_done() if path in places else None):
        yield


def _be_done() -> None:
    """Let all signals come too late from here on. One that came before is raised here."""
    if not _End.has_signals:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        if callable(signal.getsignal(number)):  # others are ignored anyway, or are not ours
            signal.signal(number, _come_too_late)
    with _End.lock:  # this waits for ever if `_watch` is ending the process
        _End.is_done = True


def _come_too_late(_number: int, _frame: FrameType | None) -> None:
    """Do nothing on a signal. `_watch` hears of it nevertheless."""


def _ignore_signals() -> None:
    """Let signals come too late at the very end of the process, when Python takes the handlers away."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is _come_too_late:
            signal.signal(number, signal.SIG_IGN)


def _watch(bell: socket.socket) -> None:
    """End the process some time after a signal that ends it."""
    n_signals = 0
    while number := bell.recv(1):
        if number[0] in (signal.SIGINT, signal.SIGTERM):
            n_signals += 1
            if number[0] == signal.SIGTERM:
                _End.status = TERMINATED
            time.sleep(GRACE_SECONDS)
            with _End.lock:
                if n_signals > 1 or not (_End.is_done or _End.has_result()):
                    announce_end("Interrupted while it ended." if _End.is_done else None)
                    os._exit(_End.status)


def _terminate(_number: int, frame: FrameType | None) -> None:
    """Do on SIGTERM what Ctrl-C does."""
    _End.status = TERMINATED
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)


def _forget_signals() -> None:
    """Let signals to a forked child concern the child alone."""
    if threading.current_thread() is threading.main_thread():
        signal.set_wakeup_fd(-1)
        if signal.getsignal(signal.SIGTERM) in (_terminate, _come_too_late):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is _come_too_late:
            signal.signal(signal.SIGINT, signal.default_int_handler)
