"""Report: the classifier in three forms, whose items are labels, bits of class scores, or class scores."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant_lab.hashing import ClassifierLabels
from supquant_lab.methods.codes import SHORTEST_BITS, EstimatorMethod, FittedCodes
from supquant_lab.methods.interface import Fitted, Method, Steps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GRID: Mapping[str, Sequence[float]] = {"ridge": tuple(float(ridge) for ridge in np.geomspace(1e-9, 1e1, 40))}
"""The 40 values of the ridge penalty that a validation search tries."""


class Classifier(EstimatorMethod):
    """`classifier`: items are labels, the same at any code length."""

    name = "classifier"
    kernel = True
    rankings = ("label", "euclidean")  # both rank labels in the same order
    grid = GRID

    def fitted(self, bits: int) -> FittedCodes:
        """Return the classifier, which is the same at any length."""
        del bits
        return super().fitted(SHORTEST_BITS)


class ClassifierOfBits(EstimatorMethod):
    """`classifier-bits`: random-projection bits of the class scores."""

    name = "classifier-bits"
    kernel = True
    rankings = ("hamming",)
    grid = GRID


class FittedScores(Fitted):
    """Items are float class scores (n, L), ranked by their product with the scores of the query."""

    def __init__(self, classifier: ClassifierLabels, seconds: float, parameters: Mapping[str, Any]) -> None:
        self.fit_seconds = self.chain_seconds = seconds
        self.parameters = parameters
        self._classifier = classifier

    def encoded(self, X: Array) -> Array:
        """Return the class scores (n, L) of vectors without labels."""
        return self._classifier.decision_function(X)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: the class scores of the query, then the products."""
        del ranking
        codec = self._classifier.codec_
        return {
            "features": codec.features,
            "encode": codec.project,
            "scan": lambda scores: -(scores @ items.T),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Return four bytes for each label."""
        return float(items.itemsize * items.shape[1])


class ClassifierOfScores(Method):
    """`classifier-scores`: nothing is quantized, so this is the best that codes of items without labels can reach."""

    name = "classifier-scores"
    rankings = ("label",)
    published = "encoded"

    def fitted(self, bits: int) -> FittedScores:
        """Return the classifier, which is the same at any length."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedScores:
        labels = Classifier(self.training, self.settings, self.callback, self.kept).fitted(8)
        return FittedScores(labels.estimator, labels.fit_seconds, labels.parameters)
