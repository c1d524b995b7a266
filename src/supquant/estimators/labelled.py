"""What an estimator that was fitted to labels does with them: it encodes labelled vectors, and predicts labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes
from supquant.codec.codebooks import MissingLabels
from supquant.estimators.estimator import CodeEstimator
from supquant.inputs.validation import check_vectors
from supquant.parallel import row_blocks

BLOCK_SCORES = 1 << 24
"""`predict` holds at most this number of label scores at a time."""


class LabelEstimator(CodeEstimator):
    """The shared part of the estimators whose codec knows labels."""

    def encode(
        self, X: ArrayLike, y: ArrayLike | None = None, *, missing_labels: MissingLabels = "predict"
    ) -> Codes:
        """Return the codes of vectors.

        Parameters
        ----------
        X : (n, p) array
        y : labels as in `fit`, or None, default=None
            If labels are known, the codes hold them.
        missing_labels : {"predict", "drop"}, default="predict"
            Used without `y`: ``"predict"`` takes the predicted label vector instead, and ``"drop"`` looks at the quantization
            error alone.

        Returns
        -------
        (n, M) uint8
        """
        return self._codec().encode_items(X, y, missing_labels=missing_labels, n_jobs=self.n_jobs)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores of all labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, L) float32
        """
        return self._codec().decision_function(X, n_jobs=self.n_jobs)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the probabilities of all labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n, L) float32
        """
        return self._codec().predict_proba(X, n_jobs=self.n_jobs)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict labels.

        Parameters
        ----------
        X : (n, p) array

        Returns
        -------
        (n,) array of classes, or (n, L) uint8
            With several labels per row it is the indicator matrix of the scores above one half.
        """
        X = check_vectors(X, n_features=self._codec().n_inputs, min_rows=0)
        if self.codec_.multilabel:
            return (self.decision_function(X) > 0.5).astype(np.uint8)
        best = [
            self.decision_function(X[start:stop]).argmax(axis=1)
            for start, stop in row_blocks(len(X), max(1, BLOCK_SCORES // len(self.classes_)))
        ]
        classes: NDArray[Any] = self.classes_[np.concatenate([np.zeros(0, dtype=np.intp), *best])]
        return classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels that the model knows: (L,)."""
        classes = self._codec().classes
        assert classes is not None
        return classes
