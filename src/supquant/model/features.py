"""The features of a fit: classifier, new classes and position, learned from rows of which some or all have labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Flags, Float32
from supquant.codec.gaussian_map import map_rows
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.model.added_classes import mean_positions
from supquant.model.feature_map import SupervisedMap, opinion_roots
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import LabelKernel
from supquant.model.new_classes import (
    DEFAULT_SHARE,
    NOTHING_LEARNED,
    discriminator_values,
    learn_novelty,
    leave_classes_out,
    root_mean_square,
)
from supquant.model.position import Directions, metric_of, principal_directions, within_scatter
from supquant.model.spelling import Spelling
from supquant.model.unseen_rows import imitate_held_out_rows
from supquant.parallel import row_blocks, single_blas
from supquant.progress import Reporter
from supquant.rows import RowBlock, Rows

if TYPE_CHECKING:
    from supquant.model.codec import SupervisedCodec

MAX_OPINIONS = 32
"""At most this number of columns of a position hold the opinion."""

SAMPLE_ROWS = 16384
"""Metric, spreads and class means are measured on at most this number of rows."""

FEATURE_BYTES = 1 << 29
"""The features of all rows are kept if they take at most this number of bytes. Otherwise they are made when they are needed."""


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Training rows, the map that was learned from them, and their features.

    Attributes
    ----------
    X : Rows of shape (n, p)
        Vectors of the rows.
    labels : Labels
        Their labels; some may be unknown.
    map : SupervisedMap
        The map from vectors to features.
    features_of_all : ndarray of shape (n, F), float32, or None
        The features of all rows as items; None if they are made when they are needed.
    held_rows : ndarray of shape (s,), int64
        Rows that the classifier held out.
    held_features : ndarray of shape (s, F), float32
        Their features by a classifier that was learned without them.
    new_classes : float
        Fraction of rows from new classes, as it was given or estimated.
    novelty_of_new : ndarray of shape (s,), float32
        Probabilities of being new of rows from new classes; empty if there are no new classes.
    sureness_of_new : float
        The mean sum of squared probabilities of the labels of such rows.
    directions : Directions or None
        The principal directions of positions; None if the map was taken from a shorter code.
    metric_ridge : float
        The ridge of the metric of positions; infinite if the metric does not depend on labels.
    n_jobs : int
        Number of threads.
    """

    X: Rows
    labels: Labels
    map: SupervisedMap
    features_of_all: Float32 | None
    held_rows: NDArray[np.int64]
    held_features: Float32
    new_classes: float
    novelty_of_new: Float32
    sureness_of_new: float
    directions: Directions | None
    metric_ridge: float
    n_jobs: int

    def features(self, rows: NDArray[np.intp], *, labelled: bool = False) -> Float32:
        """Return the features (r, F) of some rows (r,); if all are `labelled`, only what their item vectors need."""
        if self.features_of_all is not None:
            return self.features_of_all[rows]
        mapped = self.map.of_labelled if labelled else self.map
        return map_rows(mapped, self.X[rows], self.map.n_features, self.n_jobs, self.map.block_rows)

    def as_held_out(self, rows: NDArray[np.intp]) -> Float32:
        """Return the features (r, F) of labelled rows (r,) as made by a model that has not seen these rows."""
        spelled = self.map.spelling.of_labels
        changed = imitate_held_out_rows(
            self.features(rows),
            spelled(self.labels.take(rows), 0, len(rows)) > 0,
            self.held_features,
            spelled(self.labels.take(self.held_rows), 0, len(self.held_rows)) > 0,
            multilabel=self.labels.multilabel,
            n_jobs=self.n_jobs,
        )
        return self.map.with_opinions(changed)

    def metric_without(self, classes: NDArray[np.intp], rng: np.random.Generator) -> Float32 | None:
        """Return the metric (p, k) of positions that is learned without the rows of some classes (c,).

        It is None if the metric does not depend on labels. At most `SAMPLE_ROWS` of the other rows are drawn.
        """
        if self.directions is None or np.isinf(self.metric_ridge):
            return None
        assert self.labels.indices is not None
        rows = rng.permutation(np.flatnonzero(self.labels.known & ~np.isin(self.labels.indices, classes)))
        rows = np.sort(rows[:SAMPLE_ROWS])
        x, labels = as_float32(self.X[rows]), self.labels.take(rows)
        return _metric(self.directions, x, labels, self.metric_ridge)[0]


