"""Vectors to features: the map to meaning and position, fitted to rows of which some or all have labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import GaussianMap, kernel_features, map_rows
from supquant.codec.probabilities import label_probabilities
from supquant.codec.queries import fill_blocks
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.model.added_classes import class_means
from supquant.model.feature_map import MeaningMap, evidence, opinion_roots, unit_rows
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import LabelKernel, LearnedLabels, logits
from supquant.model.leaving_out import (
    NOTHING_LEARNED,
    Study,
    leave_classes_out,
    root_mean_square,
    spread_of,
)
from supquant.model.novelty import (
    MAX_ROWS,
    MIN_UNLABELLED,
    NOTHING_NEW,
    Novelty,
    learn_discriminator,
    novelty_of_mixture,
)
from supquant.model.position import Directions, metric_of, principal_directions, within_scatter
from supquant.model.spelling import Spelling
from supquant.parallel import row_blocks, single_blas
from supquant.progress import Reporter
from supquant.remote import RemoteBlock, RemoteRows, some_rows

DEFAULT_SHARE = 0.22
"""Share of rows of new classes that is expected where neither the user nor unlabelled rows tell it."""

MAX_OPINIONS = 32
"""At most this number of columns of a position hold the opinion."""

SAMPLE_ROWS = 16384
"""Metric, spreads and class means are measured on at most this number of rows."""


@dataclass(frozen=True)
class FittedMeaning:
    """The map, and the features of rows that it was not learned from.

    Attributes
    ----------
    map : MeaningMap
        The fitted map.
    held_rows : ndarray of shape (s,), int64
        Rows that the classifier held out, by their number among the labelled rows.
    held_features : ndarray of shape (s, F), float32
        Their features by a classifier that was learned without them.
    new_classes : float
        The share of rows of new classes, as it was given or found.
    novelty_of_new : ndarray of shape (s,), float32
        Probabilities of being new that rows of new classes have; empty where there are no new classes.
    sureness_of_new : float
        The mean sum of squared probabilities of words of such rows.
    directions : Directions or None, default=None
        The principal directions of positions; None where the map was taken from a shorter code.
    metric_ridge : float, default=inf
        The ridge of the metric of positions; infinite where the metric does not depend on labels.
    outputs : ndarray of shape (n, L + 1), float32, or None, default=None
        Logits and discriminator of the labelled rows, if the fit of the classifier has left their kernel features.
    """

    map: MeaningMap
    held_rows: NDArray[np.int64]
    held_features: Float32
    new_classes: float
    novelty_of_new: Float32
    sureness_of_new: float
    directions: Directions | None = None
    metric_ridge: float = np.inf
    outputs: Float32 | None = None

    def item_features(self, X: NDArray[Any] | RemoteRows, known: Flags, n_jobs: int) -> Float32:
        """Return the features (n, F) of all rows X (n, p) as items, of which some are `known` (n,) by their labels.

        Labelled rows are not compared with the anchors again if their outputs are there.
        """
        if self.outputs is None:
            return map_rows(self.map, X, self.map.n_features, n_jobs)
        of_known = _from_outputs(self.map, _rows_where(X, known), self.outputs, n_jobs)
        if known.all():
            return of_known
        features = np.empty((len(X), self.map.n_features), dtype=np.float32)
        features[known] = of_known
        features[~known] = map_rows(self.map, _rows_where(X, ~known), self.map.n_features, n_jobs)
        return features

    def placed_without(
        self,
        X: NDArray[Any] | RemoteRows,
        labels: Labels,
        without: NDArray[np.intp],
        rng: np.random.Generator,
    ) -> Callable[[Float32], Float32] | None:
        """Return the map from vectors (b, p) to positions (b, k) that is learned without the rows of some classes.

        Parameters
        ----------
        X : ndarray of shape (n, p)
            All rows.
        labels : Labels
            One label a row, or an unknown one.
        without : ndarray of shape (w,), intp
            Numbers of the classes to leave out.
        rng : numpy Generator
            Draws at most `SAMPLE_ROWS` of the other rows.

        Returns
        -------
        callable or None
            None where positions do not depend on labels.
        """
        if self.directions is None or np.isinf(self.metric_ridge):
            return None
        assert labels.indices is not None
        rows = rng.permutation(np.flatnonzero(labels.known & ~np.isin(labels.indices, without)))
        rows = np.sort(rows[:SAMPLE_ROWS])
        metric, _, _ = _metric(self.directions, as_float32(X[rows]), labels.take(rows), self.metric_ridge)
        return lambda x: np.asarray((unit_rows(x) - self.map.mean) @ metric)


def fit_meaning(
    X: Any,  # (n, p) array, or rows that others read
    labels: Labels,
    kernel: LabelKernel,
    spelling: Spelling,
    *,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
    reporter: Reporter | None = None,
) -> FittedMeaning:
    """Fit classifier, novelty and position.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Rows of which some or all have labels.
    labels : Labels
        Their labels; some may be unknown.
    kernel : LabelKernel
        The classifier, which is fitted to the labelled rows.
    spelling : Spelling
        The words of the labels.
    new_classes : float or None
        Share of rows of new classes to expect; None estimates it from rows without labels.
    rng : numpy Generator
        Draws samples and the classes to leave out.
    n_jobs : int
        Number of threads.
    reporter : Reporter or None, default=None
        Reports the stages "classifier" and "new classes".

    Returns
    -------
    FittedMeaning
    """
    reporter = reporter or Reporter()
    known = np.flatnonzero(labels.known)
    X_known, labels_known = _rows_where(X, labels.known), labels.take(known)
    with reporter.stage("classifier", 1) as stage:
        learned, rows = kernel.learn(X_known, labels_known)
        stage.step()
    with reporter.stage("new classes", 1) as stage:
        directions = principal_directions(X, n_jobs)
        study = NOTHING_LEARNED
        if not labels.multilabel and new_classes != 0:
            study = leave_classes_out(
                X_known, labels_known, directions, rng, anchored=learned.kernel is not None, n_jobs=n_jobs
            )
        stage.step()

    sample = np.sort(rng.permutation(len(known))[:SAMPLE_ROWS])
    x = as_float32(X_known[sample])
    of_sample = labels_known.take(sample)
    metric, cosine, placed = _metric(directions, x, of_sample, study.metric_ridge)
    held = as_float32(X_known[learned.held_rows])
    held_logits = learned.held_logits
    if not len(held):  # so few rows that all are in the sample
        held_logits = learned.logits(x)
    p = label_probabilities(held_logits, multilabel=labels.multilabel)
    opinion_mean, opinion = _opinion(opinion_roots(spelling.of_probabilities(p)), study.opinion_weight)
    discriminator, novelty = _novelty(X, labels, learned, held_logits, study, new_classes, rng)
    n_position = metric.shape[1] + opinion.shape[1]
    weights = np.column_stack([learned.weights, discriminator]).astype(np.float32)
    outputs = _outputs(rows, weights) if learned.kernel is not None and len(rows) == len(known) else None
    del rows  # with all kernel features
    fitted = MeaningMap(
        learned.kernel,
        weights,
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
    if outputs is None and opinion.shape[1]:
        z = map_rows(fitted.positions, x, n_position, n_jobs, fitted.block_rows)
    else:
        z = placed if outputs is None else np.hstack([placed, fitted.opinions(outputs[sample])])
    scatter = within_scatter(placed, of_sample)
    fitted = replace(fitted, scatter=scatter.astype(np.float32), means=class_means(z, of_sample))
    of_held = _discriminator_values(learned.kernel, discriminator, held)
    of_held_rows = np.column_stack([learned.held_logits, of_held.astype(np.float32)])
    held_features = fitted.from_logits(of_held_rows, held)
    squares = spelling.length * np.square(held_features[:, : fitted.n_columns]).sum(axis=1)
    return FittedMeaning(
        fitted,
        learned.held_rows,
        held_features,
        novelty.share,
        expit(novelty.of_new).astype(np.float32),
        study.sureness * (float(squares.mean()) if len(held) else 1.0),
        directions,
        study.metric_ridge,
        outputs,
    )


def _rows_where(X: Any, chosen: Flags) -> Any:
    """Return the rows of X (n, p), an array or remote rows, that are `chosen` (n,): X itself if all are."""
    return X if chosen.all() else some_rows(X, np.flatnonzero(chosen))


def _outputs(rows: KernelRows, weights: Float32) -> Float32:
    """Return the logits and the discriminator (n, L + 1) of all rows by weights (d + 1, L + 1), in the order of row numbers."""
    with single_blas():
        found = rows.logits(weights.astype(np.float64))
    outputs = np.empty_like(found)
    outputs[np.concatenate(rows.blocks)] = found
    return outputs


def _from_outputs(map_: MeaningMap, X: NDArray[Any] | RemoteRows, outputs: Float32, n_jobs: int) -> Float32:
    """Return the features (n, F) of rows X (n, p) as items, from their logits and discriminator (n, L + 1)."""
    features = np.empty((len(X), map_.n_features), dtype=np.float32)
    blocks = row_blocks(len(X))
    if isinstance(X, RemoteRows):
        own = [outputs[slice(*block)] for block in blocks]
        for block, found in zip(blocks, X.map_blocks(_of_block, blocks, map_, own), strict=True):
            features[slice(*block)] = found
        return features
    with single_blas():
        fill_blocks(
            lambda x, block: (map_.from_logits(outputs[slice(*block)], x, of_items=True),),
            X,
            (features,),
            blocks,
            n_jobs,
        )
    return features


def _of_block(block: RemoteBlock, outputs: Float32, map_: MeaningMap) -> Float32:
    return map_.from_logits(outputs, as_float32(block.x), of_items=True)


def _novelty(
    X: NDArray[Any],
    labels: Labels,
    learned: LearnedLabels,
    held_logits: Float32,
    study: Study,
    new_classes: float | None,
    rng: np.random.Generator,
) -> tuple[Float32, Novelty]:
    """Return the weights (d + 1,) of the discriminator, zero where there is none, and the logit of being new."""
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
    of_held = _discriminator_values(learned.kernel, weights, held)
    novelty = novelty_of_mixture(
        np.column_stack([evidence(held_logits.astype(np.float64)), of_held]),
        np.column_stack([evidence(logits(phi, learned.weights).astype(np.float64)), logits(phi, weights)]),
    )
    return weights, novelty if new_classes is None else novelty.expecting(new_classes)


def _discriminator_values(kernel: GaussianMap | None, weights: Float32, x: Float32) -> Float64:
    """Return the values (b,) of the discriminator with weights (d + 1,) for a block (b, p): zeros if there is none."""
    if not weights.any():
        return np.zeros(len(x))
    return np.asarray(logits(kernel_features(kernel, x), weights), dtype=np.float64)


def _metric(
    directions: Directions, x: Float32, labels: Labels, ridge: float
) -> tuple[Float32, Float32, Float32]:
    """Return the maps (p, k) from centred unit vectors to z, and from unit vectors to c; then z (n, k) of rows x (n, p).

    Positions z of these rows have a mean squared length of one; ``c . z`` is a cosine, less a constant of the first vector.
    """
    z = directions(x)
    root, inverse = metric_of(within_scatter(z, labels), ridge)
    placed = z if np.isinf(ridge) else z @ root.astype(np.float32)
    length = root_mean_square(placed)
    vectors = directions.vectors.astype(np.float64)
    metric, cosine = vectors @ root / length, vectors @ inverse * length
    return metric.astype(np.float32), cosine.astype(np.float32), placed / np.float32(length)


def _opinion(roots: NDArray[Any], weight: float) -> tuple[Float32, Float32]:
    """Return the mean (L,) of opinions (n, L), and their leading directions (L, r).

    Directions are scaled so that the root mean square length of centred opinions is `weight`; at 0 there are none.
    """
    mean = roots.mean(axis=0)
    if weight == 0:
        return mean.astype(np.float32), np.zeros((len(mean), 0), dtype=np.float32)
    centred = (roots - mean).astype(np.float64)
    weight /= root_mean_square(centred)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, ::-1][:, :MAX_OPINIONS]
    return mean.astype(np.float32), np.ascontiguousarray(weight * leading, dtype=np.float32)
