"""Vectors to features: a study of new classes, in which classes are left out of training, one fold of them after another.

Rows of a class that was left out are like rows of a new class. They show how new rows differ from known ones in the logits of a
classifier, and in which metric rows of a new class lie close together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Float32, Float64
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.validation import as_float32
from supquant.model.feature_map import evidence, opinion_roots
from supquant.model.label_kernel import LabelKernel
from supquant.model.position import Directions, root_spreads, within_scatter

N_FOLDS = 5
"""The classes are divided into at most this number of folds."""

STUDY_ROWS = 6000
"""The study has at most this number of rows."""

STUDY_CLASSES = 1200
"""The study has at most this number of classes. With more classes there would be few rows of each."""

STUDY_ANCHORS = 600
"""The classifiers of the study have this number of anchors, if they have any."""

FOLD_QUERIES = 100
"""A fold has at most this number of queries."""

FOLD_ITEMS = 2000
"""A fold takes at most this number of left-out rows as items. Held-out rows fill the items up to this number, and at least half
of the held-out rows are taken."""

MIN_FOLD_ROWS = 50
"""A fold with fewer rows to learn from is passed over."""

METRIC_RIDGES = (np.inf, 3.0, 1.0, 0.3)
"""Ridges of the metric that are tried, the plainest metric first; an infinite one leaves positions as they are."""

OPINION_WEIGHTS = (0.5, 0.0, 1.0)
"""Root mean square lengths of opinions that are tried, where that of positions is one. The one that is mostly best is first."""

METRIC_TOLERANCE, OPINION_TOLERANCE = 1.03, 1.02
"""The first ridge is taken whose MAP times `METRIC_TOLERANCE` reaches the best MAP, with the first weight of opinions. Then the
first weight is taken likewise, with this ridge. A few classes do not show small differences, and codes keep the cosine better
under a plain metric."""


@dataclass(frozen=True)
class Study:
    """What was learned from classes that were left out.

    Attributes
    ----------
    slope, shift : float
        The logit of being new is ``slope * evidence + shift``, with evidence in units of its spread among known rows, for as many
        new rows as known ones.
    metric_ridge, opinion_weight : float
        The ridge of the metric and the length of opinions with which left-out classes are found best.
    left_out : ndarray of shape (s,), float64
        Logits of being new of left-out rows, ascending.
    sureness : float
        The mean sum of squared probabilities of left-out rows, divided by that of known rows.
    """

    slope: float
    shift: float
    metric_ridge: float
    opinion_weight: float
    left_out: Float64
    sureness: float


NOTHING_LEARNED = Study(0.0, -np.inf, np.inf, 0.0, np.zeros(0), 1.0)
"""The study with too few classes or rows to leave some out: nothing is new."""


def leave_classes_out(
    X: NDArray[Any],
    labels: Labels,
    directions: Directions,
    rng: np.random.Generator,
    *,
    anchored: bool,
    n_jobs: int,
) -> Study:
    """Leave classes out, fold by fold.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows with one known label each.
    labels : Labels
    directions : Directions
        Principal directions of the positions.
    rng : numpy Generator
        Draws rows, classes and folds.
    anchored : bool
        Whether classifiers compare rows with anchors.
    n_jobs : int
        Number of threads.

    Returns
    -------
    Study
    """
    assert labels.indices is not None
    rows = rng.permutation(len(X))
    if labels.n_labels > STUDY_CLASSES:
        some = rng.permutation(labels.n_labels)[:STUDY_CLASSES]
        rows = rows[np.isin(labels.indices[rows], some)]
    rows = np.sort(rows[:STUDY_ROWS])
    seeds = rng.integers(2**31, size=N_FOLDS)
    classes = rng.permutation(np.unique(labels.indices[rows]))
    folds = np.array_split(classes, min(N_FOLDS, max(len(classes), 1)))
    x, labels = as_float32(X[rows]), labels.take(rows)  # all that the folds need, read once
    z = directions(x)
    tried = (
        _leave_fold_out(x, z, labels, fold, STUDY_ANCHORS * anchored, int(seed), n_jobs)
        for fold, seed in zip(folds, seeds, strict=False)
    )
    results = [each for each in tried if each is not None]
    if not results:
        return NOTHING_LEARNED
    left_out = np.sort(np.concatenate([each.new for each in results]))[::-1]
    slope, shift = _novelty_curve(np.concatenate([each.known for each in results]), left_out)

    @cache
    def quality(ridge: float, weight: float) -> float:
        return float(np.mean([each.precision(ridge, weight) for each in results]))

    ridge = _first_of_best(METRIC_RIDGES, lambda each: quality(each, OPINION_WEIGHTS[0]), METRIC_TOLERANCE)
    weight = _first_of_best(OPINION_WEIGHTS, lambda each: quality(ridge, each), OPINION_TOLERANCE)
    return Study(
        slope,
        shift,
        ridge,
        weight,
        left_out=slope * left_out + shift,
        sureness=float(np.mean([each.sureness for each in results])),
    )


def _first_of_best(settings: Sequence[float], quality: Callable[[float], float], tolerance: float) -> float:
    """Return the first setting whose quality, times the tolerance, reaches the best.

    Examples
    --------
    >>> _first_of_best((0.5, 0.0, 1.0), {0.5: 0.7, 0.0: 0.79, 1.0: 0.8}.get, 1.02)
    0.0
    """
    found = {each: quality(each) for each in settings}
    return next(each for each in settings if found[each] * tolerance >= max(found.values()))


@dataclass(frozen=True)
class _FoldResult:
    """What one fold shows."""

    known: Float64  # (k,) evidence of known rows
    new: Float64  # (s,) evidence of left-out rows
    precision: Callable[[float, float], float]  # MAP for a ridge of the metric and a weight of opinions
    sureness: float  # mean sum of squared probabilities of left-out rows, divided by that of known rows


def _leave_fold_out(
    X: Float32,
    z: Float32,
    labels: Labels,
    fold: NDArray[Any],
    n_anchors: int,
    seed: int,
    n_jobs: int,
) -> _FoldResult | None:
    """Leave the classes of a fold out of rows X (n, p) at positions z (n, k); None where too few are left to learn from."""
    assert labels.indices is not None
    out = np.isin(labels.indices, fold)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~out))
    held, kept = order[: len(order) // 4], np.sort(order[len(order) // 4 :])
    left = np.flatnonzero(out)
    if (
        len(kept) < MIN_FOLD_ROWS
        or len(np.unique(labels.indices[kept])) < 2
        or not len(left)
        or not len(held)
    ):
        return None
    _, compact = np.unique(labels.indices[kept], return_inverse=True)
    kernel = LabelKernel(n_anchors, n_jobs=n_jobs, random_state=seed)
    learned, _ = kernel.learn(X[kept], read_labels(compact))
    items = np.concatenate([left[:FOLD_ITEMS], held[: max(FOLD_ITEMS - len(left), len(held) // 2)]])
    scores = learned.logits(X[items])
    of_items = evidence(scores.astype(np.float64))
    is_left = np.isin(labels.indices[items], fold)
    centre, spread = spread_of(of_items[~is_left])
    of_items = (of_items - centre) / spread

    scatter = within_scatter(z[kept], labels.take(kept))
    p = label_probabilities(scores, multilabel=False)
    opinions = opinion_roots(p)
    opinions -= opinions.mean(axis=0)
    opinions /= root_mean_square(opinions[~is_left])
    asking = np.flatnonzero(is_left)[:FOLD_QUERIES]
    relevant = labels.indices[items][None] == labels.indices[items[asking]][:, None]
    relevant[np.arange(len(asking)), asking] = False
    of_opinions = opinions[asking] @ opinions.T
    variances, vectors = np.linalg.eigh(scatter)
    turned = z[items] @ vectors.astype(np.float32)  # turning changes no product

    def precision(ridge: float, weight: float) -> float:
        placed = turned / root_spreads(variances, ridge).astype(np.float32)
        placed /= root_mean_square(placed)
        similar = placed[asking] @ placed.T
        similar += np.float32(weight**2) * of_opinions
        similar[np.arange(len(asking)), asking] = -np.inf  # a row does not find itself
        return _mean_precision(similar, relevant)

    squares = np.square(p).sum(axis=1)
    sureness = float(squares[is_left].mean() / squares[~is_left].mean())
    return _FoldResult(of_items[~is_left], of_items[is_left], precision, sureness)


def _mean_precision(similar: Float32, relevant: NDArray[np.bool_]) -> float:
    """Return the MAP of queries, given similarities (q, n) and relevance (q, n). A query without a relevant item counts as 0.

    The rank of a relevant item is the number of items that are at least as similar. To sort the similarities alone is much
    faster than to sort the items.

    Examples
    --------
    >>> _mean_precision(np.float32([[3, 2, 1]]), np.array([[True, False, True]]))
    0.8333333333333333
    """
    n = similar.shape[1]
    numbers = np.arange(1, n + 1)
    precisions = np.zeros(len(similar))
    for query, (values, wanted, ascending) in enumerate(
        zip(similar, relevant, np.sort(similar, axis=1), strict=True)
    ):
        found = values[wanted]
        if len(found):
            found.sort()
            ranks = n - ascending.searchsorted(found[::-1], side="left")
            # This loop takes much of a fit to few rows, and np.mean takes longer than all of it.
            precisions[query] = np.add.reduce(numbers[: len(found)] / ranks) / len(found)
    return float(precisions.mean())


def root_mean_square(rows: NDArray[Any]) -> float:
    """Return the root of the mean squared length of rows (n, k); 1 where all rows are zero.

    Examples
    --------
    >>> root_mean_square(np.array([[3.0, 4.0], [0.0, 5.0]]))
    5.0
    """
    return float(np.sqrt(np.einsum("ij,ij->", rows, rows, dtype=np.float64) / len(rows))) or 1.0


def spread_of(values: Float64) -> tuple[float, float]:
    """Return the median of values (n,) and the distance between their quartiles, which is kept above 0."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float(max(high - low, 1e-6 * max(abs(middle), 1.0)))


def _novelty_curve(known: Float64, new: Float64) -> tuple[float, float]:
    """Return slope and shift of the logit of being new, as if there were as many new rows as known ones.

    Parameters
    ----------
    known, new : ndarray of shape (k,) and (s,), float64
        Evidence of known rows and of new ones.
    """
    values = np.concatenate([known, new])[:, None]
    is_new = np.arange(len(values)) >= len(known)
    fitted = LogisticRegression(C=1.0, class_weight="balanced").fit(values, is_new)
    slope = min(float(fitted.coef_[0, 0]), 0.0)  # more evidence for known classes never means more novelty
    return slope, float(fitted.intercept_[0]) if slope < 0 else 0.0
