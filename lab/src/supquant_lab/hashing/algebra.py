"""Below the hashing methods: the small computations that several of them share."""

from __future__ import annotations

from typing import Any

import numpy as np

from supquant.algebra import leading_eigenvectors
from supquant.arrays import Array, Float64


def signs(values: Array, dtype: type[np.number[Any]] = np.float64) -> Array:
    """Return 1 where a value is above zero or a flag is true, else -1.

    Parameters
    ----------
    values : ndarray of any shape, numbers or bool
    dtype : NumPy scalar type, default=numpy.float64

    Returns
    -------
    ndarray of the shape of `values` and of `dtype`

    Examples
    --------
    >>> signs(np.array([0.5, 0.0, -2.0]))
    array([ 1., -1., -1.])
    """
    return np.where(values > 0, dtype(1), dtype(-1))


def add_ridge(matrix: Float64, ridge: float, squares: Float64) -> Float64:
    """Add a ridge to the diagonal of a matrix (d, d), in place, and return the matrix.

    The ridge is relative: its unit is the mean of the diagonal of `squares` (d, d), or 1 if that mean is zero.

    Examples
    --------
    >>> squares = np.array([[2.0, 0.5], [0.5, 6.0]])
    >>> add_ridge(squares.copy(), 0.5, squares)
    array([[4. , 0.5],
           [0.5, 8. ]])
    """
    matrix[np.diag_indices_from(matrix)] += ridge * (float(np.diag(squares).mean()) or 1.0)
    return matrix


def top_eigenvectors(matrix: Float64, count: int) -> Float64:
    """Return the eigenvectors (d, count) with the largest eigenvalues of a symmetric matrix (d, d), the largest first."""
    return leading_eigenvectors(matrix, count)[1]
