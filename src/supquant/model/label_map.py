"""Vectors to features: the fitted map to the probabilities of labels, by two classifiers, and to coordinates of the vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.base import check_parts, number_in
from supquant.codec.gaussian_map import GaussianMap, kernel_arrays, kernel_features, kernel_from_arrays
from supquant.codec.probabilities import label_probabilities
from supquant.codec.queries import row_products
from supquant.kernels import Packed, pack_rows
from supquant.storage import lay_out_as_stored


@dataclass(frozen=True)
class LabelMap:
    """The fitted, frozen map of `LabelKernel`, which a codec holds.

    The features of a vector are ``[p | h | k]``: probabilities of the L labels by logistic regression, the same by least squares,
    and g coordinates along principal directions.
    """

    kernel: GaussianMap | None  # None takes vectors as features: d = p
    weights: Float32  # (d + 1, L) of logits by logistic regression; the last row is the intercept
    smooth: Float32  # (d + 1, L) of logits by least squares with more ridge
    mean: Float32  # (p,)
    directions: Float32  # (p, g), scaled so that the mean of |k|^2 over training rows is one
    multilabel: bool

    kind: ClassVar[str] = "label-kernel"

    def __post_init__(self) -> None:
        lay_out_as_stored(self, ["weights", "smooth", "mean", "directions"])

    @property
    def n_inputs(self) -> int:
        """Width of the vectors."""
        return len(self.mean)

    @property
    def n_labels(self) -> int:
        """L, the width of p and of h."""
        return int(self.weights.shape[1])

    @property
    def n_directions(self) -> int:
        """g, the width of k."""
        return int(self.directions.shape[1])

    @property
    def n_features(self) -> int:
        """Width of the features, 2 L + g."""
        return 2 * self.n_labels + self.n_directions

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, 2 L + g)."""
        return self.from_kernel(kernel_features(self.kernel, x), x)

    def from_kernel(self, phi: Float32, x: Float32) -> Float32:
        """Return the features (b, 2 L + g) of a block x (b, p), from its kernel features phi (b, d)."""
        L = self.n_labels
        features = np.empty((len(x), self.n_features), dtype=np.float32)
        for part, weights in enumerate((self.weights, self.smooth)):
            scores = row_products(phi, self._packed[part]) + weights[-1]
            features[:, part * L : (part + 1) * L] = label_probabilities(scores, multilabel=self.multilabel)
        features[:, 2 * L :] = row_products(x - self.mean, self._packed[2])
        return features

    @cached_property
    def _packed(self) -> tuple[Packed, Packed, Packed]:
        """Both kinds of weights and the directions, transposed: a row for every output."""
        return pack_rows(self.weights[:-1].T), pack_rows(self.smooth[:-1].T), pack_rows(self.directions.T)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        return kernel_arrays(self.kernel) | {
            "weights": self.weights,
            "smooth": self.smooth,
            "mean": self.mean,
            "directions": self.directions,
            "multilabel": np.array([self.multilabel], dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""
        sizes = check_parts(arrays, weights=("d", "L"), smooth=("d", "L"), mean=("p",), directions=("p", "g"))
        return cls(
            kernel=kernel_from_arrays(arrays, sizes["p"], sizes["d"] - 1),
            weights=arrays["weights"],
            smooth=arrays["smooth"],
            mean=arrays["mean"],
            directions=arrays["directions"],
            multilabel=bool(number_in(arrays, "multilabel")),
        )


def logits(phi: Float32, weights: Float32) -> Float32:
    """Return the logits (b, L) of features phi (b, d) under weights (d + 1, L), whose last row is the intercept."""
    scores = phi @ weights[:-1]
    scores += weights[-1]
    return scores
