"""Report: semi-supervised k-means of "Generalized Category Discovery" (Vaze, Han, Vedaldi, Zisserman, CVPR 2022)."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import pairwise_distances_argmin, pairwise_distances_argmin_min

from supquant.arrays import Array

MAX_ROUNDS = 100
"""Maximum number of rounds."""


def semi_supervised_centres(
    X: Array, numbers: Array, unlabelled: Array, n_clusters: int, rng: np.random.Generator
) -> Array:
    """Return the centres (k, d) of clusters. Rows with labels stay in the cluster of their class; classes come first.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows with labels.
    numbers : ndarray of shape (n,), int
        The numbers of their classes, from 0.
    unlabelled : ndarray of shape (u, d)
        Rows without. If there are none, there are no clusters but those of the classes.
    n_clusters : int
        k, at least the number of classes.
    rng : Generator
        Draws the first centres of new clusters, as k-means++ does.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [5.0]])
    >>> semi_supervised_centres(X, np.array([0, 0, 1]), np.array([[9.0], [9.2]]), 3, np.random.default_rng(0)).ravel()
    array([0.5, 5. , 9.1])
    """
    centres = _means(X, numbers, np.zeros((int(numbers.max()) + 1, X.shape[1])))
    if len(unlabelled) == 0:
        return centres
    while len(centres) < n_clusters:
        distances = pairwise_distances_argmin_min(unlabelled, centres, metric="sqeuclidean")[1]
        shares = distances.astype(np.float64) / distances.sum(dtype=np.float64)
        centres = np.vstack([centres, unlabelled[rng.choice(len(unlabelled), p=shares / shares.sum())]])
    every_row = np.vstack([X, unlabelled])
    clusters = np.zeros(0, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        last, clusters = clusters, pairwise_distances_argmin(unlabelled, centres)
        if np.array_equal(last, clusters):
            break
        centres = _means(every_row, np.concatenate([numbers, clusters]), centres)
    return centres


def _means(X: Array, numbers: Array, centres: Array) -> Array:
    """Return the means (k, d) of the rows of each cluster; the centre of a cluster without rows stays."""
    members = csr_array((np.ones(len(X)), (numbers, np.arange(len(X)))), shape=(len(centres), len(X)))
    counts = members.sum(axis=1)[:, None]
    means: Array = np.where(counts > 0, members @ X / np.maximum(counts, 1), centres)
    return means
