"""Supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016). This class checks, calls and stores;
the objective stands in `objective`, the solvers in `joint` and `alternating`, the start in `initialisation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from supquant.codec import Codec, MissingLabels
from supquant.errors import InputError
from supquant.features import WIDE, AnchorKernel, LabelKernel, LabelMap, check_features
from supquant.fitting import FitStage, learn
from supquant.labels import Labels, read_labels
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.quantizers.alternating import alternating_steps
from supquant.quantizers.chain import ChainedQuantizer
from supquant.quantizers.initialisation import lengthen
from supquant.quantizers.joint import joint_steps, solve_label_vectors
from supquant.quantizers.product import check_enough_rows
from supquant.quantizers.source import LabelSource, Source, VectorSource
from supquant.quantizers.steps import CodedStep, Start, Step
from supquant.quantizers.training import Projection, Training, seeded
from supquant.validation import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    check_vectors,
    random_generator,
    resolve_jobs,
)

Codes = NDArray[np.uint8]


class SupervisedQuantizer(ChainedQuantizer):
    """Short codes that keep what vectors mean, learned from labelled vectors.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the bytes of a code.
    n_codewords : int, default=256
        K, at most 256.
    n_components : int, default=256
        r, dimensions of the space that is quantized; at most as many as there are features, all of them with the projection
        ``"identity"``.
    projection : {"learned", "identity", "pca"}
        P, from the features to that space. ``"learned"`` is the method; ``"identity"`` and the fixed directions of
        ``"pca"`` are what the paper compares it with.
    features : "auto", LabelKernel, AnchorKernel or None
        Map from vectors to features. ``"auto"`` is a `LabelKernel`, which says what a vector means and where it lies (on the
        vectors as they are beyond 2000 dimensions); an `AnchorKernel` of 1000 anchors is the published one; None takes
        vectors as they are.
    solver : {"joint", "alternating"}
        ``"joint"`` minimises over all continuous unknowns at once; ``"alternating"`` takes the published steps in turn.
    quantization_weight : float
        Gamma, of the distance between projected and decoded vectors; above 0.
    constraint_weight : float
        Mu, of the spread of the inter-dictionary products.
    classifier_ridge : float
        Lambda, of the classifier.
    blend : float
        With a `LabelKernel`: the share, in an item that comes without labels, of what serves classes outside training, from 0
        to 1; the rest is the probability of the labels known. Items with labels are their labels alone. With `init` it is
        that of `init`.
    init : SupervisedQuantizer or None
        A fitted quantizer of fewer codebooks on the same rows, to start from.
    max_turns : int
        ``"alternating"``: how often at the most W, P, eps and C take turns before codes are assigned again; 1 is the
        published order.
    max_iter : int
        Iterations of the solver at the most.
    tol : float
        The fit ends when an iteration lowers the objective by less than this part of itself; with a `LabelKernel`, of
        ``|Y|^2``, since there the objective comes close to zero.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Called with a `supquant.progress.Progress` after every iteration.
    verbose : int
        Above 0, steps are logged.

    Attributes
    ----------
    codec_ : Codec
        The frozen result: encodes, decodes, makes tables.
    classes_ : (L,) array
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        After every step: its name, the terms ``classification``, ``ridge``, ``quantization``, ``constraint``, their ``total``.
    n_iter_ : int
    n_features_in_ : int

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

    _file_kind: ClassVar[str] = "supervised-quantizer"

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        n_components: int = 256,
        projection: Projection = "learned",
        features: LabelKernel | AnchorKernel | Literal["auto"] | None = "auto",
        solver: Literal["joint", "alternating"] = "joint",
        quantization_weight: float = 1e-5,
        constraint_weight: float = 0.1,
        classifier_ridge: float = 1.0,
        blend: float = 0.4,
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
        self.blend = blend
        self.init = init
        self.max_turns = max_turns
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: object, y: object) -> Self:
        """Learn codebooks, projection and classifier.

        Parameters
        ----------
        X : (n, p) array
            Any real dtype; a memory map is read in blocks.
        y : (n,) class labels of any hashable kind, or an (n, L) indicator matrix, dense or sparse

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; once the solver has begun, the best model so far is fitted all the same.
        """
        self._check_parameters()
        X = check_vectors(X)
        labels = read_labels(y, n_rows=len(X))
        if self.init is not None and not np.array_equal(self.init.classes_, labels.classes):
            raise InputError(
                f"init was fitted to other labels: {self.init.classes_} there, {labels.classes} here"
            )
        check_enough_rows(len(X), self.n_codewords)
        rng = random_generator(self.random_state)
        with single_blas():
            source = self._source(X, labels, rng)
            training = Training(
                source.rows,
                source.targets,
                source.solver_map,
                self.n_codewords,
                rng,
                resolve_jobs(self.n_jobs),
                self.projection,
            )
            stages = self._stages(training, source, X, labels)
            # psi never rises, so the last finished step is the best
            with learn(stages, Reporter(self.callback, self.verbose)) as learned:
                self._store(learned.last, rng, source, X, labels)
                self.objective_, self.n_iter_ = learned.record, learned.n_iter
            self.codec_ = source.calibrated(self.codec_, training)
        return self

    def encode(
        self, X: object, y: object = None, *, missing_labels: MissingLabels = "predict"
    ) -> NDArray[np.uint8]:
        """Give vectors their codes.

        Parameters
        ----------
        X : (n, p) array
        y : labels as in `fit`, optional
            Where they are known the codes say so.
        missing_labels : {"predict", "drop"}
            Without `y`: put the predicted label vector in its place, or look at the quantization error alone.

        Returns
        -------
        (n, M) uint8
        """
        return self._codec().encode_items(X, y, missing_labels=missing_labels, n_jobs=self.n_jobs)

    def decision_function(self, X: object) -> NDArray[np.float32]:
        """Score every label for vectors X (n, p): (n, L) float32."""
        return self._codec().decision_function(X, n_jobs=self.n_jobs)

    def predict_proba(self, X: object) -> NDArray[np.float32]:
        """Give the probability of every label for vectors X (n, p): (n, L) float32."""
        return self._codec().predict_proba(X, n_jobs=self.n_jobs)

    def predict(self, X: object) -> NDArray[Any]:
        """Predict labels: (n,) classes, or an (n, L) uint8 indicator of the scores above one half."""
        scores = self.decision_function(X)
        if self.codec_.multilabel:
            return (scores > 0.5).astype(np.uint8)
        classes: NDArray[Any] = self.classes_[scores.argmax(axis=1)]
        return classes

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, as found in `fit`."""
        classes = self._codec().classes
        assert classes is not None
        return classes

    @property
    def features_need_labels(self) -> bool:
        """Whether the features themselves are learned from labels."""
        return self.features == "auto" or isinstance(self.features, LabelKernel)

    # fitting, stage by stage -----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_codebooks()
        check_choice(self.projection, "projection", ("learned", "identity", "pca"))
        check_choice(self.solver, "solver", ("joint", "alternating"))
        check_positive(self.quantization_weight, "quantization_weight")
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_positive(self.classifier_ridge, "classifier_ridge")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.max_turns, "max_turns", 1)
        check_nonnegative(self.tol, "tol")
        if not 0 <= check_nonnegative(self.blend, "blend") <= 1:
            raise InputError(f"blend must lie between 0 and 1, got {self.blend!r}")
        if not isinstance(self.features, LabelKernel):
            check_features(self.features)
        if self.init is not None and self.init.projection != self.projection:
            raise InputError(
                f"init was fitted with projection={self.init.projection!r}, which cannot become {self.projection!r}"
            )

    def _source(self, X: NDArray[Any], labels: Labels, rng: np.random.Generator) -> Source:
        """Fit the features, or take those of `init`."""
        features = self.features
        if features == "auto":
            features = LabelKernel(0 if X.shape[1] > WIDE else None)
        if self.init is not None:
            feature_map = self._fit_features(X, rng)
            if isinstance(feature_map, LabelMap):
                meaning = self.init.codec_.meaning
                return LabelSource.again(X, labels, feature_map, meaning, resolve_jobs(self.n_jobs))
            return VectorSource(X, labels, feature_map)
        if isinstance(features, LabelKernel):
            kernel = clone(features).set_params(n_jobs=self.n_jobs)
            if kernel.random_state is None:
                kernel.set_params(random_state=int(rng.integers(2**31)))
            return LabelSource.of(X, labels, kernel, float(self.blend))
        return VectorSource(X, labels, self._fit_features(X, rng))

    def _stages(
        self, training: Training, source: Source, X: NDArray[Any], labels: Labels
    ) -> Iterator[FitStage[CodedStep]]:
        """Solve for the shortest code, then for the one asked for; a longer code always starts from a shorter one."""

        def codes_of_init() -> Codes:
            assert self.init is not None
            return source.start_codes(self.init.codec_, self._init_codes(X, labels=labels))

        for length in self._begin(training, codes_of_init):
            training.lengthen(length)
            yield FitStage(f"{self.solver}, {length} codebooks", self.max_iter, self._steps(training, source))

    def _steps(self, training: Training, source: Source) -> Iterator[CodedStep]:
        """Solve for the codes as long as they are, and let `training` go on from the result."""
        weights = (self.quantization_weight, self.constraint_weight, self.classifier_ridge)
        for step in self._solve(training.start(*map(float, weights)), source):
            yield CodedStep(step, training.codes)
        training.take(step.state)

    def _solve(self, start: Start, source: Source) -> Iterator[Step]:
        if self.solver == "alternating":
            return alternating_steps(start, max_iter=self.max_iter, tol=self.tol, max_turns=self.max_turns)
        if isinstance(source, LabelSource) and not start.fixed_projection:
            return joint_steps(
                start,
                max_iter=self.max_iter,
                tol=self.tol,
                least=start.moments.yy,
                solve=solve_label_vectors,
            )
        return joint_steps(start, max_iter=self.max_iter, tol=self.tol)

    def _store(
        self, last: CodedStep, rng: np.random.Generator, source: Source, X: NDArray[Any], labels: Labels
    ) -> None:
        state = last.step.state
        codebooks, codes = lengthen(state.codebooks, last.codes, self.n_codebooks, rng)
        codec = Codec(
            codebooks=codebooks.astype(np.float32),
            projection=None if self.projection == "identity" else state.projection.astype(np.float32),
            classifier=state.classifier.astype(np.float32),
            classes=labels.classes,
            multilabel=labels.multilabel,
            constant=state.constant,
            quantization_weight=state.penalties.quantization,
            constraint_weight=state.penalties.constraint,
            feature_map=source.feature_map,
            meaning=source.meaning,
        )
        self.codec_ = seeded(codec, codes, X)
        self.n_features_in_ = self.codec_.n_inputs
        self.training_codes_ = codes[: len(X)]
