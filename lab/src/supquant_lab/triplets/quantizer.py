"""The triplet formulation of supervised quantization: the estimator.

"Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016), "Classification loss vs. triplet loss".
Codes are learned from a triplet hinge instead of the classification loss. The objective and the choice of triplets are in
`objective`, the search for codes in `codes`.

The solver takes triplets, codebooks, codes, and P with eps, one after the other. Within an iteration the triplets are fixed and
psi never rises. The next iteration chooses other triplets, which are violated more, so psi rises there. Psi of newly chosen
triplets can be compared between iterations, and says when to end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float64
from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.estimators.base import check_enough_rows
from supquant.estimators.course import Course, NamedStep, Record
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import (
    check_integer,
    check_nonnegative,
    check_positive,
    random_generator,
    resolve_jobs,
)
from supquant.inputs.validation import check_training_rows
from supquant.interrupts import defers_interrupts
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.published.anchor_kernel import Features
from supquant.published.chain import ChainedQuantizer
from supquant.published.lbfgs import minimise_codebooks
from supquant.published.objective import SmallProblem
from supquant.published.training import Training, lengthen, with_seeds
from supquant.rows import Rows
from supquant_lab.triplets.codes import CodeDescent, OwnCost
from supquant_lab.triplets.objective import TripletLoss, TripletProblem, TripletTerms, choose_triplets

CODEBOOK_ITERATIONS = 5
"""L-BFGS takes at most this number of iterations for one set of triplets. With more, the codebooks would suit these triplets and
not the others."""

CODEBOOK_TOLERANCE = 1e-6
"""L-BFGS ends when an iteration lowers psi by less than this fraction of its first value."""

PATIENCE = 3
"""The fit ends after this number of iterations in a row without a lower psi. Other triplets, and codebooks that were just added,
raise psi for a while."""


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
        The fit ends when the objective of newly chosen triplets has not fallen by this fraction for three iterations.
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
        rows = check_training_rows(X)
        labels = read_labels(y, n_rows=len(rows))
        check_enough_rows(len(rows), self.n_codewords)
        rng, n_jobs = random_generator(self.random_state), resolve_jobs(self.n_jobs)
        course: Course[TripletStep] = Course(Reporter(self.callback, self.verbose))
        with single_blas():
            training = self._begin(rows, labels, rng, (self.quantization_weight, self.constraint_weight, 0))
            try:
                for length in self._lengths:
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


@dataclass(frozen=True)
class TripletModel:
    """The unknowns of the triplet formulation."""

    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    constant: float  # eps
    codes: Codes  # (n, M)


@dataclass(frozen=True)
class TripletStep(NamedStep):
    """One finished step: psi for the triplets of its iteration, and the model after the step."""

    name: str
    iteration: int
    terms: TripletTerms
    model: TripletModel
    changed: int = 0  # number of codewords that the rows changed in this step

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {"codebooks": self.model.codes.shape[1], **self.record(self.terms.as_dict())}

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi after the last step of an iteration."""
        return {"objective": self.terms.total} if self.name == "projection" else None


def triplet_steps(
    training: Training,
    labels: Labels,
    *,
    margin: float,
    per_row: int,
    max_iter: int,
    tol: float,
    n_jobs: int,
) -> Iterator[TripletStep]:
    """Run the solver for the current code length of `training`.

    Parameters
    ----------
    training : Training
        The codes of its rows change with those of the solver.
    labels : Labels
    margin : float
        Rho.
    per_row : int
        Number of triplets per row.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The solver ends when psi of newly chosen triplets has not fallen by this fraction for `PATIENCE` iterations.
    n_jobs : int
        Number of threads.

    Yields
    ------
    TripletStep
        Every finished step.
    """
    start = training.start()
    solver = start.solver()
    small = start.problem(solver, start.rows.statistics())
    model = _refit(small, TripletModel(start.codebooks, start.projection, 0.0, training.rows.codes))
    lowest, stalled = np.inf, 0
    for iteration in range(1, max_iter + 1):
        S = kernels.active().decode(model.codes, model.codebooks)
        loss = TripletLoss(choose_triplets(S, labels, per_row, training.rng, n_jobs), margin, n_jobs)
        problem = TripletProblem.of(small, loss, model.codes)
        step = TripletStep("triplets", iteration, _terms(problem, model), model)
        yield step
        stalled = stalled + 1 if step.terms.total > (1 - tol) * lowest else 0
        if stalled == PATIENCE:
            return
        lowest = min(lowest, step.terms.total)

        C = minimise_codebooks(
            problem.reduced_gradient,
            small.used_codewords(model.codebooks),
            max_iter=CODEBOOK_ITERATIONS,
            tol=CODEBOOK_TOLERANCE,
        )
        model = _refit(small, replace(model, codebooks=small.with_codewords(model.codebooks, C)))
        yield TripletStep("codebooks", iteration, _terms(problem, model), model)

        own = OwnCost(
            _projected(training, model.projection),
            start.penalties.quantization,
            start.penalties.constraint,
            model.constant,
        )
        descent = CodeDescent(model.codes, model.codebooks, own, loss)
        changed = descent.sweep()
        training.rows.recode(descent.codes)
        small = start.problem(solver, start.rows.statistics())
        problem = TripletProblem.of(small, loss, descent.codes)
        model = replace(model, codes=descent.codes)
        yield TripletStep("codes", iteration, _terms(problem, model), model, changed)

        model = _refit(small, model)
        yield TripletStep("projection", iteration, _terms(problem, model), model)


def _refit(small: SmallProblem, model: TripletModel) -> TripletModel:
    """Return the model with the best P and eps for its codebooks and codes."""
    C = small.used_codewords(model.codebooks)
    return replace(model, projection=small.projection(C), constant=small.constant(C @ C.T))


def _projected(training: Training, P: Float64) -> Float64:
    """Return X P (n, r)."""
    return np.concatenate(list(training.rows.map_features(lambda x, _: x @ P)))


def _terms(problem: TripletProblem, model: TripletModel) -> TripletTerms:
    C = problem.small.used_codewords(model.codebooks)
    return problem.terms(C, problem.small.projected(model.projection), model.constant)
