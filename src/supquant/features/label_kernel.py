"""Vectors to features: a kernel classifier learned from labelled rows, whose outputs say what a vector means."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from supquant.arrays import Float32, Float64, RowNumbers
from supquant.errors import InputError
from supquant.features.class_means import held_out_loss, learn_class_means
from supquant.features.gaussian_map import GaussianMap, map_rows, squared_distances, squared_norms
from supquant.features.kernel_classifier import (
    FeatureCache,
    KernelRows,
    gram_jobs,
    learn_classifier,
)
from supquant.features.label_map import LabelMap
from supquant.labels import Labels, read_labels
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.validation import (
    as_float32,
    check_integer,
    check_positive,
    check_vectors,
    random_generator,
    resolve_jobs,
)

MOST_HELD = 4096
FEW_HELD = 256
"""Rows held out: an eighth of all, at most the one and at least the other, of which a third is the most of few rows."""

MOST_ANCHORS = 4000
"""Taken by default; all rows that are not held out where there are fewer."""

MOST_ROWS = 1 << 17
"""Learned from, beside those held out; a random part where there are more."""

MANY_LABELS = 256
"""Where there are more, classes of one label a row are learned by their means, and vectors are taken as they are unless held-out
rows of these classes ask for anchors."""

MANY_ANCHORS = 1000
"""Taken for so many labels, where vectors as they are tell classes apart worse."""

MOST_ANCHORED = 4096
"""Labels for which that is tried: for more the weights of anchors would be too many for a query."""

PROBED_ROWS = 20_000
PROBED_CLASSES = 1000
"""Rows and classes by which it is tried, at the most."""

CLEARLY_LESS = 0.8
"""Part of the held-out loss without anchors, below which that with them must be."""

HELD_SCORES = 1 << 24
"""Scores of held-out rows for all labels, at the most."""

FEWEST_ROWS = 8
"""Of which any are held out."""

BANDWIDTH_ROWS = 2000
"""Whose distances to the anchors make the bandwidth."""

CACHE_BYTES = 2 << 30
"""Of kernel features between passes; beyond it they are computed again."""


class LabelKernel(TransformerMixin, BaseEstimator):
    """Features that say what a vector means: label probabilities of a kernel classifier, and where the vector lies.

    The features of x are ``[p | h | k]``: p (L,) are the probabilities of the labels by logistic regression on a Gaussian
    kernel, h (L,) those of least squares with more ridge, which tell classes apart better that nobody trained on, and
    k (g,) are coordinates along principal directions of the vectors themselves.

    A random eighth of the rows, at most 4,096 (of few rows a third), is held out to choose the ridge and when to stop; then
    the classifier is learned from all rows, of more than 131,072 from a random part.

    Parameters
    ----------
    n_anchors : int, optional
        How many training rows the kernel compares a vector with; 0 takes vectors as they are. By default all that are not
        held out, at most 4,000; where there are more than 256 labels none, or 1,000 if held-out rows are told apart better so.
    bandwidth : float, optional
        Sigma of the kernel. By default half the mean distance between rows and anchors.
    n_directions : int, default=32
        The width of k; that of the vectors where it is less.
    n_jobs : int, optional
        Threads; all cores by default. Features do not depend on it.
    random_state : int, numpy Generator or None
        Which rows are held out and which become anchors.

    Attributes
    ----------
    map_ : LabelMap
        The frozen map from a float32 block to its features.
    classes_ : (L,) array
    held_rows_ : (s,) int64
        Numbers of the rows that were held out, ascending.
    held_features_ : (s, 2 L + g) float32
        Their features by the classifier that had not seen them: what features of new vectors will be like.
    held_logits_ : (s, L) float32
        The logits of which p is made, for the same rows.
    ridge_ : float
        The ridge chosen, in units of the mean diagonal of the kernel features' products.
    losses_ : list of dict
        The held-out log loss a row for every ridge, then after every iteration of logistic regression.
    n_iter_ : int
        The iteration of logistic regression that was best on held-out rows.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant.features import LabelKernel
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

    def fit(self, X: object, y: object) -> Self:
        """Learn the classifier from vectors X (n, p) and labels `y`, as `SupervisedQuantizer` takes them."""
        self._fit(X, y)
        return self

    def fit_transform(self, X: object, y: object = None) -> Float32:
        """Learn from X (n, p) and `y`, and give the features (n, 2 L + g) of X, kernel features made once."""
        X = check_vectors(X)
        rows = self._fit(X, y)
        if len(rows) < len(X):
            return self.transform(X)
        with single_blas():
            found = _features(self.map_, rows)
        features = np.empty_like(found)
        features[np.concatenate(rows.blocks)] = found
        return features

    @property
    def held_features_(self) -> Float32:
        """Features (s, 2 L + g) of held-out rows by the classifier that had not seen them."""
        check_is_fitted(self)
        label_map, x = self._held
        return map_rows(label_map, x, label_map.n_features, resolve_jobs(self.n_jobs))

    def transform(self, X: object) -> Float32:
        """Map X (n, p) to its features (n, 2 L + g) float32."""
        check_is_fitted(self)
        X = check_vectors(X, n_features=self.n_features_in_, estimator=type(self).__name__)
        return map_rows(self.map_, X, self.map_.n_features, resolve_jobs(self.n_jobs))

    def _fit(self, X: object, y: object) -> KernelRows:
        """Learn; give all rows, whose kernel features are still at hand."""
        n_anchors = None if self.n_anchors is None else check_integer(self.n_anchors, "n_anchors", 0)
        n_directions = check_integer(self.n_directions, "n_directions", 0)
        bandwidth = None if self.bandwidth is None else check_positive(self.bandwidth, "bandwidth")
        n_jobs = resolve_jobs(self.n_jobs)
        X = check_vectors(X)
        labels = _checked_labels(y, len(X))
        order = random_generator(self.random_state).permutation(len(X))
        many = labels.n_labels > MANY_LABELS
        n_held = min(held_count(len(X)), max(FEW_HELD, HELD_SCORES // labels.n_labels))
        by_means = many and not labels.multilabel
        if n_anchors is None:
            n_anchors = MOST_ANCHORS
            if many:
                n_anchors = _anchors_of_many(X, labels, order, n_held, bandwidth, n_jobs) if by_means else 0
        held_rows = np.sort(order[:n_held])
        kernel = None if n_anchors == 0 else _kernel(X, order[n_held:], n_anchors, bandwidth)
        cache = FeatureCache(0 if kernel is None else CACHE_BYTES)

        def part(rows: RowNumbers) -> KernelRows:
            blocks = [rows[slice(*block)] for block in row_blocks(len(rows))]
            return KernelRows(X, labels, kernel, blocks, cache, n_jobs)

        learned_from = order[n_held:] if by_means else order[n_held:][:MOST_ROWS]
        kept, held = part(np.sort(learned_from)), part(held_rows)
        with single_blas():
            mean, directions = _principal_directions(X, n_directions, n_jobs)
            learned = (learn_class_means if by_means else learn_classifier)(kept, held)

            def label_map(weights: Float64, smooth: Float64) -> LabelMap:
                parts = weights.astype(np.float32), smooth.astype(np.float32)
                return LabelMap(kernel, *parts, mean, directions, labels.multilabel)

            self.held_logits_ = (
                held.logits(learned.held_weights) if n_held else np.zeros((0, labels.n_labels), np.float32)
            )
        self._held = label_map(learned.held_weights, learned.held_smooth), as_float32(X[held_rows])
        self.map_ = label_map(learned.weights, learned.smooth)
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
        tags.transformer_tags.preserves_dtype = []  # float32 whatever comes in
        return tags


def held_count(n_rows: int) -> int:
    """Give the number of rows to hold out; none of fewer than eight.

    Examples
    --------
    >>> [held_count(n) for n in (7, 8, 300, 1000, 4000, 100_000)]
    [0, 2, 100, 256, 500, 4096]
    """
    if n_rows < FEWEST_ROWS:
        return 0
    return max(min(MOST_HELD, n_rows // 8), min(FEW_HELD, n_rows // 3))


def _checked_labels(y: object, n_rows: int) -> Labels:
    if not isinstance(y, Labels):
        return read_labels(y, n_rows=n_rows)
    if len(y) != n_rows:
        raise InputError(f"y must have a label for each of the {n_rows} rows of X, got {len(y)}")
    return y


def _kernel(X: NDArray[Any], candidates: RowNumbers, n_anchors: int, bandwidth: float | None) -> GaussianMap:
    """Make anchors of the first candidates; those at the other end say how far rows and anchors are apart."""
    anchors = as_float32(X[np.sort(candidates[:n_anchors])])
    if bandwidth is None:
        sample = as_float32(X[np.sort(candidates[-BANDWIDTH_ROWS:])])
        with single_blas():
            squares = squared_distances(sample, anchors, squared_norms(anchors))
        bandwidth = 0.5 * float(np.sqrt(squares, out=squares).mean(dtype=np.float64)) or 1.0
    return GaussianMap(anchors, bandwidth)


def _anchors_of_many(
    X: NDArray[Any], labels: Labels, order: RowNumbers, n_held: int, bandwidth: float | None, n_jobs: int
) -> int:
    """Return how many anchors many classes want: none, unless some of the rows are told apart better with them.

    Vectors of a network are best as they are; of 400 kinds of handwritten digits .84 were found with 1,000 anchors, .75 without.
    The first rows of the order are those held out. All rows seen are of a few classes.
    """
    if not n_held or labels.n_labels > MOST_ANCHORED:
        return 0
    assert labels.indices is not None
    seen = order[: n_held + PROBED_ROWS]
    classes, first, sorted_number = np.unique(labels.indices[seen], return_index=True, return_inverse=True)
    number = np.argsort(np.argsort(first))[sorted_number].astype(np.int32)  # as rows show them: at random
    chosen = number < PROBED_CLASSES
    n_held = int(chosen[:n_held].sum())
    x = as_float32(X[seen[chosen]])
    few = Labels(np.arange(min(len(classes), PROBED_CLASSES)), False, number[chosen], None)
    kernel = _kernel(x, np.arange(n_held, len(x)), MANY_ANCHORS, bandwidth)

    def loss(kernel: GaussianMap | None) -> float:
        parts = [
            KernelRows(
                x,
                few,
                kernel,
                [rows[slice(*each)] for each in row_blocks(len(rows))],
                FeatureCache(0),
                n_jobs,
            )
            for rows in (np.arange(n_held, len(x)), np.arange(n_held))
        ]
        return held_out_loss(*parts)

    with single_blas():
        return MANY_ANCHORS if loss(kernel) < CLEARLY_LESS * loss(None) else 0


def _principal_directions(X: NDArray[Any], n_directions: int, n_jobs: int) -> tuple[Float32, Float32]:
    """Give the mean (p,) of rows, and principal directions (p, g) on which centred rows have a mean squared length of one."""
    n, p = X.shape
    blocks = row_blocks(n)
    sums = ordered_map(lambda block: X[slice(*block)].sum(axis=0, dtype=np.float64), blocks, n_jobs)
    mean = (sum(sums) / n).astype(np.float32)
    g = min(n_directions, p)
    if g == 0:
        return mean, np.zeros((p, 0), dtype=np.float32)

    def products(block: tuple[int, int]) -> Float32:
        centred = as_float32(X[slice(*block)]) - mean
        return centred.T @ centred

    covariance = np.zeros((p, p))
    for part in ordered_map(products, blocks, gram_jobs(p, n_jobs)):
        covariance += part
    covariance /= n
    variances, vectors = scipy.linalg.eigh(covariance, subset_by_index=[p - g, p - 1])  # ascending
    length = float(np.sqrt(np.maximum(variances, 0).sum())) or 1.0
    return mean, as_float32(vectors[:, ::-1] / length)


def _features(label_map: LabelMap, rows: KernelRows) -> Float32:
    """Give the features (n, 2 L + g) of rows, in the order of their blocks."""

    def of_block(numbers: RowNumbers) -> Float32:
        return label_map.from_kernel(rows.features(numbers)[:, :-1], rows.vectors(numbers))

    none = np.zeros((0, 2 * label_map.n_labels + label_map.n_directions), dtype=np.float32)
    return np.concatenate([none, *rows.map_blocks(of_block)])
