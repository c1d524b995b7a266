"""Soak: forked children that work under limits, are interrupted or killed."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import signal
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = 70
"""The exit code of a child whose work raised."""

MAX_SECONDS = 600
"""A child that works longer than this number of seconds has hung. SIGALRM ends it."""

INTERRUPTED = 130
"""The exit code of a child whose work ended with KeyboardInterrupt."""


def start_child(work: Callable[[], int | None]) -> int:
    """Fork a child that does its work and exits with the number that the work returns, or with 0. Return its process number.

    The child has begun when this returns. SIGINT raises KeyboardInterrupt in it, even if the parent ignores the signal.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.alarm(MAX_SECONDS)
            os.close(reading)
            os.write(writing, b"!")
            os.close(writing)
            code = work() or 0
        except KeyboardInterrupt:
            code = INTERRUPTED
        except BaseException:  # noqa: BLE001  # the child must not continue with the work of its parent
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return child


def end_of(child: int) -> int:
    """Wait for a child; return its exit code, or minus the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def limit_memory(more: int) -> None:
    """Let this process take at most this many bytes of addresses more than it has. A negative number lifts the limit."""
    limit = -1
    if more >= 0:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123  # no file of ours
            limit = int(file.read().split()[0]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def occupy_free_memory() -> list[bytearray]:
    """Return blocks that fill all gaps of 64 KiB or more in the memory that malloc has kept.

    While the blocks are held, a larger allocation needs new memory, so that `limit_memory` counts it. What is freed later goes
    back to the system at once. Garbage is collected first: collecting it later would make new gaps.
    """
    gc.collect()
    ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 16)
    limit_memory(0)
    blocks = []
    for size in (1 << 22, 1 << 20, 1 << 18, 1 << 16):
        with suppress(MemoryError):
            while True:
                blocks.append(bytearray(size))
    limit_memory(-1)
    return blocks


_MMAP_THRESHOLD = -3
"""The number of M_MMAP_THRESHOLD in the malloc.h of glibc."""


def limit_files(size: int) -> None:
    """Let no file of this process grow past a number of bytes, as on a full disk. A negative number lifts the limit."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
