"""Report: the classifier in its three forms: an item is its label, bits of its class scores, or the scores themselves."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.hashing import ClassifierLabels
from supquant_experiments.methods.codes import SHORTEST_BITS, EstimatorMethod, FittedCodes
from supquant_experiments.methods.interface import Fitted, Method, Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRID: Mapping[str, Sequence[float]] = {"ridge": tuple(float(ridge) for ridge in np.geomspace(1e-9, 1e1, 40))}


class Classifier(EstimatorMethod):
    """`classifier`: items are labels, which is the same at any code length."""

    name = "classifier"
    kernel = True
    rankings = ("semantic", "euclidean")  # both say the same of labels
    grid = GRID

    def fitted(self, bits: int) -> FittedCodes:
        """Give the one classifier there is, whatever the length."""
        del bits
        return super().fitted(SHORTEST_BITS)


class ClassifierOfBits(EstimatorMethod):
    """`classifier-bits`: random-projection bits of the class scores."""

    name = "classifier-bits"
    kernel = True
    rankings = ("hamming",)
    grid = GRID


class FittedScores(Fitted):
    """Items are float class scores (n, L); they rank by their product with those of the query."""

    def __init__(self, classifier: ClassifierLabels, seconds: float, parameters: Mapping[str, Any]) -> None:
        self.fit_seconds = self.chain_seconds = seconds
        self.parameters = parameters
        self._classifier = classifier

    def encoded(self, X: Array) -> Array:
        """Give the class scores of vectors without labels."""
        return self._classifier.decision_function(X)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Give the class scores of the query, then the products."""
        del ranking
        codec = self._classifier.codec_
        return {
            "features": codec.features,
            "encode": codec.project,
            "scan": lambda scores: -(scores @ items.T),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Give four bytes a label."""
        return float(items.itemsize * items.shape[1])


class ClassifierOfScores(Method):
    """`classifier-scores`: nothing is quantized; what codes of items without labels can hope for."""

    name = "classifier-scores"
    rankings = ("semantic",)
    published = "encoded"

    def fitted(self, bits: int) -> FittedScores:
        """Give the one classifier there is, whatever the length."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedScores:
        labels = Classifier(self.training, self.settings, self.callback, self.kept).fitted(8)
        return FittedScores(labels.estimator, labels.fit_seconds, labels.parameters)
