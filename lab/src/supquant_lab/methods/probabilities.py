"""Report: `probabilities`, the float label probabilities of the classifier inside `sq` with the label ranking."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from supquant.arrays import Array
from supquant.codec.probabilities import label_weights
from supquant.inputs.labels import read_labels
from supquant_lab.methods.codes import SHORTEST_BITS, FittedCodes
from supquant_lab.methods.interface import Fitted, Method, Steps
from supquant_lab.methods.quantization import SupervisedQuantization

if TYPE_CHECKING:
    from supquant.model.quantizer import SupervisedQuantizer


class FittedProbabilities(Fitted):
    """Items are the probabilities of all labels (n, L) float32, or 0 and 1 where labels are known.

    They are ranked as codes are by the label ranking: by their product with weights from the probabilities of the query.
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
        """Return the steps: the label probabilities of the query, the weights of labels, and the products."""
        del ranking
        return {
            "features": self.encoded,
            "projection": lambda p: label_weights(p, multilabel=self._labels.multilabel),
            "scan": lambda weights: -(weights @ items.T),
        }

    def bytes_per_item(self, items: Array) -> float:
        """Return four bytes for each label."""
        return float(items.itemsize * items.shape[1])


class LabelProbabilities(Method):
    """`probabilities`: the difference to this is what codes of `sq` with the label ranking lose.

    The classifier is that of `sq` at 16 bits with the library's own features, and any number of anchors that was asked for is
    ignored. Both share kept fits.
    """

    name = "probabilities"
    rankings: ClassVar[tuple[str, ...]] = ("label",)

    def fitted(self, bits: int) -> FittedProbabilities:
        """Return the probabilities, which are the same at any length."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedProbabilities:
        settings = replace(self.settings, ranking="label", anchors=None)
        quantization = SupervisedQuantization(self.training, settings, self.callback, self.kept)
        return FittedProbabilities(quantization.fitted(SHORTEST_BITS), self.training.y)
