"""Vectors to features: classes that become known after the fit, from a few labelled rows of each.

An added class is a place: the mean of the positions of its rows. No item has a column for it, so codes stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from supquant.arrays import Float32
from supquant.codec import row_products
from supquant.labels import Labels

QUERY_RIDGE, ITEM_RIDGE = 3.0, 0.1
"""On the diagonal of the scatter within classes, in units of its mean: where a query is judged alone, where items are ordered.
Few rows say little of a mean, so that a query is judged with care; an order bears more."""


def class_means(z: NDArray[Any], labels: Labels) -> Float32:
    """Return the mean positions (L, g) of rows with positions z (n, g) and labels, one or several each.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> labels = read_labels(["cat", "cat", "dog"])
    >>> class_means(np.array([[0.0, 1.0], [2.0, 1.0], [5.0, 5.0]]), labels)
    array([[1., 1.],
           [5., 5.]], dtype=float32)
    """
    carried = labels.sparse()
    sums, counts = carried.T @ z.astype(np.float64), np.asarray(carried.sum(axis=0))
    return (sums / np.maximum(counts, 1)[:, None]).astype(np.float32)


def class_logits(means: Float32, scatter: Float32) -> Float32:
    """Return weights (L, g + 1), the last column the shift, from positions to logits of classes with these means (L, g).

    Classes are normal, with the scatter (g, g) that the trained ones have on average; the logit 0 is that of any other class,
    which lies around the origin.
    """
    weights = _solved(scatter, means, QUERY_RIDGE)
    shifts = -0.5 * np.einsum("cg,gc->c", means, weights)
    return np.ascontiguousarray(np.vstack([weights, shifts]).T, dtype=np.float32)


def class_directions(means: Float32, scatter: Float32) -> Float32:
    """Return directions (c, g) that tell positions of classes with these means (c, g) from others; the product is 1 at a mean."""
    directions = _solved(scatter, means, ITEM_RIDGE).T
    products = np.einsum("cg,cg->c", directions, means)[:, None]
    return np.asarray(directions / np.where(products > 0, products, 1), dtype=np.float32)


def _solved(scatter: Float32, means: Float32, ridge: float) -> NDArray[np.float64]:
    """Return ``(scatter + ridge)^-1 means'`` (g, c)."""
    spread = scatter.astype(np.float64)
    spread[np.diag_indices_from(spread)] += ridge * np.trace(spread) / len(spread) + 1e-12
    return np.asarray(np.linalg.solve(spread, means.T.astype(np.float64)), dtype=np.float64)


def divided(p: Float32, u: Float32, z: Float32, by_place: Float32, n_trained: int) -> tuple[Float32, Float32]:
    """Divide the probability u (b,) of no trained class among the added classes and others still.

    Where a vector lies tells which. One that lies as a trained class does gives nothing to the added ones.

    Parameters
    ----------
    p : (b, t) float32
        Probabilities of trained labels, of a vector of a trained class, or the mean vector of these labels.
    u : (b,) float32
    z : (b, g) float32
        Positions.
    by_place : (L, g + 1) float32
        Logits of trained and added classes, as `class_logits` makes them.
    n_trained : int

    Returns
    -------
    (b, L) and (b,) float32
        The probabilities of all labels, of a vector of a known class; and that of no known class.
    """
    scores = row_products(np.pad(z, ((0, 0), (0, 1)), constant_values=1), by_place)
    shares = softmax(np.hstack([np.zeros_like(scores[:, :1]), scores]), axis=1)[:, 1 + n_trained :]
    joint = np.hstack([(1 - u)[:, None] * p, u[:, None] * shares])
    left = u * (1 - shares.sum(axis=1))
    return (joint / np.maximum(1 - left, 1e-12)[:, None]).astype(np.float32), left.astype(np.float32)