def learn_features(
    X: Rows,
    labels: Labels,
    kernel: LabelKernel,
    spelling: Spelling,
    *,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
    reporter: Reporter,
) -> FittedRows:
    """Learn classifier, novelty and position.

    Parameters
    ----------
    X : Rows of shape (n, p)
        Rows of which some or all have labels.
    labels : Labels
        Their labels; some may be unknown.
    kernel : LabelKernel
        Settings of the classifier, which is learned from the labelled rows.
    spelling : Spelling
        The words of the labels.
    new_classes : float or None
        Expected fraction of rows from new classes; None estimates it from rows without labels.
    rng : numpy Generator
        Draws samples and the classes to leave out.
    n_jobs : int
        Number of threads.
    reporter : Reporter
        Reports the stages "classifier", "new classes" and "features".

    Returns
    -------
    FittedRows
    """
    known = np.flatnonzero(labels.known)
    X_known, labels_known = _rows_where(X, labels.known), labels.take(known)
    with reporter.task("classifier"):
        learned, kernel_rows = kernel.learn(X_known, labels_known)
    with reporter.task("new classes"):
        directions = principal_directions(X, n_jobs)
        study = NOTHING_LEARNED
        if not labels.multilabel and new_classes != 0:
            study = leave_classes_out(
                X_known, labels_known, directions, rng, anchored=learned.kernel is not None, n_jobs=n_jobs
            )

    sample = np.sort(rng.permutation(len(known))[:SAMPLE_ROWS])
    x, of_sample = as_float32(X_known[sample]), labels_known.take(sample)
    metric, cosine, placed = _metric(directions, x, of_sample, study.metric_ridge)
    held = as_float32(X_known[learned.held_rows])
    held_logits = learned.held_logits if len(held) else learned.logits(x)  # so few rows are all in the sample
    p = label_probabilities(held_logits, multilabel=labels.multilabel)
    opinion_mean, opinion = _opinion(opinion_roots(spelling.of_probabilities(p)), study.opinion_weight)
    discriminator, novelty = learn_novelty(X, labels, learned, held_logits, study, new_classes, rng)
    weights = np.column_stack([learned.weights, discriminator]).astype(np.float32)
    outputs = None
    # If the classifier learned from all labelled rows, their kernel features need not be computed again.
    if learned.kernel is not None and len(kernel_rows) == len(known):
        outputs = _outputs(kernel_rows, weights)
    del kernel_rows  # frees their kernel features
    n_position = metric.shape[1] + opinion.shape[1]
    map_ = SupervisedMap(
        learned.kernel,
        weights,
        directions.mean,
        metric,
        cosine,
        opinion_mean,
        opinion,
        novelty=np.array([novelty.slope, novelty.weight, novelty.shift], dtype=np.float32),
        scatter=within_scatter(placed, of_sample).astype(np.float32),
        means=np.zeros((labels.n_labels, n_position), dtype=np.float32),
        multilabel=labels.multilabel,
        spelling=spelling,
    )
    z = placed
    if outputs is not None:
        z = np.hstack([placed, map_.opinions(outputs[sample])])
    elif opinion.shape[1]:
        z = map_rows(map_.positions, x, n_position, n_jobs, map_.block_rows)
    map_ = replace(map_, means=mean_positions(z, of_sample))
    of_held = discriminator_values(learned.kernel, discriminator, held).astype(np.float32)
    held_features = map_.from_logits(np.column_stack([learned.held_logits, of_held]), held)
    squares = spelling.length * np.square(held_features[:, : map_.n_columns]).sum(axis=1)
    return FittedRows(
        X,
        labels,
        map_,
        _features_of_all(map_, X, labels.known, outputs, n_jobs, reporter),
        held_rows=known[learned.held_rows],
        held_features=held_features,
        new_classes=novelty.share,
        novelty_of_new=expit(novelty.of_new).astype(np.float32),
        sureness_of_new=study.sureness * (float(squares.mean()) if len(held) else 1.0),
        directions=directions,
        metric_ridge=study.metric_ridge,
        n_jobs=n_jobs,
    )


