"""Found classes: groups among rows without labels, and how likely a vector is of none of the known classes.

Rows without labels are a mixture of known classes and of classes that nobody has labelled. The latter are there to be found: the
rows are clustered several times, each time with a column for every known class and another number of columns for found ones. A
column that unlabelled rows are members of more often than labelled rows holds something new. How much more often says how likely
a vector is new. Half of the rows take no part in each clustering, and only these are compared, so that nothing is learned from
the rows that it is measured on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csc_array
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import GaussianMap
from supquant.estimators.calibration import ANSWERS
from supquant.model.clusters import Clusters, cluster_powers, normalised, unit_positions
from supquant.parallel import ordered_map, row_blocks

N_CLUSTERINGS = 16
"""Number of clusterings. With eight, MAP of new classes of Banking77 falls by .02."""

TEMPERATURE = 20.0
"""Memberships are a softmax of cosines times this number; 15 to 35 differ by less than .01."""

MIN_COLUMNS, MAX_COLUMNS = 0.25, 3.0
"""The number of found columns of a clustering is drawn log-uniformly between these multiples of the number of known classes."""

COLUMN_LIMIT = 512
"""A clustering has at most this number of found columns."""

ITERATIONS = 10
"""Each clustering takes this number of iterations."""

SMOOTHING = 0.3
"""Every column counts this number of imaginary labelled rows, which are members as often as unlabelled rows are."""

N_FOLDS = 5
"""Rows are judged in this number of folds, and known classes are left out in as many."""

MAX_LIKENESS = 128
"""The memberships of all clusterings are kept along at most this number of directions. With 64, MAP of Tiny-ImageNet falls by
.01."""


SHARE_STEPS, SHARE_PRIOR = 20, 5
"""The shares of classes among unlabelled rows are estimated in this number of steps. A class counts this number of imaginary rows
that are labelled as often as others, since a few rows say little about a share."""

MIN_SHIFT = 2.0
"""Labelled rows are weighted as far as the squares of shifts exceed this multiple of what chance makes them. If shares are equal,
weights would only hide new rows: MAP of new classes of Banking77 falls by .03."""

FOLD_CLUSTERINGS = 4
"""Number of clusterings in which the left-out classes of a fold are found."""

FOLD_ROWS = 512
"""At most this number of rows of left-out classes are queries in a fold, and as many are items."""


OfRows = tuple[Flags, Float64]
"""Some of n rows, and a number for each of them."""


@dataclass(frozen=True, eq=False)
class Found:
    """Clusterings, and what they say of rows that took no part in them."""

    clusters: Clusters
    of_labelled: Float64  # (n,) mean log ratio of labelled rows
    of_unlabelled: Float64  # (m,) mean log ratio of unlabelled rows
    judged: Flags  # (n,) labelled rows that were left out of a clustering at least once
    seen: Flags  # (m,) the same for unlabelled rows
    weights: Float64  # (n,) mean weights of labelled rows, as `class_weights` returns them


def find_classes(
    labelled: Float32,
    y: NDArray[np.integer],
    n_labels: int,
    unlabelled: Float32,
    held: Flags,
    rng: np.random.Generator,
    n_jobs: int,
    *,
    n_clusterings: int = N_CLUSTERINGS,
    n_classes: int | None = None,
) -> Found:
    """Cluster labelled and unlabelled rows several times.

    Parameters
    ----------
    labelled, unlabelled : ndarray of shapes (n, g) and (m, g), float32
        Positions of rows.
    y : ndarray of shape (n,)
        Numbers of the labels.
    n_labels : int
        L, the number of known classes.
    held : ndarray of shape (n,), bool
        Labelled rows that take part in no clustering.
    rng : numpy Generator
    n_jobs : int
    n_clusterings : int
    n_classes : int or None, default=None
        The numbers of found columns are multiples of this number; None takes L.

    Returns
    -------
    Found
    """
    known, mixed = unit_positions(labelled), unit_positions(unlabelled)
    columns = np.array([MIN_COLUMNS, MAX_COLUMNS]) * (n_labels if n_classes is None else n_classes)

    def clustered(seed: int) -> tuple[Float32, Float64, OfRows, OfRows, OfRows]:
        own = np.random.default_rng(seed)
        n_found = int(np.clip(np.exp(own.uniform(*np.log(columns))), 1, COLUMN_LIMIT))
        out, mixed_out = held | (own.uniform(size=len(known)) < 0.5), own.uniform(size=len(mixed)) < 0.5
        centres = cluster(known[~out], y[~out], n_labels, mixed[~mixed_out], n_found, own)
        kernel = GaussianMap(centres, TEMPERATURE**-0.5)
        of_out, of_mixed_out = _memberships(kernel, known[out]), _memberships(kernel, mixed[mixed_out])
        weights = class_weights(of_out, y[out], n_labels, of_mixed_out)
        ratios, of_known, of_mixed = log_ratios(of_out, of_mixed_out, weights)
        return centres, ratios, (out, of_known), (mixed_out, of_mixed), (out, weights)

    seeds = rng.integers(2**31, size=n_clusterings)
    centres, ratios, of_known, of_mixed, weights = zip(*ordered_map(clustered, seeds, n_jobs), strict=True)
    clusters = Clusters(
        GaussianMap(np.concatenate(centres), TEMPERATURE**-0.5),
        (np.concatenate(ratios) / n_clusterings).astype(np.float32),
        np.cumsum([len(each) for each in centres], dtype=np.int64),
    )
    (of_labelled, judged), (of_unlabelled, seen) = (_means_of_rows(each) for each in (of_known, of_mixed))
    return Found(clusters, of_labelled, of_unlabelled, judged, seen, _means_of_rows(weights)[0])


def _means_of_rows(parts: Sequence[OfRows]) -> tuple[Float64, Flags]:
    """Return the means (n,) of values that some of n rows have in each of several parts, and which rows have any."""
    total, count = np.zeros(len(parts[0][0])), np.zeros(len(parts[0][0]))
    for rows, values in parts:
        total[rows] += values
        count[rows] += 1
    return total / np.maximum(count, 1), count > 0


def cluster(
    known: Float32,
    y: NDArray[np.integer],
    n_labels: int,
    mixed: Float32,
    n_found: int,
    rng: np.random.Generator,
) -> Float32:
    """Return the centres (L + K, g) of spherical k-means, in which labelled rows stay with their classes.

    The rows `known` (n, g), with labels y (n,), and `mixed` (m, g) have unit length. Found centres start at mixed rows far from
    all other centres (k-means++).
    """
    own = np.zeros((n_labels, known.shape[1]), dtype=np.float32)
    _add_rows(own, y, known)
    centres = np.zeros((n_labels + n_found, known.shape[1]), dtype=np.float32)
    centres[:n_labels] = unit_positions(own)
    nearest = _nearest(mixed, centres[:n_labels])[1]
    for number in range(n_labels, len(centres)):
        far = np.cumsum(np.maximum(1 - nearest, 0) ** 2, dtype=np.float64)
        chosen = mixed[min(int(np.searchsorted(far, rng.uniform() * far[-1])), len(mixed) - 1)]
        centres[number] = chosen
        np.maximum(nearest, mixed @ chosen, out=nearest)
    for _ in range(ITERATIONS):
        sums = np.zeros_like(centres)
        sums[:n_labels] = own
        _add_rows(sums, _nearest(mixed, centres)[0], mixed)
        moved = unit_positions(sums)
        some = moved.any(axis=1)  # a centre without rows stays
        centres[some] = moved[some]
    return centres


def _nearest(rows: Float32, centres: Float32) -> tuple[NDArray[np.intp], Float32]:
    """Return the number of the centre (k, g) with the greatest product for each row (n, g), and this product."""
    numbers, products = np.empty(len(rows), dtype=np.intp), np.empty(len(rows), dtype=np.float32)
    for start, stop in row_blocks(len(rows)):
        found = rows[start:stop] @ centres.T
        numbers[start:stop] = found.argmax(axis=1)
        products[start:stop] = found.max(axis=1)
    return numbers, products


def _add_rows(sums: Float32, numbers: NDArray[np.integer], rows: Float32) -> None:
    """Add rows (n, g) to the sums (k, g) with these numbers (n,)."""
    n = len(numbers)
    sums += csc_array((np.ones(n, np.float32), numbers, np.arange(n + 1)), shape=(len(sums), n)) @ rows


def _memberships(kernel: GaussianMap, rows: Float32) -> Float32:
    """Return the memberships (n, k) of rows (n, g) in one clustering."""
    values = np.empty((len(rows), len(kernel.anchors)), dtype=np.float32)
    for start, stop in row_blocks(len(rows)):
        kernel.fill(rows[start:stop], values[start:stop])
    return normalised(values, np.array([values.shape[1]]))


def class_weights(known: Float32, y: NDArray[np.integer], n_labels: int, mixed: Float32) -> Float64:
    """Return how much labelled rows count, so that classes are as frequent among them as among unlabelled rows.

    Otherwise the rows of a class of which few are labelled would look new. The shares of classes are those with which the known
    columns get the mass that unlabelled rows give them (expectation maximization); new rows give theirs to found columns.

    Parameters
    ----------
    known, mixed : ndarray of shapes (n, k) and (m, k), float32
        Memberships of labelled and of unlabelled rows; the first L columns are those of known classes.
    y : ndarray of shape (n,)
        Numbers of the labels.
    n_labels : int
        L.

    Returns
    -------
    ndarray of shape (n,), float64
        The mean is one.
    """
    if not len(known) or not len(mixed):
        return np.ones(len(known))
    counts = np.bincount(y, minlength=n_labels)
    sums = np.zeros((n_labels, n_labels), dtype=np.float32)
    _add_rows(sums, y, known[:, :n_labels])
    means = sums.astype(np.float64) / np.maximum(counts, 1)[:, None]
    wanted = mixed[:, :n_labels].mean(axis=0, dtype=np.float64)
    shares = counts / len(y)
    for _ in range(SHARE_STEPS):
        ratios = wanted / np.maximum(shares @ means, 1e-12)
        shares = shares * (means @ ratios) / np.maximum(means.sum(axis=1), 1e-12)
    expected = shares / max(float(shares.sum()), 1e-12) * len(y)
    found = counts > 0
    shifts = np.zeros(n_labels)
    shifts[found] = np.log((expected[found] + SHARE_PRIOR) / (counts[found] + SHARE_PRIOR))
    shifts[found] -= np.median(shifts[found])
    weights = np.exp(_certain_part(shifts[found], counts[found], len(mixed) / len(y)) * shifts)[y]
    return np.asarray(weights / weights.mean())


def _certain_part(shifts: Float64, counts: NDArray[np.intp], more: float) -> float:
    """Return which part of the shifts (c,) of classes is more than the chance of drawing so many labelled rows (c,).

    There are `more` unlabelled rows for each labelled one. Only shifts below the median count: new rows that resemble a known
    class shift it upwards.
    """
    spread = 2 * float(np.mean(np.minimum(shifts, 0) ** 2))
    chance = float(np.mean((1 + 1 / more) * counts / (counts + SHARE_PRIOR) ** 2))
    return max(0.0, 1 - MIN_SHIFT * chance / spread) if spread > 0 else 0.0


def log_ratios(known: Float32, mixed: Float32, weights: Float64) -> tuple[Float64, Float64, Float64]:
    """Return how much more often unlabelled rows are members of columns than labelled rows.

    Parameters
    ----------
    known, mixed : ndarray of shapes (n, k) and (m, k), float32
        Memberships of labelled and of unlabelled rows.
    weights : ndarray of shape (n,), float64
        How much each labelled row counts; the mean is one.

    Returns
    -------
    ratios : ndarray of shape (k,), float64
        Logarithms of the ratios of mean memberships.
    of_known, of_mixed : ndarray of shapes (n,) and (m,), float64
        The mean ratio of each row over its memberships. The rows of a fold are judged by the ratios of the other folds: a row
        that counts itself would look like its own kind.
    """
    n, m = len(known), len(mixed)
    if n < N_FOLDS or m < N_FOLDS:
        return np.zeros(known.shape[1]), np.zeros(n), np.zeros(m)
    of_known, of_mixed = (
        np.stack([own[fold::N_FOLDS] @ rows[fold::N_FOLDS] for fold in range(N_FOLDS)])
        for own, rows in ((weights, known), (np.ones(m), mixed))
    )
    judged_known, judged_mixed = np.empty(n), np.empty(m)
    for fold in range(N_FOLDS):
        others = np.arange(N_FOLDS) != fold
        ratios = _log_ratio(of_known[others].sum(axis=0), of_mixed[others].sum(axis=0))
        judged_known[fold::N_FOLDS] = known[fold::N_FOLDS] @ ratios
        judged_mixed[fold::N_FOLDS] = mixed[fold::N_FOLDS] @ ratios
    return _log_ratio(of_known.sum(axis=0), of_mixed.sum(axis=0)), judged_known, judged_mixed


def _log_ratio(of_known: Float64, of_mixed: Float64) -> Float64:
    """Return the logarithm (k,) of the share of mixed rows in each column over that of known rows, given their sums (k,)."""
    share, prior = np.maximum(of_mixed / of_mixed.sum(), 1e-12), SMOOTHING * len(of_known)
    return np.asarray(np.log(share * (of_known.sum() + prior) / (of_known + prior * share)))


def likeness_directions(powers: Float32, most: int) -> Float32:
    """Return the directions (w, f) along which rows of powers (n, w) have their largest squares, at most `most`."""
    gram = powers.T @ powers
    values, vectors = np.linalg.eigh(gram.astype(np.float64))
    leading = vectors[:, ::-1][:, : min(most, int((values > 1e-9 * max(values[-1], 1e-30)).sum()))]
    return np.ascontiguousarray(leading, dtype=np.float32)


def cluster_likeness(clusters: Clusters, z: Float32, novelty: Float32) -> Float32:
    """Return the directions (w, f) from powers of memberships to likenesses, for rows at positions z (n, g).

    A row counts as much as it looks new. The squared length of a likeness is then that of the mean over clusterings.
    """
    powers = cluster_powers(clusters.memberships(z)) * novelty[:, None]
    return likeness_directions(powers, MAX_LIKENESS) / np.float32(np.sqrt(len(clusters.ends)))


def pairs_of_left_out(
    labelled: Float32,
    y: NDArray[np.integer],
    n_labels: int,
    out: Flags,
    unlabelled: Float32,
    seen: NDArray[np.intp],
    novelty: Float32,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[Float64, Flags] | None:
    """Leave classes out of the labels, find them again, and return how alike queries and items are, and which share a class.

    Left-out classes are found among the unlabelled rows, which show them as often as others. If most unlabelled rows are new, as
    many labelled rows of left-out classes are added as new classes would have, if there were as many of them as of known ones.
    Queries are labelled rows of left-out classes, which take part in no clustering. Items are others, which look as new as new
    rows do, and unlabelled rows, so many that every class has about as many rows.

    Parameters
    ----------
    labelled, unlabelled : ndarray of shapes (n, g) and (m, g), float32
        Positions of rows, in a metric that was learned without the classes that are left out.
    y : ndarray of shape (n,)
        Numbers of the labels.
    n_labels : int
    out : ndarray of shape (n,), bool
        Rows of the classes that are left out.
    seen : ndarray of shape (s,)
        Numbers of some of the unlabelled rows.
    novelty : ndarray of shape (s,), float32
        Probabilities that these are new.
    rng : numpy Generator
    n_jobs : int

    Returns
    -------
    products : ndarray of shape (q, k), float64
        Products of the likenesses of query and item and the novelty of the item: the largest of each query, and some others.
    same : ndarray of shape (q, k), bool

    None if too few rows are left out.
    """
    u = novelty.astype(np.float64)
    # As large as known classes are on average, or as new ones are if there are as many: the larger number of rows.
    share = len(np.unique(y[out])) / n_labels
    of_known, size = share * (1 - u.mean()), share * max(1 - u.mean(), u.mean())
    expected = len(u) * size
    again = rng.permutation(np.flatnonzero(out))
    asking, answering = np.split(again, [min(FOLD_ROWS, len(again) // 2)])
    added = labelled[answering[: round(len(unlabelled) * (size - of_known))]]
    answering = answering[: min(FOLD_ROWS, round(expected))]
    if not len(asking) or not len(answering) or out.all() or not u.any():
        return None
    others = rng.permutation(len(u))[: round(len(u) * len(answering) / expected)]
    rest = unlabelled[seen[others]]
    names, compact = np.unique(y[~out], return_inverse=True)
    clusters = find_classes(
        labelled[~out],
        compact,
        len(names),
        np.concatenate([unlabelled, added]),
        np.zeros(len(compact), dtype=bool),
        rng,
        n_jobs,
        n_clusterings=FOLD_CLUSTERINGS,
        n_classes=n_labels,
    ).clusters
    queries, items = (
        cluster_powers(clusters.memberships(each))
        for each in (labelled[asking], np.concatenate([labelled[answering], rest]))
    )
    as_new = rng.choice(u, len(answering), p=u / u.sum())
    products = (queries @ items.T) * (np.concatenate([as_new, u[others]]) / FOLD_CLUSTERINGS)
    judged = np.hstack(
        [
            np.argsort(-products, axis=1, kind="stable")[:, :ANSWERS],
            rng.integers(products.shape[1], size=(len(asking), ANSWERS)),
        ]
    )
    named = np.concatenate([y[answering], np.full(len(others), -1)])
    same = named[judged] == y[asking][:, None]
    return np.take_along_axis(products, judged, axis=1), same


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


SHARE_BINS = (0.6, 0.7, 0.8, 0.9)
"""The share of new rows is read off where these fractions of the known rows look less new. Smaller ones take small differences
between the frequencies of classes for new rows."""


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
    best = 1.0
    for part in SHARE_BINS:
        below = (mixed <= ordered[min(int(held.searchsorted(part)), len(known) - 1)]).mean()
        slack = 2 * np.sqrt(part * (1 - part) * (1 / n_rows + 1 / len(mixed)))
        best = min(best, float(below + slack) / part)
    return max(0.0, 1 - best)
