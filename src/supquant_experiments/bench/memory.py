"""Report: the anonymous memory that the fit of a memory-mapped file takes, watched from another process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant.errors import InputError
from supquant.parallel import row_blocks
from supquant.quantizers import SupervisedQuantizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS = 1000
LIMIT_MB = 500.0
LIMIT_BYTES_A_ROW = 20.0
_SAMPLE_SECONDS = 0.02


@dataclass(frozen=True)
class MemoryUse:
    """The peak of one fit, beside its limit."""

    rows: int
    columns: int
    bits: int
    max_iter: int
    peak_anonymous_mb: float
    limit_mb: float
    fit_seconds: float


def measure_fits(
    row_counts: Sequence[int],
    *,
    bits: int = 64,
    max_iter: int = 3,
    folder: str | None = None,
    on_row_count: Callable[[int], None] | None = None,
) -> list[MemoryUse]:
    """Fit memory-mapped (n, 1000) float32 files, `features=None`, and watch each fit's anonymous memory.

    Parameters
    ----------
    row_counts : sequence of int
        One file and one fresh process for each.
    bits, max_iter : int
        Of the fit. Memory does not depend on the number of iterations, time does.
    folder : path, optional
        Where the files are made; 4,000 bytes a row are needed. The system's folder for temporary files if
        None.
    on_row_count : callable
        Told the size before each fit.
    """
    if not Path("/proc/self/status").exists():
        raise InputError("anonymous memory is read from /proc, which this system does not have")
    measured = []
    for rows in row_counts:
        if on_row_count is not None:
            on_row_count(rows)
        with tempfile.TemporaryDirectory(prefix="supquant-bench-", dir=folder) as place:
            write_clusters(Path(place), rows)
            peak, seconds = _watch_fit(Path(place), bits, max_iter)
        limit = LIMIT_MB + LIMIT_BYTES_A_ROW * rows / 1e6
        measured.append(MemoryUse(rows, COLUMNS, bits, max_iter, peak, limit, seconds))
    return measured


def write_clusters(folder: Path, rows: int, columns: int = COLUMNS, n_classes: int = 10) -> None:
    """Write X.npy (rows, columns) float32 in blocks, five clusters a class, and y.npy.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_clusters(Path(folder), 20, columns=3)
    ...     np.load(Path(folder) / "X.npy").shape
    (20, 3)
    """
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(5 * n_classes, columns)).astype(np.float32)
    clusters = rng.integers(len(centres), size=rows)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float32, shape=(rows, columns))
    for start, stop in row_blocks(rows):
        X[start:stop] = centres[clusters[start:stop]]
        X[start:stop] += rng.standard_normal((stop - start, columns), dtype=np.float32)
    X.flush()
    np.save(folder / "y.npy", clusters % n_classes)


def _watch_fit(folder: Path, bits: int, max_iter: int) -> tuple[float, float]:
    """Run the fit in a fresh process; give its peak anonymous memory in MB and its seconds."""
    command = [sys.executable, "-m", __name__, str(folder), str(bits), str(max_iter)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            peak = 0.0
            while process.poll() is None:
                peak = max(peak, _anonymous_mb(process.pid))
                time.sleep(_SAMPLE_SECONDS)
        except BaseException:
            process.kill()
            raise
        output, errors = process.communicate()
    if process.returncode:
        raise InputError(f"the fit of {folder} failed: {errors.strip().splitlines()[-1:]}")
    return peak, json.loads(output)["fit_seconds"]


def _anonymous_mb(process_id: int) -> float:
    """Read RssAnon, which leaves out the pages of mapped files."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")), "0")
    return int(kilobytes) * 1024 / 1e6


def _fit(folder: Path, bits: int, max_iter: int) -> None:
    X = np.load(folder / "X.npy", mmap_mode="r")
    y = np.load(folder / "y.npy")
    began = time.perf_counter()
    SupervisedQuantizer(bits // 8, features=None, max_iter=max_iter, random_state=0).fit(X, y)
    sys.stdout.write(json.dumps({"fit_seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    _fit(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
