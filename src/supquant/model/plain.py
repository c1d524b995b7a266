"""What a plain classifier makes of the same rows, so that a fit that went wrong is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

SEEN_ROWS, ASKED_ROWS = 1500, 500
"""The plain classifier learns from at most this many rows, and is asked for at most this many others."""

RIDGE = 0.1
"""Ridge of the scatter within classes, as a fraction of its mean diagonal."""


def plain_accuracy(
    x: NDArray[Any], y: NDArray[np.int32], asked: NDArray[Any], answers: NDArray[np.int32]
) -> float:
    """Return the fraction of asked rows that a linear discriminant on standardised columns recognises.

    Parameters
    ----------
    x : ndarray of shape (n, p)
        The rows to learn from.
    y : ndarray of shape (n,)
        Numbers of their labels.
    asked : ndarray of shape (q, p)
        The rows whose labels are predicted.
    answers : ndarray of shape (q,)
        Numbers of their labels.

    Examples
    --------
    >>> y = np.arange(90) % 3
    >>> X = np.c_[y + np.random.default_rng(0).normal(scale=0.1, size=90), 1e6 * (np.arange(90) % 7)]
    >>> plain_accuracy(X[:60], y[:60], X[60:], y[60:])
    1.0
    """
    n = len(x)
    x = np.concatenate([x, asked]).astype(np.float64)
    mean, spread = x[:n].mean(axis=0), x[:n].std(axis=0)
    x = (x - mean) / np.where(spread > 1e-12 * np.abs(mean), spread, np.inf)  # a constant column becomes 0
    if x.shape[1] > len(x):  # other coordinates with the same products
        gram = x @ x.T
        gram.flat[:: len(x) + 1] += 1e-6 * np.trace(gram) / len(x) + 1e-30
        x = scipy.linalg.cholesky(gram, lower=True)
    classes, own, counts = np.unique(y, return_inverse=True, return_counts=True)
    means = (np.arange(len(classes))[:, None] == own) @ x[:n] / counts[:, None]  # (c, p)
    left = x[:n] - means[own]
    scatter = left.T @ left / n
    scatter.flat[:: len(scatter) + 1] += RIDGE * np.trace(scatter) / len(scatter) + 1e-12
    weights = scipy.linalg.solve(scatter, means.T, assume_a="pos")  # (p, c)
    scores = x[n:] @ weights - 0.5 * np.einsum("cp,pc->c", means, weights) + np.log(counts)
    return float((classes[scores.argmax(axis=1)] == answers).mean())


def copied_fraction(x: NDArray[Any], asked: NDArray[Any]) -> float:
    """Return the fraction of rows asked (q, p) that are equal to one of x (n, p).

    Examples
    --------
    >>> copied_fraction(np.array([[1, 2], [3, 4]]), np.array([[3, 4], [5, 6], [1, 2], [2, 1]]))
    0.5
    """
    seen = {row.tobytes() for row in x}
    return sum(row.tobytes() in seen for row in asked) / len(asked)
