"""A classifier of scikit-learn whose neighbours are found by codes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from supquant.index import CodeIndex
from supquant.inputs.parameters import check_integer
from supquant.model import SupervisedQuantizer

SMALLEST_VOTE = 1e-9
"""The weight of a row whose probability of an equal label rounds to zero, so that a vote is never empty."""


class CodeNeighborsClassifier(ClassifierMixin, BaseEstimator):
    """A vote of the nearest training rows, of which only codes are kept.

    Parameters
    ----------
    quantizer : estimator or None, default=None
        Learns the codes; a clone of it is fitted. None is a `SupervisedQuantizer`, which needs 256 rows.
    n_neighbors : int, default=10
        Number of rows that vote. A vote weighs as much as its score, which is the probability that the labels are equal.

    Attributes
    ----------
    classes_ : (L,) array
        The labels.
    index_ : CodeIndex
        The codes of the training rows, with row numbers as ids.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> classifier = CodeNeighborsClassifier(SupervisedQuantizer(4, n_codewords=64, random_state=0))
    >>> bool(cross_val_score(classifier, X, y, cv=3).mean() > 0.9)
    True
    """

    def __init__(self, quantizer: Any = None, n_neighbors: int = 10) -> None:
        self.quantizer = quantizer
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> Self:
        """Learn codes from vectors (n, p) and their labels (n,)."""
        X, y = validate_data(self, X, y)
        check_classification_targets(y)
        check_integer(self.n_neighbors, "n_neighbors", 1)
        self.classes_, self._labels = np.unique(y, return_inverse=True)
        model = SupervisedQuantizer() if self.quantizer is None else clone(self.quantizer)
        self.index_ = CodeIndex(model.fit(X, y)).add(X)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the fraction of the votes for each label: (n, L) float64."""
        check_is_fitted(self)
        scores, ids = self.index_.search(validate_data(self, X, reset=False), self.n_neighbors)
        votes = np.zeros((len(ids), len(self.classes_)))
        np.add.at(votes, (np.arange(len(ids))[:, None], self._labels[ids]), np.maximum(scores, SMALLEST_VOTE))
        return votes / votes.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        """Return the label with the most votes: (n,)."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]
