"""Vectors to features: a kernel classifier learned from labelled rows. Its outputs say what a vector means."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant.algebra import leading_eigenvectors
from supquant.arrays import ArrayLike, Float32, Float64, RowNumbers
from supquant.codec.gaussian_map import GaussianMap, map_rows, squared_distances, squared_norms
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_integer, check_positive, random_generator, resolve_jobs
from supquant.inputs.validation import as_float32, check_training_rows, check_vectors
from supquant.interrupts import defers_interrupts
from supquant.model.class_means import held_out_loss, learn_class_means
from supquant.model.kernel_classifier import learn_classifier
from supquant.model.kernel_rows import KernelRows, gram_jobs
from supquant.model.label_map import LabelMap
from supquant.model.near_map import NearMap, near_map
from supquant.parallel import ordered_map, single_blas
from supquant.row_sums import FeatureCache
from supquant.rows import Rows, sum_rows

FEWEST_ROWS = 8
"""Below this number of rows, none is held out."""

FEWEST_HELD_ROWS, MOST_HELD_ROWS = 256, 4096
"""One row in eight is held out: at most `MOST_HELD_ROWS`, at least `FEWEST_HELD_ROWS`, never more than a third of all rows."""

MOST_HELD_SCORES = 1 << 24
"""Where held-out rows would have more scores than this, one for each row and label, fewer rows are held out, but not fewer than
`FEWEST_HELD_ROWS`."""

MOST_ROWS = 1 << 17
"""The classifier learns from at most this many rows beside the held-out ones: from random ones where there are more."""

MOST_ANCHORS = 4000
"""Number of anchors by default; all rows that are not held out where they are fewer."""

MANY_LABELS = 256
"""Where there are more labels, there are no anchors by default. If every row has one label, classes are then learned by their
means, and a trial may still choose anchors."""

ANCHORS_OF_MANY_LABELS = 1000
"""Number of anchors in that trial, and of the kernel if the trial says so."""

MOST_ANCHORED_LABELS = 4096
"""Where there are more labels, there is no such trial: a query would need too many weights of anchors."""

TRIAL_ROWS, TRIAL_CLASSES = 10_000, 500
"""The trial has at most this many rows beside the held-out ones, of at most this many classes."""

ANCHOR_LOSS_RATIO = 0.8
"""Anchors are taken if the held-out loss with them is less than this share of the loss without them."""

BANDWIDTH_ROWS = 512
"""The bandwidth is made from the distances of at most this number of rows to the anchors."""

WIDE = 2000
"""Vectors with more dimensions than this have no anchors by default: they separate classes linearly."""

CACHE_BYTES = 2 << 30
"""Bytes of kernel features that are kept between passes. Others are computed again."""


class LabelKernel(TransformerMixin, BaseEstimator):
    """Features that say what a vector means: label probabilities of a kernel classifier, and where the vector lies.

    The features of x are ``[p | h | k]``. p (L,) are the probabilities of the labels by logistic regression on a Gaussian
    kernel. h (L,) are those by least squares with more ridge: they tell classes apart better that were not trained on. k (g,) are
    coordinates along principal directions of the vectors.

    A random eighth of the rows, at most 4,096 and at least 256 or a third of all rows, is held out to choose the ridge and the
    number of iterations. Then the classifier is learned from all rows, or from 131,072 random ones where there are more.

    Parameters
    ----------
    n_anchors : int or None, default=None
        Number of training rows that the kernel compares a vector with; 0 takes vectors as they are. None takes all rows that are
        not held out, at most 4,000. With more than 256 labels None takes no anchors, or 1,000 if held-out rows have a clearly
        lower loss with them.
    bandwidth : float or None, default=None
        Sigma of the kernel. None takes half the mean distance between rows and anchors.
    n_directions : int, default=32
        The width of k, at most that of the vectors.
    n_jobs : int or None, default=None
        Number of threads; None takes all cores. Features do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Chooses the rows that are held out and those that become anchors.

    Attributes
    ----------
    map_ : LabelMap
        The frozen map from a float32 block to its features.
    classes_ : ndarray of shape (L,)
        The labels.
    held_rows_ : ndarray of shape (s,), int64
        Numbers of the rows that were held out, ascending.
    held_logits_ : ndarray of shape (s, L), float32
        Logits of these rows by a classifier that was learned without them. Logits of new vectors will be like them.
    ridge_ : float
        The ridge chosen, in units of the mean diagonal of the kernel features' products.
    losses_ : list of dict
        The mean log loss of a held-out row for every ridge, then after every iteration of logistic regression.
    n_iter_ : int
        The iteration of logistic regression that was best on held-out rows.
    n_features_in_ : int
        p, the width of the vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant.model.label_kernel import LabelKernel
    >>> X, y = load_digits(return_X_y=True)
    >>> kernel = LabelKernel(random_state=0).fit(X[::2], y[::2])
    >>> features = kernel.transform(X[1::2])
    >>> features.shape, bool((features[:, :10].argmax(axis=1) == y[1::2]).mean() > 0.95)
    ((898, 52), True)
    """

    def __init__(
        self,
        n_anchors: int | None = None,
        *,
        bandwidth: float | None = None,
        n_directions: int = 32,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.n_directions = n_directions
        self.n_jobs = n_jobs
        self.random_state = random_state

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the classifier.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Vectors.
        y : array-like or Labels
            Their labels, as `SupervisedQuantizer` takes them.

        Returns
        -------
        LabelKernel
            The fitted estimator itself.
        """
        self._fit(check_training_rows(X), y)
        return self

    def fit_weights(self, X: NDArray[Any] | Rows, y: Labels) -> KernelRows:
        """Learn from vectors X (n, p) and labels, as `fit` does, but leave the smooth weights out, and use a `near_map`.

        Return the rows that were learned from. They hold
        kernel features that need not be computed again.
        """
        return self._fit(X, y, smooth=False)

    @defers_interrupts
    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Float32:
        """Learn from vectors X (n, p) and labels `y`, as `fit` does, and return the features (n, 2 L + g) of X.

        Kernel features are computed once for both.
        """
        X = check_training_rows(X)
        rows = self._fit(X, y)
        if len(rows) < len(X):
            return self.transform(X)
        with single_blas():
            found = _features(self.map_, rows)
        features = np.empty_like(found)
        features[np.concatenate(rows.blocks)] = found
        return features

    def transform(self, X: ArrayLike) -> Float32:
        """Map X (n, p) to its features (n, 2 L + g) float32."""
        check_is_fitted(self)
        X = check_vectors(X, n_features=self.n_features_in_, estimator=type(self).__name__)
        return map_rows(self.map_, X, self.map_.n_features, resolve_jobs(self.n_jobs))

    def _fit(
        self,
        X: NDArray[Any] | Rows,
        y: ArrayLike,
        *,
        smooth: bool = True,
    ) -> KernelRows:
        """Learn from checked vectors X (n, p); return the rows learned from, with their kernel features in the cache."""
        n_anchors = None if self.n_anchors is None else check_integer(self.n_anchors, "n_anchors", 0)
        n_directions = check_integer(self.n_directions, "n_directions", 0)
        bandwidth = None if self.bandwidth is None else check_positive(self.bandwidth, "bandwidth")
        n_jobs = resolve_jobs(self.n_jobs)
        labels = _checked_labels(y, len(X))
        order = random_generator(self.random_state).permutation(len(X))
        many = labels.n_labels > MANY_LABELS
        n_held = min(held_count(len(X)), max(FEWEST_HELD_ROWS, MOST_HELD_SCORES // labels.n_labels))
        by_means = many and not labels.multilabel
        if n_anchors is None:
            n_anchors = MOST_ANCHORS
            if many:
                n_anchors = _anchors_of_many(X, labels, order, n_held, bandwidth, n_jobs) if by_means else 0
        held_rows = np.sort(order[:n_held])
        kernel = None if n_anchors == 0 else gaussian_kernel(X, order[n_held:], n_anchors, bandwidth)
        cache = FeatureCache(0 if kernel is None else CACHE_BYTES)
        learned_from = order[n_held:] if by_means else order[n_held:][:MOST_ROWS]
        near = kernel if kernel is None or smooth else near_map(kernel, len(learned_from))
        kept, held = (
            KernelRows.of(X, labels, near, rows, cache=cache, n_jobs=n_jobs)
            for rows in (np.sort(learned_from), held_rows)
        )
        if not by_means:
            kept = kept.sample_first()
        with single_blas():
            mean, directions = scaled_directions(X, n_directions, n_jobs)
            learn = learn_class_means if by_means else partial(learn_classifier, smooth=smooth)
            learned = learn(kept, held)
            self.held_logits_ = np.zeros((0, labels.n_labels), np.float32)
            if n_held:
                shown = held
                if isinstance(near, NearMap) and near.basis is not None:
                    shown = held.here(replace(near, basis=None))
                self.held_logits_ = shown.logits(learned.held_weights)
        weights, smoother = (each.astype(np.float32) for each in (learned.weights, learned.smooth))
        self.map_ = LabelMap(kernel, weights, smoother, mean, directions, labels.multilabel)
        self.classes_ = labels.classes
        self.held_rows_ = held_rows
        self.ridge_ = learned.ridge
        self.losses_ = learned.losses
        self.n_iter_ = learned.n_iter
        self.n_features_in_ = int(X.shape[1])
        return kept.joined(held)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []  # features are always float32
        return tags


def held_count(n_rows: int) -> int:
    """Return the number of rows to hold out.

    Examples
    --------
    >>> [held_count(n) for n in (7, 8, 300, 1000, 4000, 100_000)]
    [0, 2, 100, 256, 500, 4096]
    """
    if n_rows < FEWEST_ROWS:
        return 0
    return max(min(MOST_HELD_ROWS, n_rows // 8), min(FEWEST_HELD_ROWS, n_rows // 3))


def _checked_labels(y: ArrayLike, n_rows: int) -> Labels:
    if not isinstance(y, Labels):
        return read_labels(y, n_rows=n_rows)
    if len(y) != n_rows:
        raise InputError(f"y must have a label for each of the {n_rows} rows of X, got {len(y)}")
    return y


def gaussian_kernel(
    X: NDArray[Any] | Rows, candidates: RowNumbers, n_anchors: int, bandwidth: float | None
) -> GaussianMap:
    """Return the kernel whose anchors are the first candidates; the last ones measure distances for the bandwidth."""
    anchors = as_float32(X[np.sort(candidates[:n_anchors])])
    if bandwidth is None:
        sample = as_float32(X[np.sort(candidates[-BANDWIDTH_ROWS:])])
        with single_blas():
            squares = squared_distances(sample, anchors, squared_norms(anchors))
        bandwidth = 0.5 * float(np.sqrt(squares, out=squares).mean(dtype=np.float64)) or 1.0
    return GaussianMap(anchors, bandwidth)


def _anchors_of_many(
    X: NDArray[Any] | Rows,
    labels: Labels,
    order: RowNumbers,
    n_held: int,
    bandwidth: float | None,
    n_jobs: int,
) -> int:
    """Return the number of anchors for many classes: 0, unless a trial on some classes has a lower loss with anchors.

    Vectors of a neural network are best without anchors. Of rows of 400 kinds of handwritten digits, 87 in 100 were recognised
    with 1,000 anchors, and 75 without.

    Parameters
    ----------
    X : ndarray of shape (n, p)
    labels : Labels
        One for each row.
    order : ndarray of shape (n,), int64
        All row numbers in random order. The first `n_held` of them are held out.
    n_held : int
    bandwidth : float or None
    n_jobs : int
    """
    if not n_held or labels.n_labels > MOST_ANCHORED_LABELS:
        return 0
    assert labels.indices is not None
    seen = order[: n_held + TRIAL_ROWS]
    classes, first, sorted_number = np.unique(labels.indices[seen], return_index=True, return_inverse=True)
    # Classes are numbered in the order in which `seen` shows them first, which is random:
    # numbers = {}
    # number = [numbers.setdefault(label, len(numbers)) for label in labels.indices[seen]]
    number = np.argsort(np.argsort(first))[sorted_number].astype(np.int32)
    chosen = number < TRIAL_CLASSES
    n_held = int(chosen[:n_held].sum())
    x = as_float32(X[seen[chosen]])
    few = Labels(np.arange(min(len(classes), TRIAL_CLASSES)), False, number[chosen], None)
    kept, held = np.arange(n_held, len(x)), np.arange(n_held)
    kernel = gaussian_kernel(x, kept, ANCHORS_OF_MANY_LABELS, bandwidth)

    def loss(kernel: GaussianMap | None) -> float:
        parts = (
            KernelRows.of(x, few, kernel, rows, cache=FeatureCache(0), n_jobs=n_jobs) for rows in (kept, held)
        )
        return held_out_loss(*parts)

    with single_blas():
        with_anchors, without = ordered_map(loss, (kernel, None), n_jobs)
    return ANCHORS_OF_MANY_LABELS if with_anchors < ANCHOR_LOSS_RATIO * without else 0


def scaled_directions(X: NDArray[Any] | Rows, n_directions: int, n_jobs: int) -> tuple[Float32, Float32]:
    """Return the mean (p,) of rows X (n, p) and their principal directions (p, g).

    Directions are scaled so that the coordinates of centred rows have a mean squared length of one.
    """
    n, p = X.shape
    (total,) = sum_rows(_column_sums, X, None, n_jobs)
    mean = (total / n).astype(np.float32)
    g = min(n_directions, p)
    if g == 0:
        return mean, np.zeros((p, 0), dtype=np.float32)
    (covariance,) = sum_rows(_centred_products, X, mean, gram_jobs(p, n_jobs))
    covariance /= n
    variances, vectors = leading_eigenvectors(covariance, g)
    length = float(np.sqrt(np.maximum(variances, 0).sum())) or 1.0
    return mean, as_float32(vectors / length)


def _column_sums(x: NDArray[Any], shared: None) -> tuple[Float64]:
    del shared
    return (x.sum(axis=0, dtype=np.float64),)


def _centred_products(x: NDArray[Any], mean: Float32) -> tuple[Float32]:
    centred = as_float32(x) - mean
    return (centred.T @ centred,)


def _features(label_map: LabelMap, rows: KernelRows) -> Float32:
    """Return the features (n, 2 L + g) of rows, in the order of their blocks."""
    return np.concatenate(list(rows.map_blocks(_features_of_block, label_map)))


def _features_of_block(rows: KernelRows, numbers: RowNumbers, label_map: LabelMap) -> Float32:
    return label_map.from_kernel(rows.features(numbers)[:, :-1], rows.vectors(numbers))


def make_label_kernel(
    features: LabelKernel | Literal["auto"], n_inputs: int, n_jobs: int | None, rng: np.random.Generator
) -> LabelKernel:
    """Return the kernel to fit: a copy of the given one, or that of ``"auto"``.

    ``"auto"`` has no anchors if the vectors have more than `WIDE` dimensions, because these separate classes linearly.

    Parameters
    ----------
    features : LabelKernel or "auto"
    n_inputs : int
        Number of dimensions of the vectors.
    n_jobs : int or None
        Number of threads; None uses all cores.
    rng : Generator
        Seeds a kernel that has no seed.

    Returns
    -------
    LabelKernel
        Not fitted, and without directions, since a `MeaningMap` has its own.
    """
    given = features if isinstance(features, LabelKernel) else LabelKernel(0 if n_inputs > WIDE else None)
    kernel: LabelKernel = clone(given)
    kernel.set_params(n_jobs=n_jobs, n_directions=0)
    if kernel.random_state is None:
        kernel.set_params(random_state=int(rng.integers(2**31)))
    return kernel
