"""Rows as the hashing methods see them, which of them share a label, and small computations that several methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import leading_eigenvectors
from supquant.arrays import Array, Flags, Float32, Float64
from supquant.codec.interface import FeatureMap
from supquant.inputs.labels import Labels
from supquant.published.rows import CodedRows, Moments
from supquant_lab.quality import relevance

Result = TypeVar("Result")


class HashRows:
    """The rows that a method learns from, with their labels.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Any real dtype; it is converted one block at a time.
    labels : Labels
        The labels of the n rows.
    feature_map : FeatureMap or None
        From vectors (b, p) to features (b, d); None takes the vectors as features.
    n_jobs : int
        Number of threads.
    """

    def __init__(self, X: NDArray[Any], labels: Labels, feature_map: FeatureMap | None, n_jobs: int) -> None:
        self.labels = labels
        self.feature_map = feature_map
        self.n_jobs = n_jobs
        no_codes = np.zeros((len(X), 0), dtype=np.uint8)
        self._rows = CodedRows(X, labels, no_codes, 1, features=feature_map, n_jobs=n_jobs)

    def __len__(self) -> int:
        return len(self.labels)

    def map_blocks(self, function: Callable[[Float32, tuple[int, int]], Result]) -> Iterator[Result]:
        """Apply a function to the features (b, d) and the (start, stop) of every block.

        The work is done on `n_jobs` threads. Results come in the order of the blocks.
        """
        return self._rows.map_features(function)

    def features(self) -> Float32:
        """Return the features (n, d) of all rows."""
        return np.concatenate(list(self.map_blocks(lambda x, _: x)))

    def centred_features(self) -> tuple[Float64, Float64]:
        """Return the features (n, d) less their mean, and the mean (d,)."""
        features = self.features().astype(np.float64)
        mean = features.mean(axis=0)
        features -= mean
        return features, mean

    def moments(self) -> Moments:
        """Return the sums over all rows that do not depend on codes."""
        return self._rows.moments()

    def share_label(self) -> Flags:
        """Return a matrix (n, n), true where two rows share a label."""
        return relevance(self.labels, self.labels, 0, len(self))


@dataclass(frozen=True)
class LabelGroups:
    """Groups of rows that carry the same labels.

    The matrix S (n, n) of pairs is 1 where two rows share a label, else -1. With the group of each row as an indicator
    matrix Z (n, g), ``S = 2 Z T Z' - 1 1'``.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> groups = LabelGroups.of(read_labels([[1, 0], [1, 1], [0, 1], [1, 0]]))
    >>> groups.of_row, groups.share_label
    (array([1, 2, 0, 1]), array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 1.]]))
    """

    of_row: NDArray[np.intp]  # (n,): the group of each row
    share_label: Float64  # T (g, g): 1 where two groups share a label, else 0

    @classmethod
    def of(cls, labels: Labels) -> Self:
        """Find the groups of labelled rows."""
        if labels.indices is not None:
            return cls(labels.indices.astype(np.intp), np.eye(labels.n_labels))
        Y = labels.dense(0, len(labels))  # (n, L)
        _, first, inverse = np.unique(
            np.packbits(Y > 0, axis=1), axis=0, return_index=True, return_inverse=True
        )
        return cls(inverse.ravel(), (Y[first] @ Y[first].T > 0).astype(np.float64))

    def sums(self, X: Float64) -> Float64:
        """Return the sums Z'X (g, d) of the rows (n, d) of each group."""
        total = np.zeros((len(self.share_label), X.shape[1]))
        np.add.at(total, self.of_row, X)
        return total


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
