"""Supervised quantization as published: the estimator, and its fit from top to bottom.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016). The objective is in `objective`, the
solvers are in `solvers`, and the start is in `training`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import ClassVar, Literal, Self

import numpy as np

from supquant.arrays import ArrayLike, Codes, Flags
from supquant.codec.additive import AdditiveCodec
from supquant.codec.probabilities import IDENTITY
from supquant.errors import InputError
from supquant.estimators.base import LabelEstimator, check_enough_rows
from supquant.estimators.course import Course
from supquant.estimators.training_codes import encode_training_rows
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    random_generator,
)
from supquant.inputs.validation import check_training_rows
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.published.anchor_kernel import Features
from supquant.published.calibration import calibrated, default_scaling
from supquant.published.chain import ChainedQuantizer
from supquant.published.solvers import Start, Step, alternating_steps, joint_steps
from supquant.published.training import PROJECTION_TYPES, ProjectionName, Training, lengthen, with_seeds
from supquant.rows import Rows

_logger = logging.getLogger("supquant")


class PublishedQuantizer(ChainedQuantizer, LabelEstimator):
    """The method of the paper: codes of a projection in which a linear classifier separates the labels.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, from 1 to 64.
    n_codewords : int, default=256
        K, the number of codewords in each codebook, from 2 to 256.
    n_components : int, default=256
        r, the number of dimensions of the space that is quantized, at most the number of features. With
        ``projection="identity"`` it is the number of features.
    projection : {"learned", "identity", "pca"}, default="learned"
        P, the map from features to that space. ``"learned"`` is the method. The paper compares it with the fixed maps
        ``"identity"`` and ``"pca"``.
    features : "auto", AnchorKernel or None, default="auto"
        Map from vectors to features. None uses the vectors themselves. ``"auto"`` is the published map, an `AnchorKernel` with
        1000 anchors, or with a quarter as many anchors as rows if that is less; for vectors of more than 2000 dimensions it is
        None.
    solver : {"joint", "alternating"}, default="joint"
        ``"joint"`` minimises over all continuous unknowns at once. ``"alternating"`` takes the published steps in turn.
    quantization_weight : float, default=1e-5
        Gamma, the weight of the squared distance between projected and decoded vectors, above 0.
    constraint_weight : float, default=0.1
        Mu, the weight of the spread of the inter-dictionary products, at least 0.
    classifier_ridge : float, default=1.0
        Lambda, the ridge of the classifier, above 0.
    missing_label : str, number or None, default=None
        A label that means "unknown", in addition to None, NaN, pandas' NA and masked entries.
    init : PublishedQuantizer or None, default=None
        A fitted quantizer with fewer codebooks and the same rows, from which the fit starts.
    max_turns : int, default=512
        Used with ``solver="alternating"``: the maximum number of turns of W, P, eps and C before codes are assigned again. 1
        is the published order.
    max_iter : int, default=30
        Maximum number of iterations of the solver for each code length.
    tol : float, default=1e-3
        The solver stops when the relative improvement of an iteration falls below `tol`.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The codes do not depend on it.
    random_state : int, Generator or None, default=None
        Seed. The same seed gives the same codes.
    callback : callable or None, default=None
        Called with a `supquant.progress.Progress` after every iteration.
    verbose : int, default=0
        If above 0, iterations are logged.

    Attributes
    ----------
    codec_ : AdditiveCodec
        The learned model; it encodes, decodes and makes tables.
    classes_ : (L,) array
        The labels found in `fit`.
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        For every step: its name, the terms ``classification``, ``ridge``, ``quantization`` and ``constraint``, and the ``total``.
    n_iter_ : int
        Number of iterations.
    n_unlabelled_ : int
        Number of training rows without a label.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import PublishedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> pq = PublishedQuantizer(2, random_state=0).fit(X[:500], y[:500])
    >>> codes = pq.encode(X[500:])
    >>> codes.shape, codes.dtype
    ((1297, 2), dtype('uint8'))
    """

    _file_kind: ClassVar[str] = "published-quantizer"

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        n_components: int = 256,
        projection: ProjectionName = "learned",
        features: Features = "auto",
        solver: Literal["joint", "alternating"] = "joint",
        quantization_weight: float = 1e-5,
        constraint_weight: float = 0.1,
        classifier_ridge: float = 1.0,
        missing_label: str | float | None = None,
        init: PublishedQuantizer | None = None,
        max_turns: int = 512,
        max_iter: int = 30,
        tol: float = 1e-3,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.n_codewords = n_codewords
        self.n_components = n_components
        self.projection = projection
        self.features = features
        self.solver = solver
        self.quantization_weight = quantization_weight
        self.constraint_weight = constraint_weight
        self.classifier_ridge = classifier_ridge
        self.missing_label = missing_label
        self.init = init
        self.max_turns = max_turns
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn codebooks, projection and classifier.

        Parameters
        ----------
        X : (n, p) array
            Vectors of any real dtype. A memory map is read in blocks.
        y : (n,) array of class labels, or (n, L) indicator matrix
            Labels are of any hashable type. An indicator matrix is dense or sparse. None, NaN, pandas' NA, a masked entry and
            `missing_label` mean that the label is unknown; in an indicator matrix, a whole row of them. Rows without labels
            get codes, but nothing is learned from them.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step, the estimator has the best model so far.
        """
        self._check_parameters()
        rows = check_training_rows(X)
        labels = self._read_labels(y, len(rows))
        check_enough_rows(len(rows), self.n_codewords)
        known = labels.known
        x = rows if known.all() else rows.take(np.flatnonzero(known))
        own = labels if known.all() else labels.take(known)
        weights = self.quantization_weight, self.constraint_weight, self.classifier_ridge
        course: Course[Step] = Course(Reporter(self.callback, self.verbose))
        with single_blas():
            training = self._begin(x, own, random_generator(self.random_state), weights, self.projection)
            try:
                for length in self._lengths:
                    if course.last is not None:
                        training.take(course.last.state.codebooks, course.last.state.projection)
                    training.lengthen(length)
                    course.take(
                        f"{self.solver}, {length} codebooks", self.max_iter, self._solve(training.start())
                    )
            finally:  # also after an interrupt: psi never rises, so the last finished step is the best one
                if course.last is not None:
                    codec, codes = self._codec_of(course.last, training, own)
                    codec = with_seeds(codec, codes, x)
                    self._store(codec, self._codes_of_all(codec, codes, rows, known))
                    self.objective_, self.n_iter_ = course.record, course.n_iter
                    self.n_unlabelled_ = labels.n_unlabelled
            self.codec_ = calibrated(codec, training.start().solver(), x, codes, own)
        return self

    def _solve(self, start: Start) -> Iterator[Step]:
        """Solve for one code length."""
        if self.solver == "alternating":
            return alternating_steps(start, max_iter=self.max_iter, tol=self.tol, max_turns=self.max_turns)
        return joint_steps(start, max_iter=self.max_iter, tol=self.tol)

    def _codec_of(self, last: Step, training: Training, labels: Labels) -> tuple[AdditiveCodec, Codes]:
        """Return the codec of a step, and the codes (n, M) of the labelled rows.

        After an interrupt the step can have fewer than `n_codebooks` codebooks; zero codebooks are then added.
        """
        state = last.state
        codebooks, codes = lengthen(state.codebooks, last.codes, self.n_codebooks, training.rng)
        codec = AdditiveCodec(
            codebooks=codebooks.astype(np.float32),
            projection=training.stored_projection(state.projection),
            classifier=state.classifier.astype(np.float32),
            classes=labels.classes,
            multilabel=labels.multilabel,
            constant=state.constant,
            quantization_weight=state.penalties.quantization,
            constraint_weight=state.penalties.constraint,
            feature_map=training.feature_map,
            scaling=default_scaling(labels.n_labels),
            curve=IDENTITY,
        )
        return codec, codes

    def _codes_of_all(self, codec: AdditiveCodec, codes: Codes, X: Rows, known: Flags) -> Codes:
        """Return the codes (n, M) of all rows, given those of the rows whose labels are `known` (n,)."""
        if known.all():
            return codes
        all_codes = np.empty((len(X), codes.shape[1]), dtype=np.uint8)
        all_codes[known] = codes
        unknown = X.take(np.flatnonzero(~known))
        all_codes[~known] = encode_training_rows(codec, unknown, None, self.n_jobs)
        return all_codes

    # checks -----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_codebooks()
        check_choice(self.projection, "projection", tuple(PROJECTION_TYPES))
        check_choice(self.solver, "solver", ("joint", "alternating"))
        check_positive(self.quantization_weight, "quantization_weight")
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_positive(self.classifier_ridge, "classifier_ridge")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.max_turns, "max_turns", 1)
        check_nonnegative(self.tol, "tol")
        if self.init is not None and self.init.projection != self.projection:
            raise InputError(
                f"init was fitted with projection={self.init.projection!r}, which cannot become {self.projection!r}"
            )

    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        labels = read_labels(y, n_rows=n_rows, missing=True, missing_label=self.missing_label)
        if self.init is not None and not np.array_equal(self.init.classes_, labels.classes):
            raise InputError(
                f"init was fitted to other labels: {self.init.classes_} there, {labels.classes} here"
            )
        if labels.n_unlabelled:
            _logger.info("%d of %d rows have no label", labels.n_unlabelled, n_rows)
        return labels
