"""Report: the time of fits over that of work of other libraries on the same rows, and the memory of large fits.

Default fits are measured in processor time on one thread. It does not count other programs of the machine, so a ratio of two such
times is steadier than one of seconds.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Array, Float32
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.parameters import resolve_jobs
from supquant.model import SupervisedQuantizer
from supquant.parallel import row_blocks, single_blas
from supquant.published import AnchorKernel, PublishedQuantizer
from supquant_lab.bench.data import benchmark_data
from supquant_lab.bench.process import run_watched, temporary_folder
from supquant_lab.bench.timing import processor_seconds, seconds_of
from supquant_lab.datasets import load
from supquant_lab.machine import describe_machine
from supquant_lab.problem import pose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from supquant.progress import Progress

ANCHORS = 1000
"""Number of anchors of the published features."""

BITS = 16
"""Length of a published code, in bits."""

RATIO_LIMIT = 40.0
"""A published fit should take at most as long as this many products."""

DEFAULT_BITS = 64
"""Length of a code of the default model, in bits."""

REGRESSION_ROWS, REGRESSION_C, REGRESSION_LIMIT = 8000, 10.0, 2.0
"""Rows of Banking77, C of the logistic regression, and the largest ratio that the times of a fit and of it should have."""

TOLERANCES = (1e-6, 1e-4)
"""Tolerances of the logistic regression: the first one has converged, the second is scikit-learn's default."""

PRODUCT_SHAPE, PRODUCT_LIMIT = (69_000, 4_000), 1.5
"""Shape of the float32 matrix X whose product X'X a fit of MNIST is compared with, and the largest ratio that it should have."""

QUICK_ROWS = 400
"""Rows of a quick default fit, which takes the digits of scikit-learn, and of its matrix."""

LABELS_COMMAND = "supquant bench labels --labels 1000 --bits 16"
"""The command that compares a fit of a thousand labels with one X'X."""

MEMORY_ROWS = (200_000, 400_000)
"""Numbers of rows of the files whose fits are watched for memory."""

QUICK_MEMORY_ROWS = (20_000,)
"""The same for a quick run."""

COLUMNS = 1000
"""Number of columns of these files."""

LIMIT_MB, LIMIT_BYTES_PER_ROW = 500.0, 20.0
"""Such a fit should take at most `LIMIT_MB` megabytes and `LIMIT_BYTES_PER_ROW` bytes per row."""


