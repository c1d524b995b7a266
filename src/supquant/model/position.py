"""Vectors to features: the position of a vector, in coordinates and a metric in which classes lie close together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.inputs.labels import Labels
from supquant.kernels.fitting import gpu_for, leading_eigenvectors, product, unit_products
from supquant.model.feature_map import unit_rows
from supquant.parallel import row_blocks
from supquant.rows import Rows, sum_rows

VARIANCE_KEPT = 0.99
"""Fraction of the variance of unit vectors that the principal directions hold, unless that takes more than `MAX_DIRECTIONS`."""

MAX_DIRECTIONS = 256
"""Maximum number of principal directions."""

MAX_ROWS = 1 << 14
"""With at least twice this number of rows, the principal directions are those of every k-th row, and of at least this many in
all."""


@dataclass(frozen=True)
class Directions:
    """Principal directions of unit vectors."""

    mean: Float32  # (p,)
    vectors: Float32  # (p, k), orthonormal

    def __call__(self, x: NDArray[Any]) -> Float32:
        """Return the coordinates (b, k) of vectors (b, p)."""
        return _unit_products(x, self.mean, self.vectors)


def _unit_products(x: NDArray[Any], mean: Float32, matrix: Float32) -> Float32:
    """Return the products (b, k) of rows x (b, p), divided by their lengths, less a mean (p,), with a matrix (p, k)."""
    if (gpu := gpu_for(len(x) * matrix.size)) is not None:
        return unit_products(gpu, x, mean, matrix)
    return np.asarray((unit_rows(x) - mean) @ matrix, dtype=np.float32)


def principal_directions(X: NDArray[Any] | Rows, n_jobs: int) -> Directions:
    """Return the directions that hold most of the variance of the rows of X (n, p), each divided by its length.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.8, 0.0]])
    >>> principal_directions(X, 1).vectors.shape
    (3, 2)
    """
    p = X.shape[1]
    every = max(1, len(X) // MAX_ROWS)
    total, products = sum_rows(_unit_sums, X, every, n_jobs)
    n = sum(len(range(start, stop, every)) for start, stop in row_blocks(len(X)))
    mean = total / n
    covariance = products / n - np.outer(mean, mean)
    most = min(MAX_DIRECTIONS, p)
    variances, vectors = leading_eigenvectors(covariance, most)
    held = np.cumsum(np.maximum(variances, 0))
    kept = int(np.searchsorted(held, VARIANCE_KEPT * max(float(np.trace(covariance)), 0.0))) + 1
    leading = vectors[:, : min(kept, most)]
    return Directions(mean.astype(np.float32), np.ascontiguousarray(leading, dtype=np.float32))


def _unit_sums(x: NDArray[Any], every: int) -> tuple[Float64, Float32]:
    """Return the sum and the products of every k-th row of a block."""
    units = unit_rows(x[::every])
    return units.sum(axis=0, dtype=np.float64), units.T @ units


def within_scatter(coordinates: NDArray[Any], labels: Labels) -> Float64:
    """Return the covariance (k, k) of coordinates (n, k) around the means of their classes.

    With several labels per row, it is the covariance around the least-squares prediction from the labels.
    """
    Y = labels.sparse()
    counts = np.asarray(Y.sum(axis=0))
    small = 1e-9 + 1e-6 * float(counts.mean())
    if labels.multilabel:
        gram = (Y.T @ Y).tocsc()
        gram.setdiag(gram.diagonal() + small)
        means = scipy.sparse.linalg.splu(gram).solve(Y.T @ coordinates.astype(np.float64))
    else:
        means = (Y.T @ coordinates) / (counts + small)[:, None]
    left = coordinates - (Y.astype(coordinates.dtype) @ means.astype(coordinates.dtype))
    return product(left.T, left).astype(np.float64) / len(left)


def metric_of(scatter: Float64, ridge: float) -> tuple[Float64, Float64]:
    """Return the root (k, k) of the metric ``(S + ridge mean(S) I)^-1``, and the inverse (k, k) of this root.

    In this metric, directions in which classes are wide count less. With an infinite ridge it is the identity.

    Examples
    --------
    >>> root, inverse = metric_of(np.diag([3.0, 1.0]), np.inf)
    >>> bool((root == np.eye(2)).all())
    True
    """
    if np.isinf(ridge):
        return np.eye(len(scatter)), np.eye(len(scatter))
    variances, vectors = np.linalg.eigh(scatter)
    roots = root_spreads(variances, ridge)
    return (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T


def root_spreads(variances: Float64, ridge: float) -> Float64:
    """Return the divisors (k,) of coordinates along the eigenvectors of S in the metric with a ridge, given the eigenvalues of S.

    Examples
    --------
    >>> root_spreads(np.array([1.0, 3.0]), 0.5)
    array([1.41421356, 2.        ])
    >>> root_spreads(np.array([1.0, 3.0]), np.inf)
    array([1., 1.])
    """
    level = float(variances.mean())
    if np.isinf(ridge) or level <= 0:
        return np.ones(len(variances))
    return np.sqrt(np.maximum(variances, 0) + ridge * level)


@dataclass(frozen=True, eq=False)
class Metric:
    """How unit vectors become positions, whose mean squared length is one for the rows that it was learned from."""

    mean: Float32  # (p,)
    matrix: Float32  # (p, g) from centred unit vectors to z
    cosine: Float32  # (p, g) from unit vectors to c; c . z is a cosine, less a constant of the first vector

    def placed(self, x: Float32) -> Float32:
        """Return z (b, g) of vectors (b, p)."""
        return _unit_products(x, self.mean, self.matrix)


def learn_metric(directions: Directions, x: Float32, scatter: Float64, ridge: float) -> Metric:
    """Return the metric with a ridge, given the scatter (g, g) within classes along the directions, and rows x (n, p)."""
    root, inverse = metric_of(scatter, ridge)
    length = root_mean_square(product(directions(x), root))
    vectors = directions.vectors.astype(np.float64)
    return Metric(
        directions.mean,
        (vectors @ root / length).astype(np.float32),
        (vectors @ inverse * length).astype(np.float32),
    )


def root_mean_square(rows: NDArray[Any]) -> float:
    """Return the root of the mean squared length of rows (n, k); 1 if all rows are zero.

    Examples
    --------
    >>> root_mean_square(np.array([[3.0, 4.0], [0.0, 5.0]]))
    5.0
    """
    return float(np.sqrt(np.einsum("ij,ij->", rows, rows, dtype=np.float64) / len(rows))) or 1.0
