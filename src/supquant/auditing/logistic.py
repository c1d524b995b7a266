"""Vectors to probabilities of labels, by a logistic regression that did not see the row.

Ridge regression, whose scores leave a row out in closed form, counts the squares of errors. So its small probabilities, which
tell unusual labels from wrong ones, are poor if there are many classes. Here every third of the rows is judged by a logistic
regression on the others. On Tiny-ImageNet, which has 200 classes, the average precision of an audit is .82 with it, and .71
without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from supquant.arrays import Float32, Float64
from supquant.inputs.validation import as_float32
from supquant.parallel import ordered_map

N_FOLDS = 3
"""Number of regressions, each of which does not see its fold of the rows."""

MAX_ROWS = 1 << 15
"""The regressions are fitted to at most this number of rows, and judge all of them."""

MAX_PRODUCTS = 1 << 31
"""The scores of the rows that regressions are fitted to take at most this number of multiplications. If that leaves fewer than
`MIN_PER_LABEL` rows per label, there is no regression."""

MIN_PER_LABEL = 8
"""See `MAX_PRODUCTS`."""

PENALTIES = (1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5)
"""Penalties of the squared weights that are tried, the greatest first, for columns of a mean variance of one."""

MAX_STEPS = 30
"""Maximum number of steps of the optimizer for each penalty."""


@dataclass(frozen=True, eq=False)
class LogisticFolds:
    """Regressions, each of which judges the rows of its fold."""

    X: NDArray[Any]  # (n, p)
    fold: NDArray[np.int8]  # (n,) number of the regression that did not see the row
    mean: Float32  # (p,)
    scale: np.float32
    weights: Float32  # (F, p + 1, L); the last row is added

    def probabilities(self, block: tuple[int, int]) -> Float32:
        """Return the probabilities (b, L) of all labels, for the rows from the first number of a block to before the last."""
        fold = self.fold[slice(*block)]
        x = (as_float32(self.X[slice(*block)]) - self.mean) * self.scale
        found = np.empty((len(x), self.weights.shape[2]), dtype=np.float32)
        for number, w in enumerate(self.weights):
            found[fold == number] = softmax(x[fold == number] @ w[:-1] + w[-1], axis=1)
        return found


def learn_logistic(
    X: NDArray[Any], own: NDArray[np.int64], n_labels: int, rng: np.random.Generator, n_jobs: int
) -> LogisticFolds | None:
    """Learn regressions from the labelled rows of X (n, p), or None if there are too few rows for so many labels.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    own : ndarray of shape (n,), int64
        The number of the label of each row, -1 for none.
    n_labels : int
    rng : numpy Generator
        Draws the folds.
    n_jobs : int
        Number of threads.

    Returns
    -------
    LogisticFolds or None

    Examples
    --------
    >>> X = np.repeat([[0.0], [1.0]], 30, axis=0) + np.linspace(0, 0.1, 60)[:, None]
    >>> own = np.repeat([0, 1], 30)
    >>> own[3] = 1
    >>> folds = learn_logistic(X, own, 2, np.random.default_rng(0), 1)
    >>> folds.probabilities((3, 4))[0].argmax()
    np.int64(0)
    """
    order = rng.permutation(len(X))
    fold = np.empty(len(X), dtype=np.int8)
    by_label = order[np.argsort(own[order], kind="stable")]
    fold[by_label] = np.arange(len(X)) % N_FOLDS  # each label has nearly as many rows in every fold
    known = order[own[order] >= 0][: min(MAX_ROWS, MAX_PRODUCTS // (n_labels * X.shape[1]))]
    if len(known) < MIN_PER_LABEL * n_labels:
        return None
    known = np.sort(known)
    x = as_float32(X[known])
    mean = x.mean(axis=0)
    x = x - mean
    scale = np.float32(1 / max(float(np.sqrt(np.square(x).mean(dtype=np.float64))), 1e-12))
    x *= scale
    chosen, first = _choose_penalty(x, own[known], fold[known] == 0, n_labels)

    def of_fold(number: int) -> Float32:
        seen = fold[known] != number
        return _fitted(x[seen], own[known][seen], chosen, np.zeros_like(first))

    others = ordered_map(of_fold, range(1, N_FOLDS), n_jobs)
    return LogisticFolds(X, fold, mean, scale, np.stack([first, *others]))


def _choose_penalty(
    x: Float32, own: NDArray[np.int64], left_out: NDArray[np.bool_], n_labels: int
) -> tuple[float, Float32]:
    """Return the penalty with the lowest log loss of the rows left out, and the weights (p + 1, L) learned from the others."""
    weights = np.zeros((x.shape[1] + 1, n_labels), dtype=np.float32)
    best = (np.inf, PENALTIES[0], weights)
    for penalty in PENALTIES:
        weights = _fitted(x[~left_out], own[~left_out], penalty, weights)
        scores = log_softmax(x[left_out] @ weights[:-1] + weights[-1], axis=1)
        loss = -float(scores[np.arange(len(scores)), own[left_out]].mean(dtype=np.float64))
        if loss > best[0]:
            break
        best = (loss, penalty, weights)
    return best[1], best[2]


def _fitted(x: Float32, own: NDArray[np.int64], penalty: float, start: Float32) -> Float32:
    """Return weights (p + 1, L) that minimize the mean log loss of rows x (b, p) and half the penalty times their squares."""
    rows = np.arange(len(x))

    def loss(point: Float64) -> tuple[float, Float64]:
        w = point.reshape(start.shape).astype(np.float32)
        scores = log_softmax(x @ w[:-1] + w[-1], axis=1)
        value = -float(scores[rows, own].mean(dtype=np.float64))
        missed = np.exp(scores, out=scores)  # (b, L)
        missed[rows, own] -= 1
        slope = np.empty(start.shape)
        slope[:-1] = (x.T @ missed) / len(x) + penalty * w[:-1]
        slope[-1] = missed.mean(axis=0, dtype=np.float64)
        return value + penalty / 2 * float(np.square(w[:-1]).sum(dtype=np.float64)), slope.ravel()

    options = {"maxiter": MAX_STEPS}
    found = scipy.optimize.minimize(
        loss, start.ravel().astype(np.float64), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x.reshape(start.shape), dtype=np.float32)
