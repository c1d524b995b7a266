"""Novelty: how likely a vector is of none of the known classes, learned from rows with labels and from rows without.

Rows without labels are a mixture of known classes and of new ones. A row is as likely to be new as they outnumber labelled rows
among its nearest neighbours. This is learned as a linear function of memberships in clusterings (`found_classes`), so that a
vector needs no neighbours. A logistic function of it, and of the evidence for known classes, says how likely a vector is new.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from supquant.arrays import Flags, Float32, Float64
from supquant.model.kernel_rows import upper_products
from supquant.parallel import ordered_map, row_blocks

N_NEIGHBOURS = 40
"""A row is judged by at most this number of its nearest neighbours."""

CORE = 0.25
"""The shift of a class is this quantile of its rows, by how far unlabelled rows outnumber labelled ones near them: new rows that
resemble a class raise the others."""

WEIGHT_ROUNDS = 3
"""Classes are weighted in this number of rounds. If few rows of a class have labels, one finds only a part of its weight."""

N_FOLDS = 5
"""Rows are judged by what this number of folds say without their own, and known classes are left out in as many."""

RATIO_RIDGE = 0.1
"""Ridge of the regression of ratios, in units of the mean square of a membership around its mean."""

SHARE_BINS = (0.6, 0.7, 0.8, 0.9)
"""The share of new rows is read off where these fractions of the known rows look less new. Smaller ones take small differences
between the frequencies of classes for new rows."""

SHARE_DEVIATIONS, CERTAIN_DEVIATIONS = 2, 5
"""The share of new rows is what is left of it after two standard deviations, and 0 unless something is left after five."""

BLOCK_ROWS = 512
"""Number of rows whose neighbours, or memberships, are computed at a time."""


# how far rows without labels outnumber others ------------------------------------------------------------------------


def nearest_rows(rows: Float32, asking: NDArray[np.intp], n_jobs: int) -> NDArray[np.intp]:
    """Return the numbers (a, k) of the nearest neighbours of some rows, the nearest first.

    There are twice `N_NEIGHBOURS` of them: enough without any fold, unless it has more than half of them.

    Parameters
    ----------
    rows : ndarray of shape (n, g), float32
        Rows of unit length. Neighbours are those with the greatest cosines; no row is its own.
    asking : ndarray of shape (a,)
        Numbers of the rows whose neighbours are found.
    n_jobs : int
    """
    n_seen = min(2 * N_NEIGHBOURS, len(rows) - 1)

    def found(block: tuple[int, int]) -> NDArray[np.intp]:
        own = asking[slice(*block)]
        cosines = rows[own] @ rows.T
        cosines[np.arange(len(own)), own] = -np.inf
        nearest = np.argpartition(-cosines, n_seen - 1, axis=1)[:, :n_seen]
        order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1, kind="stable")
        return np.take_along_axis(nearest, order, axis=1)

    return np.concatenate(list(ordered_map(found, row_blocks(len(asking), BLOCK_ROWS), n_jobs)))


def row_weights(
    nearest: NDArray[np.intp], asking: NDArray[np.intp], y: NDArray[np.integer], n_labels: int
) -> Float64:
    """Return as how many labelled rows each row counts (n,), so that classes are as frequent with labels as without.

    Otherwise the rows of a class of which few are labelled would look new. Classes are shifted as far as their shifts spread by
    more than chance (empirical Bayes). Rows without labels count as none.

    Parameters
    ----------
    nearest : ndarray of shape (a, k)
        Numbers of the neighbours of some labelled rows, as `nearest_rows` returns them.
    asking : ndarray of shape (a,)
        Numbers of these rows.
    y : ndarray of shape (n,)
        Numbers of the labels of all rows; -1 for rows without a label.
    n_labels : int

    Examples
    --------
    >>> angles = np.repeat([0.0, 1.0], 40)
    >>> y = np.append(np.repeat([0, -1], 20), np.repeat([1, -1], [10, 30]))
    >>> rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    >>> asking = np.flatnonzero(y >= 0)
    >>> row_weights(nearest_rows(rows, asking, 1), asking, y, 2)[[0, 20, 40, 50]].round(1)
    array([0.6, 0. , 1.4, 0. ])
    """
    labelled, own = y >= 0, y[asking]
    counts = np.bincount(own, minlength=n_labels)
    # By chance, the logarithm of the ratio of two counts of n varies by 2 / n.
    shifts, chance = np.zeros(n_labels), 2 / np.maximum(counts, 1)
    weights = labelled.astype(np.float64)
    for _ in range(WEIGHT_ROUNDS):
        ratios = _log_ratios(weights[nearest[:, :N_NEIGHBOURS]]) + np.log(weights[asking])
        for number in np.flatnonzero(counts):
            shifts[number] = np.quantile(ratios[own == number], CORE)
        shifts[counts > 0] -= np.median(shifts[counts > 0])
        spread = max(0.0, float((shifts**2 - chance)[counts > 0].mean()))
        weights[labelled] = np.exp(shifts * spread / (spread + chance))[y[labelled]]
    return weights


def neighbour_ratios(nearest: NDArray[np.intp], weights: Float64, folds: NDArray[np.intp]) -> Float64:
    """Return by how much unlabelled rows outnumber labelled ones among nearest neighbours, as a logarithm.

    Parameters
    ----------
    nearest : ndarray of shape (a, k)
        Numbers of neighbours, as `nearest_rows` returns them.
    weights : ndarray of shape (n,), float64
        As how many labelled rows each row counts; 0 for rows without labels.
    folds : ndarray of shape (n,)
        The fold of each row, from 0 to `N_FOLDS` - 1.

    Returns
    -------
    ndarray of shape (a, N_FOLDS + 1), float64
        Column f counts no rows of fold f, and the last column counts all rows.

    Examples
    --------
    >>> angles = np.arange(200) / 200
    >>> rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    >>> nearest = nearest_rows(rows, np.array([50, 90, 109, 149]), 1)
    >>> neighbour_ratios(nearest, np.float64(angles < 0.5), np.arange(200) % N_FOLDS)[:, -1].round(1)
    array([-3.7, -0.9,  0.9,  3.7])
    """
    found = np.empty((len(nearest), N_FOLDS + 1))
    of_nearest = weights[nearest]
    for fold in range(N_FOLDS + 1):
        kept = folds[nearest] != fold
        kept &= np.cumsum(kept, axis=1) <= N_NEIGHBOURS
        found[:, fold] = _log_ratios(of_nearest, kept)
    return found


def _log_ratios(weights: Float64, kept: Flags | None = None) -> Float64:
    """Return by how much rows of weight 0 outnumber others in each line (a, k), as a logarithm (a,); of those `kept` (a, k)."""
    of_unlabelled = weights == 0
    if kept is not None:
        weights, of_unlabelled = weights * kept, of_unlabelled & kept
    return np.asarray(np.log((1 + of_unlabelled.sum(axis=1)) / (1 + weights.sum(axis=1))))


def column_ratios(memberships: Float32, ratios: Float64, folds: NDArray[np.intp], n_jobs: int) -> Float32:
    """Return the log ratios of columns whose means over the memberships of rows are nearest to the log ratios of the rows.

    Parameters
    ----------
    memberships : ndarray of shape (a, w), float32
    ratios : ndarray of shape (a, N_FOLDS + 1), float64
        Log ratios of rows, of which column f says nothing of the rows of fold f.
    folds : ndarray of shape (a,)
    n_jobs : int

    Returns
    -------
    ndarray of shape (N_FOLDS + 1, w), float32
        Row f is learned without the rows of fold f, the last one from all rows.

    Examples
    --------
    >>> rows = np.eye(3, dtype=np.float32)[[0, 1, 2] * 100]
    >>> ratios = np.tile([[1.0], [2], [6]], (100, N_FOLDS + 1))
    >>> column_ratios(rows, ratios, np.arange(300) % N_FOLDS, 1)[-1].round(1)
    array([-1.9, -0.9,  2.8], dtype=float32)
    """
    centred = memberships - memberships.mean(axis=0)
    blocks = row_blocks(len(centred), len(memberships) // 4 + 1)
    gram = sum(ordered_map(lambda block: upper_products(centred[slice(*block)]), blocks, n_jobs))

    def learned(fold: int) -> Float32:
        own = folds != fold
        system = gram - upper_products(centred[~own])
        system[np.diag_indices_from(system)] += RATIO_RIDGE * np.trace(system) / len(system) + 1e-12
        wanted = centred[own].T @ (ratios[own, fold] - ratios[own, fold].mean()).astype(np.float32)
        found: Float32 = scipy.linalg.solve(
            system, wanted, overwrite_a=True, assume_a="pos"
        )  # its upper half
        return found

    return np.stack(list(ordered_map(learned, range(N_FOLDS + 1), n_jobs)))


# the probability of no known class -----------------------------------------------------------------------------------


def novelty_weights(
    known: Float64, mixed: Float64, share: float, row_weights: Float64
) -> tuple[Float64, float]:
    """Learn how probably a row is new, as a logistic function of scores.

    Mixed rows are known ones and, a `share` of them, new ones. If a row with scores x is new with the logit a(x), the density of
    mixed rows is ``(1 - share) (1 + exp(a(x)))`` times that of known rows. The weights are those with which this ratio tells
    known and mixed rows apart best.

    Parameters
    ----------
    known, mixed : ndarray of shapes (n, q) and (m, q), float64
        Scores of the rows, high for new ones.
    share : float
        Above 0 and below 1.
    row_weights : ndarray of shape (n,), float64
        How much each known row counts.

    Returns
    -------
    weights : ndarray of shape (q,), float64
        Never negative: a score that speaks against novelty by chance has no weight.
    shift : float
    """
    rows = np.concatenate([known, mixed])
    is_mixed = np.repeat([0.0, 1.0], [len(known), len(mixed)])
    centre, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-12
    scaled = np.column_stack([(rows - centre) / spread, np.ones(len(rows))])
    balance = np.concatenate([row_weights / row_weights.sum(), np.full(len(mixed), 1 / len(mixed))])
    balance *= len(rows) / 2

    def loss(parameters: Float64) -> tuple[float, Float64]:
        logit = scaled @ parameters
        ratio = np.log1p(-share) + np.logaddexp(0, logit)
        slopes = balance * (expit(ratio) - is_mixed) * expit(logit)
        total = balance @ (np.logaddexp(0, ratio) - is_mixed * ratio)
        ridge = np.append(parameters[:-1], 0)
        return total + ridge @ ridge / 2, scaled.T @ slopes + ridge

    start = np.append(np.ones(rows.shape[1]), np.log(share / (1 - share)))
    bounds = [(0, None)] * rows.shape[1] + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ centre)


def newness_curve(known: Float32, mixed: Float32, share: float, row_weights: Float64) -> Float32:
    """Return how often mixed rows that look so new are new, as a curve (2, k) that never falls.

    The densities of novelties of mixed and of known rows say so, without a formula as in `novelty_weights` (isotonic regression).

    Parameters
    ----------
    known, mixed : ndarray of shapes (n,) and (m,), float32
        Novelties of the rows.
    share : float
        Fraction of the mixed rows that are new.
    row_weights : ndarray of shape (n,), float64
        How much each known row counts.

    Examples
    --------
    >>> known, mixed = np.float32([0.1, 0.1, 0.1, 0.2]), np.float32([0.1, 0.1, 0.2, 0.2, 0.3, 0.4])
    >>> newness_curve(known, mixed, 0.5, np.ones(4)).round(2)
    array([[0.1 , 0.2 , 0.3 , 0.4 ],
           [0.  , 0.62, 1.  , 1.  ]], dtype=float32)
    """
    rows = np.concatenate([known, mixed])
    balance = np.concatenate(
        [(1 - share) * row_weights / row_weights.sum(), np.full(len(mixed), 1 / len(mixed))]
    )
    novelties, group = np.unique(rows, return_inverse=True)
    totals = np.bincount(group, balance)
    of_known = np.bincount(group[: len(known)], balance[: len(known)], minlength=len(totals))
    fraction = isotonic_regression(of_known / totals, sample_weight=totals, increasing=False)
    return np.array([novelties, 1 - np.minimum(fraction / np.maximum(1 - fraction, 1e-12), 1)], np.float32)


def new_share(known: Float64, mixed: Float64, weights: Float64 | None = None) -> float:
    """Estimate the fraction of mixed rows that are new, from scores (n,) and (m,) that are high for new rows.

    Among the rows that look least new there are only known ones. So the fraction of mixed rows among them, divided by that of
    known rows, is the share of known rows. The lowest upper bound over several such groups counts (best bin, Garg et al., 2021).
    Known rows may have `weights` (n,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known, new = rng.normal(0, 1, 6000), rng.normal(4, 1, 1200)
    >>> round(new_share(known[:3000], np.concatenate([known[3000:], new])), 1)
    0.3
    """
    own = np.ones(len(known)) if weights is None else weights
    order = np.argsort(known, kind="stable")
    ordered, held = known[order], np.cumsum(own[order]) / own.sum()
    n_rows = own.sum() ** 2 / (own**2).sum()  # so many rows of equal weight vary as much
    least = most = 0.0
    for part in SHARE_BINS:
        below = (mixed <= ordered[min(int(held.searchsorted(part)), len(known) - 1)]).mean()
        deviation = np.sqrt(part * (1 - part) * (1 / n_rows + 1 / len(mixed)))
        least, most = (
            max(each, 1 - float(below + n_deviations * deviation) / part)
            for each, n_deviations in ((least, CERTAIN_DEVIATIONS), (most, SHARE_DEVIATIONS))
        )
    return most if least > 0 else 0.0
