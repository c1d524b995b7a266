"""Vectors to features: the map of meaning and position, fitted to rows of which some or all have labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Float32, Float64
from supquant.codec import label_probabilities
from supquant.codec.spelling import Spelling
from supquant.features.added_classes import class_means
from supquant.features.gaussian_map import GaussianMap
from supquant.features.label_kernel import LabelKernel
from supquant.features.label_map import logits
from supquant.features.leaving_out import (
    NOTHING_LEARNED,
    Study,
    leave_classes_out,
    root_mean_square,
    spread_of,
)
from supquant.features.meaning_map import MeaningMap, evidence, opinion_roots, unit_rows
from supquant.features.novelty import (
    FEWEST_ROWS,
    MOST_ROWS,
    Novelty,
    discriminator,
    novelty_of_mixture,
)
from supquant.features.position import Directions, metric_of, principal_directions, within_scatter
from supquant.labels import Labels
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.validation import as_float32

DEFAULT_SHARE = 0.25
"""Share of new classes that is expected where nothing tells."""

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
    novelty_of_new : (s,) float32
        How new rows of new classes look; none where there are no new classes.
    sureness_of_new : float
        The mean sum of squared probabilities of words that they have.
    directions : Directions or None
        What positions are made of; None where the map was taken from a shorter code.
    metric_ridge : float
        Of their metric; infinite where no labels are needed to make it.
    """

    map: MeaningMap
    held_rows: NDArray[np.int64]
    held_features: Float32
    new_classes: float
    novelty_of_new: Float32
    sureness_of_new: float
    directions: Directions | None = None
    metric_ridge: float = np.inf

    def placed_without(
        self, X: NDArray[Any], labels: Labels, without: NDArray[np.intp], rng: np.random.Generator
    ) -> Callable[[Float32], Float32] | None:
        """Return the map from vectors (b, p) to positions (b, k) that nobody learned from some classes; None if it is the same.

        Parameters
        ----------
        X : (n, p) array
        labels : Labels
            One each, or unknown.
        without : (w,) intp
            The numbers of those classes.
        rng : Generator
        """
        if self.directions is None or np.isinf(self.metric_ridge):
            return None
        assert labels.indices is not None
        rows = rng.permutation(np.flatnonzero(labels.known & ~np.isin(labels.indices, without)))
        rows = np.sort(rows[:SAMPLE_ROWS])
        metric, _ = _metric(self.directions, as_float32(X[rows]), labels.take(rows), self.metric_ridge)
        return lambda x: np.asarray((unit_rows(x) - self.map.mean) @ metric)


