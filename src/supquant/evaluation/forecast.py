"""Score: how good retrieval will be, estimated on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from supquant.arrays import ArrayLike
from supquant.errors import InputError
from supquant.evaluation.retrieval import evaluate_tables
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import random_generator
from supquant.inputs.validation import check_vectors

if TYPE_CHECKING:
    from supquant.estimators.base import CodeEstimator

MIN_FORECAST_ROWS = 20
"""A forecast needs at least this number of rows."""

MAX_FORECAST_QUERIES = 1000
"""A forecast has at most this number of queries, and as many items without labels."""


@dataclass(frozen=True)
class Forecast:
    """The expected quality of an index.

    Attributes
    ----------
    labelled : float
        MAP if items come with their labels.
    unlabelled : float
        MAP if items come without labels.
    n_queries : int
        Number of held-out rows that were queries.
    n_unlabelled : int
        Number of held-out rows that were items without labels.
    """

    labelled: float
    unlabelled: float
    n_queries: int
    n_unlabelled: int

    def __str__(self) -> str:
        return (
            f"MAP {self.labelled:.3f} for items with labels, {self.unlabelled:.3f} without "
            f"({self.n_queries:,} held-out queries)"
        )


def forecast(
    estimator: CodeEstimator,
    X: ArrayLike,
    y: ArrayLike,
    *,
    random_state: int | np.random.Generator | None = 0,
) -> Forecast:
    """Fit a copy of an estimator to most of the rows and measure retrieval on the others.

    Two tenths of the rows are held out, at most 2,000. One half of them are queries, the other half are items without labels.
    The training rows are the items with labels.

    Parameters
    ----------
    estimator : CodeEstimator
        It is not fitted itself.
    X : array-like of shape (n, p)
        Vectors, at least 20.
    y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
        Their labels, as the `fit` of the estimator takes them.
    random_state : int, numpy Generator or None, default=0
        Draws the held-out rows.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> expected = forecast(SupervisedQuantizer(2, random_state=0), *load_digits(return_X_y=True))
    >>> bool(expected.labelled > 0.9), expected.n_queries
    (True, 179)
    """
    X = check_vectors(X)
    labels = read_labels(y, n_rows=len(X))
    if len(X) < MIN_FORECAST_ROWS:
        raise InputError(f"a forecast needs at least {MIN_FORECAST_ROWS} rows, got {len(X)}")
    order = random_generator(random_state).permutation(len(X))
    q = min(MAX_FORECAST_QUERIES, len(X) // 10)
    queries, items, training = order[:q], order[q : 2 * q], np.sort(order[2 * q :])
    given: Any = y if hasattr(y, "__getitem__") and hasattr(y, "shape") else np.asarray(y)
    fitted = clone(estimator).fit(X[training], given[training])
    tables = fitted.codec_.tables(X[queries])
    query_labels = labels.take(queries)
    labelled = evaluate_tables(tables, fitted.training_codes_, query_labels, labels.take(training))
    unlabelled = evaluate_tables(tables, fitted.encode(X[items]), query_labels, labels.take(items))
    return Forecast(labelled.map, unlabelled.map, len(queries), len(items))
