"""Report: `classifier`, an item stored as its label and a query as its class scores.

The ceiling of a protocol in which the database comes with its labels: nothing is quantized, the label
itself is kept.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from supquant.codec import RANKINGS
from supquant.evaluation import label_scores
from supquant.experiments.methods.interface import Array, Fitted, Method, Steps, Training
from supquant.labels import Labels
from supquant.parallel import row_blocks

if TYPE_CHECKING:
    from supquant.features import GaussianMap

RELATIVE_RIDGE = 1e-6
"""In units of the mean diagonal of X'X, as in the projection of `sq`: a ridge of 1 costs half a point of MAP."""


class FittedClassifier(Fitted):
    """Least squares with ridge and no intercept; items are labels, or float class scores (n, L).

    Scores are what an item is if it came without labels and could have several of them.
    """

    def __init__(self, labels: Labels, features: GaussianMap | None, weights: Array, seconds: float) -> None:
        self.fit_seconds = self.chain_seconds = seconds
        self.parameters = {
            "relative_ridge": RELATIVE_RIDGE,
            "anchors": 0 if features is None else len(features.anchors),
            "n_labels": weights.shape[1],
        }
        self._labels = labels
        self._features = features
        self._weights = weights  # (d, L) float32

    def learned(self) -> Labels:
        """Give the training labels themselves."""
        return self._labels

    def encoded(self, X: Array) -> Labels | Array:
        """Give the predicted label of each row, or its class scores if it may have several."""
        scores = np.concatenate(
            [self._map(X[start:stop]) @ self._weights for start, stop in row_blocks(len(X))]
        )
        if self._labels.multilabel:
            return scores
        return Labels(
            classes=self._labels.classes,
            multilabel=False,
            indices=scores.argmax(axis=1).astype(np.int32),
            indicator=None,
        )

    def steps(self, items: Labels | Array, ranking: str) -> Steps:
        """Give class scores of the query, then the scores of the items' labels."""
        del ranking
        scan = label_scores(items) if isinstance(items, Labels) else lambda scores: -(scores @ items.T)
        return {"features": self._map, "tables": lambda features: features @ self._weights, "scan": scan}

    def bytes_per_item(self, items: Labels | Array) -> float:
        """Give the bytes of a label number, of a bit a label, or of the class scores."""
        if not isinstance(items, Labels):
            return float(items.itemsize * items.shape[1])
        bits = items.n_labels if items.multilabel else max(1, (items.n_labels - 1).bit_length())
        return float(-(-bits // 8))

    def distinct(self, items: Labels | Array) -> int | None:
        """Count the different labels, or sets of labels."""
        if not isinstance(items, Labels):
            return None
        if items.indices is not None:
            return len(np.unique(items.indices))
        return len(np.unique(items.dense(0, len(items)), axis=0))

    def _map(self, X: Array) -> Array:
        return X if self._features is None else self._features(X)


class Classifier(Method):
    """`classifier`: the same at any code length and whatever the ranking is called."""

    rankings = RANKINGS

    def fitted(self, bits: int) -> FittedClassifier:
        """Give the one classifier there is."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedClassifier:
        began = time.perf_counter()
        kernel = self.settings.features()
        features = None if kernel is None else kernel.fit(self.training.X).map_
        weights = _least_squares(self.training, features)
        return FittedClassifier(self.training.labels, features, weights, time.perf_counter() - began)


def _least_squares(training: Training, features: GaussianMap | None) -> Array:
    """Solve (X'X + delta I) W = X'Y in float64, from sums over row blocks."""
    width = training.X.shape[1] if features is None else len(features.anchors)
    xx = np.zeros((width, width))  # (d, d)
    xy = np.zeros((width, training.labels.n_labels))  # (d, L)
    for start, stop in row_blocks(len(training.X)):
        block = training.X[start:stop] if features is None else features(training.X[start:stop])
        block = np.asarray(block, dtype=np.float64)
        xx += block.T @ block
        xy += block.T @ training.labels.dense(start, stop)
    xx[np.diag_indices(width)] += RELATIVE_RIDGE * np.trace(xx) / width
    weights: Array = scipy.linalg.solve(xx, xy, assume_a="pos").astype(np.float32)
    return weights
