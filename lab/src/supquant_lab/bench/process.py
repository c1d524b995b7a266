"""Report: measurements in a fresh process, whose memory holds nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from supquant.errors import InputError
from supquant.system import wait_for_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WATCH_SECONDS = 0.02
"""Seconds between two looks at the memory of a process."""

Result = TypeVar("Result")


@contextmanager
def temporary_folder(within: str | Path | None = None) -> Iterator[Path]:
    """Make a folder for the files of a measurement, and remove it at the end.

    Parameters
    ----------
    within : path, default=None
        The parent folder, which is created if it does not exist. None stands for the system's temporary folder.
    """
    if within is not None:
        Path(within).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="supquant-bench-", dir=within) as name:
        yield Path(name)


def run_fresh(function: Callable[..., Result], *arguments: object, purpose: str) -> Result:
    """Call a function of a module in a fresh Python process, and return its result.

    Parameters
    ----------
    function : callable
        A function at the top of its module. Arguments and result travel as JSON, so paths arrive as text.
    *arguments : object
    purpose : str
        What the process is for, as it follows "could not" in an error.

    Raises
    ------
    InputError
        If the process fails. The message holds the last line that the process wrote.

    Examples
    --------
    >>> import math
    >>> run_fresh(math.sqrt, 4, purpose="take a root")
    2.0
    >>> run_fresh(math.sqrt, -1, purpose="take a root")
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: could not take a root: ValueError: math domain error
    """
    return run_watched(function, *arguments, purpose=purpose, watch=False)[0]


def run_watched(
    function: Callable[..., Result], *arguments: object, purpose: str, watch: bool = True
) -> tuple[Result, float]:
    """Do as `run_fresh`, and return also the peak anonymous memory of the process in MB, seen from outside."""
    call = json.dumps([function.__module__, function.__qualname__, arguments], default=str)
    peak = 0.0
    with _start(__name__, [call]) as process:
        try:
            while watch and process.poll() is None:
                peak = max(peak, anonymous_mb(process.pid))
                time.sleep(WATCH_SECONDS)
            output, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise InputError(f"could not {purpose}: {last[0]}")
    result: Result = json.loads(output)
    return result, peak


def anonymous_mb(process_id: int | str) -> float:
    """Return RssAnon of a process in MB, which excludes the pages of mapped files; 0 if the process has ended."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")), "0")
    return int(kilobytes) * 1024 / 1e6


def _start(module: str, arguments: list[str]) -> subprocess.Popen[str]:
    """Start ``python -m module arguments``, with pipes for what it prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _main(call: str) -> None:
    """Call a function, and write its result as JSON to standard output, where nothing else may appear."""
    module, name, arguments = json.loads(call)
    threading.Thread(target=_end_with, args=[os.getppid()], daemon=True).start()
    with os.fdopen(os.dup(1), "w") as answer:
        os.dup2(2, 1)  # Ray, for one, prints when a node is lost
        json.dump(getattr(import_module(module), name)(*arguments), answer)
    os._exit(0)  # a simulated cluster that lost a node would take its time to end


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, in whatever way."""
    wait_for_end(parent)
    os._exit(1)


if __name__ == "__main__":
    _main(sys.argv[1])
