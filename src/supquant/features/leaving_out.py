"""Vectors to features: what is learned by leaving classes out of training, one fold of them after the other.

Rows of a class that was left out are what rows of a new class will be like. They tell how novelty shows in the logits of a
classifier, and in which metric a class that nobody trained on lies together.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Float64
from supquant.codec import label_probabilities
from supquant.features.label_kernel import LabelKernel
from supquant.features.label_map import logits
from supquant.features.meaning_map import evidence, opinion_roots
from supquant.features.position import Directions, metric_of, within_scatter
from supquant.labels import Labels
from supquant.metrics import average_precision
from supquant.validation import as_float32

FOLDS = 5
STUDY_ROWS = 6000
"""Rows of the study at the most."""

STUDY_CLASSES = 1200
"""Classes of the study at the most: of more, it would have few rows of each."""

STUDY_ANCHORS = 600
STUDY_QUERIES = 200
"""Queries of a fold at the most."""

STUDY_ITEMS = 2000
"""Items of a fold at the most, left out and known ones together."""

FEWEST_ROWS = 50
"""A fold with fewer rows to learn from says nothing."""

METRIC_RIDGES = (np.inf, 3.0, 1.0, 0.3)
OPINION_WEIGHTS = (0.5, 0.0, 1.0)
"""Lengths of opinions beside positions, whose mean square is one; the most sensible one first."""

NEARLY_THE_BEST = (1.03, 1.02)
"""Taken are the plainest metric, and then the most sensible weight of opinions, that are at most so many times worse than the
best: few classes tell small differences badly, and the plainer the metric, the better codes keep the cosine."""


@dataclass(frozen=True)
class Study:
    """What was learned from classes that were left out.

    Attributes
    ----------
    slope, shift : float
        The logit of being new, with as many new rows as known ones, along evidence in units of its spread among known rows.
    metric_ridge, opinion_weight : float
        Of the position that finds left-out classes best.
    left_out : (s,) float64
        The logits of being new that left-out rows have, ascending.
    sureness : float
        The mean sum of squared probabilities of left-out rows, over that of known rows.
    """

    slope: float
    shift: float
    metric_ridge: float
    opinion_weight: float
    left_out: Float64
    sureness: float


NOTHING_LEARNED = Study(0.0, -np.inf, np.inf, 0.0, np.zeros(0), 1.0)
"""Where too few classes or rows are there to leave some out: nothing is new."""


def leave_classes_out(
    X: NDArray[Any],
    labels: Labels,
    directions: Directions,
    rng: np.random.Generator,
    *,
    anchored: bool,
    n_jobs: int,
) -> Study:
    """Learn from rows X (n, p) with one label each, all known; `anchored` says whether classifiers compare rows with anchors."""
    assert labels.indices is not None
    rows = rng.permutation(len(X))
    if labels.n_labels > STUDY_CLASSES:
        some = rng.permutation(labels.n_labels)[:STUDY_CLASSES]
        rows = rows[np.isin(labels.indices[rows], some)]
    rows = np.sort(rows[:STUDY_ROWS])
    seeds = rng.integers(2**31, size=FOLDS)
    classes = rng.permutation(np.unique(labels.indices[rows]))
    folds = np.array_split(classes, min(FOLDS, max(len(classes), 1)))
    known, new, sure = [], [], []
    found: dict[tuple[float, float], list[float]] = {}
    for fold, seed in zip(folds, seeds, strict=False):
        judged = _judge(X, labels, rows, fold, directions, STUDY_ANCHORS * anchored, int(seed), n_jobs)
        if judged is None:
            continue
        known.append(judged[0])
        new.append(judged[1])
        sure.append(judged[3])
        for setting, quality in judged[2].items():
            found.setdefault(setting, []).append(quality)
    if not known:
        return NOTHING_LEARNED
    left_out = np.sort(np.concatenate(new))[::-1]
    slope, shift = _novelty_curve(np.concatenate(known), left_out)
    means = {setting: float(np.mean(values)) for setting, values in found.items()}
    best = {ridge: max(means[ridge, weight] for weight in OPINION_WEIGHTS) for ridge in METRIC_RIDGES}
    ridge = next(each for each in METRIC_RIDGES if best[each] * NEARLY_THE_BEST[0] >= max(best.values()))
    weight = next(each for each in OPINION_WEIGHTS if means[ridge, each] * NEARLY_THE_BEST[1] >= best[ridge])
    return Study(
        slope, shift, ridge, weight, left_out=slope * left_out + shift, sureness=float(np.mean(sure))
    )


def _judge(
    X: NDArray[Any],
    labels: Labels,
    rows: NDArray[np.int64],
    fold: NDArray[Any],
    directions: Directions,
    n_anchors: int,
    seed: int,
    n_jobs: int,
) -> tuple[Float64, Float64, dict[tuple[float, float], float], float] | None:
    """Leave the classes of a fold out.

    Returns evidence for known rows and for left-out ones, the MAP of every metric, and the sureness of left-out rows over that of
    known ones.
    """
    assert labels.indices is not None
    out = np.isin(labels.indices[rows], fold)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~out))
    held, kept = rows[order[: len(order) // 4]], np.sort(rows[order[len(order) // 4 :]])
    left = rows[out]
    if len(kept) < FEWEST_ROWS or len(np.unique(labels.indices[kept])) < 2 or not len(left) or not len(held):
        return None
    _, compact = np.unique(labels.indices[kept], return_inverse=True)
    kernel = LabelKernel(n_anchors, n_directions=0, n_jobs=n_jobs, random_state=seed)
    fitted = kernel.fit(as_float32(X[kept]), compact).map_
    items = np.concatenate([left[:STUDY_ITEMS], held[: max(STUDY_ITEMS - len(left), len(held) // 2)]])
    x = as_float32(X[items])
    scores = logits(x if fitted.kernel is None else fitted.kernel(x), fitted.weights)
    speaks = evidence(scores.astype(np.float64))
    is_left = np.isin(labels.indices[items], fold)
    centre, spread = spread_of(speaks[~is_left])
    speaks = (speaks - centre) / spread

    z = directions(x)
    scatter = within_scatter(directions(as_float32(X[kept])), labels.take(kept))
    p = label_probabilities(scores, multilabel=False)
    opinions = opinion_roots(p)
    opinions -= opinions.mean(axis=0)
    opinions /= root_mean_square(opinions[~is_left])
    asking = np.flatnonzero(is_left)[:STUDY_QUERIES]
    relevant = labels.indices[items][None] == labels.indices[items[asking]][:, None]
    relevant[np.arange(len(asking)), asking] = False
    of_opinions = opinions[asking] @ opinions.T
    quality = {}
    for ridge, weight in product(METRIC_RIDGES, OPINION_WEIGHTS):
        placed = z @ metric_of(scatter, ridge)[0]
        placed /= root_mean_square(placed)
        similar = placed[asking] @ placed.T + weight**2 * of_opinions
        similar[np.arange(len(asking)), asking] = -np.inf  # a row does not find itself
        ranked = np.take_along_axis(relevant, np.argsort(-similar, axis=1, kind="stable"), axis=1)
        quality[ridge, weight] = float(average_precision(ranked).mean())
    squares = np.square(p).sum(axis=1)
    sure = float(squares[is_left].mean() / squares[~is_left].mean())
    return speaks[~is_left], speaks[is_left], quality, sure


def root_mean_square(rows: NDArray[Any]) -> float:
    """Return the root of the mean squared length of rows (n, k), or 1 where all are zero.

    Examples
    --------
    >>> root_mean_square(np.array([[3.0, 4.0], [0.0, 5.0]]))
    5.0
    """
    return float(np.sqrt(np.square(rows, dtype=np.float64).sum(axis=1).mean())) or 1.0


def spread_of(values: Float64) -> tuple[float, float]:
    """Return the median and the distance between the quartiles, at least a little above 0."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    return float(middle), float(max(high - low, 1e-6 * max(abs(middle), 1.0)))


def _novelty_curve(known: Float64, new: Float64) -> tuple[float, float]:
    """Fit the logit of being new along evidence, as if there were as many new rows as known ones."""
    values = np.concatenate([known, new])[:, None]
    is_new = np.arange(len(values)) >= len(known)
    fitted = LogisticRegression(C=1.0, class_weight="balanced").fit(values, is_new)
    slope = min(float(fitted.coef_[0, 0]), 0.0)  # more evidence for known classes never means more novelty
    return slope, float(fitted.intercept_[0]) if slope < 0 else 0.0
