"""Vectors to features: the fitted map that says what a vector means, how new it looks, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded when they are first used
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.codec.base import check_parts, number_in
from supquant.codec.gaussian_map import GaussianMap, kernel_arrays, kernel_features, kernel_from_arrays
from supquant.codec.probabilities import label_probabilities, label_weights
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels
from supquant.kernels import FeatureKernel, MeaningParts, Packed, pack_rows
from supquant.model.added_classes import class_directions, class_logits, divided, mean_positions
from supquant.model.spelling import Spelling, spelling_from
from supquant.parallel import BLOCK_ROWS
from supquant.storage import lay_out_as_stored

BLOCK_SCORES = 1 << 24
"""A block of rows has at most this many scores, one per row and label."""

SMOOTHING = 2.0
"""Temperature of opinions. Above one it raises low probabilities: new classes differ in which known classes they resemble."""


@dataclass(frozen=True)
class SupervisedMap:
    """The fitted, frozen map from vectors to features ``[s | u | z | c]``, which a `SupervisedCodec` holds.

    s (r,) is the mean of the spelled vectors of labels, weighted by the probabilities p (L,) of labels; s is p if every label
    has a column. u is the probability of no known class. The position z (g,) has two parts: the vector itself, of unit length,
    centred, in a learned metric; and the opinion of the classifier, the square roots of smoothed probabilities, so that the
    product of two opinions is a similarity of distributions. The product of c (g,) of one vector with z of another is the cosine
    of the two vectors, less a constant of the first.
    """

    kernel: GaussianMap | None  # None takes vectors as features: d = p
    weights: Float32  # (d + 1, L + 1) of the logits of labels and of the discriminator; the last row is the intercept
    mean: Float32  # (p,) of unit vectors
    metric: Float32  # (p, k) from centred unit vectors to the first part of z
    cosine: Float32  # (p, k) from unit vectors to the first part of c
    opinion_mean: Float32  # (r,)
    opinion: Float32  # (r, g - k) from centred roots of smoothed s to the second part of z
    novelty: Float32  # (3,) weights of evidence and of the discriminator in the logit of u, and its shift
    scatter: Float32  # (k, k) of the first part of z around the means of trained labels
    means: Float32  # (L, g) positions of labels: first those that were trained, then those that were added
    multilabel: bool
    spelling: Spelling  # of trained labels

    kind: ClassVar[str] = "supervised"
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
        """p, the width of the vectors."""
        return len(self.mean)

    @property
    def n_trained(self) -> int:
        """Number of labels that were trained on. They are the first ones."""
        return int(self.weights.shape[1]) - 1

    @property
    def n_labels(self) -> int:
        """L, the number of labels: trained ones, then added ones."""
        return len(self.means)

    @cached_property
    def n_columns(self) -> int:
        """r, the number of columns of s: those of trained labels, then one for each added label."""
        return self.spelling.n_columns + self.n_labels - self.n_trained

    @cached_property
    def n_position(self) -> int:
        """g, the width of z and of c."""
        return int(self.metric.shape[1] + self.opinion.shape[1])

    @cached_property
    def n_features(self) -> int:
        """Width of the features, r + 1 + 2 g."""
        return self.n_columns + 1 + 2 * self.n_position

    @property
    def block_rows(self) -> int:
        """Number of rows that are mapped at a time: fewer if there are many labels."""
        return max(1, min(BLOCK_ROWS, BLOCK_SCORES // (self.n_trained + 1)))

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, r + 1 + 2 g)."""
        return self._mapped(x, of_items=False)

    def of_items(self, x: Float32) -> Float32:
        """Map a block (b, p) of items; c is zero, since only queries need it."""
        return self._mapped(x, of_items=True)

    def _mapped(self, x: Float32, *, of_items: bool) -> Float32:
        if self.compiled is None:
            return self.from_logits(self._outputs(x), x, of_items=of_items)
        features = np.empty((len(x), self.n_features), dtype=np.float32)
        self.compiled.features(np.ascontiguousarray(x), of_items, features, 1)
        return features

    @cached_property
    def compiled(self) -> FeatureKernel | None:
        """The map in compiled code; None if there is none, or if classes were added after the fit."""
        compiled = kernels.compiled()
        if compiled is None or self.n_trained < self.n_labels:
            return None
        packed = self._packed
        kernel = self.kernel
        parts = MeaningParts(
            [
                packed["metric"] if kernel is None else kernel.packed,
                *(packed[name] for name in ("weights", "metric", "cosine", "opinion")),
            ],
            has_kernel=kernel is not None,
            scale=0.0 if kernel is None else kernel.scale,
            norms=np.empty(0, dtype=np.float32) if kernel is None else kernel.norms,
            shifts=np.ascontiguousarray(self.weights[-1]),
            mean=self.mean,
            opinion_mean=self.opinion_mean,
            novelty=self.novelty,
            words=self.spelling.words,
            n_columns=self.spelling.n_columns,
            multilabel=self.multilabel,
        )
        return compiled.meaning_map(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone. A copy makes the rest again, and compiled code cannot be copied."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def of_labelled(self, x: Float32) -> Float32:
        """Map a block (b, p) of items with known labels; s, u and c are zero unless opinions need them."""
        if self.opinion.shape[1]:
            return self.of_items(x)
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        features[:, self.n_columns + 1 :][:, : self.metric.shape[1]] = self.positions(x)
        return features

    def positions(self, x: Float32) -> Float32:
        """Return z (b, g) of a block (b, p)."""
        if self.opinion.shape[1]:
            return self.of_items(x)[:, self.n_columns + 1 :][:, : self.n_position]
        return self._placed(unit_rows(x))

    def _placed(self, units: Float32) -> Float32:
        """Return the first part of z (b, k) for vectors of unit length (b, p)."""
        return row_products(units - self.mean, self._packed["metric"])

    def _place(self, x: Float32, features: Float32, *, of_items: bool) -> Float32:
        """Fill the first parts of z and c in the features (b, r + 1 + 2 g) of a block (b, p); return that of z (b, k)."""
        first, k = self.n_columns + 1, self.metric.shape[1]
        units = unit_rows(x)
        place = self._placed(units)
        features[:, first : first + k] = place
        if not of_items:
            first += self.n_position
            features[:, first : first + k] = row_products(units, self._packed["cosine"])
        return place

    def cosines(self, z: Float32) -> Float32:
        """Return c (b, g) of vectors that lie at positions z (b, g)."""
        k = self.metric.shape[1]
        units = self.mean + row_products(np.ascontiguousarray(z[:, :k]), self._from_place)
        return np.pad(row_products(units, self._packed["cosine"]), ((0, 0), (0, self.n_position - k)))

    @cached_property
    def _from_place(self) -> Packed:
        """Matrix (p, k) from the first part of z to a centred unit vector: the inverse of the metric if it has one."""
        return pack_rows(np.linalg.pinv(self.metric.T).astype(np.float32))

    def _outputs(self, x: Float32) -> Float32:
        """Return the logits of trained labels and the discriminator (b, L + 1) of a block (b, p)."""
        return row_products(kernel_features(self.kernel, x), self._packed["weights"]) + self.weights[-1]

    def probabilities(self, x: Float32) -> Float32:
        """Return the probability of every label (b, L) for a block (b, p)."""
        if (
            self.compiled is not None and self.spelling.length == 1
        ):  # then they are features, with the bits of a query
            return np.ascontiguousarray(self(x)[:, : self.n_labels])
        outputs = self._outputs(x)
        p = label_probabilities(outputs[:, : self.n_trained], multilabel=self.multilabel)
        if self.n_trained == self.n_labels:
            return p
        place = self._placed(unit_rows(x))
        return divided(p, self._novelty(outputs, p), place, self._by_place, self.n_trained)[0]

    def from_logits(self, outputs: Float32, x: Float32, *, of_items: bool = False) -> Float32:
        """Return the features (b, r + 1 + 2 g) of a block x (b, p), from its logits and discriminator (b, L + 1).

        With `of_items`, c is zero: only queries need it.
        """
        r, k, g = self.n_columns, self.metric.shape[1], self.n_position
        features = np.zeros((len(x), self.n_features), dtype=np.float32)
        place = self._place(x, features, of_items=of_items)
        p = label_probabilities(outputs[:, : self.n_trained], multilabel=self.multilabel)
        s = self.spelling.of_probabilities(p)
        features[:, r + 1 + k : r + 1 + g] = self._opinions(s)
        u = self._novelty(outputs, p)
        features[:, :r], features[:, r] = (
            divided(s, u, place, self._by_place, self.n_trained) if self.n_trained < self.n_labels else (s, u)
        )
        return features

    def opinions(self, outputs: Float32) -> Float32:
        """Return the second part of z (b, g - k), from the logits and the discriminator (b, L + 1)."""
        p = label_probabilities(outputs[:, : self.n_trained], multilabel=self.multilabel)
        return self._opinions(self.spelling.of_probabilities(p))

    def with_opinions(self, features: Float32) -> Float32:
        """Recompute the opinions in features (b, r + 1 + 2 g) from s; change the features in place and return them."""
        r, k, g = self.n_columns, self.metric.shape[1], self.n_position
        features[:, r + 1 + k : r + 1 + g] = self._opinions(features[:, :r])
        return features

    def _opinions(self, s: Float32) -> Float32:
        """Return the second part of z (b, g - k) for mean vectors s (b, r) of trained labels."""
        if not self.opinion.shape[1]:
            return np.zeros((len(s), 0), dtype=np.float32)
        return row_products(opinion_roots(s) - self.opinion_mean, self._packed["opinion"])

    @cached_property
    def _packed(self) -> dict[str, Packed]:
        """Matrices, transposed and packed: a row for every output."""
        matrices = {
            "weights": self.weights[:-1],
            "metric": self.metric,
            "cosine": self.cosine,
            "opinion": self.opinion,
        }
        return {name: pack_rows(matrix.T) for name, matrix in matrices.items()}

    @cached_property
    def _by_place(self) -> Packed:
        """Weights (L, k + 1) from the first part of z to the logits of all labels; the last column holds the shifts."""
        return class_logits(self.means[:, : len(self.scatter)], self.scatter)

    @cached_property
    def added_directions(self) -> Float32:
        """Directions (c, g) of the added labels: their product with a position is 1 at the mean of the label.

        They are zero in the columns of opinions, since rows of a new class may differ in their opinions.
        """
        k = len(self.scatter)
        directions = class_directions(self.means[self.n_trained :, :k], self.scatter)
        return np.pad(directions, ((0, 0), (0, self.n_position - k)))

    def with_classes(self, x: Float32, labels: Labels) -> SupervisedMap:
        """Return a map that knows more classes, those of rows x (n, p) with labels."""
        z = self(x)[:, self.n_columns + 1 :][:, : self.n_position]
        return replace(self, means=np.concatenate([self.means, mean_positions(z, labels)]))

    def _novelty(self, outputs: Float32, p: Float32) -> NDArray[np.floating]:
        """Return u (b,); with several labels per row, the probability that the row carries none."""
        if self.multilabel:
            return np.asarray(np.exp(-label_weights(p, multilabel=True).sum(axis=1)))
        slope, weight, shift = self.novelty
        return np.asarray(
            scipy.special.expit(slope * evidence(outputs[:, :-1]) + weight * outputs[:, -1] + shift)
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        return (
            kernel_arrays(self.kernel)
            | {name: getattr(self, name) for name in self._ARRAYS}
            | {"multilabel": np.array([self.multilabel], dtype=np.uint8), "spelling": self.spelling.words}
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""
        own = {name: arrays[name] for name in cls._ARRAYS}
        sizes = check_parts(
            own,
            weights=("d", "T"),
            mean=("p",),
            metric=("p", "k"),
            cosine=("p", "k"),
            opinion_mean=("r",),
            opinion=("r", "o"),
            novelty=(3,),
            scatter=("k", "k"),
            means=("L", "g"),
        )
        spelling = spelling_from(arrays, sizes["T"] - 1)
        if sizes["g"] != sizes["k"] + sizes["o"] or not 0 < sizes["T"] - 1 <= sizes["L"]:
            raise InputError(f"means of shape {own['means'].shape} do not fit the other arrays")
        if spelling.n_columns != sizes["r"]:
            raise InputError(f"labels are spelled with {spelling.n_columns} words, expected {sizes['r']}")
        return cls(
            kernel=kernel_from_arrays(arrays, sizes["p"], sizes["d"] - 1),
            multilabel=bool(number_in(arrays, "multilabel")),
            spelling=spelling,
            **own,
        )


def unit_rows(x: NDArray[Any]) -> Float32:
    """Return the rows of x (b, p) divided by their lengths; a row of zeros stays zero.

    Examples
    --------
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", *[x.astype(np.float64)] * 2))[:, None]
    units = np.empty(x.shape, dtype=np.float32)
    return np.divide(x, np.where(lengths > 0, lengths, 1), out=units, casting="same_kind")


def opinion_roots(p: NDArray[Any]) -> NDArray[Any]:
    """Return the square roots (b, L) of smoothed probabilities: p to the power ``1 / SMOOTHING``, with a sum of one.

    Examples
    --------
    >>> opinion_roots(np.array([[0.64, 0.04, 0.0]])) ** 2
    array([[0.8, 0.2, 0. ]])
    """
    smoothed = p ** p.dtype.type(1 / SMOOTHING)
    return np.asarray(np.sqrt(smoothed / np.maximum(smoothed.sum(axis=1, keepdims=True), 1e-30)))


def evidence(scores: NDArray[Any]) -> NDArray[Any]:
    """Return ``log sum exp`` (b,) of logits (b, L): how much speaks for any known class."""
    # SciPy's logsumexp takes ten times as long for one query.
    highest = scores.max(axis=1, keepdims=True)
    return np.asarray(highest[:, 0] + np.log(np.exp(scores - highest).sum(axis=1)))
