"""Report: measurements in a fresh process, whose memory holds nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WATCH_SECONDS = 0.02


@contextmanager
def temporary_folder(within: str | Path | None = None) -> Iterator[Path]:
    """Make a folder for the files of a measurement, and remove it at the end.

    Parameters
    ----------
    within : path, default=None
        The folder in which it is made, which is made too if there is none. None stands for the system's temporary folder.
    """
    if within is not None:
        Path(within).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="supquant-bench-", dir=within) as name:
        yield Path(name)


def run_fresh(
    module: str, *arguments: object, purpose: str, watch: Callable[[int], None] | None = None
) -> Any:
    """Run ``python -m module arguments`` and return what it prints as JSON, or None if it prints nothing.

    Parameters
    ----------
    module : str
    *arguments : object
        They are passed on as text.
    purpose : str
        What the process is for, as it follows "could not" in an error.
    watch : callable, optional
        Gets the process number every 20 ms while the process runs.

    Raises
    ------
    InputError
        If the process fails; it tells the last line that the process wrote.

    Examples
    --------
    >>> run_fresh("no_such_module", purpose="measure anything")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: could not measure anything: ...No module named no_such_module
    """
    with _start(module, [str(argument) for argument in arguments]) as process:
        try:
            while watch is not None and process.poll() is None:
                watch(process.pid)
                time.sleep(_WATCH_SECONDS)
            output, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = errors.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise InputError(f"could not {purpose}: {last[0]}")
    return json.loads(output) if output else None


def _start(module: str, arguments: list[str]) -> subprocess.Popen[str]:
    """Start ``python -m module arguments``, with pipes for what it prints."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
