"""Supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016). This class checks, calls and stores.
By default it goes beyond the paper: its codes hold meaning and position (`by_meaning`). The published fit is in `published`, its
objective in `objective`, the solvers in `joint` and `alternating`, and the start in `initialisation`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes
from supquant.codec import AdditiveCodec, SemanticCodec
from supquant.errors import InputError
from supquant.interrupts import defers_interrupts
from supquant.labels import Labels, read_labels
from supquant.parameters import check_choice, check_integer, check_nonnegative, check_positive, resolve_jobs
from supquant.progress import Plan, Progress, Reporter
from supquant.quantizers.base import FitPlan
from supquant.quantizers.by_meaning import MeaningFit
from supquant.quantizers.fit_costs import EXPECTED_ROUNDS, codes_stage, expected_seconds
from supquant.quantizers.item_codes import CodebookStep
from supquant.quantizers.label_quantizer import LabelQuantizer
from supquant.quantizers.published import PublishedFit
from supquant.quantizers.remote_codes import encode_training_rows
from supquant.quantizers.steps import CodedStep
from supquant.quantizers.summary import ModelSummary
from supquant.quantizers.supervised_features import (
    SupervisedFeatures,
    are_learned_from_labels,
    check_supervised_features,
    make_label_kernel,
)
from supquant.quantizers.training import PROJECTION_TYPES, ProjectionName, Training
from supquant.remote import RemoteRows, some_rows

_logger = logging.getLogger("supquant")


class SupervisedQuantizer(LabelQuantizer):
    """Short codes that keep what vectors mean, learned from labelled vectors.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, from 1 to 64.
    n_codewords : int, default=256
        K, the number of codewords in each codebook, from 2 to 256.
    n_components : int, default=256
        r, the number of dimensions of the space that is quantized. At most the number of features, and all of them with
        ``projection="identity"``. Not used with a `LabelKernel`.
    projection : {"learned", "identity", "pca"}, default="learned"
        P, the map from features to that space. ``"learned"`` is the method. The paper compares it with the fixed maps
        ``"identity"`` and ``"pca"``.
    features : "auto", LabelKernel, AnchorKernel or None, default="auto"
        Map from vectors to features. ``"auto"`` is a `LabelKernel`, which says what a vector means and where it lies; for
        vectors of more than 2000 dimensions it has no anchors. An `AnchorKernel` with 1000 anchors is the published map. None
        takes the vectors themselves.
    solver : {"joint", "alternating"}, default="joint"
        ``"joint"`` minimises over all continuous unknowns at once. ``"alternating"`` takes the published steps in turn. Not
        used with a `LabelKernel`.
    quantization_weight : float, default=1e-5
        Gamma, the weight of the squared distance between projected and decoded vectors, above 0.
    constraint_weight : float, default=0.1
        Mu, the weight of the spread of the inter-dictionary products, at least 0.
    classifier_ridge : float, default=1.0
        Lambda, the ridge of the classifier, above 0.
    new_classes : float or None, default=None
        Used with a `LabelKernel`: the expected part of vectors that belong to no known class, from 0 to below 1. It decides
        how much position counts. None estimates it from the rows without labels, and takes .22 if there are few of them. With
        `init` it is that of `init`.
    missing_label : str, number or None, default=None
        A label that means "unknown", in addition to None, NaN, pandas' NA and masked entries.
    init : SupervisedQuantizer or None, default=None
        A fitted quantizer with fewer codebooks and the same rows, from which the fit starts.
    max_turns : int, default=512
        Used with ``solver="alternating"``: the maximum number of turns of W, P, eps and C before codes are assigned again. 1
        is the published order.
    max_iter : int, default=30
        Maximum number of iterations of the solver for each code length.
    tol : float, default=1e-3
        The fit ends when an iteration lowers the objective by less than this part of it. With a `LabelKernel` the part is at
        least .005.
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
    codec_ : SemanticCodec or AdditiveCodec
        The learned model; it encodes, decodes and makes tables. It is an `AdditiveCodec` for the published fit.
    classes_ : (L,) array
        The labels found in `fit`, then those of `extend`.
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        For every step: its name, the error ``quantization``, and the ``total``. The published fit also has the terms
        ``classification``, ``ridge`` and ``constraint``.
    n_iter_ : int
        Number of iterations.
    n_unlabelled_ : int
        Number of training rows without a label.
    summary_ : ModelSummary
        Counts of rows, labels and different codes, and warnings. The default fit also foretells MAP for items with labels,
        without labels, and of new classes. ``print(sq.summary_)`` shows it.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> sq = SupervisedQuantizer(2, random_state=0).fit(X[:1500], y[:1500])
    >>> codes = sq.encode(X[1500:])
    >>> codes.shape, codes.dtype
    ((297, 2), dtype('uint8'))
    """

    summary_: ModelSummary | None
    _file_kind: ClassVar[str] = "supervised-quantizer"
    _former_parameters: ClassVar[tuple[str, ...]] = ("blend",)

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        n_components: int = 256,
        projection: ProjectionName = "learned",
        features: SupervisedFeatures = "auto",
        solver: Literal["joint", "alternating"] = "joint",
        quantization_weight: float = 1e-5,
        constraint_weight: float = 0.1,
        classifier_ridge: float = 1.0,
        new_classes: float | None = None,
        missing_label: str | float | None = None,
        init: SupervisedQuantizer | None = None,
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
        self.new_classes = new_classes
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
            help to learn the codebooks and the part of new classes.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step the estimator has the best model so far.
        """
        labels = self._fit(X, y)
        self.n_unlabelled_ = labels.n_unlabelled
        if self.summary_ is None:
            self.summary_ = ModelSummary.of(self.training_codes_, labels)
        return self

    @property
    def features_need_labels(self) -> bool:
        """Whether the map from vectors to features is learned from labels."""
        return are_learned_from_labels(self.features)

    # fitting ----------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_choice(self.projection, "projection", tuple(PROJECTION_TYPES))
        check_choice(self.solver, "solver", ("joint", "alternating"))
        check_positive(self.quantization_weight, "quantization_weight")
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_positive(self.classifier_ridge, "classifier_ridge")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.max_turns, "max_turns", 1)
        check_nonnegative(self.tol, "tol")
        if self.new_classes is not None and not 0 <= check_nonnegative(self.new_classes, "new_classes") < 1:
            raise InputError(f"new_classes must be at least 0 and below 1, got {self.new_classes!r}")
        check_supervised_features(self.features)
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
        return labels

    def _store(self, codec: Any, codes: Codes) -> None:
        super()._store(codec, codes)
        self.summary_ = None  # that of an earlier fit is not of this codec

    def _plan(self, X: NDArray[Any], labels: Labels, rng: np.random.Generator) -> FitPlan[Any]:
        if labels.n_unlabelled:
            _logger.info("%d of %d rows have no label", labels.n_unlabelled, len(X))
        # a longer code is of the same kind as the shorter one
        by_meaning = (
            self.features_need_labels if self.init is None else isinstance(self.init.codec_, SemanticCodec)
        )
        if by_meaning:
            return self._plan_by_meaning(X, labels, rng)
        return self._plan_as_published(X, labels, rng)

    def _plan_by_meaning(
        self, X: NDArray[Any], labels: Labels, rng: np.random.Generator
    ) -> FitPlan[CodebookStep]:
        shorter = None
        if self.init is not None:
            self._check_width(X)
            shorter = self.init._semantic_codec("a code is made longer")
        n_jobs = resolve_jobs(self.n_jobs)
        costs = expected_seconds(
            len(X),
            X.shape[1],
            labels.n_labels,
            self.n_codebooks,
            self.n_codewords,
            max_iter=self.max_iter,
            from_shorter=shorter is not None,
            n_jobs=n_jobs,
        )
        rounds = min(self.max_iter, EXPECTED_ROUNDS)
        plan = Plan(costs, {codes_stage(self.n_codebooks): rounds + 1})
        reporter = Reporter(self.callback, self.verbose, plan)
        fit = MeaningFit.prepare(
            X,
            labels,
            make_label_kernel(self.features, X.shape[1], self.n_jobs, rng),
            shorter,
            new_classes=None if self.new_classes is None else float(self.new_classes),
            missing_label=self.missing_label,
            n_codebooks=self.n_codebooks,
            n_codewords=self.n_codewords,
            rng=rng,
            n_jobs=n_jobs,
            reporter=reporter,
        )
        stages = fit.stages(max_iter=self.max_iter, tol=self.tol, rng=rng)

        def calibrate(codec: SemanticCodec, codes: Codes) -> SemanticCodec:
            calibrated, self.summary_ = fit.calibrated(codec, codes, rng)
            return calibrated

        return FitPlan(stages, fit.result, calibrate, reporter)

    def _plan_as_published(
        self, X: NDArray[Any] | RemoteRows, labels: Labels, rng: np.random.Generator
    ) -> FitPlan[CodedStep]:
        known = labels.known
        X_known: Any = X if known.all() else some_rows(X, np.flatnonzero(known))
        labels_known = labels if known.all() else labels.take(known)
        feature_map = self._fit_features(X_known, rng)
        training = Training(
            X_known,
            labels_known,
            feature_map,
            self.n_codewords,
            rng,
            resolve_jobs(self.n_jobs),
            self.projection,
        )
        fit = PublishedFit(
            X_known,
            labels_known,
            feature_map,
            training,
            (float(self.quantization_weight), float(self.constraint_weight), float(self.classifier_ridge)),
            self.solver,
            self.max_iter,
            self.tol,
            self.max_turns,
        )
        lengths = self._begin(training, lambda: self._init_codes(X_known, labels=labels_known))

        def result(last: CodedStep) -> tuple[AdditiveCodec, Codes]:
            codec, codes = fit.result(last, self.n_codebooks)
            if known.all():
                return codec, codes
            all_codes = np.empty((len(X), codes.shape[1]), dtype=np.uint8)
            all_codes[known] = codes
            unknown = some_rows(X, np.flatnonzero(~known))
            all_codes[~known] = encode_training_rows(codec, unknown, None, self.n_jobs)
            return codec, all_codes

        # psi never rises, so the last finished step is the best one
        return FitPlan(fit.stages(lengths), result, lambda codec, _: fit.calibrate(codec))