def fit_meaning(
    X: NDArray[Any],
    labels: Labels,
    kernel: LabelKernel,
    spelling: Spelling,
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
        study = leave_classes_out(
            X_known, labels_known, directions, rng, anchored=kernel.map_.kernel is not None, n_jobs=n_jobs
        )

    sample = np.sort(rng.permutation(len(known))[:SAMPLE_ROWS])
    x = as_float32(X_known[sample])
    map_ = kernel.map_
    metric, cosine = _metric(directions, x, labels_known.take(sample), study.metric_ridge)
    held = as_float32(X_known[kernel.held_rows_])
    held_logits = kernel.held_logits_
    if not len(held):  # so few rows that all are in the sample
        held_logits = logits(x if map_.kernel is None else map_.kernel(x), map_.weights)
    p = label_probabilities(held_logits, multilabel=labels.multilabel)
    opinion_mean, opinion = _opinion(opinion_roots(spelling.of_probabilities(p)), study.opinion_weight)
    told_apart, novelty = _novelty(X, labels, kernel, held_logits, study, new_classes, rng)
    n_position = metric.shape[1] + opinion.shape[1]
    fitted = MeaningMap(
        map_.kernel,
        np.column_stack([map_.weights, told_apart]).astype(np.float32),
        directions.mean,
        metric,
        cosine,
        opinion_mean,
        opinion,
        np.array([novelty.slope, novelty.weight, novelty.shift], dtype=np.float32),
        np.zeros((metric.shape[1], metric.shape[1]), dtype=np.float32),
        np.zeros((labels.n_labels, n_position), dtype=np.float32),
        labels.multilabel,
        spelling,
    )
    z = _positions(fitted, x, n_jobs)
    of_sample = labels_known.take(sample)
    scatter = within_scatter(z[:, : metric.shape[1]], of_sample)
    fitted = replace(fitted, scatter=scatter.astype(np.float32), means=class_means(z, of_sample))
    told = _apart(map_.kernel, told_apart, held)
    outputs = np.column_stack([kernel.held_logits_, told.astype(np.float32)])
    held_features = fitted.from_logits(outputs, held)
    squares = spelling.length * np.square(held_features[:, : fitted.n_columns]).sum(axis=1)
    return FittedMeaning(
        fitted,
        kernel.held_rows_,
        held_features,
        novelty.share,
        expit(novelty.of_new).astype(np.float32),
        study.sureness * (float(squares.mean()) if len(held) else 1.0),
        directions,
        study.metric_ridge,
    )


def _novelty(
    X: NDArray[Any],
    labels: Labels,
    kernel: LabelKernel,
    held_logits: Float32,
    study: Study,
    new_classes: float | None,
    rng: np.random.Generator,
) -> tuple[Float32, Novelty]:
    """Return the weights (d + 1,) of the discriminator, zero where there is none, and how to tell what is new."""
    map_ = kernel.map_
    no_weights = np.zeros(len(map_.weights), dtype=np.float32)
    if np.isinf(study.shift):
        return no_weights, Novelty(0.0, 0.0, -np.inf, 0.0, np.zeros(0))
    known = np.flatnonzero(labels.known)
    unlabelled = rng.permutation(np.flatnonzero(~labels.known))[: MOST_ROWS + MOST_ROWS // 4]
    if len(unlabelled) < FEWEST_ROWS or len(kernel.held_rows_) < FEWEST_ROWS // 4:
        centre, spread = spread_of(evidence(held_logits.astype(np.float64)))
        slope = study.slope / spread
        novelty = Novelty(slope, 0.0, study.shift - slope * centre, 0.5, study.left_out)
        return no_weights, novelty.expecting(DEFAULT_SHARE if new_classes is None else new_classes)
    judged, learned = np.split(unlabelled, [len(unlabelled) // 5])
    kept = rng.permutation(np.setdiff1d(np.arange(len(known)), kernel.held_rows_))[:MOST_ROWS]
    told_apart = discriminator(map_.kernel, X[np.sort(known[kept])], X[np.sort(learned)])
    held, mixed = as_float32(X[known[kernel.held_rows_]]), as_float32(X[np.sort(judged)])
    phi = mixed if map_.kernel is None else map_.kernel(mixed)
    mixture = np.column_stack(
        [evidence(logits(phi, map_.weights).astype(np.float64)), logits(phi, told_apart)]
    )
    novelty = novelty_of_mixture(
        np.column_stack([evidence(held_logits.astype(np.float64)), _apart(map_.kernel, told_apart, held)]),
        mixture,
    )
    return told_apart, novelty if new_classes is None else novelty.expecting(new_classes)


def _positions(map_: MeaningMap, x: Float32, n_jobs: int) -> Float32:
    """Return the positions (n, g) of rows x (n, p)."""
    z = np.empty((len(x), map_.n_position), dtype=np.float32)

    def fill(block: tuple[int, int]) -> None:
        features = map_.of_labelled(x[slice(*block)])
        z[slice(*block)] = features[:, map_.n_columns + 1 :][:, : map_.n_position]

    with single_blas():
        for _ in ordered_map(fill, row_blocks(len(x), map_.block_rows), n_jobs):
            pass
    return z


def _apart(kernel: GaussianMap | None, weights: Float32, x: Float32) -> Float64:
    """Return the discriminator (b,) of a block (b, p)."""
    return np.asarray(logits(x if kernel is None else kernel(x), weights), dtype=np.float64)


def _metric(directions: Directions, x: Float32, labels: Labels, ridge: float) -> tuple[Float32, Float32]:
    """Return the maps (p, k) from unit vectors to positions of mean squared length one, and to what gives their cosine."""
    z = directions(x)
    root, inverse = metric_of(within_scatter(z, labels), ridge)
    length = root_mean_square(z @ root)
    vectors = directions.vectors.astype(np.float64)
    return (vectors @ root / length).astype(np.float32), (vectors @ inverse * length).astype(np.float32)


def _opinion(roots: NDArray[Any], weight: float) -> tuple[Float32, Float32]:
    """Return the mean (L,) of opinions (n, L), and their leading directions (L, r), scaled to a length (root of mean square)."""
    mean = roots.mean(axis=0)
    if weight == 0:
        return mean.astype(np.float32), np.zeros((len(mean), 0), dtype=np.float32)
    centred = (roots - mean).astype(np.float64)
    weight /= root_mean_square(centred)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, ::-1][:, :MOST_OPINIONS]
    return mean.astype(np.float32), np.ascontiguousarray(weight * leading, dtype=np.float32)
