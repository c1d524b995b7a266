"""The features of a fit: classifier, new classes and position, learned from rows of which some or all have labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.gaussian_map import map_rows
from supquant.estimators.calibration import fit_curve
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.model.added_classes import mean_positions
from supquant.model.clusters import Clusters
from supquant.model.feature_map import SupervisedMap, evidence
from supquant.model.found_classes import cluster_likeness, find_classes, pairs_of_left_out
from supquant.model.kernel_rows import KernelRows
from supquant.model.label_kernel import LabelKernel, LearnedLabels
from supquant.model.left_out import (
    DEFAULT_SHARE,
    evidence_logit,
    leave_classes_out,
    spread_of,
)
from supquant.model.novelty import N_FOLDS, new_share, newness_curve, novelty_weights
from supquant.model.position import Directions, Metric, learn_metric, principal_directions, within_scatter
from supquant.model.spelling import Spelling
from supquant.model.unseen_rows import imitate_held_out_rows
from supquant.parallel import row_blocks, single_blas
from supquant.progress import Reporter
from supquant.rows import RowBlock, Rows

SAMPLE_ROWS = 16384
"""Metric, means and clusterings are learned from at most this number of labelled rows, and of unlabelled ones."""

MIN_UNLABELLED = 200
"""With fewer rows without labels, or with fewer than a quarter as many held-out rows, no classes are found among them."""

MAX_FRESH = 1024
"""One row in eight without labels, but at most this number of them, takes part in no clustering: calibration needs queries that
the model has not seen."""

MAX_FOUND_LABELS = 1024
"""With more labels, no classes are found: a vector would be compared with too many columns."""

EVIDENCE_ROWS = 4096
"""Evidence and novelty of rows without labels are measured on at most this number of them."""

FOUND_RIDGE = 1.0
"""Ridge of the metric of positions in which classes are found."""

NEARNESS = 0.1, 0.0, 0.0
"""How a vector that is surely new is compared by position if classes were found: the weight of its position as a query, what its
position is longer by as an item, and what a known item loses. Likenesses say more."""

NEARNESS_ALONE = 0.4, 2.0, 0.1
"""The same if none were found. Items of known classes shall not come near a query only because it looks new."""

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
    novelty_of_new : ndarray of shape (s,), float32
        Probabilities of being new of rows of left-out classes; empty if the map does not come from left-out classes.
    newness : ndarray of shape (2, k), float32, or None
        Novelties, and how often rows with such a novelty are new; None if no classes were found.
    sameness : ndarray of shape (2, k), float32, or None
        Products of the likenesses of a new query and an item and of the item's novelty, and how probably the two share a class;
        None if no classes were found, or too few to leave some out.
    fresh : ndarray of shape (f,), intp
        Rows without labels that took part in no clustering.
    n_jobs : int
        Number of threads.
    """

    X: Rows
    labels: Labels
    map: SupervisedMap
    features_of_all: Float32 | None
    held_rows: NDArray[np.int64]
    held_features: Float32
    novelty_of_new: Float32
    newness: Float32 | None
    sameness: Float32 | None
    fresh: NDArray[np.intp]
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
        return imitate_held_out_rows(
            self.features(rows),
            spelled(self.labels.take(rows), 0, len(rows)) > 0,
            self.held_features,
            spelled(self.labels.take(self.held_rows), 0, len(self.held_rows)) > 0,
            multilabel=self.labels.multilabel,
            n_jobs=self.n_jobs,
        )


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
    sample = np.sort(_held_first(learned.held_rows, len(known), rng)[:SAMPLE_ROWS])
    x, of_sample = as_float32(X_known[sample]), labels_known.take(sample)
    with reporter.task("new classes"):
        directions = principal_directions(X, n_jobs)
        held = np.isin(sample, learned.held_rows)
        scatter = within_scatter(directions(x[~held]), of_sample.take(np.flatnonzero(~held)))
        news, fresh = None, np.zeros(0, dtype=np.intp)
        if not labels.multilabel and new_classes != 0:
            unlabelled = rng.permutation(np.flatnonzero(~labels.known))
            if (
                len(unlabelled) >= MIN_UNLABELLED
                and len(learned.held_rows) >= MIN_UNLABELLED // 4
                and labels.n_labels <= MAX_FOUND_LABELS
            ):
                fresh = unlabelled[: min(MAX_FRESH, len(unlabelled) // 8)]
                others = unlabelled[len(fresh) :][:SAMPLE_ROWS]
                metric = learn_metric(directions, x, scatter, FOUND_RIDGE)
                news = _find(
                    learned,
                    directions,
                    metric,
                    x,
                    of_sample,
                    held,
                    as_float32(X[np.sort(others)]),
                    new_classes,
                    rng,
                    n_jobs,
                )
            else:
                news = _leave_out(learned, X_known, labels_known, directions, x, new_classes, rng, n_jobs)
    if news is None:
        news = _nothing_new()
    metric = learn_metric(directions, x, scatter, news.metric_ridge)
    outputs = None
    # If the classifier learned from all labelled rows, their kernel features need not be computed again.
    if learned.kernel is not None and len(kernel_rows) == len(known):
        outputs = _outputs(kernel_rows, learned.weights)
    del kernel_rows  # frees their kernel features
    z = metric.placed(x)
    map_ = SupervisedMap(
        learned.kernel,
        learned.weights,
        directions.mean,
        metric.matrix,
        metric.cosine,
        news.clusters,
        news.likeness,
        news.novelty,
        nearness=np.array(news.nearness, dtype=np.float32),
        scatter=within_scatter(z, of_sample).astype(np.float32),
        means=mean_positions(z, of_sample),
        unnamed=np.zeros((0, z.shape[1]), dtype=np.float32),
        multilabel=labels.multilabel,
        spelling=spelling,
    )
    held_features = map_.from_logits(learned.held_logits, as_float32(X_known[learned.held_rows]))
    return FittedRows(
        X,
        labels,
        map_,
        _features_of_all(map_, X, labels.known, outputs, n_jobs, reporter),
        held_rows=known[learned.held_rows],
        held_features=held_features,
        novelty_of_new=news.of_new,
        newness=news.newness,
        sameness=news.sameness,
        fresh=fresh,
        n_jobs=n_jobs,
    )


def _held_first(held: NDArray[np.int64], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the numbers (n,) of rows in random order, those that were held out first."""
    order = rng.permutation(n)
    return np.concatenate([held, order[~np.isin(order, held)]])


@dataclass(frozen=True, eq=False)
class News:
    """What is known of classes that have no labels, as a `SupervisedMap` and `FittedRows` need it."""

    clusters: Clusters | None
    likeness: Float32  # (w, f)
    novelty: Float32  # (3,)
    nearness: tuple[float, float, float]
    metric_ridge: float
    of_new: Float32  # (s,)
    newness: Float32 | None = None  # (2, k)
    sameness: Float32 | None = None  # (2, k)


def _nothing_new() -> News:
    never = np.array([0, 0, _NEVER], dtype=np.float32)
    return News(None, _NO_LIKENESS, never, NEARNESS, np.inf, np.zeros(0, dtype=np.float32))


_NEVER = -200.0  # a logit whose probability is 0 in float32
_NO_LIKENESS = np.zeros((0, 0), dtype=np.float32)


def _find(
    learned: LearnedLabels,
    directions: Directions,
    metric: Metric,
    x: Float32,
    labels: Labels,
    held: Flags,
    unlabelled: Float32,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
) -> News | None:
    """Find classes among unlabelled rows (m, p), given labelled rows x (n, p), of which some are `held` (n,) out.

    None if nothing is new.
    """
    assert labels.indices is not None
    y, n_labels = labels.indices, labels.n_labels
    z_known, z = metric.placed(x), metric.placed(unlabelled)
    found = find_classes(z_known, y, n_labels, z, held, rng, n_jobs)
    share = new_classes
    if share is None:
        judged = found.judged
        share = new_share(found.of_labelled[judged], found.of_unlabelled[found.seen], found.weights[judged])
    if not share:
        return None
    # In random order: rows of a file can be sorted by class.
    seen = rng.permutation(np.flatnonzero(found.seen))[:EVIDENCE_ROWS]
    logits = map_rows(learned.logits, unlabelled[seen], n_labels, n_jobs)
    of_held, of_seen = (evidence(each.astype(np.float64)) for each in (learned.held_logits, logits))
    (by_clusters, by_evidence), shift = novelty_weights(
        np.column_stack([found.of_labelled[held], -of_held]),
        np.column_stack([found.of_unlabelled[seen], -of_seen]),
        share,
        found.weights[held],
    )
    u_held, u = (
        expit(by_clusters * by_ratio - by_evidence * by_class + shift).astype(np.float32)
        for by_ratio, by_class in ((found.of_labelled[held], of_held), (found.of_unlabelled[seen], of_seen))
    )
    return News(
        found.clusters,
        cluster_likeness(found.clusters, z[seen], u),
        np.array([-by_evidence, by_clusters, shift], dtype=np.float32),
        NEARNESS,
        FOUND_RIDGE,
        np.zeros(0, dtype=np.float32),
        newness_curve(u_held, u, share, found.weights[held]),
        _sameness_curve(directions, x, labels, unlabelled, seen, u, rng, n_jobs),
    )


def _sameness_curve(
    directions: Directions,
    x: Float32,
    labels: Labels,
    unlabelled: Float32,
    seen: NDArray[np.intp],
    novelty: Float32,
    rng: np.random.Generator,
    n_jobs: int,
) -> Float32 | None:
    """Return the curve of `pairs_of_left_out`, from products to probabilities. Each class of x (n, p) is left out once.

    None if too few rows can be left out.
    """
    assert labels.indices is not None
    pairs: list[tuple[Float64, Flags] | None] = []
    for classes in np.array_split(rng.permutation(labels.n_labels), N_FOLDS):
        out = np.isin(labels.indices, classes)
        if out.all() or not out.any():
            continue
        kept = labels.take(np.flatnonzero(~out))
        metric = learn_metric(directions, x[~out], within_scatter(directions(x[~out]), kept), FOUND_RIDGE)
        of_x, of_unlabelled = metric.placed(x), metric.placed(unlabelled)
        told = of_x, labels.indices, labels.n_labels, out
        pairs.append(pairs_of_left_out(*told, of_unlabelled, seen, novelty, rng, n_jobs))
    found = [each for each in pairs if each is not None]
    if not found:
        return None
    return fit_curve(
        *(np.concatenate([each.ravel() for each in parts]) for parts in zip(*found, strict=True))
    )


def _leave_out(
    learned: LearnedLabels,
    X: Rows,
    labels: Labels,
    directions: Directions,
    x: Float32,
    new_classes: float | None,
    rng: np.random.Generator,
    n_jobs: int,
) -> News | None:
    """Learn from left-out classes what is new. None if there are too few classes or rows for that."""
    study = leave_classes_out(X, labels, directions, rng, anchored=learned.kernel is not None, n_jobs=n_jobs)
    if study is None:
        return None
    share = DEFAULT_SHARE if new_classes is None else new_classes
    slope, shift = evidence_logit(study.known, study.left_out, share)
    # with few rows, none is held out
    logits = learned.held_logits if len(learned.held_logits) else learned.logits(x)
    centre, spread = spread_of(evidence(logits.astype(np.float64)))
    return News(
        None,
        _NO_LIKENESS,
        np.array([slope / spread, 0, shift - slope * centre / spread], dtype=np.float32),
        NEARNESS_ALONE,
        study.metric_ridge,
        expit(slope * study.left_out + shift).astype(np.float32),
    )


def inherited_features(
    X: Rows, labels: Labels, map_: SupervisedMap, n_jobs: int, reporter: Reporter
) -> FittedRows:
    """Return the rows with the map of a shorter code; none of them was held out."""
    return FittedRows(
        X,
        labels,
        map_,
        _features_of_all(map_, X, labels.known, None, n_jobs, reporter),
        held_rows=np.zeros(0, dtype=np.int64),
        held_features=np.zeros((0, 0), dtype=np.float32),
        novelty_of_new=np.zeros(0, dtype=np.float32),
        newness=None,
        sameness=None,
        fresh=np.zeros(0, dtype=np.intp),
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

    Rows with `known` (n,) labels are not compared with the anchors again if their outputs (m, L) are there.
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
    """Return the logits (n, L) of all rows by weights (d + 1, L), in the order of row numbers."""
    with single_blas():
        found = copy_to_host(rows.logits(weights.astype(np.float64)))
    outputs = np.empty_like(found)
    outputs[np.concatenate(rows.blocks)] = found
    return outputs


def _from_outputs(map_: SupervisedMap, X: Rows, outputs: Float32, n_jobs: int) -> Float32:
    """Return the features (n, F) of rows X (n, p) as items, from their logits (n, L)."""
    features = np.empty((len(X), map_.n_features), dtype=np.float32)
    blocks = row_blocks(len(X))
    own = [outputs[slice(*block)] for block in blocks]
    with single_blas():
        X.map_into(features, _of_block, blocks, map_, own, n_jobs=n_jobs)
    return features


def _of_block(block: RowBlock, outputs: Float32, map_: SupervisedMap) -> Float32:
    return map_.from_logits(outputs, as_float32(block.x), of_items=True)
