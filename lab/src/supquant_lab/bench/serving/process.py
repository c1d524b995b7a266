"""Report: a service in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Self

import numpy as np

from supquant.errors import InputError
from supquant_lab.bench.process import anonymous_mb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"
"""The tokens of `write_tokens`."""

MAX_GROWTH_MB = 8.0
"""A service whose memory grows by more than this number of megabytes from the first third to the last has a leak."""

_ENDED_SECONDS = 60
"""Seconds that a service may take to end."""


class ServiceProcess:
    """Runs ``supquant serve`` until the end of a ``with`` block.

    Parameters
    ----------
    *arguments : object
        The arguments of the command.
    core : int, default=None
        The core that the process is bound to; None for any.
    module : str, default="supquant"
        The module that runs the command.
    port : int, default=0
        The port to listen on; 0 takes a free one.
    """

    def __init__(
        self, *arguments: object, core: int | None = None, module: str = "supquant", port: int = 0
    ) -> None:
        command = [sys.executable, "-m", module, "serve", *map(str, arguments), "--port", str(port)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # a pipe that nobody reads would fill, and stop the service
        self._process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        if core is not None:
            os.sched_setaffinity(self._process.pid, {core})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"at (http://\S+)/$", line.strip())
        if found is None:
            self._process.communicate()
            raise InputError(f"the service did not start: {self._read_errors().strip()[-500:]}")
        self.url = found[1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is KeyboardInterrupt:  # nobody waits for what it is answering
            self.kill()
        elif self._process.poll() is None:
            self.end()
        self._errors.close()

    def end(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit code and what was written to standard error."""
        self._process.terminate()
        self._process.communicate(timeout=_ENDED_SECONDS)
        return self._process.returncode, self._read_errors()

    def _read_errors(self) -> str:
        with self._errors:
            self._errors.seek(0)
            return self._errors.read()

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=_ENDED_SECONDS)
        self._errors.close()

    def memory_mb(self) -> float:
        """Return the anonymous memory of the process in MB, which excludes mapped files."""
        return anonymous_mb(self._process.pid)

    def processor_seconds(self) -> float:
        """Return the time in seconds that all threads of the process have had a core."""
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii") as file:  # noqa: PTH123  # no file of ours
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_tokens(place: Path) -> Path:
    """Write a file with a token to read and one to write, for ``--token-file``; return its path."""
    path = place / "tokens"
    path.write_text(f"read: {READ}\nwrite: {WRITE}\n")
    path.chmod(0o600)
    return path


def failures_at_end(code: int, errors: str, silent: bool = False) -> list[str]:
    """Return what is wrong with the end of a service, given its exit code and what it wrote to standard error.

    A ``silent`` service may not write anything; others no traceback.
    """
    failures = [f"the service ended with {code}"] if code else []
    return failures + ([errors[-3000:]] if "Traceback" in errors or (silent and errors) else [])


def growth_of(memory: Sequence[float]) -> tuple[dict[str, float], list[str]]:
    """Return the median of the first third and of the last third of sizes in MB, and the greatest, and whether they grow."""
    third = max(1, len(memory) // 3)
    # The first requests load what is loaded when it is first used.
    parts = {"first third": memory[third // 2 : third], "last third": memory[-third:]}
    sizes = {name: float(np.median(part)) if len(part) else 0.0 for name, part in parts.items()}
    first, last = sizes.values()
    failures = [f"the memory grew from {first:.0f} to {last:.0f} MB"] if last > first + MAX_GROWTH_MB else []
    return {**sizes, "most": max(memory, default=0.0)}, failures
