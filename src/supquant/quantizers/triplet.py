"""The triplet formulation of supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016), "Classification loss vs. triplet loss":
codes learned from a triplet hinge in the place of the classification loss. The objective stands in `triplet_objective`, the
active set in `triplets`, the codes in `triplet_codes`, the order of the steps in `triplet_solver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes
from supquant.codec import AdditiveCodec, FeatureMap
from supquant.features import Features, check_features
from supquant.fitting import FitStage, learn
from supquant.labels import Labels, read_labels
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.quantizers.chain import ChainedQuantizer
from supquant.quantizers.initialisation import lengthen
from supquant.quantizers.product import check_enough_rows
from supquant.quantizers.training import Training, seeded
from supquant.quantizers.triplet_solver import TripletModel, TripletStep, triplet_steps
from supquant.validation import (
    check_integer,
    check_nonnegative,
    check_positive,
    check_vectors,
    random_generator,
    resolve_jobs,
)


class TripletQuantizer(ChainedQuantizer):
    """Short codes learned from triplets of labelled vectors: a similar one shall be nearer than another, by a margin.

    The objective sums, over the triplets (i, j, l) of an active set, ``[|s_i - s_j|^2 - |s_i - s_l|^2 + margin]_+`` of the
    decoded vectors s, and what `SupervisedQuantizer` adds for quantization and constraint. Rows are similar if they share a
    label. Every iteration chooses its triplets anew; within an iteration the objective never rises.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the bytes of a code.
    n_codewords : int, default=256
        K, at most 256.
    n_components : int, default=256
        r, dimensions of the space that is quantized; at most as many as there are features.
    features : "auto", AnchorKernel or None
        Map from vectors to features, as for `SupervisedQuantizer`.
    margin : float
        Rho, of the hinge; above 0. It sets the unit of squared lengths in the space that is quantized: a margin ``t`` with a
        constraint weight ``mu / t`` gives the same codes as a margin of 1 with ``mu``.
    quantization_weight : float
        Gamma, of the distance between projected and decoded vectors; above 0.
    constraint_weight : float
        Mu, of the spread of the inter-dictionary products.
    triplets_per_row : int
        Triplets of the active set in which a row is the first one.
    init : TripletQuantizer or None
        A fitted quantizer of fewer codebooks on the same rows, to start from.
    max_iter : int
        Iterations of the solver at the most, for each of the lengths it goes through.
    tol : float
        The fit ends when the objective of newly chosen triplets has not fallen by this part of itself for three iterations.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Called with a `supquant.progress.Progress` after every iteration.
    verbose : int
        Above 0, steps are logged.

    Attributes
    ----------
    codec_ : AdditiveCodec
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        After every step: its name, the terms ``triplet``, ``quantization``, ``constraint``, their ``total``. The step
        ``"triplets"`` chooses other triplets, and raises the total.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import TripletQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> tq = TripletQuantizer(2, n_codewords=16, max_iter=2, random_state=0).fit(X[:500], y[:500])
    >>> codes = tq.encode(X[500:])
    >>> codes.shape, codes.dtype
    ((1297, 2), dtype('uint8'))
    """

    _file_kind: ClassVar[str] = "triplet-quantizer"

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        n_components: int = 256,
        features: Features = "auto",
        margin: float = 1.0,
        quantization_weight: float = 0.1,
        constraint_weight: float = 0.1,
        triplets_per_row: int = 20,
        init: TripletQuantizer | None = None,
        max_iter: int = 10,
        tol: float = 1e-2,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.n_codewords = n_codewords
        self.n_components = n_components
        self.features = features
        self.margin = margin
        self.quantization_weight = quantization_weight
        self.constraint_weight = constraint_weight
        self.triplets_per_row = triplets_per_row
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: object, y: object) -> Self:
        """Learn codebooks and projection.

        Parameters
        ----------
        X : (n, p) array
            Any real dtype; a memory map is read in blocks.
        y : (n,) class labels of any hashable kind, or an (n, L) indicator matrix, dense or sparse

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; once the solver has begun, the last finished model is fitted all the same.
        """
        self._check_parameters()
        X = check_vectors(X)
        labels = read_labels(y, n_rows=len(X))
        check_enough_rows(len(X), self.n_codewords)
        rng = random_generator(self.random_state)
        with single_blas():
            feature_map = self._fit_features(X, rng)
            training = Training(X, labels, feature_map, self.n_codewords, rng, resolve_jobs(self.n_jobs))
            stages = self._stages(training, X, labels)
            with learn(stages, Reporter(self.callback, self.verbose)) as learned:
                self._store(learned.last.model, X, feature_map, rng)
                self.objective_, self.n_iter_ = learned.record, learned.n_iter
        return self

    def encode(self, X: object) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8, by quantization error and constraint.

        Labels cannot help here: the loss knows them through triplets of training rows alone.
        """
        return self._codec().encode(X, n_jobs=self.n_jobs)

    # fitting, stage by stage -----------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_codebooks()
        check_positive(self.margin, "margin")
        check_positive(self.quantization_weight, "quantization_weight")
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_integer(self.triplets_per_row, "triplets_per_row", 1)
        check_integer(self.max_iter, "max_iter", 1)
        check_nonnegative(self.tol, "tol")
        check_features(self.features)

    def _stages(self, training: Training, X: NDArray[Any], labels: Labels) -> Iterator[FitStage[TripletStep]]:
        """Solve for the shortest code, then for the one asked for; a longer code always starts from a shorter one."""
        for length in self._begin(training, lambda: self._init_codes(X)):
            training.lengthen(length)
            yield FitStage(f"triplets, {length} codebooks", self.max_iter, self._steps(training, labels))

    def _steps(self, training: Training, labels: Labels) -> Iterator[TripletStep]:
        """Solve for the codes as long as they are, and let `training` go on from the result."""
        for step in triplet_steps(
            training,
            labels,
            margin=float(self.margin),
            quantization=float(self.quantization_weight),
            constraint=float(self.constraint_weight),
            per_row=self.triplets_per_row,
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=resolve_jobs(self.n_jobs),
        ):
            yield step
        training.codebooks, training.projection = step.model.codebooks, step.model.projection

    def _store(
        self, model: TripletModel, X: NDArray[Any], feature_map: FeatureMap | None, rng: np.random.Generator
    ) -> None:
        codebooks, codes = lengthen(model.codebooks, model.codes, self.n_codebooks, rng)
        codec = AdditiveCodec(
            codebooks=codebooks.astype(np.float32),
            projection=model.projection.astype(np.float32),
            constant=model.constant,
            quantization_weight=float(self.quantization_weight),
            constraint_weight=float(self.constraint_weight),
            feature_map=feature_map,
        )
        self.codec_ = seeded(codec, codes, X)
        self.n_features_in_ = self.codec_.n_inputs
        self.training_codes_ = codes
