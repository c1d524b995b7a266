"""Report: `probabilities`, the float label probabilities of the classifier that `sq` ranked by meaning has inside."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from supquant.arrays import Array
from supquant.codec.meaning import label_weights
from supquant.labels import read_labels
from supquant_experiments.methods.codes import SHORTEST_BITS, FittedCodes
from supquant_experiments.methods.interface import Fitted, Method, Steps
from supquant_experiments.methods.quantization import SupervisedQuantization

if TYPE_CHECKING:
    from supquant.quantizers import SupervisedQuantizer


class FittedProbabilities(Fitted):
    """Items are the probabilities of all labels (n, L) float32, or 0 and 1 where labels are known.

    They rank by their product with what the query makes of its own probabilities, as codes ranked by meaning do.
    """

    def __init__(self, codes: FittedCodes, y: Array) -> None:
        self.fit_seconds, self.chain_seconds = codes.fit_seconds, codes.chain_seconds
        self.parameters = codes.parameters
        self.truncated, self.convergence = codes.truncated, codes.convergence
        self._quantizer: SupervisedQuantizer = codes.estimator
        self._labels = read_labels(y, classes=self._quantizer.classes_)

    def learned(self) -> Array:
        """Return the labels of the training rows as an indicator (n, L)."""
        return self._labels.dense(0, len(self._labels)).astype(np.float32)

    def encoded(self, X: Array) -> Array:
        """Return the probability of every label for vectors without labels."""
        return np.asarray(self._quantizer.predict_proba(X), dtype=np.float32)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Give the label probabilities of the query, what it multiplies labels by, and the products."""
        del ranking
        return {
            "features": self.encoded,
            "projection": lambda p: label_weights(p, multilabel=self._labels.multilabel),
            "scan": lambda weights: -(weights @ items.T),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Give four bytes a label."""
        return float(items.itemsize * items.shape[1])


class LabelProbabilities(Method):
    """`probabilities`: what codes of `sq` ranked by meaning lose is what they have less than this.

    The classifier is that of a fit of `sq` to 16 bits on the library's own features, whatever the number of anchors that was
    asked for, and fits that were kept for the one serve the other.
    """

    name = "probabilities"
    rankings: ClassVar[tuple[str, ...]] = ("semantic",)

    def fitted(self, bits: int) -> FittedProbabilities:
        """Give the one classifier there is, whatever the length."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedProbabilities:
        settings = replace(self.settings, ranking="semantic", anchors=None)
        quantization = SupervisedQuantization(self.training, settings, self.callback, self.kept)
        return FittedProbabilities(quantization.fitted(SHORTEST_BITS), self.training.y)
