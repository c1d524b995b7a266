"""The classifier behind `LabelKernel`: least squares with the best of several ridges, then logistic regression.

Features phi of a row have a last column of ones. With G = Phi'Phi, least squares solves ``(G + D) W = Phi'Y``, and its scores
become logits by a temperature and a shift. Logistic regression follows in steps whose lengths and number held-out rows choose.
Its negative log likelihood has a second derivative of at most b (G + D) whatever the weights (b = 1/2 for one label per row, 1/4
for several: Boehning, 1992), so the Cholesky factor of G + D is the metric of the steps. The bound is mostly far too large,
because the probabilities of most rows are near 0 and 1: the best steps are up to fifty times as long as it allows.

D is not a penalty in logistic regression: steps along directions of little weight in G are short, and held-out rows say when to
stop. With a penalty as well, MAP was lower on one split of each data set that was tried (CIFAR-10 0.761 instead of 0.764, MNIST
0.980 instead of 0.987, COCO without persons 0.427 instead of 0.453).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # its submodules are loaded when they are first used
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.errors import InputError
from supquant.model.kernel_rows import Factor, KernelRows, NormalEquations

RIDGES = (1e-1, 1e-2, 1e-3, 1e-4)
"""Ridges to choose from, descending, in units of the mean diagonal of G."""

RIDGE_WITHOUT_HELD_ROWS = (1e-3,)
"""The ridge if no rows are held out to choose one, in the same units."""

MIN_GAIN = 0.005
"""A smaller ridge is taken if it lowers the loss by at least this fraction. With a larger one logistic regression gets
further."""

TEMPERATURES = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0)
"""Factors that are tried on least-squares scores to make them logits."""

SHIFTS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
"""Numbers that are tried to be subtracted from these logits if rows can have several labels."""

CALIBRATION_SCORES = 1 << 21
"""Temperature, shift and the lengths of steps are chosen on at most about this many scores."""

MAX_PASSES = 8
"""Logistic regression makes at most this number of passes, one per step."""

MAX_WORK = 8e12
"""All passes over the rows that are not held out take at most this number of multiplications and additions."""

MIN_PASS_GAIN = 0.003
"""Logistic regression ends with the first pass that lowers the held-out loss by less than this fraction of it."""

MIN_STEP, MAX_STEP = 0.5, 256.0
"""Lengths of steps that are tried, in units of the step of least squares. The bound allows 2, or 4 for several labels per row."""

OWN_MOVE = 8.0
"""Steps are at most this long if there are no more rows than features, and longer in proportion to the rows per feature. A step
moves the logits of a row by its residual times the length times the leverage of the row, whose mean is about the number of
features over that of rows, and at most one. Rows that are learned by heart hardly change the loss of others, and no length would
be too long for them."""

LENGTH_TOLERANCE = 0.1
"""The best length of a step is searched until its binary logarithm is known to within this."""

STEP_SHARE = 0.7
"""A step is this fraction of the one that lowers the held-out loss most. Later steps then gain more: steps of the best lengths go
to and fro (Raydan and Svaiter, 2002)."""

MAX_REUSED_RIDGE, MAX_REUSED_ROWS = 1e-3, 20
"""The classifier of all rows reuses gradients if its ridge is at most this one, in units of the mean diagonal of G, and if there
are at most so many rows per feature of a kernel. A row then has features of its own, and changes little for others."""


@dataclass(frozen=True, eq=False)
class LabelClassifier:
    """A learned classifier. Weights (d + 1, L) are those of logits; the last row is the intercept."""

    weights: Float64  # learned from all rows
    held_weights: Float64  # learned without the held-out rows
    ridge: float  # in units of the mean diagonal of G
    n_iter: int
    losses: list[dict[str, float]]  # mean loss of a held-out row by setting, then by iteration


def learn_classifier(kept: KernelRows, held: KernelRows) -> LabelClassifier:
    """Learn a classifier from all rows, with settings that held-out rows chose.

    A first classifier is learned from the `kept` rows. The `held` rows choose its ridge, its temperature, and the number and the
    lengths of its steps. The second classifier takes the same steps with all rows. It does not begin at the weights of the
    first: that would be more steps than were chosen, and four of them lowered MAP from 0.765 to 0.762 on CIFAR-10 with 5,000
    queries. Without held-out rows nothing is chosen, and the result is least squares with `RIDGE_WITHOUT_HELD_ROWS`.
    """
    judges, ridges = (held, RIDGES) if len(held) else (kept, RIDGE_WITHOUT_HELD_ROWS)
    # If a sample of the kept rows is enough for Phi'Phi, the held ones would change it little, and the first factor serves
    # twice. Otherwise held rows come before kept ones, so that the cache keeps their features; after a sample they come next.
    of_held = None if kept.n_sampled else held.normal_equations()
    equations = kept.normal_equations()
    path, factor = ridge_path(equations, judges, ridges)
    best = next(each for each in path if each.ridge == factor.ridge)
    passes = min(MAX_PASSES, int(MAX_WORK / (4 * max(len(kept), 1) * equations.products.size)))
    gradients: list[Float32] = []

    def gradient_at(weights: Float64) -> Float64:
        gradients.append(kept.gradient(weights).astype(np.float32))
        return gradients[-1].astype(np.float64)

    found = descend(gradient_at, best.logit_weights, best.loss, factor, len(kept), held, passes)

    start = best.logit_weights
    if of_held is not None:
        del factor  # takes as much memory as the sums
        equations = equations.merged(of_held)
        factor = equations.safe_factor(best.ridge)
        start = best.calibration.applied(factor.solve(equations.products))
    return LabelClassifier(
        weights=retrace(gradient_of_all(kept, held, gradients, factor.ridge), start, factor, found.lengths),
        held_weights=found.weights,
        ridge=best.ridge,
        n_iter=len(found.lengths),
        losses=[{"ridge": each.ridge, "loss": each.loss} for each in path]
        + losses_of_steps(best.ridge, found.losses),
    )


def gradient_of_all(
    kept: KernelRows, held: KernelRows, gradients: Iterable[Float32], ridge: float
) -> Callable[[Float64], Float64]:
    """Return the function that computes the gradient of all rows at weights (d + 1, L), step by step.

    If rows have features of their own, the kept rows are not visited again: their part is the `gradients` (d + 1, L) of their own
    steps, at weights near those of these steps. The ridge is that of the metric.
    """
    own_features = kept.kernel is not None and len(kept) <= MAX_REUSED_ROWS * kept.width
    if ridge > MAX_REUSED_RIDGE or not own_features:
        return kept.joined(held).gradient
    of_kept = iter(gradients)
    return lambda weights: next(of_kept) + held.gradient(weights)


# least squares ---------------------------------------------------------------------------------------------------------


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

    The result is the largest ridge for which no smaller one clearly lowers the loss of the judging rows.

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
        Of the ridge that was found: a smaller one lowers the loss by less than `MIN_GAIN` of it.

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
        if smaller > (1 - MIN_GAIN) * loss:
            break
        loss, best = smaller, factor
    if best is None or best.ridge == ridges[middle]:
        for ridge in reversed(ridges[:middle]):
            larger, factor = solved(ridge)
            if loss <= (1 - MIN_GAIN) * larger:
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
        Chosen by evenly spaced rows if there are more than `CALIBRATION_SCORES` scores.
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


# logistic regression ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps that lowered the loss of held-out rows."""

    weights: Float64  # (d + 1, L) of the lowest loss
    lengths: list[float]  # of the steps to these weights
    losses: list[float]  # mean of a held-out row: at the start, and after every step that was tried


