"""The time of work on a GPU, which goes on after a call has returned."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

__all__ = ["copy_bytes_per_second", "gpu_seconds"]


def gpu_seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """Return the median seconds of a call, from its begin until the GPU has nothing more to do. It is called once before."""
    import cupy as cp  # noqa: PLC0415  # an extra

    spent = []
    for turn in range(repeats + 1):
        cp.cuda.Device().synchronize()
        began = time.perf_counter()
        call()
        cp.cuda.Device().synchronize()
        if turn:
            spent.append(time.perf_counter() - began)
    return median(spent)


def copy_bytes_per_second(n_bytes: int = 1 << 33) -> float:
    """Return how many bytes a copy within the memory of the GPU reads and writes per second: the ceiling of a scan."""
    import cupy as cp  # noqa: PLC0415  # an extra

    source, target = cp.ones(n_bytes // 8, dtype=cp.int64), cp.empty(n_bytes // 8, dtype=cp.int64)
    return 2 * n_bytes / gpu_seconds(lambda: cp.copyto(target, source))
