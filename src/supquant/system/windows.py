"""What Windows does its own way. `posix` has the same names.

Three things differ most. An open or mapped file can be neither deleted nor replaced. Nothing forks. And a folder cannot be
synced: NTFS keeps a journal of renamings.
"""

import atexit
import ctypes
import mmap
import msvcrt
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection
from pathlib import Path
from typing import IO, Any

assert sys.platform == "win32"

Pipe = connection.PipeConnection
"""One end of a pipe between two processes."""

READ_FLAGS = os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT
"""How `os.open` opens a file to read."""

RENAME_SECONDS = 2.0
"""How long a renaming waits for others, such as readers or a virus scanner, to close the file that it replaces, in seconds."""

SYNCHRONIZE = 0x00100000
"""The right to wait for a process."""

INFINITE = 0xFFFFFFFF
"""A wait without end."""


def at_fork(
    *,
    before: Callable[[], object] | None = None,
    after_in_parent: Callable[[], object] | None = None,
    after_in_child: Callable[[], object] | None = None,
) -> None:
    """Do nothing: there are no forks."""


# files -------------------------------------------------------------------------------------------------------------------


def try_lock(file: IO[Any]) -> bool:
    """Lock a file, unless another process or thread has locked it. Return whether it is locked.

    The lock opens when the file is closed, or the process ends.
    """
    file.seek(0)
    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def mark_used(file: IO[Any]) -> None:
    """Do nothing: an open file cannot be deleted."""


def delete_unused(path: Path) -> None:
    """Delete a file unless a process has it open. Raise an `OSError` if it is used or gone."""
    path.unlink()


def read_ahead(mapped: mmap.mmap, start: int, size: int) -> None:
    """Do nothing: Python has no such advice here."""


def delete(path: Path) -> None:
    """Delete a file if it exists and nobody has opened or mapped it. Otherwise it stays for a later call."""
    with suppress(PermissionError):
        path.unlink(missing_ok=True)


def delete_open(file: IO[Any]) -> None:
    """Close a file of this process, and delete it. It stays if another process has opened it meanwhile."""
    file.close()
    delete(Path(file.name))


def rename_open(file: IO[Any], target: Path) -> None:
    """Close a file of this process, and let it take the place of another one as soon as nobody has that one open."""
    file.close()
    end = time.monotonic() + RENAME_SECONDS
    while True:
        try:
            Path(file.name).replace(target)
        except PermissionError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


def sync_file(file: IO[Any]) -> None:
    """Wait until the content of a file is on the disk."""
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Do nothing."""


@contextmanager
def spool_file() -> Iterator[str]:
    """Yield the name of a temporary file. It may still be mapped when the block ends, so it is deleted with the process."""
    descriptor, name = tempfile.mkstemp(prefix="supquant-")
    os.close(descriptor)
    atexit.register(delete, Path(name))
    yield name


# processes and the machine -----------------------------------------------------------------------------------------------


def count_cores() -> int:
    """Return the number of cores."""
    return os.cpu_count() or 1


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of the Windows API."""

    _fields_ = (
        ("length", ctypes.c_ulong),
        ("load", ctypes.c_ulong),
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("others", ctypes.c_ulonglong * 5),
    )
    length: int
    total: int
    free: int


def _memory_status() -> _MemoryStatus:
    status = _MemoryStatus()
    status.length = ctypes.sizeof(status)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise ctypes.WinError()
    return status


def memory_bytes() -> int:
    """Return the number of bytes of memory of the machine."""
    return _memory_status().total


def free_bytes() -> int:
    """Return the number of bytes of free memory."""
    return _memory_status().free


def start_worker(
    command: Callable[[int], Sequence[str]],
    pipe: Pipe,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    """Start a process that has one end of a pipe, and that Ctrl-C in the terminal does not reach.

    Parameters
    ----------
    command : callable
        Returns the command from the number of the pipe, which `open_pipe` takes.
    pipe : Pipe
        The end of the pipe.
    environment : mapping
        The environment of the process.
    """
    handle = pipe.fileno()
    os.set_handle_inheritable(handle, True)
    return subprocess.Popen(
        command(handle),
        env=environment,
        stdin=subprocess.DEVNULL,
        startupinfo=subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]}),
        creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
    )


def open_pipe(number: int) -> Pipe:
    """Return the end of the pipe that `start_worker` has given to this process."""
    return Pipe(number)


def wait_for_end(parent: int) -> None:
    """Wait until the parent of this process has ended."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    kernel.OpenProcess.restype = ctypes.c_void_p
    kernel.WaitForSingleObject.argtypes = (ctypes.c_void_p, ctypes.c_ulong)
    handle = kernel.OpenProcess(SYNCHRONIZE, False, parent)
    if handle is not None:  # otherwise it has ended already
        kernel.WaitForSingleObject(handle, INFINITE)
