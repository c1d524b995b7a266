"""Supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016). This class checks, calls and stores.
By default it goes beyond the paper: codes of meaning and position (`by_meaning`). As published, the fit is in `published`, its
objective in `objective`, the solvers in `joint` and `alternating`, the start in `initialisation`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from supquant.arrays import Codes
from supquant.codec import AdditiveCodec, MissingLabels, SemanticCodec
from supquant.errors import InputError
from supquant.features import WIDE, AnchorKernel, LabelKernel, check_features
from supquant.fitting import Learned, learn
from supquant.labels import Labels, read_labels
from supquant.parallel import row_blocks, single_blas
from supquant.progress import Progress, Reporter
from supquant.quantizers.by_meaning import MeaningFit
from supquant.quantizers.chain import ChainedQuantizer
from supquant.quantizers.product import check_enough_rows
from supquant.quantizers.published import PublishedFit
from supquant.quantizers.training import Projection, Training
from supquant.validation import (
    check_choice,
    check_integer,
    check_nonnegative,
    check_positive,
    check_vectors,
    random_generator,
    resolve_jobs,
)

_logger = logging.getLogger("supquant")


PREDICTED_SCORES = 1 << 24
"""Scores of labels that `predict` holds at a time."""


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
        Of features other than a `LabelKernel`. ``"joint"`` minimises over all continuous unknowns at once; ``"alternating"``
        takes the published steps in turn.
    quantization_weight : float
        Gamma, of the distance between projected and decoded vectors; above 0.
    constraint_weight : float
        Mu, of the spread of the inter-dictionary products.
    classifier_ridge : float
        Lambda, of the classifier.
    new_classes : float, optional
        With a `LabelKernel`: the share of vectors to expect that are of no known class, from 0 (there are none) to below 1. It
        decides how much position counts. By default it is estimated from the rows without labels, and .25 where there are few
        of them. With `init` it is that of `init`.
    missing_label : str or number, optional
        A label that means "unknown", beside None, NaN, pandas' NA and masked entries.
    init : SupervisedQuantizer or None
        A fitted quantizer of fewer codebooks on the same rows, to start from.
    max_turns : int
        ``"alternating"``: how often at the most W, P, eps and C take turns before codes are assigned again; 1 is the
        published order.
    max_iter : int
        Iterations of the solver at the most.
    tol : float
        The fit ends when an iteration lowers the objective by less than this part of itself; with a `LabelKernel`, by less
        than a hundredth if `tol` is less.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Called with a `supquant.progress.Progress` after every iteration.
    verbose : int
        Above 0, steps are logged.

    Attributes
    ----------
    codec_ : SemanticCodec, or as published an AdditiveCodec
        The frozen result: encodes, decodes, makes tables.
    classes_ : (L,) array
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        After every step: its name and the error ``quantization``; as published, also ``classification``, ``ridge`` and
        ``constraint``; and the ``total``.
    n_iter_ : int
    n_unlabelled_ : int
        Rows of the fit without a label.
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
    codec_: AdditiveCodec | SemanticCodec  # type: ignore[assignment]
    _codec_type: ClassVar[tuple[type[Any], ...]] = (SemanticCodec, AdditiveCodec)
    _former_parameters: ClassVar[tuple[str, ...]] = ("blend",)

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

    def fit(self, X: object, y: object) -> Self:
        """Learn codebooks, projection and classifier.

        Parameters
        ----------
        X : (n, p) array
            Any real dtype; a memory map is read in blocks.
        y : (n,) class labels of any hashable kind, or an (n, L) indicator matrix, dense or sparse
            None, NaN, pandas' NA, a masked entry or `missing_label` mean that the label is unknown; in an indicator matrix, a row
            of them. Rows without labels teach codebooks, and which share of new classes to expect.

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; once the solver has begun, the best model so far is fitted all the same.
        """
        self._check_parameters()
        X = check_vectors(X)
        labels = read_labels(y, n_rows=len(X), missing=True, missing_label=self.missing_label)
        if self.init is not None and not np.array_equal(self.init.classes_, labels.classes):
            raise InputError(
                f"init was fitted to other labels: {self.init.classes_} there, {labels.classes} here"
            )
        check_enough_rows(len(X), self.n_codewords)
        if labels.n_unlabelled:
            _logger.info("%d of %d rows have no label", labels.n_unlabelled, len(X))
        rng = random_generator(self.random_state)
        with single_blas():
            if self._by_meaning:
                self._fit_by_meaning(X, labels, rng)
            else:
                self._fit_as_published(X, labels, rng)
        self.n_unlabelled_ = labels.n_unlabelled
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
        X = check_vectors(X, n_features=self._codec().n_inputs, min_rows=0)
        if self.codec_.multilabel:
            return (self.decision_function(X) > 0.5).astype(np.uint8)
        best = [
            self.decision_function(X[start:stop]).argmax(axis=1)
            for start, stop in row_blocks(len(X), max(1, PREDICTED_SCORES // len(self.classes_)))
        ]
        classes: NDArray[Any] = self.classes_[np.concatenate([np.zeros(0, dtype=np.intp), *best])]
        return classes

    def novelty(self, X: object) -> NDArray[np.float32]:
        """Return the probability (n,) that vectors X (n, p) are of no class that the model knows.

        It was learned by leaving classes out. With several labels a row, it is the probability to carry none of them.
        """
        codec = self._codec()
        if not isinstance(codec, SemanticCodec):
            raise InputError("novelty is learned with features='auto' or a LabelKernel")
        return codec.novelty(X, n_jobs=self.n_jobs)

    def extend(self, X: object, y: object) -> Self:
        """Make new classes known from a few labelled rows of each, without the rows of `fit` and without new codes.

        Items that are in an index already are found under the new labels once it has the codec: `CodeIndex.with_codec`.

        Parameters
        ----------
        X : (n, p) array
        y : (n,) array
            Their labels, one each, none of them known to the model yet.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import CodeIndex, SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> known, new = np.flatnonzero(y < 9), np.flatnonzero(y == 9)
        >>> sq = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[known], y[known])
        >>> index = CodeIndex(sq).add(X[new[5:]])
        >>> index = index.with_codec(sq.extend(X[new[:5]], y[new[:5]]))
        >>> sq.classes_
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        codec = self._codec()
        if not isinstance(codec, SemanticCodec):
            raise InputError("labels can be added with features='auto' or a LabelKernel")
        self.codec_ = codec.extended(X, y)
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, as found in `fit`, and then those of `extend`."""
        classes = self._codec().classes
        assert classes is not None
        return classes

    @property
    def features_need_labels(self) -> bool:
        """Whether the features themselves are learned from labels."""
        return self.features == "auto" or isinstance(self.features, LabelKernel)

    @property
    def _by_meaning(self) -> bool:
        """Whether codes are those of meaning and position; a longer code stays what the shorter one is."""
        if self.init is not None:
            return isinstance(self.init.codec_, SemanticCodec)
        return self.features_need_labels

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
        if self.new_classes is not None and not 0 <= check_nonnegative(self.new_classes, "new_classes") < 1:
            raise InputError(f"new_classes must be at least 0 and below 1, got {self.new_classes!r}")
        if not isinstance(self.features, LabelKernel):
            check_features(self.features)
        if self.init is not None and self.init.projection != self.projection:
            raise InputError(
                f"init was fitted with projection={self.init.projection!r}, which cannot become {self.projection!r}"
            )

    def _fit_by_meaning(self, X: NDArray[Any], labels: Labels, rng: np.random.Generator) -> None:
        shorter = None if self.init is None else self.init.codec_
        assert shorter is None or isinstance(shorter, SemanticCodec)
        if shorter is not None and shorter.n_inputs != X.shape[1]:
            raise InputError(f"init was fitted on {shorter.n_inputs} features, X has {X.shape[1]}")
        fit = MeaningFit.prepare(
            X,
            labels,
            self._label_kernel(X, rng),
            shorter,
            new_classes=None if self.new_classes is None else float(self.new_classes),
            missing_label=self.missing_label,
            n_codebooks=self.n_codebooks,
            n_codewords=self.n_codewords,
            rng=rng,
            n_jobs=resolve_jobs(self.n_jobs),
        )
        stages = fit.stages(shorter, self.n_codewords, max_iter=self.max_iter, tol=self.tol, rng=rng)
        with learn(stages, Reporter(self.callback, self.verbose)) as learned:
            codec = fit.codec(learned.last.codebooks, shorter)
            self._store(codec, fit.encoded(codec), learned)
        if shorter is None:
            self.codec_ = fit.calibrated(codec, self.training_codes_, rng)
        else:
            self.codec_ = replace(codec, curves=shorter.curves)

    def _fit_as_published(self, X: NDArray[Any], labels: Labels, rng: np.random.Generator) -> None:
        known = labels.known
        X_known, labels_known = (X, labels) if known.all() else (X[known], labels.take(known))
        feature_map = self._fit_features(X_known, rng)
        n_jobs = resolve_jobs(self.n_jobs)
        training = Training(
            X_known, labels_known, feature_map, self.n_codewords, rng, n_jobs, self.projection
        )
        weights = (self.quantization_weight, self.constraint_weight, self.classifier_ridge)
        fit = PublishedFit(
            X_known,
            labels_known,
            feature_map,
            training,
            (float(weights[0]), float(weights[1]), float(weights[2])),
            self.solver,
        )
        lengths = self._begin(training, lambda: self._init_codes(X_known, labels=labels_known))
        stages = fit.stages(lengths, max_iter=self.max_iter, tol=self.tol, max_turns=self.max_turns)
        # psi never rises, so the last finished step is the best
        with learn(stages, Reporter(self.callback, self.verbose)) as learned:
            codec, codes = fit.result(learned.last, self.n_codebooks, self.projection)
            self._store(codec, self._with_unlabelled(codec, codes, X, known), learned)
        self.codec_ = fit.calibrated(codec)

    def _with_unlabelled(
        self, codec: AdditiveCodec, codes: Codes, X: NDArray[Any], known: NDArray[np.bool_]
    ) -> Codes:
        """Return the codes of all rows X (n, p), from those of the rows with known labels."""
        if known.all():
            return codes
        every = np.empty((len(X), codes.shape[1]), dtype=np.uint8)
        every[known] = codes
        every[~known] = codec.encode(X[~known], n_jobs=self.n_jobs)
        return every

    def _label_kernel(self, X: NDArray[Any], rng: np.random.Generator) -> LabelKernel:
        kernel = (
            clone(self.features)
            if isinstance(self.features, LabelKernel)
            else LabelKernel(0 if X.shape[1] > WIDE else None)
        )
        kernel.set_params(n_jobs=self.n_jobs, n_directions=0)  # a MeaningMap has directions of its own
        if kernel.random_state is None:
            kernel.set_params(random_state=int(rng.integers(2**31)))
        return kernel

    def _store(self, codec: AdditiveCodec | SemanticCodec, codes: Codes, learned: Learned[Any]) -> None:
        self.codec_ = codec
        self.n_features_in_ = codec.n_inputs
        self.training_codes_ = codes
        self.objective_, self.n_iter_ = learned.record, learned.n_iter
