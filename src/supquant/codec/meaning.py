"""What codes mean: the label vectors of queries and items, and what their product says.

    query -> p(x), the probability of every label -> v(x)
    item  -> its labels y where they are known, else its own p(x)
    v(query) . (W' decoded item) -> curve -> the probability that the two share a label

Where a row has one label, v is p and the product the chance that the labels agree. Where it may have several,
``v = -log(1 - p)``: summed over the labels of an item it is the logarithm of the chance that the query carries none of them.
Either way the product is a sum over codebooks, so a scan of look-up tables adds it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Float32
from supquant.codec.base import check_part
from supquant.errors import InputError

_SUREST = np.float32(1 - 2.0**-20)
"""The greatest probability of one of several labels: beyond it -log(1 - p) would drown all others."""

_IDENTITY = np.array([[0, 1], [0, 1]], dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Meaning:
    """How label vectors are made, and how their products become probabilities.

    Parameters
    ----------
    scaling : (2, L) float32 or None
        Slopes and shifts that turn scores ``W'P'x`` into logits; None where the features themselves are label vectors.
    shares : (E,) float32 or None
        Where they are: what each of their E columns counts for in an item whose labels are not known. The first L are
        probabilities of labels, the others say where a vector lies.
    curve : (2, k) float32
        Products, ascending, and the probabilities that they stand for.

    Examples
    --------
    >>> meaning = Meaning(scaling=np.float32([[2, 2], [0, 0]]))
    >>> meaning.query_vectors(np.float32([[0.5, 0.5], [2, 0]]), 2, multilabel=False).round(2)
    array([[0.5 , 0.5 ],
           [0.98, 0.02]], dtype=float32)
    """

    scaling: Float32 | None = None
    shares: Float32 | None = None
    curve: Float32 = field(default_factory=_IDENTITY.copy)

    def __post_init__(self) -> None:
        if (self.scaling is None) == (self.shares is None):
            raise InputError("a meaning has either scaling or shares")
        if self.scaling is not None:
            check_part("scaling", self.scaling, 2, "L")
        if self.shares is not None:
            check_part("shares", self.shares, "E")
        check_curve(self.curve)

    def probabilities(self, vectors: Float32, n_labels: int, *, multilabel: bool) -> Float32:
        """Give the probability of every label (b, L) from scores (b, L), or from features (b, E) that begin with them."""
        if self.scaling is None:
            return vectors[:, :n_labels]
        slopes, shifts = self.scaling
        return label_probabilities(vectors * slopes + shifts, multilabel=multilabel)

    def query_vectors(self, vectors: Float32, n_labels: int, *, multilabel: bool) -> Float32:
        """Give what queries multiply items by, (b, L) or (b, E), from scores or from features."""
        p = label_weights(self.probabilities(vectors, n_labels, multilabel=multilabel), multilabel=multilabel)
        return p if self.scaling is not None else np.hstack([p, vectors[:, n_labels:]])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold."""
        parts = {"scaling": self.scaling, "shares": self.shares, "curve": self.curve}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make it again from a file's arrays."""
        return cls(**arrays)


def check_curve(curve: Float32) -> None:
    """Refuse what is no curve (2, k) from scores to probabilities."""
    check_part("curve", curve, 2, "k")
    if not (np.diff(curve) >= 0).all() or curve.shape[1] < 2:
        raise InputError("a curve must have two points at least and never fall")


def label_weights(p: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Return what queries with label probabilities p (b, L) multiply labels by: p, or ``-log(1 - p)`` for several labels.

    Examples
    --------
    >>> p = np.array([[0.5, 0.25]])
    >>> label_weights(p, multilabel=False), label_weights(p, multilabel=True).round(3)
    (array([[0.5 , 0.25]]), array([[0.693, 0.288]]))
    """
    return -np.log1p(-np.minimum(p, _SUREST)) if multilabel else p


def label_probabilities(scores: NDArray[Any], *, multilabel: bool) -> NDArray[Any]:
    """Turn logits (b, L) into the probabilities of labels: softmax, or a sigmoid each where a row may carry several.

    Examples
    --------
    >>> label_probabilities(np.array([[1e4, 1e4, -1e4]]), multilabel=False)
    array([[0.5, 0.5, 0. ]])
    >>> label_probabilities(np.array([[1e4, 0.0, -1e4]]), multilabel=True)
    array([[1. , 0.5, 0. ]])
    """
    if multilabel:
        return expit(scores)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
