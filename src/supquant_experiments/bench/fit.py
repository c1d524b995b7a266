"""Report: how long a fit takes, as a multiple of one matrix product over the same rows."""

from __future__ import annotations

import time
from dataclasses import asdict
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant.evaluation import evaluate_tables
from supquant.features import AnchorKernel
from supquant.quantizers import SupervisedQuantizer
from supquant.validation import resolve_jobs
from supquant_experiments.bench.data import benchmark_data
from supquant_experiments.bench.memory import measure_fits
from supquant_experiments.machine import describe_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from supquant.progress import Progress

ANCHORS = 1000
BITS = 16
RATIO_LIMIT = 40.0
MEMORY_ROWS = (200_000, 400_000)
QUICK_MEMORY_ROWS = (20_000,)


def bench_fit(
    *,
    quick: bool = False,
    memory: bool = True,
    memory_folder: str | None = None,
    callback: Callable[[Progress], None] | None = None,
    on_memory: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Time `joint` at 16 bits and one float32 product X'X of the features that it fits.

    The features are 1,000 anchors' kernels; making them is part of the fit.

    Parameters
    ----------
    quick : bool
        A few thousand rows, and a smaller file for the memory.
    memory : bool
        Whether to measure the memory of fitting memory-mapped files too; see `bench.memory`.
    memory_folder : path, optional
        Where those files are made (1.6 GB).
    callback : callable, optional
        Gets the fit's `Progress`.
    on_memory : callable
        Told the number of rows before each memory measurement.

    Returns
    -------
    dict
        Ready for `json`.
    """
    data = benchmark_data(quick=quick)
    quantizer = SupervisedQuantizer(
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
        quantizer.tables(data.queries), quantizer.training_codes_, data.query_labels, data.labels
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
        "memory": _measure_memory(QUICK_MEMORY_ROWS if quick else MEMORY_ROWS, memory_folder, on_memory)
        if memory
        else [],
        "machine": describe_machine(),
    }


def time_product(X: npt.NDArray[np.float32], repeats: int = 5) -> float:
    """Give the median seconds of ``X.T @ X`` with all BLAS threads, after one product that warms them up.

    Examples
    --------
    >>> time_product(np.ones((10, 3), dtype=np.float32)) > 0
    True
    """
    X = np.ascontiguousarray(X, dtype=np.float32)
    seconds = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        X.T @ X
        seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


def _measure_memory(
    row_counts: Sequence[int], folder: str | None, on_memory: Callable[[int], None] | None
) -> list[dict[str, Any]]:
    return [asdict(use) for use in measure_fits(row_counts, folder=folder, on_row_count=on_memory)]
