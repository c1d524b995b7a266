"""New classes: which rows look new, and in which metric rows of a new class lie close together.

Rows without labels are a mixture of known classes, which labelled rows have too, and of new ones. What tells unlabelled rows from
labelled ones therefore tells what is new. A linear discriminator of the two, on the features of the classifier, costs a query one
more column of logits. It is calibrated on rows that it was not learned from.

Without such rows, classes are left out of training, one fold of them after another. Rows of a class that was left out are like
rows of a new class: they show how new rows differ from known ones in the logits of a classifier. They also choose the metric of
positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import GaussianMap, kernel_features
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.validation import as_float32
from supquant.model.feature_map import evidence, opinion_roots
from supquant.model.label_kernel import LabelKernel, LearnedLabels, logits
from supquant.model.position import Directions, root_spreads, within_scatter
from supquant.rows import Rows

DEFAULT_SHARE = 0.22
"""Expected fraction of rows from new classes, if neither the user nor unlabelled rows say otherwise."""

MIN_UNLABELLED = 200
"""With fewer rows without labels, or with fewer than a quarter as many held-out rows, there is no discriminator."""

MAX_ROWS = 16384
"""The discriminator learns from at most this number of labelled rows and at most this number of unlabelled ones."""

MAX_ANCHORS = 1024
"""The discriminator has weights for at most this number of anchors of the classifier."""

RIDGE = 1e-2
"""Ridge of the discriminator, in units of the mean variance of a feature, times the number of rows."""

N_QUANTILES = 200
"""Number of quantiles of the logits of new rows that are kept."""

SHARE_LIMITS = (0.02, 0.9)
"""Limits of the estimated fraction of new rows."""

N_FOLDS = 5
"""The classes are divided into at most this number of folds."""

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

OPINION_WEIGHTS = (0.5, 0.0, 1.0)
"""Root mean square lengths of opinions that are tried, where that of positions is one. The usual winner is first."""

METRIC_TOLERANCE, OPINION_TOLERANCE = 1.03, 1.02
"""The first ridge is taken whose MAP times `METRIC_TOLERANCE` reaches the best MAP, with the first weight of opinions. Then the
first weight is taken in the same way, with this ridge. A few classes do not show small differences, and codes keep the cosine
better under a plain metric."""


# classes that are left out -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Study:
    """Findings from classes that were left out.

    Attributes
    ----------
    slope, shift : float
        The logit of being new is ``slope * evidence + shift``, with evidence in units of its spread among known rows, if there
        are as many new rows as known ones.
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
"""The study if there are too few classes or rows to leave some out: nothing is new."""


def leave_classes_out(
    X: Rows,
    labels: Labels,
    directions: Directions,
    rng: np.random.Generator,
    *,
    anchored: bool,
    n_jobs: int,
) -> Study:
    """Leave classes out, fold by fold.

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
    tried = (
        _leave_fold_out(x, z, labels, fold, STUDY_ANCHORS * anchored, int(seed), n_jobs)
        for fold, seed in zip(folds, seeds, strict=False)
    )
    results = [each for each in tried if each is not None]
    if not results:
        return NOTHING_LEARNED
    left_out = np.sort(np.concatenate([each.new for each in results]))[::-1]
    slope, shift = _novelty_curve(np.concatenate([each.known for each in results]), left_out)

    usual, *others = OPINION_WEIGHTS
    by_ridge = {ridge: _mean_over_folds(results, ridge, usual) for ridge in METRIC_RIDGES}
    ridge = _first_of_best(by_ridge, METRIC_TOLERANCE)
    by_weight = {weight: _mean_over_folds(results, ridge, weight) for weight in others}
    weight = _first_of_best({usual: by_ridge[ridge]} | by_weight, OPINION_TOLERANCE)
    return Study(
        slope,
        shift,
        ridge,
        weight,
        left_out=slope * left_out + shift,
        sureness=float(np.mean([each.sureness for each in results])),
    )


def _first_of_best(quality: dict[float, float], tolerance: float) -> float:
    """Return the first setting whose quality, times the tolerance, reaches the best.

    Examples
    --------
    >>> _first_of_best({0.5: 0.7, 0.0: 0.79, 1.0: 0.8}, 1.02)
    0.0
    """
    return next(each for each in quality if quality[each] * tolerance >= max(quality.values()))


def _mean_over_folds(results: list[_FoldResult], ridge: float, weight: float) -> float:
    return float(np.mean([each.precision(ridge, weight) for each in results]))


@dataclass(frozen=True, eq=False)
class _FoldResult:
    """What one fold shows. Its items are left-out rows and held-out rows; q of the left-out rows are queries."""

    known: Float64  # (k,) evidence of known rows
    new: Float64  # (s,) evidence of left-out rows
    sureness: float  # mean sum of squared probabilities of left-out rows, divided by that of known rows
    variances: Float64  # (d,) within known classes, along the directions of their scatter
    turned: Float32  # (n, d) positions of the items along these directions
    opinions: Float32  # (q, n) products of the opinions about queries and items
    asking: NDArray[np.intp]  # (q,) numbers of the items that are queries
    relevant: Flags  # (q, n) whether query and item are of one class

    def precision(self, ridge: float, weight: float) -> float:
        """Return the MAP for a ridge of the metric and a weight of opinions."""
        placed = self.turned / root_spreads(self.variances, ridge).astype(np.float32)
        placed /= root_mean_square(placed)
        similar = np.asarray(placed[self.asking] @ placed.T, dtype=np.float32)
        similar += np.float32(weight**2) * self.opinions
        similar[np.arange(len(self.asking)), self.asking] = -np.inf  # a row does not find itself
        return _mean_precision(similar, self.relevant)


def _leave_fold_out(
    X: Float32,
    z: Float32,
    labels: Labels,
    fold: NDArray[Any],
    n_anchors: int,
    seed: int,
    n_jobs: int,
) -> _FoldResult | None:
    """Leave the classes of a fold out of rows X (n, p) at positions z (n, k); None if too few rows are left to learn from."""
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

    squares = np.square(p).sum(axis=1)
    sureness = float(squares[is_left].mean() / squares[~is_left].mean())
    return _FoldResult(
        of_items[~is_left], of_items[is_left], sureness, variances, turned, of_opinions, asking, relevant
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


def root_mean_square(rows: NDArray[Any]) -> float:
    """Return the root of the mean squared length of rows (n, k); 1 if all rows are zero.

    Examples
    --------
    >>> root_mean_square(np.array([[3.0, 4.0], [0.0, 5.0]]))
    5.0
    """
    return float(np.sqrt(np.einsum("ij,ij->", rows, rows, dtype=np.float64) / len(rows))) or 1.0


def spread_of(values: Float64) -> tuple[float, float]:
    """Return the median of values (n,) and the distance between their quartiles, which is always above 0."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float(max(high - low, 1e-6 * max(abs(middle), 1.0)))


