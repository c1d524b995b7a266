"""What Linux and macOS do their own way. `windows` has the same names."""

import fcntl
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

from supquant.system.descriptors import open_descriptor

assert sys.platform != "win32"

READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""How `os.open` opens a file to read. A pipe does not wait for a writer, and a child does not inherit the file."""

PARENT_SECONDS = 1.0
"""How often a process checks whether its parent is still running, in seconds."""

Pipe = Connection
"""One end of a pipe between two processes."""

at_fork = os.register_at_fork
"""Register functions that are called before a fork, and after it in the parent and in the child."""


# files -------------------------------------------------------------------------------------------------------------------


def try_lock(file: IO[Any]) -> bool:
    """Lock a file for this process, unless another process has locked it. Return whether it is locked.

    The lock opens when the process closes the file, or ends. A forked child does not inherit it.
    """
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # the system may give either
        return False
    return True


def mark_used(file: IO[Any]) -> None:
    """Keep `delete_unused` from deleting a file while it is open, here or in a forked child."""
    with suppress(OSError):  # a file system without locks: then nobody deletes the file either
        fcntl.flock(file, fcntl.LOCK_EX)


def delete_unused(path: Path) -> None:
    """Delete a file unless a process marks it as used. Raise an `OSError` if it is used or gone."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()


def read_ahead(mapped: mmap.mmap, start: int, size: int) -> None:
    """Let the system read some bytes of a mapped file, without waiting for them. It reads many places at the same time."""
    first = start - start % mmap.PAGESIZE
    with suppress(OSError):  # it is advice
        mapped.madvise(mmap.MADV_WILLNEED, first, start + size - first)


def delete(path: Path) -> None:
    """Delete a file if it exists. Those who have opened or mapped it keep its content."""
    path.unlink(missing_ok=True)


def delete_open(file: IO[Any]) -> None:
    """Delete a file that this process has open. A lock of the file stays closed until it is deleted."""
    Path(file.name).unlink(missing_ok=True)


def rename_open(file: IO[Any], target: Path) -> None:
    """Let a file that this process has open take the place of another one."""
    Path(file.name).replace(target)


def sync_file(file: IO[Any]) -> None:
    """Wait until the content of a file is on the disk."""
    os.fsync(file.fileno())
    if sys.platform == "darwin":  # there, fsync leaves the content in the memory of the disk
        with suppress(OSError):  # a file system that cannot do more
            fcntl.fcntl(file, fcntl.F_FULLFSYNC)


def sync_folder(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk, so that a crash does not undo a renaming in it."""
    with open_descriptor(folder, os.O_RDONLY) as descriptor:  # no object of `io` can own a folder
        os.fsync(descriptor)


@contextmanager
def spool_file() -> Iterator[str]:
    """Yield the name of a temporary file. It is deleted when the block ends, and a map of it lives on."""
    with tempfile.NamedTemporaryFile(prefix="supquant-") as file:
        yield file.name


# processes and the machine -----------------------------------------------------------------------------------------------


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_bytes() -> int:
    """Return the number of bytes of memory of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def free_bytes() -> int:
    """Return the number of bytes of free memory. macOS does not tell, and half of its memory is taken for free."""
    if "SC_AVPHYS_PAGES" not in os.sysconf_names:
        return memory_bytes() // 2
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def start_worker(
    command: Callable[[int], Sequence[str]], pipe: Pipe, environment: Mapping[str, str]
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
    return subprocess.Popen(
        command(pipe.fileno()),
        pass_fds=[pipe.fileno()],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def open_pipe(number: int) -> Pipe:
    """Return the end of the pipe that `start_worker` has given to this process."""
    return Pipe(number)


def wait_for_end(parent: int) -> None:
    """Wait until the parent of this process has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