def descend(
    gradient_at: Callable[[Float64], Float64],
    start: Float64,
    loss: float,
    factor: Factor,
    n_rows: int,
    judges: KernelRows,
    max_steps: int,
) -> Descent:
    """Lower the log loss step by step, until the judging rows gain nothing more.

    Parameters
    ----------
    gradient_at : callable
        Returns the gradient at weights (d + 1, L).
    start : ndarray of shape (d + 1, L), float64
        Weights to begin with.
    loss : float
        Mean loss of a judging row at the start.
    factor : Factor
        The metric of the steps.
    n_rows : int
        Number of rows that the gradient is a sum over.
    judges : KernelRows
        Rows on which losses are measured. Without any, no step is taken.
    max_steps : int
        Maximum number of steps.

    Returns
    -------
    Descent
    """
    weights = best = start
    losses, lengths = [loss], list[float]()
    if not len(judges):
        return Descent(start, lengths, losses)
    Y, multilabel, scores = judges.all_indicators(), judges.labels.multilabel, judges.logits(start)
    longest = min(MAX_STEP, OWN_MOVE * max(1.0, n_rows / len(start)))
    some = evenly_spaced(scores)
    Y_some = Y[some]
    while len(lengths) < max_steps:
        step = factor.solve(-gradient_at(weights))
        change = judges.logits(step)  # logits are linear in weights: to try lengths takes no more passes
        length = _best_length(scores[some], change[some], Y_some, longest, multilabel=multilabel)
        lengths.append(STEP_SHARE * length)
        scores = scores + np.float32(lengths[-1]) * change
        losses.append(log_loss(scores, Y, multilabel=multilabel) / len(judges))
        weights = weights + lengths[-1] * step
        if losses[-1] == min(losses):
            best = weights
        if losses[-1] > (1 - MIN_PASS_GAIN) * losses[-2]:
            break
    return Descent(best, lengths[: int(np.argmin(losses))], losses)


