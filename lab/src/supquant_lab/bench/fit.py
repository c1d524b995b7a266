"""Report: the time of a fit, as a multiple of one matrix product over the same rows."""

from __future__ import annotations

import time
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant.evaluation import evaluate_tables
from supquant.inputs.parameters import resolve_jobs
from supquant.published import PublishedQuantizer
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.bench.clock import seconds_of
from supquant_lab.bench.data import benchmark_data
from supquant_lab.bench.default_fit import bench_default_fits
from supquant_lab.bench.memory import measure_fits
from supquant_lab.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from supquant.progress import Progress

ANCHORS = 1000
"""Number of anchors of the kernel features."""

BITS = 16
"""Length of a code."""

RATIO_LIMIT = 40.0
"""A fit should take at most as long as this many products."""

MEMORY_ROWS = (200_000, 400_000)
"""Numbers of rows of the files whose fits are watched for memory."""

QUICK_MEMORY_ROWS = (20_000,)
"""The same for a quick run."""


def bench_fit(
    *,
    quick: bool = False,
    default_fits: bool = True,
    memory: bool = True,
    memory_folder: str | None = None,
    callback: Callable[[Progress], None] | None = None,
    on_memory: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Time a fit of the joint solver at 16 bits, and one float32 product X'X of its features.

    The features are kernels of 1,000 anchors; the fit includes making them.

    Parameters
    ----------
    quick : bool
        Whether to take only a few thousand rows, and a smaller file for the memory.
    default_fits : bool
        Whether to time also default fits beside other libraries; see `bench.default_fit`.
    memory : bool
        Whether to measure also the memory of fits of memory-mapped files; see `bench.memory`.
    memory_folder : path, optional
        The folder for these files (1.6 GB).
    callback : callable, optional
        Gets the fit's `Progress`.
    on_memory : callable
        Gets the number of rows before each memory measurement.

    Returns
    -------
    dict
        A record for `json`.
    """
    data = benchmark_data(quick=quick)
    quantizer = PublishedQuantizer(
        BITS // 8,
        features=AnchorKernel(ANCHORS, random_state=0),
        solver="joint",
        random_state=0,
        callback=callback,
    )
    began = time.perf_counter()
    quantizer.fit(data.X, data.y)
    fit_seconds = time.perf_counter() - began
    quality = evaluate_tables(
        quantizer.codec_.tables(data.queries), quantizer.training_codes_, data.query_labels, data.labels
    )
    features = quantizer.codec_.features(data.X)
    product_seconds = time_product(features)
    return {
        "benchmark": "fit",
        "dataset": data.name,
        "rows": len(data.X),
        "features": features.shape[1],
        "bits": BITS,
        "solver": "joint",
        "n_iter": quantizer.n_iter_,
        "threads": resolve_jobs(None),
        "fit_seconds": fit_seconds,
        "product_seconds": product_seconds,
        "ratio": fit_seconds / product_seconds,
        "ratio_limit": RATIO_LIMIT,
        "map": quality.map,
        "default_fits": bench_default_fits(quick=quick, callback=callback) if default_fits else {},
        "memory": _measure_memory(QUICK_MEMORY_ROWS if quick else MEMORY_ROWS, memory_folder, on_memory)
        if memory
        else [],
        "machine": describe_machine(),
    }


def time_product(X: npt.NDArray[np.float32], repeats: int = 5) -> float:
    """Return the median seconds of ``X.T @ X`` with all BLAS threads, after one product to warm up.

    Examples
    --------
    >>> time_product(np.ones((10, 3), dtype=np.float32)) > 0
    True
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    seconds = [seconds_of(lambda: X.T @ X) for _ in range(repeats + 1)]
    return median(seconds[1:])


def _measure_memory(
    row_counts: Sequence[int], folder: str | None, on_memory: Callable[[int], None] | None
) -> list[dict[str, Any]]:
    return [asdict(use) for use in measure_fits(row_counts, folder=folder, on_row_count=on_memory)]
