"""Vectors to features that say what a vector means: the probability of every label, twice, and where the vector lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec import label_probabilities, row_products
from supquant.features.gaussian_map import GaussianMap
from supquant.storage import lay_out_as_stored

_KERNEL = "kernel."
"""Prefix of the kernel's arrays in a file."""


@dataclass(frozen=True)
class LabelMap:
    """The fitted, frozen map of `LabelKernel`: what a codec holds.

    A vector becomes ``[p | h | k]``: probabilities of the L labels by likelihood, the same by least squares, and g coordinates
    along principal directions.
    """

    kernel: GaussianMap | None  # None takes vectors as they are: d = p
    weights: Float32  # (d + 1, L), the last row the intercept: logits by likelihood
    smooth: Float32  # (d + 1, L)  logits by least squares with more ridge, nearer for classes that nobody trained on
    mean: Float32  # (p,)
    directions: Float32  # (p, g), scaled so that the mean of |k|^2 over training rows is one
    multilabel: bool

    kind: ClassVar[str] = "label-kernel"

    def __post_init__(self) -> None:
        lay_out_as_stored(self, ["weights", "smooth", "mean", "directions"])

    @property
    def n_inputs(self) -> int:
        """Width of what comes in."""
        return len(self.mean)

    @property
    def n_labels(self) -> int:
        """L, the width of p and of h."""
        return int(self.weights.shape[1])

    @property
    def n_directions(self) -> int:
        """The width g of k."""
        return int(self.directions.shape[1])

    @property
    def n_features(self) -> int:
        """Width of what comes out, 2 L + g."""
        return 2 * self.n_labels + self.n_directions

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, 2 L + g)."""
        return self.from_kernel(x if self.kernel is None else self.kernel(x), x)

    def from_kernel(self, phi: Float32, x: Float32) -> Float32:
        """Give the features (b, 2 L + g) of a block whose kernel features phi (b, d) are known."""
        L = self.n_labels
        features = np.empty((len(x), self.n_features), dtype=np.float32)
        for part, weights in enumerate((self.weights, self.smooth)):
            scores = row_products(phi, self._rows[part]) + weights[-1]
            features[:, part * L : (part + 1) * L] = label_probabilities(scores, multilabel=self.multilabel)
        features[:, 2 * L :] = row_products(x - self.mean, self._rows[2])
        return features

    @cached_property
    def _rows(self) -> tuple[Float32, Float32, Float32]:
        """Weights of either kind and directions, with a row for every output."""
        return (
            np.ascontiguousarray(self.weights[:-1].T),
            np.ascontiguousarray(self.smooth[:-1].T),
            np.ascontiguousarray(self.directions.T),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold."""
        arrays = {} if self.kernel is None else self.kernel.arrays()
        return {_KERNEL + name: value for name, value in arrays.items()} | {
            "weights": self.weights,
            "smooth": self.smooth,
            "mean": self.mean,
            "directions": self.directions,
            "multilabel": np.array([self.multilabel], dtype=np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""
        inner = {
            name.removeprefix(_KERNEL): value for name, value in arrays.items() if name.startswith(_KERNEL)
        }
        return cls(
            kernel=GaussianMap.from_arrays(inner) if inner else None,
            weights=arrays["weights"],
            smooth=arrays["smooth"],
            mean=arrays["mean"],
            directions=arrays["directions"],
            multilabel=bool(arrays["multilabel"][0]),
        )


def logits(phi: Float32, weights: Float32) -> Float32:
    """Give phi W (b, L) for features phi (b, d) and weights (d + 1, L), whose last row is the intercept."""
    scores = phi @ weights[:-1]
    scores += weights[-1]
    return scores
