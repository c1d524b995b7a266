"""Score: how many of the nearest vectors a ranking finds, among all items and among those that share a label.

MAP says whether items with the query's label come first. It does not say in which order they come: a code that is its
label alone has a perfect MAP where labels are known, and no order within a class.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from supquant.arrays import Array

NEAREST = 10
"""The first so many items of a ranking are compared with as many nearest vectors."""


def neighbour_recalls(
    scores: Array, distances: Array, relevant: npt.NDArray[np.bool_], *, k: int = NEAREST
) -> npt.NDArray[np.float64]:
    """Return the share of the k nearest vectors that is among the first k items, for every query.

    Parameters
    ----------
    scores : ndarray of shape (q, n)
        By which the items are ranked; smaller is nearer.
    distances : ndarray of shape (q, n)
        By which vectors are near, such as cosines with a minus; smaller is nearer.
    relevant : ndarray of shape (q, n), bool
        Whether an item shares a label with the query.
    k : int

    Returns
    -------
    ndarray of shape (q, 2), float64
        Among all items, and among the relevant ones: NaN for a query that has none. With fewer than k items, of all of
        them. Equal scores are in order of insertion, and so are equal distances.

    Examples
    --------
    Of all items the first is found. Of the relevant ones, numbers 1 and 2, the farther one comes first.

    >>> scores, distances = np.array([[0, 2, 1]]), np.array([[0, 1, 2]])
    >>> neighbour_recalls(scores, distances, np.array([[False, True, True]]), k=1)
    array([[1., 0.]])
    """
    result = np.full((len(scores), 2), np.nan)
    for i, (ranked_by, near_by) in enumerate(zip(scores, distances, strict=True)):
        result[i, 0] = _overlap(ranked_by, near_by, k)
        same = np.flatnonzero(relevant[i])
        if len(same):
            result[i, 1] = _overlap(ranked_by[same], near_by[same], k)
    return result


def first_items(scores: Array, k: int) -> npt.NDArray[np.intp]:
    """Return the numbers of the k items with the smallest scores (n,), in no order; of equal scores the first ones.

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
    found, nearest = (set(first_items(each, k).tolist()) for each in (scores, distances))
    return len(found & nearest) / len(nearest)
