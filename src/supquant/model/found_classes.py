"""Found classes: groups among rows without labels.

Rows without labels are a mixture of known classes and of classes that nobody has labelled. The latter are there to be found: the
rows are clustered several times, each time with a column for every known class and another number of columns for found ones. Half
of the rows take no part in each clustering, and only these are judged by it, so that nothing is learned from the rows that it is
measured on. `novelty` learns from the memberships of rows how new they look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import GaussianMap
from supquant.estimators.calibration import ANSWERS
from supquant.model.clusters import Clusters, cluster_powers, unit_positions
from supquant.model.novelty import (
    BLOCK_ROWS,
    N_FOLDS,
    column_ratios,
    nearest_rows,
    neighbour_ratios,
    row_weights,
)
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

RATIO_ROWS = 4096
"""The ratios of columns are learned from at most this number of labelled rows, and of unlabelled ones."""

MAX_LIKENESS = 128
"""The memberships of all clusterings are kept along at most this number of directions. With 64, MAP of Tiny-ImageNet falls by
.01."""

FOLD_CLUSTERINGS = 4
"""Number of clusterings in which the left-out classes of a fold are found."""

FOLD_ROWS = 512
"""At most this number of rows of left-out classes are queries in a fold, and as many are items."""


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
    weights: Float64  # (n,) weights of labelled rows, those of their classes


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
    clusters, rows = joined(parts), np.concatenate([known, mixed])
    folds = rng.integers(N_FOLDS, size=len(rows))
    of_known = rng.permutation(len(known))[:RATIO_ROWS]
    asking = np.append(of_known, len(known) + rng.permutation(len(mixed))[:RATIO_ROWS])
    nearest = nearest_rows(rows, asking, n_jobs)
    numbers = np.append(y, np.full(len(mixed), -1))
    weights = row_weights(nearest[: len(of_known)], of_known, numbers, n_labels)
    outnumbered = neighbour_ratios(nearest, weights, folds)
    ratios = column_ratios(clusters.memberships(rows[asking]), outnumbered, folds[asking], n_jobs)
    of_rows = _ratios_where(clusters, rows, np.hstack([out, mixed_out]), folds, ratios, n_jobs)
    return Found(
        replace(clusters, ratios=ratios[N_FOLDS]),
        of_rows[: len(known)],
        of_rows[len(known) :],
        np.asarray(out.any(axis=0)),
        np.asarray(mixed_out.any(axis=0)),
        weights[: len(known)],
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
