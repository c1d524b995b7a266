"""Report: the speed of GIST descriptors, and their agreement with the reference."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant_lab.datasets import data_folder
from supquant_lab.datasets.npz import read_arrays
from supquant_lab.gist import gist_descriptors
from supquant_lab.machine import describe_machine, peak_memory_mb

if TYPE_CHECKING:
    from collections.abc import Callable

    from supquant.progress import Progress


SECONDS_LIMIT = 360.0
"""60,000 pictures should take at most this many seconds on two cores."""

CORRELATION_LIMIT = 0.999
"""The correlation with the reference should be at least this in every dimension."""


def bench_gist(
    *, n_images: int = 60_000, callback: Callable[[Progress], None] | None = None
) -> dict[str, Any]:
    """Time the descriptors of pictures of 32 x 32 pixels on all cores.

    The pictures are those of cifar10_sample.npz, repeated, if it is in the data folder; otherwise they are random.

    Parameters
    ----------
    n_images : int
    callback : callable, optional
        Gets `Progress` events.

    Returns
    -------
    dict
        A record for `json`. `processor_seconds` is the work of all threads; `load_average_before` says how busy the machine
        was. `agreement` compares with the descriptors of the sample: the lowest correlation of the 512 dimensions and the
        largest difference; it is None without the sample.
    """
    n_images = check_integer(n_images, "n_images", 1)
    sample = data_folder() / "cifar10_sample.npz"
    agreement = None
    if sample.is_file():
        some, reference = read_arrays(sample, ("images", "gist"))
        agreement = _compare(gist_descriptors(some), reference)
    else:
        some = np.random.default_rng(0).integers(256, size=(1500, 32, 32, 3), dtype=np.uint8)
    images = some[np.arange(n_images) % len(some)]
    before, load = peak_memory_mb(), os.getloadavg()[0]
    began, began_work = time.perf_counter(), time.process_time()
    gist_descriptors(images, callback=callback)
    seconds, work = time.perf_counter() - began, time.process_time() - began_work
    return {
        "benchmark": "gist",
        "pictures": "cifar10_sample" if sample.is_file() else "random",
        "images": n_images,
        "threads": resolve_jobs(None),
        "seconds": seconds,
        "seconds_limit": SECONDS_LIMIT,
        "processor_seconds": work,
        "load_average_before": load,
        "images_per_second": n_images / seconds,
        "images_mb": images.nbytes / 1e6,
        "peak_memory_mb_before": before,
        "peak_memory_mb": peak_memory_mb(),
        "agreement": agreement,
        "correlation_limit": CORRELATION_LIMIT,
        "machine": describe_machine(),
    }


def _compare(descriptors: Array, reference: Array) -> dict[str, float]:
    """Return how descriptors (n, 512) agree with a reference (n, 512), dimension by dimension."""
    ours, theirs = (rows - rows.mean(axis=0, dtype=np.float64) for rows in (descriptors, reference))
    correlations = (ours * theirs).sum(axis=0) / np.sqrt(
        np.square(ours).sum(axis=0) * np.square(theirs).sum(axis=0)
    )
    return {
        "images": len(reference),
        "lowest_correlation": float(correlations.min()),
        "largest_difference": float(np.abs(descriptors - reference).max()),
        "largest_value": float(np.abs(reference).max()),
    }
