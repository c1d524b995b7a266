"""What a plain classifier makes of the same rows, so that a fit that went wrong is noticed."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from supquant.arrays import RowNumbers
from supquant.inputs.labels import Labels
from supquant.rows import Rows

SEEN_ROWS, ASKED_ROWS = 1500, 500
"""The plain classifier learns from at most this many rows, and is asked for at most this many others."""

RIDGE = 0.1
"""Ridge of the scatter within classes, as a fraction of its mean diagonal."""


def plain_accuracy(X: Rows, labels: Labels, seen: RowNumbers, asked: RowNumbers) -> float:
    """Return the fraction of asked rows that a linear discriminant on standardised columns recognises.

    Parameters
    ----------
    X : Rows of shape (n, p)
    labels : Labels
        One label per row.
    seen, asked : ndarray of row numbers
        The rows to learn from, and those whose labels are predicted.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> from supquant.rows import rows_of
    >>> y = np.arange(90) % 3
    >>> X = np.c_[y + np.random.default_rng(0).normal(scale=0.1, size=90), 1e6 * (np.arange(90) % 7)]
    >>> plain_accuracy(rows_of(X), read_labels(y), np.arange(60), np.arange(60, 90))
    1.0
    """
    assert labels.indices is not None
    x = np.asarray(X[np.concatenate([seen, asked])], dtype=np.float64)
    y, answers = labels.indices[seen], labels.indices[asked]
    n = len(seen)
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