def inherited_features(
    X: Rows, labels: Labels, shorter: SupervisedCodec, n_jobs: int, reporter: Reporter
) -> FittedRows:
    """Return the rows with the map of a shorter code; none of them was held out."""
    return FittedRows(
        X,
        labels,
        shorter.map,
        _features_of_all(shorter.map, X, labels.known, None, n_jobs, reporter),
        held_rows=np.zeros(0, dtype=np.int64),
        held_features=np.zeros((0, 0), dtype=np.float32),
        new_classes=float(np.isfinite(shorter.map.novelty[-1])) * DEFAULT_SHARE,
        novelty_of_new=np.zeros(0, dtype=np.float32),
        sureness_of_new=0.0,
        directions=None,
        metric_ridge=np.inf,
        n_jobs=n_jobs,
    )


def _features_of_all(
    map_: SupervisedMap,
    X: Rows,
    known: Flags,
    outputs: Float32 | None,
    n_jobs: int,
    reporter: Reporter,
) -> Float32 | None:
    """Return the features (n, F) of all rows as items, or None if they would take more than `FEATURE_BYTES`.

    Rows with `known` (n,) labels are not compared with the anchors again if their outputs (m, L + 1) are there.
    """
    if len(X) * map_.n_features * 4 > FEATURE_BYTES:
        return None
    with reporter.task("features"):
        if outputs is None:
            features = map_rows(map_, X, map_.n_features, n_jobs)
        else:
            features = _from_outputs(map_, _rows_where(X, known), outputs, n_jobs)
            if not known.all():
                of_known = features
                features = np.empty((len(X), map_.n_features), dtype=np.float32)
                features[known] = of_known
                features[~known] = map_rows(map_, _rows_where(X, ~known), map_.n_features, n_jobs)
    return features


def _rows_where(X: Rows, chosen: Flags) -> Rows:
    """Return the rows of X (n, p) that are `chosen` (n,): X itself if all are."""
    return X if chosen.all() else X.take(np.flatnonzero(chosen))


def _outputs(rows: KernelRows, weights: Float32) -> Float32:
    """Return the logits and the discriminator (n, L + 1) of all rows by weights (d + 1, L + 1), in the order of row numbers."""
    with single_blas():
        found = rows.logits(weights.astype(np.float64))
    outputs = np.empty_like(found)
    outputs[np.concatenate(rows.blocks)] = found
    return outputs


def _from_outputs(map_: SupervisedMap, X: Rows, outputs: Float32, n_jobs: int) -> Float32:
    """Return the features (n, F) of rows X (n, p) as items, from their logits and discriminator (n, L + 1)."""
    features = np.empty((len(X), map_.n_features), dtype=np.float32)
    blocks = row_blocks(len(X))
    own = [outputs[slice(*block)] for block in blocks]
    with single_blas():
        X.map_into(features, _of_block, blocks, map_, own, n_jobs=n_jobs)
    return features


def _of_block(block: RowBlock, outputs: Float32, map_: SupervisedMap) -> Float32:
    return map_.from_logits(outputs, as_float32(block.x), of_items=True)


def _metric(
    directions: Directions, x: Float32, labels: Labels, ridge: float
) -> tuple[Float32, Float32, Float32]:
    """Return the map (p, k) from centred unit vectors to z, that from unit vectors to c, and z (n, k) of rows x (n, p).

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
    """Return the mean (r,) of opinions (n, r), and their leading directions (r, g - k).

    Directions are scaled so that the root mean square length of centred opinions is `weight`; if that is 0, there are none.
    """
    mean = roots.mean(axis=0)
    if weight == 0:
        return mean.astype(np.float32), np.zeros((len(mean), 0), dtype=np.float32)
    centred = (roots - mean).astype(np.float64)
    weight /= root_mean_square(centred)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    leading = vectors[:, ::-1][:, :MAX_OPINIONS]
    return mean.astype(np.float32), np.ascontiguousarray(weight * leading, dtype=np.float32)
