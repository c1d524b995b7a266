"""Folders that one thread of one process changes at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

from supquant import system

__all__ = ["LOCK_NAME", "run_locked"]

LOCK_NAME = ".supquant-lock"
"""The name of the file in a folder that is locked. It exists while the folder is locked, and after a crash."""

_PAUSE = 0.005
"""The time in seconds between two attempts to lock a folder."""

_N_MUTEXES = 64
"""The number of locks among the threads of this process. Two folders may share one."""

_mutexes = [threading.Lock() for _ in range(_N_MUTEXES)]

_Result = TypeVar("_Result")


def run_locked(folder: Path, work: Callable[[], _Result]) -> _Result:
    """Call a function while no other thread or process runs one for the same folder.

    The lock belongs to this process. A forked child does not inherit it, and the end of the process opens it, even by a kill.
    Locks of this kind have two weaknesses. They say nothing to other threads, so these are kept out by a mutex. And the lock
    opens if this process opens and closes the file `LOCK_NAME` elsewhere, for example by copying the folder meanwhile.

    Parameters
    ----------
    folder : Path
        The folder. It must exist.
    work : callable
        The function. It must not call `run_locked`.

    Returns
    -------
    object
        What `work` returns.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run_locked(Path(folder), lambda: os.listdir(folder))
    ['.supquant-lock']
    """
    path = folder / LOCK_NAME
    # Only `with` takes the mutex and opens the file: Ctrl-C can come at any moment, and must leave neither behind.
    with _mutexes[folder.stat().st_ino % _N_MUTEXES]:
        while True:
            with path.open("ab") as file:
                if system.try_lock(file) and _is_file_at(path, file):
                    try:
                        return work()
                    finally:
                        system.delete_open(file)
            # To wait inside the system would be an error if it takes the locks of several threads for a deadlock.
            time.sleep(_PAUSE)


def _is_file_at(path: Path, file: IO[Any]) -> bool:
    """Return whether an open file is still the one at a path. The last owner of a lock deletes its file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _renew_mutexes() -> None:
    """Renew the mutexes in a forked child, where the threads that held them do not exist."""
    _mutexes[:] = [threading.Lock() for _ in range(_N_MUTEXES)]


system.at_fork(after_in_child=_renew_mutexes)