def _novelty_curve(known: Float64, new: Float64) -> tuple[float, float]:
    """Return slope and shift of the logit of being new, for the evidence of known (k,) and of new rows (s,).

    It holds as if there were as many new rows as known ones.
    """
    values = np.concatenate([known, new])[:, None]
    is_new = np.arange(len(values)) >= len(known)
    fitted = LogisticRegression(C=1.0, class_weight="balanced").fit(values, is_new)
    slope = min(float(fitted.coef_[0, 0]), 0.0)  # more evidence for known classes never means more novelty
    return slope, float(fitted.intercept_[0]) if slope < 0 else 0.0


# the logit of being new ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Novelty:
    """The logit of being new: ``slope * evidence + weight * discriminator + shift``.

    Attributes
    ----------
    slope, weight, shift : float
    share : float
        The fraction of new rows for which the logit is right.
    of_new : ndarray of shape (s,), float64
        Logits of some new rows.
    """

    slope: float
    weight: float
    shift: float
    share: float
    of_new: Float64

    def expecting(self, share: float) -> Novelty:
        """Return the logit for another fraction of new rows."""
        moved = log_odds(share) - log_odds(self.share)
        return Novelty(self.slope, self.weight, self.shift + moved, share, self.of_new + moved)


NOTHING_NEW = Novelty(0.0, 0.0, -np.inf, 0.0, np.zeros(0))
"""The logit under which no row is new."""


