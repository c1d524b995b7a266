"""Findings about classes: which are confused, which look like two, and how well each is recognised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from supquant.arrays import Array, Float32, Float64
from supquant.auditing.judgement import Judgement

MIN_DIVIDED_ROWS = 20
"""A class with fewer rows than this is not divided."""

MAX_DIVIDED_ROWS = 4000
"""At most this number of rows of a class are divided."""

MIN_PART = 0.1
"""The smaller part of a divided class must have at least this fraction of its rows."""

NEAR = 0.1
"""Half the width of the places where rows are counted, in units of the distance between the means of the two parts."""

MAX_BETWEEN = 0.5
"""The middle of a gap is hollow if it has fewer rows than this fraction of the rows around the two means."""

NORMAL_GAP = 2.65
"""The gap in a normal distribution that is cut in the middle."""

MIN_GAP = 3.5
"""A class that looks like two has a gap of at least this."""

GAP_RATIO = 1.2
"""A class that looks like two has a gap of at least this many times the median gap of all classes."""

MIN_CONFUSED_ROWS = 3
"""Two classes are confused if at least this number of their rows look like the other class."""

MIN_CONFUSED_FRACTION = 0.02
"""Two classes are confused if at least this fraction of the rows of one of them look like the other class."""


def confused_pairs(
    given: NDArray[np.int64], taken: NDArray[np.int64], n_labels: int
) -> Iterator[tuple[int, int, int, float]]:
    """Yield pairs of classes that are confused: the two classes, the number of confused rows, and their fraction.

    The fraction is the greater of two: of the rows of the first class, or of the second.

    Parameters
    ----------
    given, taken : ndarray of shape (n,), int64
        The given class of every row, and the class that it looks like.
    n_labels : int

    Examples
    --------
    >>> given, taken = np.array([0, 0, 0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 1, 0, 2])
    >>> list(confused_pairs(given, taken, 3))
    [(0, 1, 4, 0.75)]
    """
    sizes = np.bincount(given, minlength=n_labels).tolist()
    wrong = given != taken
    pairs, counts = np.unique(np.stack([given[wrong], taken[wrong]], axis=1), axis=0, return_counts=True)
    found: dict[tuple[int, int], list[float]] = {}
    for (a, b), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        entry = found.setdefault((min(a, b), max(a, b)), [0, 0.0])
        entry[0] += count
        entry[1] = max(entry[1], count / sizes[a])
    kept = [
        (*pair, int(count), share)
        for pair, (count, share) in found.items()
        if count >= MIN_CONFUSED_ROWS and share >= MIN_CONFUSED_FRACTION
    ]
    yield from sorted(kept, key=lambda each: -each[3])


def gaps_inside(carried: Any, positions: Float32, seed: int) -> tuple[Float64, NDArray[np.bool_]]:
    """Return the gap inside every class (L,), and whether there are few rows in the middle of it (L,).

    The rows of a class are divided into two parts by k-means. The gap is the distance between the means of the parts, in units of
    the spread within a part, along the line between the means. It is NaN for a class of too few rows.

    Parameters
    ----------
    carried : csc_array of shape (n, L)
        Which rows have which label.
    positions : ndarray of shape (n, g), float32
    seed : int

    Examples
    --------
    >>> import scipy.sparse
    >>> z = np.concatenate([np.linspace(0, 1, 30), np.linspace(9, 10, 30)])[:, None].astype(np.float32)
    >>> gap, hollow = gaps_inside(scipy.sparse.csc_array(np.ones((60, 1))), z, 0)
    >>> gap.round(), hollow
    (array([30.]), array([ True]))
    """
    gaps, hollow = np.full(carried.shape[1], np.nan), np.zeros(carried.shape[1], dtype=bool)
    for label in range(carried.shape[1]):
        rows = np.sort(carried.indices[carried.indptr[label] : carried.indptr[label + 1]])
        z = positions[rows[:: max(1, len(rows) // MAX_DIVIDED_ROWS)]]
        if len(z) < MIN_DIVIDED_ROWS or not np.ptp(z, axis=0).any():
            continue
        part = KMeans(2, n_init=3, random_state=seed).fit_predict(z)
        first, second = z[part == 0], z[part == 1]
        between = second.mean(axis=0) - first.mean(axis=0)
        length = float(np.linalg.norm(between))
        along = (z - first.mean(axis=0)) @ between / length**2  # 0 at one mean, 1 at the other
        share = len(second) / len(z)
        spread = np.sqrt((1 - share) * along[part == 0].var() + share * along[part == 1].var())
        gaps[label] = 1 / max(float(spread), 1e-6)
        near = [np.count_nonzero(abs(along - place) < NEAR) for place in (0, 0.5, 1)]
        hollow[label] = min(share, 1 - share) >= MIN_PART and near[1] < MAX_BETWEEN * np.sqrt(
            near[0] * near[2]
        )
    return gaps, hollow


def classes_like_two(gaps: Float64, hollow: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the numbers of the classes that look like two, the widest gap first, from gaps (L,) and hollow (L,).

    Their gap is wide, also compared with the gaps in other classes of the same data.

    Examples
    --------
    >>> classes_like_two(np.array([3.1, 6.0, 2.9, np.nan]), np.array([True, True, True, False]))
    array([1])
    """
    known = gaps[~np.isnan(gaps)]
    if not len(known):
        return np.zeros(0, dtype=np.intp)
    least = max(MIN_GAP, GAP_RATIO * float(np.median(known)) if len(known) > 2 else 0.0)
    found = np.flatnonzero(hollow & (np.nan_to_num(gaps) >= least))
    return found[np.argsort(-gaps[found], kind="stable")]


def class_rows(
    classes: Array,
    judgement: Judgement,
    taken: NDArray[np.bool_],
    doubtful: NDArray[np.bool_],
    gaps: Float64,
) -> Iterator[tuple[Any, ...]]:
    """Yield the lines of the table of classes.

    Parameters
    ----------
    classes : ndarray of shape (L,)
    judgement : Judgement
    taken : ndarray of shape (e,), bool
        Whether the label of each given entry is suggested too.
    doubtful : ndarray of shape (e,), bool
        Whether each given entry is a finding.
    gaps : ndarray of shape (L,), float64
    """
    L, given = len(classes), judgement.given
    counts = np.bincount(given.label, minlength=L)
    labelled = np.zeros(len(judgement.best.row), dtype=bool)
    labelled[given.row] = True
    suggested = np.bincount(judgement.best.label[labelled], minlength=L)
    agreeing = np.where(np.isnan(given.agreement), 0, given.agreement)

    def mean(values: NDArray[Any]) -> Float64:
        return np.asarray(np.bincount(given.label, values, minlength=L) / np.maximum(counts, 1))

    recall, doubts = mean(taken), np.bincount(given.label, doubtful, minlength=L)
    right = np.bincount(given.label, taken, minlength=L)
    precision = right / np.maximum(suggested, 1)
    means = mean(np.nan_to_num(given.probability)), mean(agreeing)
    columns = (counts, recall, precision, *means, doubts.astype(int), gaps)
    yield from zip(classes.tolist(), *(each.tolist() for each in columns), strict=True)
