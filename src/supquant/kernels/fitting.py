"""Products and factors of a fit, for arrays of NumPy: on the CPU, or on a GPU if `use_device` has chosen one.

On the CPU they are the expressions of NumPy and SciPy that they stand for. A GPU takes large ones only: small ones would take
longer on their way. Its sums have another order, which is the same in every run.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import algebra
from supquant.arrays import Float64
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.kernels import device

__all__ = ["gpu_for", "gpu_solution", "leading_eigenvectors", "nearest_centres", "product", "unit_products"]

MIN_WORK = 1 << 27
"""A product with fewer multiplications stays on the CPU, where it takes about ten milliseconds."""


def gpu_for(work: int) -> ModuleType | None:
    """Return the kernels of the GPU, if it is chosen and there are at least `MIN_WORK` multiplications; else None."""
    return None if work < MIN_WORK else device.chosen_gpu()


def product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """Return ``a @ b``.

    Examples
    --------
    >>> product(np.eye(2), np.ones((2, 1)))
    array([[1.],
           [1.]])
    """
    gpu = gpu_for(len(a) * b.size)
    if gpu is None:
        return np.asarray(a @ b)
    made: NDArray[Any] = copy_to_host(gpu.arrays.asarray(a) @ gpu.arrays.asarray(b))
    return made


def unit_products(gpu: ModuleType, x: NDArray[Any], mean: NDArray[Any], matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the products (n, k) float32 of rows x (n, p), divided by their lengths, less a mean (p,), with a matrix (p, k)."""
    arrays = gpu.arrays
    rows = arrays.asarray(x)
    squares = arrays.square(rows.astype(np.float64)).sum(axis=1)[:, None]
    units = (rows / arrays.sqrt(arrays.where(squares > 0, squares, 1))).astype(np.float32)
    made: NDArray[Any] = copy_to_host((units - arrays.asarray(mean)) @ arrays.asarray(matrix))
    return made


def nearest_centres(
    gpu: ModuleType, scaled: NDArray[Any], weights: NDArray[Any], sizes: NDArray[Any], pull: NDArray[Any]
) -> NDArray[np.intp]:
    """Return the numbers (n,) of the least of ``scaled @ pull + weights @ sizes`` in every row.

    Rows are `scaled` (n, D), with weights (n, 2) of sizes (2, K), and the pull is (D, K).
    """
    rows, others = gpu.arrays.asarray(scaled), gpu.arrays.asarray(weights)
    costs = rows @ gpu.arrays.asarray(pull) + others @ gpu.arrays.asarray(sizes)
    found: NDArray[np.intp] = copy_to_host(costs.argmin(axis=1))
    return found


def gpu_solution(gpu: ModuleType, gram: Float64, right: Float64) -> Float64 | None:
    """Return the solution (d, k) of ``gram @ solution = right`` by a float32 factor; None if rounding made gram indefinite."""
    lower = gpu.cholesky(gpu.arrays.asarray(gram.astype(np.float32)))
    if lower is None:
        return None
    found = copy_to_host(gpu.solve_cholesky(lower, gpu.arrays.asarray(right.astype(np.float32))))
    return np.asarray(found, dtype=np.float64)


def leading_eigenvectors(matrix: Float64, count: int) -> tuple[Float64, Float64]:
    """Return the `count` largest eigenvalues of a matrix (d, d), and their eigenvectors, as `algebra.leading_eigenvectors` does.

    Examples
    --------
    >>> leading_eigenvectors(np.diag([1.0, 3.0]), 1)[0]
    array([3.])
    """
    gpu = gpu_for(len(matrix) ** 3)
    if gpu is None:
        return algebra.leading_eigenvectors(matrix, count)
    values, vectors = (copy_to_host(each) for each in gpu.arrays.linalg.eigh(gpu.arrays.asarray(matrix)))
    return values[::-1][:count], vectors[:, ::-1][:, :count]
