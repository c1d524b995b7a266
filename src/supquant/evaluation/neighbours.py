"""Score: how many of the nearest vectors a ranking finds, among all items and among those that share a label.

MAP measures whether items with the label of the query come first, but not in which order these come. A code that only holds the
label of its item has a perfect MAP and no order within a class.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from supquant.arrays import Array, Flags, Float64

N_NEIGHBOURS = 10
"""Number of first items of a ranking that are compared with the same number of nearest vectors."""


def neighbour_recalls(scores: Array, distances: Array, relevant: Flags, *, k: int = N_NEIGHBOURS) -> Float64:
    """Return the share of the k nearest vectors that are among the first k items, for every query.

    Parameters
    ----------
    scores : ndarray of shape (q, n)
        Scores that rank the items; smaller is nearer.
    distances : ndarray of shape (q, n)
        Distances between the vectors, such as negative cosines; smaller is nearer.
    relevant : ndarray of shape (q, n), bool
        True where an item shares a label with the query.
    k : int, default=10
        If there are fewer items, all of them are compared.

    Returns
    -------
    ndarray of shape (q, 2), float64
        The share among all items, and the share among the relevant items, which is NaN for a query without any. Equal scores
        and equal distances are in order of insertion.

    Examples
    --------
    Among all items, the nearest one is found. Among the relevant items, 1 and 2, the farther one is ranked first.

    >>> scores, distances = np.array([[0, 2, 1]]), np.array([[0, 1, 2]])
    >>> neighbour_recalls(scores, distances, np.array([[False, True, True]]), k=1)
    array([[1., 0.]])
    """
    result = np.full((len(scores), 2), np.nan)
    for i in range(len(scores)):
        result[i, 0] = _overlap(scores[i], distances[i], k)
        of_label = np.flatnonzero(relevant[i])
        if len(of_label):
            result[i, 1] = _overlap(scores[i, of_label], distances[i, of_label], k)
    return result


def first_items(scores: Array, k: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the k items with the smallest scores (n,), in any order; of equal scores, the first items.

    Examples
    --------
    >>> sorted(first_items(np.array([3, 1, 3, 2, 3]), 3).tolist())
    [0, 1, 3]
    """
    if k >= len(scores):
        return np.arange(len(scores))
    last = np.partition(scores, k - 1)[k - 1]  # the k-th smallest score
    below = np.flatnonzero(scores < last)
    return np.concatenate([below, np.flatnonzero(scores == last)[: k - len(below)]])


def _overlap(scores: Array, distances: Array, k: int) -> float:
    """Return the share of the k smallest distances (n,) whose items are among the k smallest scores (n,)."""
    found, nearest = (set(first_items(each, k).tolist()) for each in (scores, distances))
    return len(found & nearest) / len(nearest)