def _best_length(
    scores: Float32, change: Float32, Y: scipy.sparse.csr_array, longest: float, *, multilabel: bool
) -> float:
    """Return the length of a step with the lowest loss, which is convex in it, between `MIN_STEP` and `longest`.

    A step of length one adds `change` (n, L) to the logits `scores` (n, L) of rows with labels Y (n, L), 0 and 1.
    """
    found = scipy.optimize.minimize_scalar(
        lambda doublings: log_loss(scores + np.float32(2.0**doublings) * change, Y, multilabel=multilabel),
        bounds=np.log2([MIN_STEP, longest]),
        method="bounded",
        options={"xatol": LENGTH_TOLERANCE},
    )
    return float(2.0**found.x)


def retrace(
    gradient_at: Callable[[Float64], Float64], start: Float64, factor: Factor, lengths: Sequence[float]
) -> Float64:
    """Return the weights (d + 1, L) after steps of given lengths, with one call of `gradient_at` for each."""
    weights = start
    for length in lengths:
        weights = weights - length * factor.solve(gradient_at(weights))
    return weights


def losses_of_steps(ridge: float, losses: list[float]) -> list[dict[str, float]]:
    """Return one record for every step, from the losses at the start and after every step."""
    return [{"ridge": ridge, "iteration": i, "loss": losses[i]} for i in range(1, len(losses))]


def evenly_spaced(scores: Float32) -> slice:
    """Return which rows of scores (n, L) to take so that about `CALIBRATION_SCORES` scores are left: all if there are no more."""
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
        # log(1 + exp(score)) without overflow; NumPy has vector instructions for these but none for logaddexp
        normalisers = np.maximum(scores, 0).sum(dtype=np.float64)
        normalisers += np.log1p(np.exp(-np.abs(scores))).sum(dtype=np.float64)
    else:
        top = scores.max(axis=1)
        normalisers = (top + np.log(np.exp(scores - top[:, None]).sum(axis=1))).sum(dtype=np.float64)
    rows = np.repeat(
        np.arange(len(scores)), np.diff(Y.indptr)
    )  # for few labels, Y.tocoo() would take most of the time
    return float(normalisers - scores[rows, Y.indices].sum(dtype=np.float64))
