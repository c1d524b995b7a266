"""Report: a service in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Self

from supquant.errors import InputError
from supquant_lab.bench.process import anonymous_mb

if TYPE_CHECKING:
    from types import TracebackType

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
        if self._process.poll() is None:
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
