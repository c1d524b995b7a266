"""What fits need of CUDA's own libraries: arrays with the functions of NumPy, and Cholesky factors."""

from __future__ import annotations

from typing import Any

import cupy as arrays
import cupyx
import numpy as np
from cupyx.scipy.linalg import solve_triangular

__all__ = ["arrays", "cholesky", "free_bytes", "solve_cholesky"]


def cholesky(matrix: Any) -> Any:
    """Return the lower factor (d, d) of a matrix (d, d) on the GPU; None if rounding made it indefinite."""
    try:
        with cupyx.errstate(linalg="raise"):
            lower = arrays.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return lower if bool(arrays.isfinite(lower[-1, -1])) else None


def solve_cholesky(lower: Any, right: Any) -> Any:
    """Return the solution (d, k) of ``lower @ lower.T @ solution = right``."""
    return solve_triangular(lower, solve_triangular(lower, right, lower=True), lower=True, trans=1)


def free_bytes() -> int:
    """Return the bytes of the GPU's memory that are free, with those that CuPy keeps for new arrays."""
    return int(arrays.cuda.runtime.memGetInfo()[0] + arrays.get_default_memory_pool().free_bytes())
