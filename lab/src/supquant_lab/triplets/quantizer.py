"""The triplet formulation of supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016), "Classification loss vs. triplet loss".
Codes are learned from a triplet hinge instead of the classification loss. The objective is in `objective`, the choice of
triplets in `triplets`, the search for codes in `codes`, and the order of the steps in `solver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import numpy as np

from supquant.arrays import ArrayLike, Codes
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.estimators.course import Course
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import (
    check_integer,
    check_nonnegative,
    check_positive,
    random_generator,
    resolve_jobs,
)
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.published.chain import ChainedQuantizer
from supquant.published.features import Features, check_features
from supquant.published.initialisation import lengthen
from supquant.published.training import Training, with_seeds
from supquant.rows import Rows
from supquant_lab.triplets.solver import TripletStep, triplet_steps


class TripletQuantizer(ChainedQuantizer):
    """Short codes learned from triplets of labelled vectors: a similar vector shall be nearer than another, by a margin.

    The objective has one hinge ``[|s_i - s_j|^2 - |s_i - s_l|^2 + margin]_+`` for every triplet (i, j, l) of an active set, where
    s are decoded vectors, and the quantization and constraint terms of `SupervisedQuantizer`. Rows are similar if they share a
    label. Every iteration chooses new triplets. Within an iteration the objective never rises.

    `encode` finds codes by quantization error and constraint. It cannot use labels: the loss knows them only through triplets of
    training rows.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, from 1 to 64.
    n_codewords : int, default=256
        K, the number of codewords in each codebook, from 2 to 256.
    n_components : int, default=256
        r, the number of dimensions of the space that is quantized. At most the number of features.
    features : "auto", AnchorKernel or None, default="auto"
        Map from vectors to features. ``"auto"`` is an `AnchorKernel`, or None if the vectors have more than 2000 dimensions.
        None takes the vectors themselves.
    margin : float, default=1.0
        Rho, the margin of the hinge, above 0. It sets the unit of squared lengths in the space that is quantized: a margin
        ``t`` with a constraint weight ``mu / t`` gives the same codes as a margin of 1 with ``mu``.
    quantization_weight : float, default=0.1
        Gamma, the weight of the squared distance between projected and decoded vectors, above 0.
    constraint_weight : float, default=0.1
        Mu, the weight of the spread of the inter-dictionary products, at least 0.
    triplets_per_row : int, default=20
        Number of triplets of the active set that begin with a given row.
    init : TripletQuantizer or None, default=None
        A fitted quantizer with fewer codebooks and the same rows, from which the fit starts.
    max_iter : int, default=10
        Maximum number of iterations of the solver for each code length.
    tol : float, default=1e-2
        The fit ends when the objective of newly chosen triplets has not fallen by this part of it for three iterations.
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
    training_codes_ : (n, M) uint8
        Codes of the training rows, learned with their labels.
    objective_ : list of dict
        For every step: its name, the terms ``triplet``, ``quantization`` and ``constraint``, and their sum ``total``. The step
        ``"triplets"`` chooses other triplets and raises the total.
    n_iter_ : int
        Number of iterations.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant_lab.triplets import TripletQuantizer
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

    @defers_interrupts
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn codebooks and projection.

        Parameters
        ----------
        X : (n, p) array
            Vectors of any real dtype. A memory map is read in blocks.
        y : (n,) array of class labels, or (n, L) indicator matrix
            Labels are of any hashable type. An indicator matrix is dense or sparse.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted. After the first finished step the estimator has the last finished model.
        """
        self._check_parameters()
        if isinstance(X, Rows):
            raise InputError(
                "triplets need the features of all rows in this process: read the rows into memory"
            )
        rows, labels = self._checked(X, y)
        rng, n_jobs = random_generator(self.random_state), resolve_jobs(self.n_jobs)
        course: Course[TripletStep] = Course(Reporter(self.callback, self.verbose))
        with single_blas():
            training = Training(rows, labels, self._fit_features(rows, rng), self.n_codewords, rng, n_jobs)
            try:
                for length in self._begin(training, None):
                    training.lengthen(length)
                    steps = self._steps(training, labels, n_jobs)
                    course.take(f"triplets, {length} codebooks", self.max_iter, steps)
            finally:  # also after an interrupt
                if course.last is not None:
                    self._store(*self._coded(course.last, training))
                    self.objective_, self.n_iter_ = course.record, course.n_iter
        return self

    def _steps(self, training: Training, labels: Labels, n_jobs: int) -> Iterator[TripletStep]:
        """Solve for the present number of codebooks."""
        for step in triplet_steps(
            training,
            labels,
            margin=float(self.margin),
            quantization=float(self.quantization_weight),
            constraint=float(self.constraint_weight),
            per_row=self.triplets_per_row,
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=n_jobs,
        ):
            yield step
        training.take(step.model.codebooks, step.model.projection)

    def _coded(self, last: TripletStep, training: Training) -> tuple[AdditiveCodec, Codes]:
        """Return the codec of a step, and the codes (n, M) of the rows."""
        model = last.model
        codebooks, codes = lengthen(model.codebooks, model.codes, self.n_codebooks, training.rng)
        codec = AdditiveCodec(
            codebooks=codebooks.astype(np.float32),
            projection=model.projection.astype(np.float32),
            constant=model.constant,
            quantization_weight=float(self.quantization_weight),
            constraint_weight=float(self.constraint_weight),
            feature_map=training.feature_map,
        )
        return with_seeds(codec, codes, training.X), codes

    def _check_parameters(self) -> None:
        self._check_codebooks()
        check_positive(self.margin, "margin")
        check_positive(self.quantization_weight, "quantization_weight")
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_integer(self.triplets_per_row, "triplets_per_row", 1)
        check_integer(self.max_iter, "max_iter", 1)
        check_nonnegative(self.tol, "tol")
        check_features(self.features)

    def _read_labels(self, y: ArrayLike, n_rows: int) -> Labels:
        return read_labels(y, n_rows=n_rows)
