"""The probability of every label of a row, by a classifier that did not see the label of that row.

Ridge regression on kernel features leaves one row out in closed form. With H = Phi (G + D)^-1 Phi' and the scores S = H Y of all
rows, the scores of row i without its own label are ``(S_i - H_ii Y_i) / (1 - H_ii)``. So one factor of G + D does what n fits
would do. Rows left out of a sample choose the ridge and the temperature by their log loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from supquant.arrays import Float32, RowNumbers
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels
from supquant.model.kernel_classifier import RIDGES, Calibration, calibrate
from supquant.model.kernel_rows import Factor, KernelRows, NormalEquations
from supquant.model.label_kernel import MANY_LABELS, gaussian_kernel
from supquant.parallel import ordered_map
from supquant.published.features import WIDE
from supquant.row_sums import FeatureCache

MOST_ANCHORS = 2000
"""The kernel has at most this number of anchors. It has none with more than `MANY_LABELS` labels or vectors wider than `WIDE`."""

JUDGES = 4096
"""At most this number of rows choose ridge and temperature."""

MOST_LOSS_RATIO = 1.02
"""No smaller ridge is tried after a loss that is more than this many times the lowest one."""

LEAST_REST = 1e-4
"""The least value of 1 - H_ii that is divided by. A row with less decides its own score, and nothing is left without it."""


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """A classifier that leaves out the labels of the row that it is asked about."""

    rows: KernelRows  # all rows, with labels and without
    inverse: Float32  # (d + 1, d + 1) the inverse of the lower Cholesky factor of G + D
    weights: Float32  # (d + 1, L) of scores, learned from all labelled rows
    calibration: Calibration
    ridge: float  # in units of the mean diagonal of G

    def scores(self, numbers: RowNumbers) -> Float32:
        """Return the scores (b, L) of rows, each without its own labels."""
        phi = self.rows.features(numbers)
        scores = phi @ self.weights
        labels = self.rows.labels.take(numbers)
        leverage = np.square(phi @ self.inverse.T).sum(axis=1)  # H_ii; unknown labels have no part in G
        leverage[~labels.known] = 0
        carried = labels.sparse().tocoo()
        scores[carried.row, carried.col] -= leverage[carried.row]
        scores /= np.maximum(1 - leverage, LEAST_REST)[:, None]
        return scores

    def probabilities(self, numbers: RowNumbers) -> Float32:
        """Return the probabilities (b, L) of all labels of rows, each by a classifier without its own labels."""
        logits = self.scores(numbers) * np.float32(self.calibration.temperature)
        logits -= np.float32(self.calibration.shift)
        return label_probabilities(logits, multilabel=self.rows.labels.multilabel)


def learn_out_of_fold(X: NDArray[Any], labels: Labels, rng: np.random.Generator, n_jobs: int) -> OutOfFold:
    """Learn the classifier from the labelled rows of X (n, p).

    Parameters
    ----------
    X : ndarray of shape (n, p)
    labels : Labels
        Some may be unknown.
    rng : numpy Generator
        Draws the anchors and the rows that choose the ridge.
    n_jobs : int
        Number of threads.

    Returns
    -------
    OutOfFold

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> X = np.repeat([[0.0], [1.0]], 20, axis=0) + np.linspace(0, 0.1, 40)[:, None]
    >>> y = np.repeat(["a", "b"], 20)
    >>> y[3] = "b"
    >>> judge = learn_out_of_fold(X, read_labels(y), np.random.default_rng(0), 1)
    >>> judge.probabilities(np.array([3]))[0].argmax()
    np.int64(0)
    """
    order = rng.permutation(np.flatnonzero(labels.known))
    plain = labels.n_labels > MANY_LABELS or X.shape[1] > WIDE
    kernel = None if plain else gaussian_kernel(X, order, MOST_ANCHORS, None)
    # No features are kept: blocks of judges and of all rows begin at the same row, and a cache knows blocks by that.
    learned = KernelRows.of(X, labels, kernel, np.sort(order), cache=FeatureCache(0), n_jobs=n_jobs)
    equations = learned.normal_equations()  # each row is taken out of the sums again
    judges = np.sort(order[:JUDGES])
    Y = learned.indicators(judges)

    def tried(ridge: float) -> tuple[float, OutOfFold] | None:
        factor = equations.factor(ridge)
        if factor is None:  # rounding made the matrix indefinite
            return None
        found = _solved(learned, equations, factor)
        calibration, loss = calibrate(found.scores(judges), Y, multilabel=labels.multilabel)
        return loss, OutOfFold(learned, found.inverse, found.weights, calibration, ridge)

    best: tuple[float, OutOfFold] | None = None
    for each in ordered_map(tried, RIDGES, min(2, n_jobs)):
        if each is None:
            continue
        if best is None or each[0] < best[0]:
            best = each
        elif each[0] > MOST_LOSS_RATIO * best[0]:
            break
    return best[1] if best else _solved(learned, equations, equations.safe_factor(RIDGES[0]))


def _solved(rows: KernelRows, equations: NormalEquations, factor: Factor) -> OutOfFold:
    """Return the classifier of one ridge, without a calibration."""
    inverse = scipy.linalg.solve_triangular(
        factor.lower, np.eye(len(factor.lower)), lower=True, check_finite=False
    )
    weights = factor.solve(equations.products)
    return OutOfFold(
        rows, inverse.astype(np.float32), weights.astype(np.float32), Calibration(1.0, 0.0), factor.ridge
    )
