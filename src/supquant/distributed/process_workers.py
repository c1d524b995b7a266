"""Workers that are processes of this machine, each behind a pipe."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from supquant import system
from supquant.distributed.pool import Lost, Workers
from supquant.distributed.worker import pack_message
from supquant.inputs.parameters import check_integer, resolve_jobs

__all__ = ["ProcessWorkers"]


class ProcessWorkers(Workers):
    """Local processes that run tasks.

    A worker ends when this process ends, however that happens: its pipe is closed then.

    Parameters
    ----------
    n_workers : int or None, default=None
        The number of processes. None takes one for each core.
    restarts : int, default=3
        How often lost workers are started again in one pass, all workers together.

    Examples
    --------
    >>> with ProcessWorkers(2) as workers:
    ...     workers.n_workers
    2
    """

    def __init__(self, n_workers: int | None = None, *, restarts: int = 3) -> None:
        n_workers = resolve_jobs(None) if n_workers is None else check_integer(n_workers, "n_workers", 1)
        self._processes: dict[int, _Process] = {}
        super().__init__(n_workers, restarts)

    def _start(self, numbers: list[int]) -> None:
        for number in numbers:
            self._processes[number] = _start_process()

    def _send(self, number: int, request: bytes, common: bytes | None) -> None:
        with suppress(OSError):  # the process has ended, which `_receive` finds
            self._processes[number].pipe.send_bytes(pack_message(request, common))

    def _receive(self, numbers: list[int], seconds: float) -> Iterator[tuple[int, bytes | Lost]]:
        owners: dict[Any, int] = {self._processes[number].pipe: number for number in numbers}
        for pipe in wait(list(owners), seconds):
            number = owners[pipe]
            try:
                yield number, self._processes[number].pipe.recv_bytes()
            except (EOFError, OSError):
                code = self._processes[number].process.wait()
                yield number, Lost(f"process {self._processes[number].process.pid} ended with code {code}")

    def _stop(self, number: int) -> None:
        if (process := self._processes.pop(number, None)) is not None:
            process.pipe.close()
            process.process.kill()
            process.process.wait()

    def free_bytes(self) -> int:
        """Return the number of bytes of free memory for each process."""
        return system.free_bytes() // self.n_workers

    def process_ids(self) -> list[int]:
        """Return the ids of the processes, in the order of the workers."""
        return [self._processes[number].process.pid for number in sorted(self._processes)]


_PROGRAM = "from supquant.distributed.worker import serve; serve({})"
"""What a worker runs."""


@dataclass(frozen=True)
class _Process:
    process: subprocess.Popen[bytes]
    pipe: system.Pipe


def _start_process() -> _Process:
    """Start a worker. Ctrl-C in a terminal reaches only this process, which ends the worker."""
    ours, theirs = multiprocessing.Pipe()
    paths = [path for path in sys.path if path]
    if len(paths) < len(
        sys.path
    ):  # an interactive session imports from the current folder, but first of all from elsewhere
        paths.append(str(Path.cwd()))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    with theirs:
        # -P: otherwise a module of the current folder would take the place of any that is installed.
        process = system.start_worker(
            lambda number: [sys.executable, "-P", "-c", _PROGRAM.format(number)], theirs, environment
        )
    return _Process(process, ours)
