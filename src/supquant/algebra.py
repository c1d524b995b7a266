"""Factors and eigenvectors of sums over rows, also for matrices that rounding made singular or slightly indefinite.

Such matrices are common: a kernel with more anchors than the vectors have dimensions, equal rows, constant columns, or a mean far
from zero all leave directions without variance.
"""

from __future__ import annotations

import numpy as np
import scipy  # its parts are loaded when they are first used

from supquant.arrays import Float64
from supquant.errors import InputError

__all__ = ["leading_eigenvectors", "positive_factor", "solve_positive"]


def positive_factor(matrix: Float64) -> Float64:
    """Return L (d, d), lower triangular with ``L L'`` equal to a positive matrix (d, d).

    If the matrix is not positive, because rounding errors are larger than its smallest eigenvalue, the smallest ridge that makes
    it so is added: a power of ten times the rounding error of its mean diagonal.

    Examples
    --------
    >>> positive_factor(np.array([[4.0, 0.0], [0.0, 9.0]]))
    array([[2., 0.],
           [0., 3.]])
    >>> singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    >>> lower = positive_factor(singular)
    >>> np.allclose(lower @ lower.T, singular)
    True
    """
    unit = np.finfo(np.float64).eps * (float(np.abs(np.diag(matrix)).sum()) / max(len(matrix), 1) or 1.0)
    for ridge in (0.0, *(unit * 10.0**power for power in range(17))):
        raised = matrix + ridge * np.eye(len(matrix)) if ridge else matrix
        try:
            lower: Float64 = scipy.linalg.cholesky(raised, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(lower[-1:, -1:]).all():  # a value that is not finite spreads to the last one
            return lower
    raise InputError("sums over the rows of X are not finite: divide X by a constant")


def solve_positive(matrix: Float64, right: Float64) -> Float64:
    """Return the solution (d, k) of ``matrix @ solution = right`` for a positive matrix (d, d), as `positive_factor` takes it.

    Examples
    --------
    >>> solve_positive(np.array([[4.0, 0.0], [0.0, 8.0]]), np.array([[2.0], [2.0]]))
    array([[0.5 ],
           [0.25]])
    """
    solution: Float64 = scipy.linalg.cho_solve((positive_factor(matrix), True), right, check_finite=False)
    return solution


def leading_eigenvectors(matrix: Float64, count: int) -> tuple[Float64, Float64]:
    """Return the `count` largest eigenvalues of a symmetric matrix (d, d), and their eigenvectors (d, count), the largest first.

    Examples
    --------
    >>> values, vectors = leading_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2)
    >>> values, abs(vectors)
    (array([3., 2.]), array([[0., 0.],
           [1., 0.],
           [0., 1.]]))
    """
    d = len(matrix)
    try:
        values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(d - count, d - 1))
    except np.linalg.LinAlgError:  # LAPACK's fastest routine fails where most eigenvalues are nearly equal
        values, vectors = scipy.linalg.eigh(matrix, driver="ev")
    return values[::-1][:count], vectors[:, ::-1][:, :count]
