"""Report: the anonymous memory of a fit of a memory-mapped file, watched from another process."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant.errors import InputError
from supquant.parallel import row_blocks
from supquant.published import PublishedQuantizer
from supquant_lab.bench.process import run_fresh, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

COLUMNS = 1000
"""Number of columns of the files."""

LIMIT_MB = 500.0
LIMIT_BYTES_A_ROW = 20.0
"""A fit should take at most `LIMIT_MB` megabytes and `LIMIT_BYTES_A_ROW` bytes for each row."""


@dataclass(frozen=True)
class MemoryUse:
    """The peak memory of one fit, and its limit."""

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
    """Fit memory-mapped float32 files (n, 1000) with `features=None`, and return the memory of each fit.

    Parameters
    ----------
    row_counts : sequence of int
        Numbers of rows; each has a file and a fresh process.
    bits, max_iter : int
        Code length and iterations of a fit. The time depends on the iterations, the memory does not.
    folder : path, optional
        The folder for the files, 4,000 bytes a row; the system's folder for temporary files by default.
    on_row_count : callable
        Gets the number of rows before each fit.
    """
    if not Path("/proc/self/status").exists():
        raise InputError("anonymous memory is read from /proc, which this system does not have")
    measured = []
    for rows in row_counts:
        if on_row_count is not None:
            on_row_count(rows)
        with temporary_folder(folder) as place:
            write_clusters(place, rows)
            peak, seconds = _watch_fit(place, bits, max_iter)
        limit = LIMIT_MB + LIMIT_BYTES_A_ROW * rows / 1e6
        measured.append(MemoryUse(rows, COLUMNS, bits, max_iter, peak, limit, seconds))
    return measured


def write_clusters(folder: Path, rows: int, columns: int = COLUMNS, n_classes: int = 10) -> None:
    """Write X.npy (rows, columns) float32 in blocks, five clusters a class, and y.npy.

    Examples
    --------
    >>> with temporary_folder() as folder:
    ...     write_clusters(folder, 20, columns=3)
    ...     np.load(folder / "X.npy").shape
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
    """Run the fit in a fresh process; return its peak anonymous memory in MB and its seconds."""
    held = [0.0]
    found = run_fresh(
        __name__,
        folder,
        bits,
        max_iter,
        purpose=f"fit {folder}",
        watch=lambda process: held.append(anonymous_mb(process)),
    )
    return max(held), found["fit_seconds"]


def anonymous_mb(process_id: int | str) -> float:
    """Return RssAnon of a process in MB, which excludes the pages of mapped files; 0 if the process has ended."""
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
    PublishedQuantizer(bits // 8, features=None, max_iter=max_iter, random_state=0).fit(X, y)
    sys.stdout.write(json.dumps({"fit_seconds": time.perf_counter() - began}))


if __name__ == "__main__":
    _fit(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
