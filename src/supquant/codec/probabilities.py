"""The meaning of codes: label vectors of queries and items, and the probabilities that their products stand for.

    query -> p(x), the probability of every label -> v(x)
    item  -> its labels y where they are known, else its own p(x)
    v(query) . (W' decoded item) -> curve -> the probability that the two share a label

Where a row has one label, v is p, and the product is the probability that the labels agree. Where a row may have several labels,
``v = -log(1 - p)``: its sum over the labels of an item is minus the log probability that the query has none of them. In both
cases the product is a sum over codebooks, which a scan of look-up tables adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.base import check_part
from supquant.codec.curves import IDENTITY, check_curve
from supquant.errors import InputError

_MOST_PROBABILITY = np.float32(1 - 2.0**-20)
"""Greatest probability of one of several labels. With a greater one, its ``-log(1 - p)`` would outweigh all other labels."""

LEAST_SHARE = 1e-28
"""Least probability of a label, as a part of that of the likeliest one. Smaller ones are zero: they could be subnormal numbers,
with which processors are slow."""


@dataclass(frozen=True, eq=False)
class Meaning:
    """How label vectors are made, and how their products become probabilities.

    Parameters
    ----------
    scaling : ndarray of shape (2, L), float32, or None, default=None
        Slopes and shifts that turn scores ``W'P'x`` into logits; None where features are label vectors.
    shares : ndarray of shape (E,), float32, or None, default=None
        Where features are label vectors: the factor of each of their E columns in items without known labels. The first L
        columns are probabilities of labels, the others say where a vector lies. Either `scaling` or `shares` is given.
    curve : ndarray of shape (2, k), float32
        Products, ascending, and the probabilities that they stand for; by default a product is its probability.

    Examples
    --------
    >>> meaning = Meaning(scaling=np.float32([[2, 2], [0, 0]]))
    >>> meaning.query_vectors(np.float32([[0.5, 0.5], [2, 0]]), 2, multilabel=False).round(2)
    array([[0.5 , 0.5 ],
           [0.98, 0.02]], dtype=float32)
    """

    scaling: Float32 | None = None
    shares: Float32 | None = None
    curve: Float32 = field(default_factory=IDENTITY.copy)

    def __post_init__(self) -> None:
        if (self.scaling is None) == (self.shares is None):
            raise InputError("a meaning has either scaling or shares")
        if self.scaling is not None:
            check_part("scaling", self.scaling, 2, "L")
        if self.shares is not None:
            check_part("shares", self.shares, "E")
        check_curve(self.curve)

    def check_sizes(self, n_labels: int, width: int) -> None:
        """Raise an `InputError` unless the arrays fit L labels and a classifier of some columns."""
        if self.scaling is not None:
            check_part("scaling", self.scaling, 2, n_labels)
        if self.shares is not None:
            check_part("shares", self.shares, width)
        if width < n_labels or (self.scaling is not None and width > n_labels):
            raise InputError(f"a classifier of {width} columns does not fit {n_labels} labels")

    def probabilities(self, vectors: Float32, n_labels: int, *, multilabel: bool) -> Float32:
        """Return the probability of every label (b, L), from scores (b, L) or from features (b, E) that begin with it."""
        if self.scaling is None:
            return vectors[:, :n_labels]
        slopes, shifts = self.scaling
        return label_probabilities(vectors * slopes + shifts, multilabel=multilabel)

    def query_vectors(self, vectors: Float32, n_labels: int, *, multilabel: bool) -> Float32:
        """Return the label vectors v of queries: (b, L) from scores (b, L), or (b, E) from features (b, E)."""
        p = label_weights(self.probabilities(vectors, n_labels, multilabel=multilabel), multilabel=multilabel)
        return p if self.scaling is not None else np.hstack([p, vectors[:, n_labels:]])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        parts = {"scaling": self.scaling, "shares": self.shares, "curve": self.curve}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the meaning with the arrays of a file."""
        return cls(**arrays)


def label_weights(p: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Return the weights v (b, L) of labels for queries with label probabilities p (b, L).

    They are p for one label a row, and ``-log(1 - p)`` for several.

    Examples
    --------
    >>> p = np.array([[0.5, 0.25]])
    >>> label_weights(p, multilabel=False), label_weights(p, multilabel=True).round(3)
    (array([[0.5 , 0.25]]), array([[0.693, 0.288]]))
    """
    return -np.log1p(-np.minimum(p, _MOST_PROBABILITY)) if multilabel else p


def label_probabilities(scores: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Return the probabilities (b, L) of labels with logits (b, L): a softmax, or sigmoids where a row may have several labels.

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
    np.copyto(shares, 0, where=shares < LEAST_SHARE)
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
