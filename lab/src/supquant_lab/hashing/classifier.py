"""A classifier as a baseline: an item is stored as its label, or as random bits of its class scores.

"How should we evaluate supervised hashing?" (Sablayrolles, Douze, Usunier, Jegou, ICASSP 2017) shows: if the classes of the
database are those of training, the predicted class of an item is a better code than most supervised codes, in a few bits.

The classifier is least squares on 0/1 labels with a small ridge and no intercept. Supervised quantization has the same one, on
vectors that are quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import solve_positive
from supquant.arrays import ArrayLike, Codes, Float64
from supquant.estimators.base import CodeEstimator
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import check_positive, random_generator, resolve_jobs
from supquant.inputs.validation import check_training_vectors
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features, check_features, fit_feature_map
from supquant.published.rows import Moments
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.label_codec import LabelCodec, check_label_count
from supquant_lab.hashing.rows import HashRows, add_ridge


class ClassifierLabels(CodeEstimator):
    """Items are stored as labels and queries are class scores: the score of an item is the sum over its labels.

    Parameters
    ----------
    ridge : float, default=1e-6
        Ridge of the least squares, in units of the mean diagonal of X'X. An absolute ridge of 1 lowers MAP by .005.
    features : "auto", AnchorKernel or None, default="auto"
        As for `SupervisedQuantizer`.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the anchors.

    Attributes
    ----------
    codec_ : LabelCodec
    classes_ : (L,) array
    training_codes_ : (n, M) uint8
        The labels of the training rows.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant_lab.hashing import ClassifierLabels
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ClassifierLabels(random_state=0).fit(X[:1500], y[:1500])
    >>> codes = model.encode(X[1500:])
    >>> codes.shape, bool((codes[:, 0] == y[1500:]).mean() > 0.9)
    ((297, 1), True)
    """

    codec_: LabelCodec
    _codec_type: ClassVar = LabelCodec
    _file_kind: ClassVar[str] = "classifier-labels"

    def __init__(
        self,
        *,
        ridge: float = 1e-6,
        features: Features = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.ridge = ridge
        self.features = features
        self.n_jobs = n_jobs
        self.random_state = random_state

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the classifier from vectors X (n, p) and their labels `y`.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Training vectors of any real dtype.
        y : array-like of shape (n,) or (n, L), or sparse matrix of shape (n, L)
            Class labels of any hashable kind, or a 0/1 indicator matrix.

        Returns
        -------
        self
        """
        ridge = check_positive(self.ridge, "ridge")
        check_features(self.features)
        X = check_training_vectors(X)
        labels = read_labels(y, n_rows=len(X))
        check_label_count(labels.n_labels, multilabel=labels.multilabel)
        rng = random_generator(self.random_state)
        with single_blas():
            feature_map = fit_feature_map(self.features, X, rng, self.n_jobs)
            rows = HashRows(X, labels, feature_map, resolve_jobs(self.n_jobs))
            weights = least_squares(rows.moments(), ridge)
        self.codec_ = LabelCodec(weights.astype(np.float32), labels.classes, labels.multilabel, feature_map)
        self.n_features_in_ = int(X.shape[1])
        self.training_codes_ = self.codec_.codes_of(labels)
        return self

    def encode(self, X: ArrayLike, y: ArrayLike | None = None) -> Codes:
        """Return the codes (n, M) uint8 of vectors X (n, p): of their labels `y`, or of the predicted labels if `y` is None."""
        return self._codec().encode_items(X, y, n_jobs=self.n_jobs)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores (n, L) float32 of all labels for vectors X (n, p)."""
        return self._codec().decision_function(X, n_jobs=self.n_jobs)

    def transform(self, X: ArrayLike) -> NDArray[np.float32]:
        """Return the scores (n, L) float32 of all labels for vectors X (n, p), as `decision_function` does."""
        return self.decision_function(X)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels (L,) that `fit` found."""
        return self._codec().classes


class ClassifierBits(HashEstimator):
    """Items and queries are bits of random projections of their class scores, ranked by Hamming distance.

    Bit j is set if the scores lie above their mean along random direction j. The learned codes of the training rows are those
    of their label vectors instead of their scores.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8.
    ridge : float, default=1e-6
        As for `ClassifierLabels`.
    features : "auto", AnchorKernel or None, default="auto"
        As for `SupervisedQuantizer`.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the anchors and the directions.
    callback : callable or None, default=None
        Called with a `Progress` after the only step.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        One entry: "objective" is the mean squared error of the class scores.
    n_iter_ : int
        Always 1.
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant_lab.hashing import ClassifierBits
    >>> X, y = load_digits(return_X_y=True)
    >>> ClassifierBits(32, random_state=0).fit(X[:1500], y[:1500]).encode(X[1500:]).shape
    (297, 4)
    """

    _file_kind: ClassVar[str] = "classifier-bits"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        ridge: float = 1e-6,
        features: Features = "auto",
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.features = features
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_positive(self.ridge, "ridge")

    def _n_steps(self) -> int:
        return 1

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        moments = rows.moments()
        weights = least_squares(moments, self.ridge)  # (d, L)
        directions = rng.normal(size=(weights.shape[1], self.n_bits))  # (L, bits)
        mean_scores = moments.sum_x / moments.n_rows @ weights  # (L,)
        frequencies = rows.labels.dense(0, len(rows)).mean(axis=0)  # (L,)
        bits = np.concatenate(
            list(rows.map_blocks(lambda _, block: (rows.labels.dense(*block) - frequencies) @ directions > 0))
        )
        error = moments.yy - 2 * np.vdot(moments.xy, weights) + np.vdot(weights, moments.xx @ weights)
        functions = HashFunctions(weights @ directions, mean_scores @ directions, bits)
        yield HashStep({"objective": float(error) / moments.n_rows}, lambda: functions)


def least_squares(moments: Moments, ridge: float) -> Float64:
    """Return the W (d, L) that solves (X'X + delta I) W = X'Y; delta is `ridge` in units of the mean diagonal of X'X."""
    return solve_positive(add_ridge(moments.xx.copy(), ridge, moments.xx), moments.xy)
