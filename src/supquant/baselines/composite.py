"""Composite quantization: the unsupervised parent of supervised quantization.

"Composite Quantization for Approximate Nearest Neighbor Search" (Zhang, Du, Wang, ICML 2014). A vector is approximated by a sum
of codewords, one from each codebook. Other than in product quantization, the codebooks need not be orthogonal. Instead the
inter-dictionary product e_i of a vector shall be the same constant for all vectors, so distances are still sums of table
entries.

    phi = |X - S|^2 + mu sum_i (e_i - eps)^2        e_i = sum_{a != b} c_a . c_b

The published method starts from product quantization and alternates between three steps: eps (closed form), the codebooks C
(L-BFGS), and the codes B (one codebook at a time). Here eps is substituted, so a preconditioned L-BFGS finds eps and C together.
It is supervised quantization without labels whose projection is the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from supquant.arrays import Codes, Float32
from supquant.clustering import column_groups, product_codebooks, sample_rows
from supquant.codec.additive import AdditiveCodec
from supquant.estimators.course import Course, Record
from supquant.estimators.quantizer import UnsupervisedQuantizer
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, check_nonnegative, resolve_jobs
from supquant.inputs.validation import as_float32
from supquant.parallel import row_blocks
from supquant.progress import Progress, Reporter
from supquant.published.initialisation import principal_components
from supquant.published.joint import joint_steps
from supquant.published.objective import SmallProblem
from supquant.published.projections import FixedProjection
from supquant.published.rows import CodedRows
from supquant.published.statistics import Moments, Penalties
from supquant.published.steps import CodedStep, Start
from supquant.published.training import with_seeds

KMEANS_ITERATIONS = 25
"""K-means takes at most this number of iterations at the start, as many as product quantization takes."""


class CompositeQuantizer(UnsupervisedQuantizer):
    """Composite quantization: a code is M bytes, one codeword of each codebook, and their sum is near the vector.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code. At most the number of dimensions.
    n_codewords : int, default=256
        K, the number of codewords in each codebook, from 2 to 256.
    n_components : int or None, default=None
        Number of principal components to quantize instead of the vectors, as published for vectors of thousands of dimensions.
        None quantizes the vectors.
    constraint_weight : float, default=50
        Mu times the variance of the vectors, which is their mean squared distance from their mean. Mu is the weight of the
        spread of the inter-dictionary products. Mu has the inverse unit of a squared length; this number has no unit, so one
        value suits data of any scale. The paper chooses mu for each data set by validation. The value in its release, .0004
        for SIFT vectors, is about 50 in this unit.
    max_iter : int, default=30
        Maximum number of rounds; 0 keeps the start, which is product quantization.
    tol : float, default=1e-3
        The fit ends when a round lowers the objective by less than this part of it.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. The codes do not depend on it.
    random_state : int, Generator or None, default=None
        Seed. The same seed gives the same codes.
    callback : callable or None, default=None
        Called with a `supquant.progress.Progress` after every round.
    verbose : int, default=0
        If above 0, rounds are logged.

    Attributes
    ----------
    codec_ : AdditiveCodec
        The learned model; it encodes, decodes and makes tables.
    training_codes_ : (n, M) uint8
        Codes of the training rows.
    objective_ : list of dict
        For every step: its name, the terms ``quantization`` and ``constraint``, their sum ``total``, and the number of recoded
        rows ``changed``.
    n_iter_ : int
        Number of rounds.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import CompositeQuantizer
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> cq = CompositeQuantizer(2, n_codewords=16, random_state=0).fit(X)
    >>> cq.encode(X[:3]).shape, cq.codec_.tables(X[:3]).shape
    ((3, 2), (3, 2, 16))
    """

    _file_kind: ClassVar[str] = "composite-quantizer"
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        n_components: int | None = None,
        constraint_weight: float = 50.0,
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
        self.constraint_weight = constraint_weight
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self, n_features: int) -> None:
        if self.n_components is not None:
            check_integer(self.n_components, "n_components", self.n_codebooks, n_features)
        check_nonnegative(self.constraint_weight, "constraint_weight")
        check_integer(self.max_iter, "max_iter", 0)
        check_nonnegative(self.tol, "tol")

    def _learn(self, X: NDArray[Any], rng: np.random.Generator) -> None:
        n_jobs = resolve_jobs(self.n_jobs)
        P = self._leading_directions(X, n_jobs)
        Z = X if P is None else np.concatenate([as_float32(X[a:b]) @ P for a, b in row_blocks(len(X))])
        start, codes = composite_start(
            Z, self.n_codebooks, self.n_codewords, float(self.constraint_weight), rng, n_jobs
        )
        steps = joint_steps(
            start, max_iter=self.max_iter, tol=self.tol, function=SmallProblem.reduced_without_labels
        )

        course: Course[CompositeStep] = Course(Reporter(self.callback, self.verbose))
        try:
            course.take("composite", self.max_iter, (CompositeStep(step, codes) for step in steps))
        finally:  # also after an interrupt: phi never rises, so the last finished step is the best one
            if course.last is not None:
                state = course.last.step.state
                codec = AdditiveCodec(
                    state.codebooks.astype(np.float32),
                    P,
                    constant=state.constant,
                    quantization_weight=state.penalties.quantization,
                    constraint_weight=state.penalties.constraint,
                )
                self._store(with_seeds(codec, codes, X), codes)
                self.objective_, self.n_iter_ = course.record, course.n_iter

    def _leading_directions(self, X: NDArray[Any], n_jobs: int) -> Float32 | None:
        """Return the principal components (d, r) to quantize, or None to quantize the vectors."""
        if self.n_components is None:
            return None
        no_codes = np.zeros((len(X), 0), dtype=np.uint8)
        rows = CodedRows(X, _no_labels(len(X)), no_codes, 2, n_jobs=n_jobs)
        return principal_components(rows.moments(), self.n_components).astype(np.float32)


class CompositeStep(CodedStep):
    """A step of the solver, recorded without the terms of psi that belong to labels."""

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        record = self.step.as_record()
        return {name: value for name, value in record.items() if name not in ("classification", "ridge")}


def composite_start(
    X: NDArray[Any],
    n_codebooks: int,
    n_codewords: int,
    relative_weight: float,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[Start, Codes]:
    """Start from product quantization, as a supervised problem without labels whose projection is the identity.

    Parameters
    ----------
    X : (n, d) array
    n_codebooks, n_codewords : int
        M and K.
    relative_weight : float
        Mu times the variance of the rows.
    rng : Generator
    n_jobs : int
        Number of threads.

    Returns
    -------
    start : Start
    codes : (n, M) uint8
        A solver changes them in place.
    """
    d = X.shape[1]
    codebooks, _ = product_codebooks(
        sample_rows(X, n_codewords, rng),
        column_groups(d, n_codebooks),
        n_codewords,
        rng=rng,
        max_iter=KMEANS_ITERATIONS,
        n_jobs=n_jobs,
    )
    codes = AdditiveCodec(codebooks, independent=True).encode(X, n_jobs=n_jobs)
    rows = CodedRows(X, _no_labels(len(X)), codes, n_codewords, n_jobs=n_jobs)
    moments = rows.moments()
    penalties = Penalties(
        quantization=1.0,
        constraint=relative_weight / (variance(moments) or 1.0),
        ridge=1.0,  # the classifier has no columns
    )
    start = Start(rows, moments, codebooks.astype(np.float64), np.eye(d), penalties, FixedProjection)
    return start, codes


def variance(moments: Moments) -> float:
    """Return the mean squared distance of the rows from their mean."""
    mean = moments.sum_x / moments.n_rows
    return max(float(np.trace(moments.xx)) / moments.n_rows - float(mean @ mean), 0.0)


def _no_labels(n: int) -> Labels:
    return Labels(np.arange(0), True, None, csr_array((n, 0), dtype=bool))
