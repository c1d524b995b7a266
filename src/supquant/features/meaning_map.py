"""Vectors to features that say what a vector means, how new it looks, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Float32
from supquant.codec import label_probabilities, row_products
from supquant.codec.spelling import Spelling, spelling_from
from supquant.features.added_classes import class_directions, class_logits, class_means, divided
from supquant.features.gaussian_map import GaussianMap
from supquant.labels import Labels
from supquant.parallel import BLOCK_ROWS
from supquant.storage import lay_out_as_stored

_KERNEL = "kernel."
"""Prefix of the kernel's arrays in a file."""

BLOCK_SCORES = 1 << 24
"""Scores of a block of rows for all labels, at the most."""

SMOOTHING = 2.0
"""Temperature of the opinion: new classes are told apart by what known classes they resemble, faintly."""


@dataclass(frozen=True)
class MeaningMap:
    """The fitted, frozen map from vectors to ``[s | u | z | c]``: what a `SemanticCodec` holds.

    s (r,) is the mean vector of labels, as they are spelled, by their probabilities; these probabilities p (L,) themselves where
    every label has a column. u is the probability of no known class. The position z (g,) has two parts: the
    vector itself, of unit length, centred, in a learned metric; and the opinion of the classifier, the square root of smoothed
    probabilities, so that the product of two opinions is a similarity of distributions. c (g,) is what z must be multiplied
    by to give the cosine of two vectors, less a constant of the query.
    """

    kernel: GaussianMap | None  # None takes vectors as they are: d = p
    weights: Float32  # (d + 1, L + 1), the last row the intercept: logits of labels, and what tells new rows from labelled ones
    mean: Float32  # (p,) of unit vectors
    metric: Float32  # (p, k): from centred unit vectors to the first part of z
    cosine: Float32  # (p, k): from unit vectors to the first part of c
    opinion_mean: Float32  # (r,)
    opinion: Float32  # (r, g - k): from centred roots of smoothed s to the second part of z
    novelty: Float32  # (3,): weights of evidence and of the last output in the logit of u, and its shift
    scatter: Float32  # (k, k) of the first part of z around the means of trained labels
    means: Float32  # (L, g) in z, of trained labels, and then of those that were added
    multilabel: bool
    spelling: Spelling  # of trained labels

    kind: ClassVar[str] = "meaning"
    _ARRAYS: ClassVar[tuple[str, ...]] = (
        "weights",
        "mean",
        "metric",
        "cosine",
        "opinion_mean",
        "opinion",
        "novelty",
        "scatter",
        "means",
    )

    def __post_init__(self) -> None:
        lay_out_as_stored(self, self._ARRAYS)

    @property
    def n_inputs(self) -> int:
        """Width of the vectors that come in."""
        return len(self.mean)

    @property
    def n_trained(self) -> int:
        """Labels that were trained on: the first ones."""
        return int(self.weights.shape[1]) - 1

    @property
    def n_labels(self) -> int:
        """L: trained labels, then added ones."""
        return len(self.means)

    @property
    def n_columns(self) -> int:
        """Columns of s: those of trained labels, then one for every added one."""
        return self.spelling.n_columns + self.n_labels - self.n_trained

    @property
    def n_position(self) -> int:
        """g, the columns of z and of c."""
        return int(self.metric.shape[1] + self.opinion.shape[1])

    @property
    def n_features(self) -> int:
        """Width of what comes out, r + 1 + 2 g."""
        return self.n_columns + 1 + 2 * self.n_position

    @property
    def block_rows(self) -> int:
        """How many rows are mapped at a time: fewer where there are many labels."""
        return max(1, min(BLOCK_ROWS, BLOCK_SCORES // (self.n_trained + 1)))

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, r + 1 + 2 g)."""
        return self.from_logits(self._outputs(x), x)

    def of_labelled(self, x: Float32) -> Float32:
        """Map a block (b, p) of items whose labels are known: s, u and c stay zero where no opinion is made of them."""
        if self.opinion.shape[1]:
            return self(x)
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        features[:, self.n_columns + 1 :][:, : self.metric.shape[1]] = self._placed(unit_rows(x))
        return features

    def _placed(self, units: Float32) -> Float32:
        """Return the first part of z (b, k) of vectors of unit length (b, p)."""
        return row_products(units - self.mean, self._rows["metric"])

    def _place(self, x: Float32, features: Float32) -> Float32:
        """Fill the first parts of z and c in features (b, r + 1 + 2 g) of a block (b, p); give that of z (b, k)."""
        first, k = self.n_columns + 1, self.metric.shape[1]
        units = unit_rows(x)
        place = self._placed(units)
        features[:, first : first + k] = place
        first += self.n_position
        features[:, first : first + k] = row_products(units, self._rows["cosine"])
        return place

    def _outputs(self, x: Float32) -> Float32:
        """Return the logits of trained labels and the discriminator (b, L + 1) of a block (b, p)."""
        phi = x if self.kernel is None else self.kernel(x)
        return row_products(phi, self._rows["weights"]) + self.weights[-1]

    def probabilities(self, x: Float32) -> Float32:
        """Return the probability of every label (b, L) for a block (b, p)."""
        outputs = self._outputs(x)
        p = label_probabilities(outputs[:, : self.n_trained], multilabel=self.multilabel)
        if self.n_trained == self.n_labels:
            return p
        place = self._placed(unit_rows(x))
        return divided(p, self._novelty(outputs, p), place, self._by_place, self.n_trained)[0]

    def from_logits(self, outputs: Float32, x: Float32) -> Float32:
        """Return the features (b, r + 1 + 2 g) of a block, from logits of trained labels and the discriminator."""
        L, k, g = self.n_columns, self.metric.shape[1], self.n_position
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        place = self._place(x, features)
        p = label_probabilities(outputs[:, : self.n_trained], multilabel=self.multilabel)
        s = self.spelling.of_probabilities(p)
        features[:, L + 1 + k : L + 1 + g] = self._opinions(s)
        u = self._novelty(outputs, p)
        features[:, :L], features[:, L] = (
            divided(s, u, place, self._by_place, self.n_trained) if self.n_trained < self.n_labels else (s, u)
        )
        return features

    def with_opinions(self, features: Float32) -> Float32:
        """Return features (b, r + 1 + 2 g), changed in place, whose opinions are those of their mean vectors s."""
        L, k, g = self.n_columns, self.metric.shape[1], self.n_position
        features[:, L + 1 + k : L + 1 + g] = self._opinions(features[:, :L])
        return features

    def _opinions(self, s: Float32) -> Float32:
        """Return the part of z (b, g - k) that the mean vectors (b, r) of trained labels make; nothing if there is none."""
        if not self.opinion.shape[1]:
            return np.zeros((len(s), 0), dtype=np.float32)
        return row_products(opinion_roots(s) - self.opinion_mean, self._rows["opinion"])

    @cached_property
    def _rows(self) -> dict[str, Float32]:
        """Matrices with a row for every output."""
        matrices = {
            "weights": self.weights[:-1],
            "metric": self.metric,
            "cosine": self.cosine,
            "opinion": self.opinion,
        }
        return {name: np.ascontiguousarray(matrix.T) for name, matrix in matrices.items()}

    @cached_property
    def _by_place(self) -> Float32:
        """The logits (L, k + 1) of all labels along the first part of z, the last column the shifts."""
        return class_logits(self.means[:, : len(self.scatter)], self.scatter)

    @cached_property
    def added_directions(self) -> Float32:
        """Directions (c, g) in z of the added labels: the product is 1 at the mean of a label.

        Opinions are left out: those of a trained class agree, those of a new one need not.
        """
        k = len(self.scatter)
        directions = class_directions(self.means[self.n_trained :, :k], self.scatter)
        return np.pad(directions, ((0, 0), (0, self.n_position - k)))

    def with_classes(self, x: Float32, labels: Labels) -> MeaningMap:
        """Return the map that knows more classes, those of rows x (n, p)."""
        z = self(x)[:, self.n_columns + 1 :][:, : self.n_position]
        return replace(self, means=np.concatenate([self.means, class_means(z, labels)]))

    def _novelty(self, outputs: Float32, p: Float32) -> NDArray[np.floating]:
        """Return u (b,); for several labels a row, the probability that it carries none."""
        if self.multilabel:
            return np.asarray(np.exp(np.log1p(-np.minimum(p, 1 - 2.0**-20)).sum(axis=1)))
        slope, weight, shift = self.novelty
        return np.asarray(expit(slope * evidence(outputs[:, :-1]) + weight * outputs[:, -1] + shift))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file must hold."""
        inner = {} if self.kernel is None else self.kernel.arrays()
        return (
            {_KERNEL + name: value for name, value in inner.items()}
            | {name: getattr(self, name) for name in self._ARRAYS}
            | {"multilabel": np.array([self.multilabel], dtype=np.uint8), "spelling": self.spelling.words}
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""
        inner = {
            name.removeprefix(_KERNEL): value for name, value in arrays.items() if name.startswith(_KERNEL)
        }
        own = {name: arrays[name] for name in cls._ARRAYS}
        return cls(
            kernel=GaussianMap.from_arrays(inner) if inner else None,
            multilabel=bool(arrays["multilabel"][0]),
            spelling=spelling_from(arrays, own["weights"].shape[1] - 1),
            **own,
        )


def unit_rows(x: NDArray[Any]) -> Float32:
    """Return the rows of x (b, p) at unit length; a row of zeros stays.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", *[x.astype(np.float64)] * 2))[:, None]
    return np.asarray(x / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def opinion_roots(p: NDArray[Any]) -> NDArray[Any]:
    """Return the square roots (b, L) of smoothed probabilities, from those (b, L) of one label a row.

    Examples
    --------
    >>> opinion_roots(np.array([[0.64, 0.04, 0.0]])) ** 2
    array([[0.8, 0.2, 0. ]])
    """
    smoothed = p ** p.dtype.type(1 / SMOOTHING)
    return np.asarray(np.sqrt(smoothed / np.maximum(smoothed.sum(axis=1, keepdims=True), 1e-30)))


def evidence(scores: NDArray[Any]) -> NDArray[Any]:
    """Return the log of the sum of exponentiated logits (b,): how much speaks for any known class."""
    highest = scores.max(
        axis=1, keepdims=True
    )  # logsumexp of SciPy says the same, in ten times the time of a query
    return np.asarray(highest[:, 0] + np.log(np.exp(scores - highest).sum(axis=1)))
