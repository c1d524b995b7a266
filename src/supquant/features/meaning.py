"""Vectors to features: the map of meaning and position, fitted to rows of which some or all have labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.features.label_kernel import LabelKernel
from supquant.features.label_map import logits
from supquant.features.leaving_out import NOTHING_LEARNED, Study, leave_classes_out, spread_of
from supquant.features.meaning_map import MeaningMap, evidence, opinion_roots
from supquant.features.position import Directions, metric_of, principal_directions, within_scatter
from supquant.labels import Labels
from supquant.parallel import ordered_map, row_blocks
from supquant.statistics import Float
from supquant.validation import as_float32

Block = NDArray[np.float32]

DEFAULT_SHARE = 0.1
"""Share of new classes that is expected where nothing tells."""

FEWEST_UNLABELLED = 100
"""So many rows without labels tell the share of new ones among them."""

SHARE_LIMITS = (0.02, 0.6)
"""Of the share that rows without labels tell."""

MOST_OPINIONS = 32
"""Columns of the opinion in a position."""

SAMPLE_ROWS = 16384
"""Rows that spreads and opinions are measured on, at the most."""


@dataclass(frozen=True)
class FittedMeaning:
    """The map, and the features of rows that it has not seen.

    Attributes
    ----------
    map : MeaningMap
    held_rows : (s,) int64
        Labelled rows that the classifier held out, by their number among the labelled ones.
    held_features : (s, F) float32
        Their features by the classifier that had not seen them.
    new_classes : float
        The share of new classes that was told or found.
    """

    map: MeaningMap
    held_rows: NDArray[np.int64]
    held_features: Block
    new_classes: float


def fit_meaning(
    X: NDArray[Any],
    labels: Labels,
    kernel: LabelKernel,
    *,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
) -> FittedMeaning:
    """Fit classifier, novelty and position to rows X (n, p) with labels that may be unknown."""
    known = np.flatnonzero(labels.known)
    X_known, labels_known = X if len(known) == len(X) else X[known], labels.take(known)
    kernel.fit(X_known, labels_known)
    directions = principal_directions(X, n_jobs)
    study = NOTHING_LEARNED
    if not labels.multilabel and new_classes != 0:
        study = leave_classes_out(X_known, labels_known, directions, rng, n_jobs)

    sample = np.sort(rng.permutation(len(known))[:SAMPLE_ROWS])
    x = as_float32(X_known[sample])
    map_ = kernel.map_
    scores = logits(x if map_.kernel is None else map_.kernel(x), map_.weights)
    metric, cosine = _metric(directions, x, labels_known.take(sample), study.metric_ridge)
    opinion_mean, opinion = _opinion(
        opinion_roots(scores, multilabel=labels.multilabel), study.opinion_weight
    )
    fitted = MeaningMap(
        map_.kernel,
        map_.weights,
        directions.mean,
        metric,
        cosine,
        opinion_mean,
        opinion,
        np.array([0, -np.inf], dtype=np.float32),
        labels.multilabel,
    )
    speaks = evidence((kernel.held_logits_ if len(kernel.held_logits_) else scores).astype(np.float64))
    unlabelled = X[np.flatnonzero(~labels.known)[:SAMPLE_ROWS]]
    novelty, share = _novelty(study, speaks, unlabelled, fitted, new_classes, n_jobs)
    fitted = MeaningMap(**{**vars(fitted), "novelty": novelty})
    held = as_float32(X_known[kernel.held_rows_])
    return FittedMeaning(fitted, kernel.held_rows_, fitted.from_logits(kernel.held_logits_, held), share)


def _metric(directions: Directions, x: Block, labels: Labels, ridge: float) -> tuple[Block, Block]:
    """Return the maps (p, k) from unit vectors to positions of mean squared length one, and to what gives their cosine."""
    z = directions(x)
    root, inverse = metric_of(within_scatter(z, labels), ridge)
    length = float(np.sqrt(np.square(z @ root).sum(axis=1).mean())) or 1.0
    vectors = directions.vectors.astype(np.float64)
    return (vectors @ root / length).astype(np.float32), (vectors @ inverse * length).astype(np.float32)


def _opinion(roots: NDArray[Any], weight: float) -> tuple[Block, Block]:
    """Return the mean (L,) of opinions (n, L), and their leading directions (L, r), scaled by a weight."""
    mean = roots.mean(axis=0)
    if weight == 0:
        return mean.astype(np.float32), np.zeros((len(mean), 0), dtype=np.float32)
    centred = (roots - mean).astype(np.float64)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, ::-1][:, :MOST_OPINIONS]
    return mean.astype(np.float32), np.ascontiguousarray(weight * leading, dtype=np.float32)


def _novelty(
    study: Study,
    speaks: Float,
    unlabelled: NDArray[Any],
    fitted: MeaningMap,
    new_classes: float | None,
    n_jobs: int,
) -> tuple[Block, float]:
    """Return slope and shift (2,) of the logit of u, and the share of new classes in it."""
    if np.isinf(study.shift):
        return np.array([0, -np.inf], dtype=np.float32), 0.0
    centre, spread = spread_of(speaks)
    slope = study.slope / spread
    shift = study.shift - slope * centre
    share = new_classes
    if share is None:
        share = DEFAULT_SHARE
        if len(unlabelled) >= FEWEST_UNLABELLED:
            blocks = row_blocks(len(unlabelled))
            parts = ordered_map(lambda block: _evidence_of(fitted, unlabelled[slice(*block)]), blocks, n_jobs)
            share = estimated_share(slope * np.concatenate(list(parts)) + shift)
    return np.array([slope, shift + np.log(share / (1 - share))], dtype=np.float32), share


def _evidence_of(fitted: MeaningMap, rows: NDArray[Any]) -> Float:
    x = as_float32(rows)
    scores = logits(x if fitted.kernel is None else fitted.kernel(x), fitted.weights)
    return evidence(scores.astype(np.float64))


def estimated_share(odds: Float) -> float:
    """Estimate which share of rows is new, from the logits of being new under equal shares (Saerens et al., 2002).

    Examples
    --------
    >>> round(estimated_share(np.repeat([-9.0, 9.0], [70, 30])), 2)
    0.3
    """
    share = 0.5
    for _ in range(100):
        share = float(np.clip(expit(odds + np.log(share / (1 - share))).mean(), *SHARE_LIMITS))
    return share