def bench_fit(
    *,
    quick: bool = False,
    default_fits: bool = True,
    memory: bool = True,
    memory_folder: Path | None = None,
    callback: Callable[[Progress], None] | None = None,
    on_memory: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Time a published fit with the joint solver at 16 bits, and one float32 product X'X of its features.

    The features are kernels of 1,000 anchors; the fit includes making them.

    Parameters
    ----------
    quick : bool
        Whether to take only a few thousand rows, and a smaller file for the memory.
    default_fits : bool
        Whether to compare also default fits with other libraries, as `bench_default_fits` does.
    memory : bool
        Whether to measure also the memory of fits of memory-mapped files, as `measure_memory` does.
    memory_folder : path, optional
        The folder for these files (1.6 GB).
    callback : callable, optional
        Gets the fit's `Progress`.
    on_memory : callable, optional
        Gets the number of rows before each memory measurement.

    Returns
    -------
    dict
        A record for `json`.
    """
    name, data = benchmark_data(quick=quick)
    quantizer = PublishedQuantizer(
        BITS // 8, features=AnchorKernel(ANCHORS, random_state=0), random_state=0, callback=callback
    )
    fit_seconds = seconds_of(lambda: quantizer.fit(data.X, data.y))
    quality = evaluate_tables(
        quantizer.codec_.tables(data.queries),
        quantizer.training_codes_,
        data.query_labels,
        data.database_labels,
    )
    features = quantizer.codec_.features(data.X)
    product_seconds = time_product(features)
    return {
        "benchmark": "fit",
        "dataset": name,
        "rows": len(data.X),
        "features": features.shape[1],
        "bits": BITS,
        "solver": quantizer.solver,
        "n_iter": quantizer.n_iter_,
        "threads": resolve_jobs(None),
        "fit_seconds": fit_seconds,
        "product_seconds": product_seconds,
        "ratio": fit_seconds / product_seconds,
        "ratio_limit": RATIO_LIMIT,
        "map": quality.map,
        "default_fits": bench_default_fits(quick=quick, callback=callback) if default_fits else {},
        "memory": measure_memory(
            QUICK_MEMORY_ROWS if quick else MEMORY_ROWS, folder=memory_folder, on_rows=on_memory
        )
        if memory
        else [],
        "machine": describe_machine(),
    }


def time_product(X: Float32, repeats: int = 5) -> float:
    """Return the median seconds of ``X.T @ X`` with all BLAS threads, after one product to warm up.

    Examples
    --------
    >>> time_product(np.ones((10, 3), dtype=np.float32)) > 0
    True
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    seconds = [seconds_of(lambda: X.T @ X) for _ in range(repeats + 1)]
    return median(seconds[1:])


def bench_default_fits(
    *, quick: bool = False, callback: Callable[[Progress], None] | None = None
) -> dict[str, dict[str, Any]]:
    """Compare a fit of Banking77 with a logistic regression, and one of MNIST with a matrix product; omit missing data.

    Parameters
    ----------
    quick : bool
        Whether to fit the digits of scikit-learn instead, in a few seconds.
    callback : callable, optional
        Gets the fits' `Progress`.

    Returns
    -------
    dict
        By the name of the data set, a record with `fit_seconds`, `ratio` and `ratio_limit`. All times are processor time on one
        thread.
    """
    records = {}
    with single_blas():
        for name in ("banking77", "mnist"):
            try:
                problem = pose(load("digits").sample(QUICK_ROWS) if quick else load(name))
            except InputError:  # the data are not there
                continue
            X, y = problem.X, problem.y
            if name == "banking77":
                chosen = np.random.default_rng(0).permutation(len(X))[:REGRESSION_ROWS]
                X, y = X[chosen], y[chosen]
            record = _default_fit(X, y, callback)
            seconds = record["fit_seconds"]
            compared = _regressions(X, y, seconds) if name == "banking77" else _product(seconds, quick=quick)
            records[name] = record | compared
    return records


def _default_fit(X: Array, y: Array, callback: Callable[[Progress], None] | None) -> dict[str, Any]:
    """Return the processor time of one fit, and the qualities that the model itself expects."""
    model = SupervisedQuantizer(DEFAULT_BITS // 8, random_state=0, n_jobs=1, callback=callback)
    seconds = processor_seconds(lambda: model.fit(X, y))
    summary = model.summary_
    assert summary is not None
    return {
        "rows": len(X),
        "dimensions": int(X.shape[1]),
        "bits": DEFAULT_BITS,
        "threads": 1,
        "fit_seconds": seconds,
        "map_labelled": summary.map_labelled,
        "map_unlabelled": summary.map_unlabelled,
        "map_new": summary.map_new,
    }


def _regressions(X: Array, y: Array, fit_seconds: float) -> dict[str, Any]:
    """Time scikit-learn's logistic regression on the same rows, once for each tolerance."""
    X = X.astype(np.float64)
    regressions = []
    for tolerance in TOLERANCES:
        model = LogisticRegression(C=REGRESSION_C, tol=tolerance, max_iter=100_000)
        seconds = processor_seconds(partial(model.fit, X, y))
        regressions.append(
            {
                "tolerance": tolerance,
                "seconds": seconds,
                "iterations": int(model.n_iter_[0]),
                "ratio": fit_seconds / seconds,
            }
        )
    return {"regressions": regressions, "ratio": regressions[0]["ratio"], "ratio_limit": REGRESSION_LIMIT}


def _product(fit_seconds: float, *, quick: bool) -> dict[str, Any]:
    """Time one product X'X of a float32 matrix, the median of three."""
    rows, columns = (QUICK_ROWS, QUICK_ROWS) if quick else PRODUCT_SHAPE
    X = np.random.default_rng(0).random((rows, columns), dtype=np.float32)
    seconds = median(processor_seconds(lambda: X.T @ X) for _ in range(3))
    return {
        "product_shape": [rows, columns],
        "product_seconds": seconds,
        "ratio": fit_seconds / seconds,
        "ratio_limit": PRODUCT_LIMIT,
    }


def measure_memory(
    row_counts: Sequence[int],
    *,
    bits: int = 64,
    max_iter: int = 3,
    folder: Path | None = None,
    on_rows: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Fit the published method without a kernel to memory-mapped float32 files (n, 1000), and watch the memory of each fit.

    Parameters
    ----------
    row_counts : sequence of int
        Numbers of rows; each has a file and a fresh process.
    bits, max_iter : int
        Code length and iterations of a fit. The time depends on the iterations, the memory does not.
    folder : path, optional
        The folder for the files, 4,000 bytes per row; the system's folder for temporary files by default.
    on_rows : callable, optional
        Gets the number of rows before each fit.

    Returns
    -------
    list of dict
        `peak_anonymous_mb` of each fit, with its `limit_mb`, seconds and size.
    """
    if not Path("/proc/self/status").exists():
        raise InputError("anonymous memory is read from /proc, which this system does not have")
    measured = []
    for rows in row_counts:
        if on_rows is not None:
            on_rows(rows)
        with temporary_folder(folder) as place:
            write_clusters(place, rows, COLUMNS)
            seconds, peak = run_watched(_fit_mapped, place, bits, max_iter, purpose=f"fit {place}")
        measured.append(
            {
                "rows": rows,
                "columns": COLUMNS,
                "bits": bits,
                "max_iter": max_iter,
                "peak_anonymous_mb": peak,
                "limit_mb": LIMIT_MB + LIMIT_BYTES_PER_ROW * rows / 1e6,
                "fit_seconds": seconds,
            }
        )
    return measured


def write_clusters(folder: Path, rows: int, columns: int, n_classes: int = 10) -> None:
    """Write X.npy (rows, columns) float32 in blocks, five clusters per class, and y.npy.

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


def _fit_mapped(folder: str, bits: int, max_iter: int) -> float:
    """Fit the files of a folder in this process, and return the seconds."""
    X = np.load(Path(folder, "X.npy"), mmap_mode="r")
    y = np.load(Path(folder, "y.npy"))
    quantizer = PublishedQuantizer(bits // 8, features=None, max_iter=max_iter, random_state=0)
    began = time.perf_counter()
    quantizer.fit(X, y)
    return time.perf_counter() - began