def learn_novelty(
    X: Rows,
    labels: Labels,
    learned: LearnedLabels,
    held_logits: Float32,
    study: Study,
    new_classes: float | None,
    rng: np.random.Generator,
) -> tuple[Float32, Novelty]:
    """Return the weights (d + 1,) of the discriminator, zero if there is none, and the logit of being new."""
    no_weights = np.zeros(len(learned.weights), dtype=np.float32)
    if np.isinf(study.shift):
        return no_weights, NOTHING_NEW
    known = np.flatnonzero(labels.known)
    unlabelled = rng.permutation(np.flatnonzero(~labels.known))[: MAX_ROWS + MAX_ROWS // 4]
    if len(unlabelled) < MIN_UNLABELLED or len(learned.held_rows) < MIN_UNLABELLED // 4:
        centre, spread = spread_of(evidence(held_logits.astype(np.float64)))
        slope = study.slope / spread
        novelty = Novelty(slope, 0.0, study.shift - slope * centre, 0.5, study.left_out)
        return no_weights, novelty.expecting(DEFAULT_SHARE if new_classes is None else new_classes)
    judged, seen = np.split(unlabelled, [len(unlabelled) // 5])
    kept = rng.permutation(np.setdiff1d(np.arange(len(known)), learned.held_rows))[:MAX_ROWS]
    weights = learn_discriminator(learned.kernel, X[np.sort(known[kept])], X[np.sort(seen)])
    held, mixed = as_float32(X[known[learned.held_rows]]), as_float32(X[np.sort(judged)])
    phi = kernel_features(learned.kernel, mixed)
    of_held = discriminator_values(learned.kernel, weights, held)
    novelty = novelty_of_mixture(
        np.column_stack([evidence(held_logits.astype(np.float64)), of_held]),
        np.column_stack([evidence(logits(phi, learned.weights).astype(np.float64)), logits(phi, weights)]),
    )
    return weights, novelty if new_classes is None else novelty.expecting(new_classes)


def discriminator_values(kernel: GaussianMap | None, weights: Float32, x: Float32) -> Float64:
    """Return the values (b,) of the discriminator with weights (d + 1,) for a block (b, p): zeros if there is none."""
    if not weights.any():
        return np.zeros(len(x))
    return np.asarray(logits(kernel_features(kernel, x), weights), dtype=np.float64)


def learn_discriminator(
    kernel: GaussianMap | None, labelled: NDArray[Any], unlabelled: NDArray[Any]
) -> Float32:
    """Learn to tell unlabelled rows (s, p) from labelled ones (n, p) by the features of the classifier.

    Return the weights (d + 1,) of the features, and the shift as the last one. The sum is greater for rows that look unlabelled.
    """
    rows = as_float32(np.concatenate([labelled, unlabelled]))
    width = rows.shape[1] if kernel is None else len(kernel.anchors)
    used = np.arange(width)
    features = rows
    if kernel is not None:
        used = np.unique(np.linspace(0, width - 1, MAX_ANCHORS).astype(np.intp))
        features = GaussianMap(kernel.anchors[used], kernel.bandwidth)(rows)
    is_unlabelled = np.arange(len(rows)) >= len(labelled)
    balance = np.where(is_unlabelled, len(rows) / len(unlabelled), len(rows) / len(labelled)) / 2
    variance = float(features.var(axis=0, dtype=np.float64).mean())
    fitted = Ridge(alpha=max(RIDGE * variance * len(rows), 1e-9)).fit(
        features.astype(np.float64), is_unlabelled, sample_weight=balance
    )
    weights = np.zeros(width + 1)
    weights[used] = fitted.coef_
    weights[-1] = fitted.intercept_
    return weights.astype(np.float32)


def novelty_of_mixture(known: Float64, mixture: Float64) -> Novelty:
    """Learn the logit of being new from a mixture of known and new rows.

    `known` (k, 2) holds evidence and discriminator of labelled rows that neither was learned from, `mixture` (s, 2) those of
    unlabelled rows.
    """
    both = np.concatenate([known, mixture])
    centre, spread = both.mean(axis=0), both.std(axis=0) + 1e-12
    is_mixed = np.arange(len(both)) >= len(known)
    apart = LogisticRegression(C=1.0, class_weight="balanced").fit((both - centre) / spread, is_mixed)
    # log of the density of the mixture over the density of known rows
    ratio = apart.decision_function((both - centre) / spread)
    share = mixed_share(ratio[~is_mixed], ratio[is_mixed])
    new = np.clip(1 - (1 - share) * np.exp(-ratio[is_mixed]), 1e-3, 1 - 1e-3)  # (s,) probabilities
    scaled, of_known = (mixture - centre) / spread, (known - centre) / spread
    fitted = LogisticRegression(C=100.0).fit(
        np.concatenate([scaled, scaled, of_known]),
        np.repeat([1, 0, 0], [len(scaled), len(scaled), len(known)]),
        sample_weight=np.concatenate([new, 1 - new, np.full(len(known), len(mixture) / len(known))]),
    )
    slopes = fitted.coef_[0] / spread
    odds = np.sort(fitted.decision_function(scaled))
    moved = brentq(lambda by: expit(odds + by).mean() - share, -40, 40)  # the mixture then has this share
    odds += moved
    # Each row counts by its probability of being new; the quantiles are those of new rows.
    masses = np.cumsum(expit(odds))
    at = np.searchsorted(masses, (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES * masses[-1])
    shift = float(fitted.intercept_[0] + moved - slopes @ centre)
    return Novelty(float(slopes[0]), float(slopes[1]), shift, share, odds[at])


def mixed_share(known: Float64, mixture: Float64) -> float:
    """Estimate the share of new rows in a mixture, from scores (n,) that are low for known rows (Garg et al., 2021).

    Below a low score there are only known rows. So the fraction of the mixture below it, divided by the fraction of the known
    rows below it, is the share of known rows in the mixture. Of all scores, the one with the lowest upper bound of this share is
    taken.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> known, new = rng.normal(0, 1, 6000), rng.normal(4, 1, 1200)
    >>> round(mixed_share(known[:3000], np.concatenate([known[3000:], new])), 1)
    0.3
    """
    edges = np.quantile(known, np.linspace(0.05, 1, 96))
    of_known = np.searchsorted(np.sort(known), edges, side="right") / len(known)
    of_mixture = np.searchsorted(np.sort(mixture), edges, side="right") / len(mixture)
    slack = np.sqrt(np.log(40) / 2) * (len(known) ** -0.5 + len(mixture) ** -0.5)
    at = int(np.argmin((of_mixture + slack) / of_known))
    return float(np.clip(1 - of_mixture[at] / of_known[at], *SHARE_LIMITS))


def log_odds(share: float) -> float:
    """Return ``log(share / (1 - share))``.

    Examples
    --------
    >>> log_odds(0.5)
    0.0
    """
    return float(np.log(share / (1 - share)))
