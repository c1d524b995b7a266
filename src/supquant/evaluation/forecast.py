"""Score: how good retrieval will be, from rows that are held out for the purpose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from supquant.errors import InputError
from supquant.evaluation.retrieval import evaluate_tables
from supquant.evaluation.splits import default_queries
from supquant.labels import read_labels
from supquant.validation import check_vectors, random_generator

if TYPE_CHECKING:
    from supquant.estimator import CodeEstimator

FEWEST_ROWS = 20


@dataclass(frozen=True)
class Forecast:
    """What to expect of an index.

    Attributes
    ----------
    labelled : float
        MAP where items come with their labels.
    unlabelled : float
        MAP where they come without.
    n_queries, n_unlabelled : int
        Held-out rows that asked, and that were items without labels.
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
    X: object,
    y: object,
    *,
    random_state: int | np.random.Generator | None = 0,
) -> Forecast:
    """Fit a copy of an estimator to most of the rows, and say how well the others retrieve.

    Parameters
    ----------
    estimator : an estimator of codes, not fitted
    X, y : as its `fit` takes them
        Two tenths of the rows are held out, at most 2,000: one half asks, the other half is the items without labels; the
        rows that were trained on are those with labels.

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
    if len(X) < FEWEST_ROWS:
        raise InputError(f"a forecast needs {FEWEST_ROWS} rows at least, got {len(X)}")
    order = random_generator(random_state).permutation(len(X))
    q = default_queries(len(X))
    asking, items, training = order[:q], order[q : 2 * q], np.sort(order[2 * q :])
    given: Any = y if hasattr(y, "__getitem__") and hasattr(y, "shape") else np.asarray(y)
    fitted = clone(estimator).fit(X[training], given[training])
    tables = fitted.tables(X[asking])
    of_queries = labels.take(asking)
    known = evaluate_tables(tables, fitted.training_codes_, of_queries, labels.take(training))
    unknown = evaluate_tables(tables, fitted.encode(X[items]), of_queries, labels.take(items))
    return Forecast(known.map, unknown.map, len(asking), len(items))
