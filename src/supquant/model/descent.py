"""Logistic regression by steps whose lengths and number held-out rows choose.

The negative log likelihood has a second derivative of at most b (G + D) whatever the weights (b = 1/2 for one label a row, 1/4
for several: Boehning, 1992), so a Cholesky factor of G + D is the metric of the steps. The bound is mostly far too large, because
probabilities of most rows are near 0 and 1: the best steps are up to fifty times as long as it allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first used

from supquant.arrays import Float32, Float64
from supquant.model.kernel_rows import Factor, KernelRows
from supquant.model.least_squares import evenly_spaced, log_loss

MOST_PASSES = 8
"""Logistic regression makes at most this number of passes, one for each step."""

LEAST_PASS_GAIN = 0.003
"""Logistic regression ends with the first pass that lowers the held-out loss by less than this share of it."""

SHORTEST_STEP, LONGEST_STEP = 0.5, 256.0
"""Lengths of steps that are tried, in units of the step of least squares. The bound allows 2, or 4 for several labels a row."""

OWN_MOVE = 8.0
"""Steps are at most this long if rows are no more than features, and longer as there are more rows. A step moves the logits of a
row by its residual times the length times the leverage of the row, whose mean is about the number of features over that of rows,
and at most one. Rows that are learned by heart hardly change the loss of others, and no length would be too long for them."""

LENGTH_TOLERANCE = 0.1
"""The best length of a step is sought until its binary logarithm is known to within this."""

STEP_SHARE = 0.7
"""A step is this share of the one that lowers the held-out loss most. Later steps then gain more: steps of the best lengths go to
and fro (Raydan and Svaiter, 2002)."""


@dataclass(frozen=True, eq=False)
class Descent:
    """Steps that lowered the loss of held-out rows."""

    weights: Float64  # (d + 1, L) of the lowest loss
    lengths: list[float]  # of the steps to these weights
    losses: list[float]  # mean of a held-out row: at the start, and after every step that was tried


def descend(
    slope_at: Callable[[Float64], Float64],
    start: Float64,
    loss: float,
    factor: Factor,
    n_rows: int,
    judges: KernelRows,
    most: int,
) -> Descent:
    """Lower the log loss step by step, until the judging rows say that steps gain nothing more.

    Parameters
    ----------
    slope_at : callable
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
    most : int
        Number of steps at the most.

    Returns
    -------
    Descent
    """
    weights = best = start
    losses, lengths = [loss], list[float]()
    if not len(judges):
        return Descent(start, lengths, losses)
    Y, multilabel, scores = judges.all_indicators(), judges.labels.multilabel, judges.logits(start)
    longest = min(LONGEST_STEP, OWN_MOVE * max(1.0, n_rows / len(start)))
    some = evenly_spaced(scores)
    Y_some = Y[some]
    while len(lengths) < most:
        step = factor.solve(-slope_at(weights))
        change = judges.logits(step)  # logits are linear in weights: to try lengths takes no more passes
        length = _best_length(scores[some], change[some], Y_some, longest, multilabel=multilabel)
        lengths.append(STEP_SHARE * length)
        scores = scores + np.float32(lengths[-1]) * change
        losses.append(log_loss(scores, Y, multilabel=multilabel) / len(judges))
        weights = weights + lengths[-1] * step
        if losses[-1] == min(losses):
            best = weights
        if losses[-1] > (1 - LEAST_PASS_GAIN) * losses[-2]:
            break
    return Descent(best, lengths[: int(np.argmin(losses))], losses)


def _best_length(
    scores: Float32, change: Float32, Y: scipy.sparse.csr_array, longest: float, *, multilabel: bool
) -> float:
    """Return the length of a step with the lowest loss, which is convex in it, between `SHORTEST_STEP` and `longest`.

    Parameters
    ----------
    scores, change : ndarray of shape (n, L), float32
        Logits before the step, and what a step of length one adds to them.
    Y : csr_array of shape (n, L)
        Labels, 0 and 1.
    longest : float
    multilabel : bool
    """
    found = scipy.optimize.minimize_scalar(
        lambda doublings: log_loss(scores + np.float32(2.0**doublings) * change, Y, multilabel=multilabel),
        bounds=np.log2([SHORTEST_STEP, longest]),
        method="bounded",
        options={"xatol": LENGTH_TOLERANCE},
    )
    return float(2.0**found.x)


def retrace(
    slope_at: Callable[[Float64], Float64], start: Float64, factor: Factor, lengths: Sequence[float]
) -> Float64:
    """Return the weights (d + 1, L) after steps of given lengths, of which one is one call of `slope_at`."""
    weights = start
    for length in lengths:
        weights = weights - length * factor.solve(slope_at(weights))
    return weights


def losses_of_steps(ridge: float, losses: list[float]) -> list[dict[str, float]]:
    """Return one record for every step, from the losses at the start and after every step."""
    return [{"ridge": ridge, "iteration": i, "loss": losses[i]} for i in range(1, len(losses))]
