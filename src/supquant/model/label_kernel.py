"""The classifier of labels: its settings, the rows that it holds out, and the anchors of its kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from supquant.arrays import Float32, RowNumbers
from supquant.codec.gaussian_map import GaussianMap, kernel_features, squared_distances, squared_norms
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, check_positive, random_generator, resolve_jobs
from supquant.inputs.validation import as_float32
from supquant.model.class_means import held_out_loss, learn_class_means
from supquant.model.device_rows import DeviceRows, device_cache, with_host_weights
from supquant.model.kernel_classifier import LabelClassifier, learn_classifier
from supquant.model.kernel_rows import KernelRows, block_map
from supquant.parallel import ordered_map, single_blas
from supquant.row_sums import FeatureCache
from supquant.rows import Rows

MIN_ROWS = 8
"""Below this number of rows, none is held out."""

MIN_HELD_ROWS, MAX_HELD_ROWS = 256, 4096
"""One row in eight is held out: at most `MAX_HELD_ROWS`, at least `MIN_HELD_ROWS`, never more than a third of all rows."""

MAX_HELD_SCORES = 1 << 24
"""If held-out rows would have more scores than this, one per row and label, fewer rows are held out, but at least
`MIN_HELD_ROWS`."""

MAX_ROWS = 1 << 17
"""The classifier learns from at most this many rows in addition to the held-out ones; they are drawn at random."""

MAX_ANCHORS = 4000
"""Default number of anchors; if fewer rows are not held out, all of these."""

MANY_LABELS = 256
"""With more labels there are no anchors by default. If every row has one label, classes are then learned by their means, and a
trial may still choose anchors."""

ANCHORS_OF_MANY_LABELS = 1000
"""Number of anchors in that trial, and of the kernel if the trial says so."""

MAX_ANCHORED_LABELS = 4096
"""With more labels there is no such trial: a query would need too many weights of anchors."""

TRIAL_ROWS, TRIAL_CLASSES = 10_000, 500
"""The trial has at most this many rows in addition to the held-out ones, of at most this many classes."""

ANCHOR_LOSS_RATIO = 0.8
"""Anchors are taken if the held-out loss with them is less than this fraction of the loss without them."""

BANDWIDTH_ROWS = 512
"""The bandwidth follows from the distances of at most this number of rows to the anchors."""

WIDE = 2000
"""Vectors with more dimensions than this have no anchors by default: they separate classes linearly."""

CACHE_BYTES = 2 << 30
"""Bytes of kernel features that are kept between passes; the others are computed again."""


class LabelKernel(BaseEstimator):
    """Settings of the classifier that learns the probabilities of labels: logistic regression on a Gaussian kernel.

    A random eighth of the rows, at most 4,096 and at least 256 or a third of all rows, is held out to choose the ridge and the
    number of iterations. Then the classifier is learned from all rows, or from 131,072 random ones if there are more.

    Parameters
    ----------
    n_anchors : int or None, default=None
        Number of training rows that the kernel compares a vector with; 0 takes vectors as they are. None takes all rows that are
        not held out, at most 4,000. With more than 256 labels None takes no anchors, or 1,000 if held-out rows have a clearly
        lower loss with them.
    bandwidth : float or None, default=None
        Sigma of the kernel. None takes half the mean distance between rows and anchors.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The classifier does not depend on it. In a `SupervisedQuantizer`, its own `n_jobs`
        counts.
    random_state : int, numpy Generator or None, default=None
        Chooses the rows that are held out and those that become anchors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import LabelKernel, SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> sq = SupervisedQuantizer(2, features=LabelKernel(100), random_state=0).fit(X[::2], y[::2])
    >>> bool((sq.predict(X[1::2]) == y[1::2]).mean() > 0.95)
    True
    """

    def __init__(
        self,
        n_anchors: int | None = None,
        *,
        bandwidth: float | None = None,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.n_anchors = n_anchors
        self.bandwidth = bandwidth
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(self, X: NDArray[Any] | Rows, labels: Labels) -> tuple[LearnedLabels, KernelRows]:
        """Learn the classifier from checked vectors X (n, p) and their labels.

        Return it, and the rows that it was learned from. They hold kernel features that need not be computed again.
        """
        n_anchors = None if self.n_anchors is None else check_integer(self.n_anchors, "n_anchors", 0)
        bandwidth = None if self.bandwidth is None else check_positive(self.bandwidth, "bandwidth")
        n_jobs = resolve_jobs(self.n_jobs)
        order = random_generator(self.random_state).permutation(len(X))
        many = labels.n_labels > MANY_LABELS
        n_held = min(held_count(len(X)), max(MIN_HELD_ROWS, MAX_HELD_SCORES // labels.n_labels))
        by_means = many and not labels.multilabel
        if n_anchors is None:
            n_anchors = MAX_ANCHORS
            if many:
                n_anchors = _anchors_of_many(X, labels, order, n_held, bandwidth, n_jobs) if by_means else 0
        kernel = None if n_anchors == 0 else gaussian_kernel(X, order[n_held:], n_anchors, bandwidth)
        learned_from = order[n_held:] if by_means else order[n_held:][:MAX_ROWS]
        of_blocks = None if kernel is None else block_map(kernel)
        on_gpu = None if by_means else device_cache(X, of_blocks, CACHE_BYTES)
        cache = on_gpu or FeatureCache(0 if kernel is None else CACHE_BYTES)
        kind = KernelRows if on_gpu is None else DeviceRows
        kept, held = (
            kind.of(X, labels, of_blocks, np.sort(rows), cache=cache, n_jobs=n_jobs)
            for rows in (learned_from, order[:n_held])
        )
        if not by_means:
            kept = kept.sample_first()
        held_logits = np.zeros((0, labels.n_labels), np.float32)
        with single_blas():
            classifier = learn_class_means(kept, held) if by_means else learn_classifier(kept, held)
            if n_held:
                held_logits = copy_to_host(held.logits(classifier.held_weights))
        classifier = with_host_weights(classifier)
        return LearnedLabels(kernel, classifier, np.sort(order[:n_held]), held_logits), kept.joined(held)


@dataclass(frozen=True, eq=False)
class LearnedLabels:
    """The classifier that a `LabelKernel` learned, and the rows that it held out."""

    kernel: GaussianMap | None  # None takes vectors as features: d = p
    classifier: LabelClassifier
    held_rows: RowNumbers  # (s,)  numbers of the rows that were held out, ascending
    held_logits: Float32  # (s, L)  their logits without them; logits of new vectors will be like these

    @cached_property
    def weights(self) -> Float32:
        """Weights (d + 1, L) of logits; the last row is the intercept."""
        return np.ascontiguousarray(self.classifier.weights, dtype=np.float32)

    def logits(self, x: Float32) -> Float32:
        """Return the logits (b, L) of vectors x (b, p)."""
        return logits(kernel_features(self.kernel, x), self.weights)


def logits(phi: Float32, weights: Float32) -> Float32:
    """Return the logits (b, L) of features phi (b, d) under weights (d + 1, L), whose last row is the intercept."""
    scores = phi @ weights[:-1]
    scores += weights[-1]
    return scores


def held_count(n_rows: int) -> int:
    """Return the number of rows to hold out.

    Examples
    --------
    >>> [held_count(n) for n in (7, 8, 300, 1000, 4000, 100_000)]
    [0, 2, 100, 256, 500, 4096]
    """
    if n_rows < MIN_ROWS:
        return 0
    return max(min(MAX_HELD_ROWS, n_rows // 8), min(MIN_HELD_ROWS, n_rows // 3))


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
    with 1,000 anchors, and 75 without. `order` (n,) holds all row numbers in random order; the first `n_held` are held out.
    """
    if not n_held or labels.n_labels > MAX_ANCHORED_LABELS:
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


def make_label_kernel(
    features: LabelKernel | Literal["auto"], n_inputs: int, n_jobs: int | None, rng: np.random.Generator
) -> LabelKernel:
    """Return the kernel to learn with, for vectors of `n_inputs` dimensions: a copy of the given one, or that of ``"auto"``.

    ``"auto"`` has no anchors if the vectors have more than `WIDE` dimensions, because these separate classes linearly. The
    generator seeds a kernel that has no seed.
    """
    given = features if isinstance(features, LabelKernel) else LabelKernel(0 if n_inputs > WIDE else None)
    seed = int(rng.integers(2**31)) if given.random_state is None else given.random_state
    kernel: LabelKernel = clone(given)
    return kernel.set_params(n_jobs=n_jobs, random_state=seed)
