"""Probabilities of labels, and the probabilities that sums of look-up tables stand for.

    query -> p(x), the probability of every label -> v(x), its label vector
    item  -> its labels y where they are known, else its own p(x)
    v(query) . (W' decoded item) -> curve -> the probability that the two share a label

If a row has one label, v is p, and the product is the probability that the labels agree. If a row may have several labels,
``v = -log(1 - p)``: its sum over the labels of an item is minus the log probability that the query has none of them. In both
cases the product is a sum over codebooks, which a scan of look-up tables adds up.

A curve has points (2, k), ascending scores and their probabilities, joined by straight lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.errors import InputError

_MAX_PROBABILITY = np.float32(1 - 2.0**-20)
"""Largest probability of one of several labels. A larger one would have a ``-log(1 - p)`` that outweighs all other labels."""

MIN_SHARE = 1e-28
"""Smallest probability of a label, relative to that of the likeliest one. Smaller ones become zero, because processors are slow
with subnormal numbers."""

IDENTITY = np.array([[0, 1], [0, 1]], dtype=np.float32)
"""The curve (2, 2) that maps scores between 0 and 1 to themselves."""


def label_weights(p: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Return the weights v (b, L) of labels for queries with label probabilities p (b, L).

    They are p if a row has one label, and ``-log(1 - p)`` if it may have several.

    Examples
    --------
    >>> p = np.array([[0.5, 0.25]])
    >>> label_weights(p, multilabel=False), label_weights(p, multilabel=True).round(3)
    (array([[0.5 , 0.25]]), array([[0.693, 0.288]]))
    """
    return -np.log1p(-np.minimum(p, _MAX_PROBABILITY)) if multilabel else p


def label_probabilities(scores: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Return the probabilities (b, L) of labels with logits (b, L): a softmax, or sigmoids if a row may have several labels.

    Examples
    --------
    >>> label_probabilities(np.array([[1e4, 1e4, -1e4]]), multilabel=False)
    array([[0.5, 0.5, 0. ]])
    >>> label_probabilities(np.array([[1e4, 0.0, -1e4]]), multilabel=True)
    array([[1. , 0.5, 0. ]])
    """
    if multilabel:
        return scipy.special.expit(scores)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.copyto(shares, 0, where=shares < MIN_SHARE)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def least_product(curve: Float32, probability: float) -> float:
    """Return a product below which a curve (2, k) stays below a probability.

    It is the last point of the curve below the probability: infinity if all points are, minus infinity if none is.

    Examples
    --------
    >>> curve = np.float32([[0, 1, 2], [0.1, 0.5, 0.9]])
    >>> [least_product(curve, p) for p in (0.05, 0.5, 0.6, 0.95)]
    [-inf, 0.0, 1.0, inf]
    """
    products, probabilities = curve
    reached = int(np.searchsorted(probabilities, np.float32(probability)))
    if reached == 0:
        return -np.inf
    return float(products[reached - 1]) if reached < len(products) else np.inf


def check_curve(curve: Float32) -> None:
    """Raise an `InputError` unless an array is a curve (2, k)."""
    if curve.ndim != 2 or len(curve) != 2 or curve.dtype != np.float32:
        raise InputError(f"curve must be float32 of shape (2, k), got {curve.dtype} of shape {curve.shape}")
    if not (np.diff(curve) >= 0).all() or curve.shape[1] < 2:
        raise InputError("a curve must have at least two points and never fall")


def stack_curves(curves: Sequence[Float32]) -> Float32:
    """Return curves (2, k) of several lengths as one array (c, 2, k); shorter ones repeat their last point.

    Examples
    --------
    >>> stack_curves([np.float32([[0, 1], [0, 1]]), np.float32([[0, 1, 2], [0, 0.5, 1]])])[0]
    array([[0., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """
    width = max(curve.shape[1] for curve in curves)
    return np.stack([np.pad(curve, ((0, 0), (0, width - curve.shape[1])), mode="edge") for curve in curves])
