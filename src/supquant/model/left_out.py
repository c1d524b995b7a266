"""Classes that are left out: what rows of new classes look like, if no unlabelled rows show it.

Classes are left out of training, one fold of them after another. Rows of a class that was left out are like rows of a new class:
they show how new rows differ from known ones in the logits of a classifier. They also choose the metric of positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Flags, Float32, Float64
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.validation import as_float32
from supquant.model.feature_map import evidence
from supquant.model.label_kernel import LabelKernel
from supquant.model.novelty import N_FOLDS
from supquant.model.position import Directions, root_spreads, within_scatter
from supquant.parallel import ordered_map
from supquant.rows import Rows

DEFAULT_SHARE = 0.05
"""Expected fraction of rows from new classes, if neither the user nor unlabelled rows say otherwise."""

STUDY_ROWS = 6000
"""The study of left-out classes has at most this number of rows."""

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
"""A fold with fewer rows to learn from is skipped."""

METRIC_RIDGES = (np.inf, 3.0, 1.0, 0.3)
"""Ridges of the metric that are tried, the plainest metric first; an infinite one leaves positions as they are."""

METRIC_TOLERANCE = 1.03
"""The first ridge is taken whose MAP times this number reaches the best MAP. A few classes do not show small differences, and
codes keep the cosine better under a plain metric."""


# classes that are left out -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """Findings from classes that were left out.

    Attributes
    ----------
    known, left_out : ndarray of shapes (k,) and (s,), float64
        Evidence of known rows and of left-out rows, in units of its spread among known rows.
    metric_ridge : float
        The ridge of the metric with which left-out classes are found best.
    """

    known: Float64
    left_out: Float64
    metric_ridge: float


def leave_classes_out(
    X: Rows,
    labels: Labels,
    directions: Directions,
    rng: np.random.Generator,
    *,
    anchored: bool,
    n_jobs: int,
) -> Study | None:
    """Leave classes out, fold by fold; return None if there are too few classes or rows for that.

    The rows X (n, p) have one known label each. The generator draws rows, classes and folds. If `anchored`, the classifiers
    compare rows with anchors.
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
    tried = ordered_map(
        lambda fold: _leave_fold_out(x, z, labels, fold[0], STUDY_ANCHORS * anchored, int(fold[1])),
        zip(folds, seeds, strict=False),
        n_jobs,
    )
    results = [each for each in tried if each is not None]
    if not results:
        return None
    found = ordered_map(lambda each: [each.precision(ridge) for ridge in METRIC_RIDGES], results, n_jobs)
    by_ridge = {
        ridge: float(np.mean(of_folds))
        for ridge, of_folds in zip(METRIC_RIDGES, zip(*found, strict=True), strict=True)
    }
    return Study(
        np.concatenate([each.known for each in results]),
        np.concatenate([each.new for each in results]),
        _first_of_best(by_ridge, METRIC_TOLERANCE),
    )


def _first_of_best(quality: dict[float, float], tolerance: float) -> float:
    """Return the first setting whose quality, times the tolerance, reaches the best.

    Examples
    --------
    >>> _first_of_best({0.5: 0.7, 0.0: 0.79, 1.0: 0.8}, 1.02)
    0.0
    """
    return next(each for each in quality if quality[each] * tolerance >= max(quality.values()))


@dataclass(frozen=True, eq=False)
class _FoldResult:
    """What one fold shows. Its items are left-out rows and held-out rows; q of the left-out rows are queries."""

    known: Float64  # (k,) evidence of known rows
    new: Float64  # (s,) evidence of left-out rows
    variances: Float64  # (d,) within known classes, along the directions of their scatter
    turned: Float32  # (n, d) positions of the items along these directions
    asking: NDArray[np.intp]  # (q,) numbers of the items that are queries
    relevant: Flags  # (q, n) whether query and item are of one class

    def precision(self, ridge: float) -> float:
        """Return the MAP for a ridge of the metric."""
        placed = self.turned / root_spreads(self.variances, ridge).astype(np.float32)
        similar = np.asarray(placed[self.asking] @ placed.T, dtype=np.float32)
        similar[np.arange(len(self.asking)), self.asking] = -np.inf  # a row does not find itself
        return _mean_precision(similar, self.relevant)


def _leave_fold_out(
    X: Float32,
    z: Float32,
    labels: Labels,
    fold: NDArray[Any],
    n_anchors: int,
    seed: int,
) -> _FoldResult | None:
    """Leave the classes of a fold out of rows X (n, p) at positions z (n, k), on one thread; None if too few rows are left."""
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
    kernel = LabelKernel(n_anchors, n_jobs=1, random_state=seed)
    learned, _ = kernel.learn(X[kept], read_labels(compact))
    items = np.concatenate([left[:FOLD_ITEMS], held[: max(FOLD_ITEMS - len(left), len(held) // 2)]])
    scores = learned.logits(X[items])
    of_items = evidence(scores.astype(np.float64))
    is_left = np.isin(labels.indices[items], fold)
    centre, spread = spread_of(of_items[~is_left])
    of_items = (of_items - centre) / spread

    scatter = within_scatter(z[kept], labels.take(kept))
    asking = np.flatnonzero(is_left)[:FOLD_QUERIES]
    relevant = labels.indices[items][None] == labels.indices[items[asking]][:, None]
    relevant[np.arange(len(asking)), asking] = False
    variances, vectors = np.linalg.eigh(scatter)
    turned = z[items] @ vectors.astype(np.float32)  # turning changes no product

    return _FoldResult(
        of_items[~is_left],
        of_items[is_left],
        variances,
        turned,
        asking,
        relevant,
    )


def _mean_precision(similar: Float32, relevant: NDArray[np.bool_]) -> float:
    """Return the MAP of queries, given similarities (q, n) and relevance (q, n). A query without a relevant item counts as 0.

    The rank of a relevant item is the number of items that are at least as similar. Sorting the similarities alone is much
    faster than sorting the items.

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
            # This loop takes much of the time of a fit to few rows, and np.mean would more than double it.
            precisions[query] = np.add.reduce(numbers[: len(found)] / ranks) / len(found)
    return float(precisions.mean())


def spread_of(values: Float64) -> tuple[float, float]:
    """Return the median of values (n,) and the distance between their quartiles, which is always above 0."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float(max(high - low, 1e-6 * max(abs(middle), 1.0)))


def evidence_logit(known: Float64, new: Float64, share: float) -> tuple[float, float]:
    """Return slope and shift of the logit of being new, if a `share` of all rows is.

    It is linear in the evidence of known (k,) and of new rows (s,), and never rises with it.
    """
    values, is_new = np.concatenate([known, new])[:, None], np.arange(len(known) + len(new)) >= len(known)
    fitted = LogisticRegression(class_weight="balanced").fit(values, is_new)
    slope, prior = float(fitted.coef_[0, 0]), float(np.log(share / (1 - share)))
    return (slope, float(fitted.intercept_[0]) + prior) if slope < 0 else (0.0, prior)
