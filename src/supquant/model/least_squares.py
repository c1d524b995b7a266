"""Least squares on kernel features: a path of ridges, and what turns the scores into logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.errors import InputError
from supquant.model.kernel_rows import Factor, KernelRows, NormalEquations

LEAST_GAIN = 0.005
"""A smaller ridge is taken if it lowers the loss by at least this share. With a larger one logistic regression gets further."""

TEMPERATURES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0)
"""Factors that are tried on least-squares scores to make them logits."""

SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
"""Numbers that are tried to be subtracted from these logits where a row may carry several labels."""

CALIBRATION_SCORES = 1 << 21
"""Temperature, shift and the lengths of steps are chosen by about this many scores at the most."""


@dataclass(frozen=True)
class Calibration:
    """How scores become logits: ``temperature * score - shift``."""

    temperature: float
    shift: float

    def applied(self, weights: Float64) -> Float64:
        """Return weights (d + 1, L) of logits, from weights of scores."""
        scaled = weights * self.temperature
        scaled[-1] -= self.shift
        return scaled


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The solution for one ridge."""

    ridge: float  # in units of the mean diagonal of G
    weights: Float64  # (d + 1, L) of scores
    calibration: Calibration
    loss: float  # mean over the rows that chose the calibration

    @property
    def logit_weights(self) -> Float64:
        """Weights (d + 1, L) of logits."""
        return self.calibration.applied(self.weights)


def ridge_path(
    equations: NormalEquations, judges: KernelRows, ridges: Sequence[float]
) -> tuple[list[LeastSquares], Factor]:
    """Solve least squares for the middle one of descending ridges, then for its neighbours, towards a lower loss.

    The largest ridge is sought from which no smaller one lowers the loss of the judging rows clearly.

    Parameters
    ----------
    equations : NormalEquations
        Sums over the rows to learn from.
    judges : KernelRows
        Rows on which the losses are measured.
    ridges : sequence of float
        In units of the mean diagonal of G.

    Returns
    -------
    path : list of LeastSquares
        One for each ridge that was tried, in this order. A ridge so small that rounding made G + D indefinite is not among them.
    factor : Factor
        Of the ridge that was found: a smaller one lowers the loss by less than `LEAST_GAIN` of it.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> from supquant.row_sums import FeatureCache
    >>> X, labels = np.array([[0.0], [0.1], [0.9], [1.0]]), read_labels([0, 0, 1, 1])
    >>> rows = KernelRows.of(X, labels, None, np.arange(4), cache=FeatureCache(0), n_jobs=1)
    >>> path, factor = ridge_path(rows.normal_equations(), rows, (10.0, 1.0, 1e-1))
    >>> [each.ridge for each in path], factor.ridge
    ([1.0, 0.1], 0.1)
    """
    Y = judges.all_indicators()
    path: list[LeastSquares] = []

    def solved(ridge: float) -> tuple[float, Factor | None]:
        factor = equations.factor(ridge)
        if factor is None:
            return np.inf, None
        weights = factor.solve(equations.products)
        calibration, loss = calibrate(judges.logits(weights), Y, multilabel=judges.labels.multilabel)
        path.append(LeastSquares(ridge, weights, calibration, loss))
        return loss, factor

    middle = len(ridges) // 2
    loss, best = solved(ridges[middle])
    for ridge in ridges[middle + 1 :] if best is not None else ():
        smaller, factor = solved(ridge)
        if smaller > (1 - LEAST_GAIN) * loss:
            break
        loss, best = smaller, factor
    if best is None or best.ridge == ridges[middle]:
        for ridge in reversed(ridges[:middle]):
            larger, factor = solved(ridge)
            if loss <= (1 - LEAST_GAIN) * larger:
                break
            loss, best = larger, factor
    if best is None:
        raise InputError(
            f"X gives no least squares that can be solved with a ridge of {ridges[0]} of the mean diagonal"
        )
    return path, best


def calibrate(scores: Float32, Y: scipy.sparse.csr_array, *, multilabel: bool) -> tuple[Calibration, float]:
    """Find the temperature and the shift with the lowest loss for scores (n, L) and labels Y (n, L).

    Returns
    -------
    calibration : Calibration
        Chosen by evenly spaced rows where there are more than `CALIBRATION_SCORES` scores.
    loss : float
        Its loss, mean over all rows.
    """
    some = evenly_spaced(scores)
    shown, of_shown = scores[some], Y[some]
    shifts = SHIFTS if multilabel else SHIFTS[:1]  # softmax does not depend on a shift
    losses = {
        Calibration(temperature, shift): log_loss(
            shown * np.float32(temperature) - np.float32(shift), of_shown, multilabel=multilabel
        )
        for temperature in TEMPERATURES
        for shift in shifts
    }
    best = min(losses, key=losses.__getitem__)
    if len(shown) == len(scores):
        return best, losses[best] / len(scores)
    logits = scores * np.float32(best.temperature) - np.float32(best.shift)
    return best, log_loss(logits, Y, multilabel=multilabel) / len(scores)


def evenly_spaced(scores: Float32) -> slice:
    """Return which rows of scores (n, L) have about `CALIBRATION_SCORES` of them: all if they have no more."""
    return slice(None, None, max(1, scores.size // CALIBRATION_SCORES))


def log_loss(scores: NDArray[Any], Y: scipy.sparse.csr_array, *, multilabel: bool) -> float:
    """Return the negative log likelihood of labels Y (n, L), 0 and 1, under logits (n, L), summed over rows.

    Examples
    --------
    >>> Y = scipy.sparse.csr_array([[0.0, 1.0]])
    >>> log_loss(np.array([[1e4, 0.0]]), Y, multilabel=False)
    10000.0
    >>> log_loss(np.array([[1e4, 1e4]]), Y, multilabel=True)
    10000.0
    """
    if multilabel:
        # log(1 + exp(score)) without overflow; NumPy has vector instructions for these, and none for logaddexp
        normalisers = np.maximum(scores, 0).sum(dtype=np.float64)
        normalisers += np.log1p(np.exp(-np.abs(scores))).sum(dtype=np.float64)
    else:
        top = scores.max(axis=1)
        normalisers = (top + np.log(np.exp(scores - top[:, None]).sum(axis=1))).sum(dtype=np.float64)
    rows = np.repeat(
        np.arange(len(scores)), np.diff(Y.indptr)
    )  # Y.tocoo() takes longer than all the rest for a few labels
    return float(normalisers - scores[rows, Y.indices].sum(dtype=np.float64))
