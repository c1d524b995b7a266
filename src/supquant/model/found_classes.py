"""Found classes: groups among rows without labels, and how likely a vector is of none of the known classes.

Rows without labels are a mixture of known classes and of classes that nobody has labelled. The latter are there to be found: the
rows are clustered several times, each time with a column for every known class and another number of columns for found ones. A
vector is as likely to be new as unlabelled rows outnumber labelled ones among its nearest neighbours, and this is learned as a
linear function of its memberships. Half of the rows take no part in each clustering, and only these are compared, so that nothing
is learned from the rows that it is measured on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csc_array
from scipy.special import expit
from sklearn.isotonic import isotonic_regression

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import GaussianMap
from supquant.estimators.calibration import ANSWERS
from supquant.model.clusters import Clusters, cluster_powers, normalised, unit_positions
from supquant.model.kernel_rows import upper_products
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

N_NEIGHBOURS = 40
"""A row is judged by at most this number of its nearest neighbours."""

RATIO_ROWS = 4096
"""The ratios of columns are learned from at most this number of labelled rows, and of unlabelled ones."""

RATIO_RIDGE = 0.1
"""Ridge of that regression, in units of the mean square of a membership around its mean."""

N_FOLDS = 5
"""Rows are judged by what this number of folds say without their own, and known classes are left out in as many."""

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

BLOCK_ROWS = 512
"""Number of rows whose neighbours, or memberships, are computed at a time."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """The centres of one clustering, and the rows that took no part in it."""

    centres: Float32  # (L + K, g)
    out: Flags  # (n,) labelled rows
    mixed_out: Flags  # (m,) unlabelled rows


@dataclass(frozen=True, eq=False)
class Found:
    """Clusterings, and what they say of rows that took no part in them."""

    clusters: Clusters
    of_labelled: Float64  # (n,) log ratio of labelled rows
    of_unlabelled: Float64  # (m,) log ratio of unlabelled rows
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
) -> Found:
    """Cluster labelled and unlabelled rows, and learn from the clusterings how new a row looks.

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

    Returns
    -------
    Found
    """
    known, mixed = unit_positions(labelled), unit_positions(unlabelled)
    parts = clusterings(known, y, n_labels, mixed, held, N_CLUSTERINGS, n_labels, rng, n_jobs)
    out, mixed_out = (
        np.stack(each) for each in zip(*((part.out, part.mixed_out) for part in parts), strict=True)
    )
    weights = _mean_where(
        out, ordered_map(lambda part: _weights_of(part, known, y, n_labels, mixed), parts, n_jobs)
    )
    clusters, rows = joined(parts), np.concatenate([known, mixed])
    folds = rng.integers(N_FOLDS, size=len(rows))
    asking = np.concatenate(
        [
            rng.permutation(len(known))[:RATIO_ROWS],
            len(known) + rng.permutation(len(mixed))[:RATIO_ROWS],
        ]
    )
    counts = np.stack(
        [np.append(weights, np.zeros(len(mixed))), np.repeat([0.0, 1.0], [len(known), len(mixed)])]
    )
    outnumbered = neighbour_ratios(rows, counts, asking, folds, n_jobs)
    ratios = column_ratios(clusters.memberships(rows[asking]), outnumbered, folds[asking], n_jobs)
    of_rows = _ratios_where(clusters, rows, np.hstack([out, mixed_out]), folds, ratios, n_jobs)
    return Found(
        replace(clusters, ratios=ratios[N_FOLDS]),
        of_rows[: len(known)],
        of_rows[len(known) :],
        np.asarray(out.any(axis=0)),
        np.asarray(mixed_out.any(axis=0)),
        weights,
    )


def clusterings(
    known: Float32,
    y: NDArray[np.integer],
    n_labels: int,
    mixed: Float32,
    held: Flags,
    n_clusterings: int,
    n_classes: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> list[Clustering]:
    """Cluster rows of unit length, labelled (n, g) and unlabelled (m, g), several times; half of the rows each time.

    The labelled rows `held` (n,) take part in none. The numbers of found columns are multiples of `n_classes`.
    """
    columns = np.array([MIN_COLUMNS, MAX_COLUMNS]) * n_classes

    def clustered(seed: int) -> Clustering:
        own = np.random.default_rng(seed)
        n_found = int(np.clip(np.exp(own.uniform(*np.log(columns))), 1, COLUMN_LIMIT))
        out, mixed_out = held | (own.uniform(size=len(known)) < 0.5), own.uniform(size=len(mixed)) < 0.5
        centres = cluster(known[~out], y[~out], n_labels, mixed[~mixed_out], n_found, own)
        return Clustering(centres, out, mixed_out)

    return list(ordered_map(clustered, rng.integers(2**31, size=n_clusterings), n_jobs))


def joined(parts: Sequence[Clustering]) -> Clusters:
    """Return the clusterings as one ensemble, whose ratios are not known yet."""
    centres = [part.centres for part in parts]
    return Clusters(
        GaussianMap(np.concatenate(centres), TEMPERATURE**-0.5),
        np.zeros(sum(map(len, centres)), dtype=np.float32),
        np.cumsum([len(each) for each in centres], dtype=np.int64),
    )


def _weights_of(
    part: Clustering, known: Float32, y: NDArray[np.integer], n_labels: int, mixed: Float32
) -> Float64:
    """Return the weights of `class_weights` (n,), by the memberships in one clustering; 0 for rows that took part in it."""
    kernel = GaussianMap(part.centres, TEMPERATURE**-0.5)
    of_known, of_mixed = (_memberships(kernel, rows) for rows in (known[part.out], mixed[part.mixed_out]))
    weights = np.zeros(len(known))
    weights[part.out] = class_weights(of_known, y[part.out], n_labels, of_mixed)
    return weights


def _mean_where(out: Flags, values: Iterable[Float64]) -> Float64:
    """Return the means (n,) of values (R, n) of rows over the clusterings that they took no part in; 1 if there are none."""
    total, count = np.zeros(out.shape[1]), out.sum(axis=0)
    for each in values:
        total += each
    return np.where(count > 0, total / np.maximum(count, 1), 1.0)


def _ratios_where(
    clusters: Clusters, rows: Float32, out: Flags, folds: NDArray[np.intp], ratios: Float32, n_jobs: int
) -> Float64:
    """Return the log ratios (n,) of rows (n, g), by the clusterings that they took no part in (R, n); 0 if there are none.

    A row in fold f (n,) is judged by the ratios of columns that were learned without this fold, row f of `ratios` (F, w).
    """
    starts = np.concatenate([[0], clusters.ends[:-1]])

    def judged(block: tuple[int, int]) -> Float64:
        of_block = slice(*block)
        products = clusters.memberships(rows[of_block])
        products *= ratios[folds[of_block]]
        alone = out[:, of_block].T  # (b, R)
        summed = np.where(alone, np.add.reduceat(products, starts, axis=1), 0).sum(axis=1, dtype=np.float64)
        return np.asarray(summed * (len(starts) / np.maximum(alone.sum(axis=1), 1)))

    return np.concatenate([np.zeros(0), *ordered_map(judged, row_blocks(len(rows), BLOCK_ROWS), n_jobs)])


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


def neighbour_ratios(
    rows: Float32, counts: Float64, asking: NDArray[np.intp], folds: NDArray[np.intp], n_jobs: int
) -> Float64:
    """Return by how much unlabelled rows outnumber labelled ones among the nearest neighbours of some rows, as a logarithm.

    Parameters
    ----------
    rows : ndarray of shape (n, g), float32
        Labelled and unlabelled rows, of unit length. Neighbours are those with the greatest cosines; no row is its own.
    counts : ndarray of shape (2, n), float64
        As how many labelled rows each row counts, and as how many unlabelled ones.
    asking : ndarray of shape (a,)
        Numbers of the rows whose neighbours are counted.
    folds : ndarray of shape (n,)
        The fold of each row, from 0 to `N_FOLDS` - 1.
    n_jobs : int

    Returns
    -------
    ndarray of shape (a, N_FOLDS + 1), float64
        Column f counts no rows of fold f, and the last column counts all rows.

    Examples
    --------
    >>> angles = np.arange(200) / 200
    >>> rows = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    >>> counts = np.array([angles < 0.5, angles >= 0.5], dtype=float)
    >>> neighbour_ratios(rows, counts, np.array([50, 90, 109, 149]), np.arange(200) % N_FOLDS, 1)[:, -1].round(1)
    array([-3.7, -0.9,  0.9,  3.7])
    """
    n_seen = min(2 * N_NEIGHBOURS, len(rows) - 1)  # enough unless a fold has more than half of them

    def counted(block: tuple[int, int]) -> Float64:
        own = asking[slice(*block)]
        cosines = rows[own] @ rows.T
        cosines[np.arange(len(own)), own] = -np.inf
        nearest = np.argpartition(-cosines, n_seen - 1, axis=1)[:, :n_seen]
        order = np.argsort(-np.take_along_axis(cosines, nearest, axis=1), axis=1, kind="stable")
        nearest = np.take_along_axis(nearest, order, axis=1)  # (b, k), the nearest first
        found = np.empty((len(own), N_FOLDS + 1))
        for fold in range(N_FOLDS + 1):
            kept = folds[nearest] != fold
            kept &= np.cumsum(kept, axis=1) <= N_NEIGHBOURS
            of_labelled, of_unlabelled = (1 + (each[nearest] * kept).sum(axis=1) for each in counts)
            found[:, fold] = np.log(of_unlabelled / of_labelled)
        return found

    return np.concatenate(list(ordered_map(counted, row_blocks(len(asking), BLOCK_ROWS), n_jobs)))


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
    clusters = joined(
        clusterings(
            unit_positions(labelled[~out]),
            compact,
            len(names),
            unit_positions(np.concatenate([unlabelled, added])),
            np.zeros(len(compact), dtype=bool),
            FOLD_CLUSTERINGS,
            n_labels,
            rng,
            n_jobs,
        )
    )
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

SHARE_DEVIATIONS, CERTAIN_DEVIATIONS = 2, 5
"""The share of new rows is what is left of it after two standard deviations, and 0 unless something is left after five."""


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
