"""Composite quantization: the unsupervised parent of supervised quantization.

"Composite Quantization for Approximate Nearest Neighbor Search" (Zhang, Du, Wang, ICML 2014): vectors are sums of codewords,
one of each codebook, that need not be orthogonal as in product quantization; the products between those of one vector shall add
up to the same constant for all vectors, so that distances are still sums of table entries.

    phi = |X - S|^2 + mu sum_i (e_i - eps)^2        e_i = sum_{a != b} c_a . c_b

The published steps take turns: eps (closed form), the codebooks C (L-BFGS) and the codes B (every codeword of one codebook at a
time), from product quantization on. Here eps is substituted, so that L-BFGS, preconditioned, finds both at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from supquant.arrays import Codes, Float64
from supquant.codec import AdditiveCodec
from supquant.fitting import FitStage, Record, learn
from supquant.labels import Labels
from supquant.parallel import row_blocks, single_blas
from supquant.progress import Progress, Reporter
from supquant.quantizers.base import FittedQuantizer
from supquant.quantizers.initialisation import principal_components
from supquant.quantizers.joint import MOST_ITERATIONS, SETTLED, joint_steps
from supquant.quantizers.lbfgs import minimise_preconditioned
from supquant.quantizers.objective import SmallProblem
from supquant.quantizers.product import check_enough_rows, column_groups, product_codebooks, sample_rows
from supquant.quantizers.steps import Start, Step, used_codewords, with_codewords
from supquant.quantizers.training import seeded
from supquant.rows import LocalRows
from supquant.statistics import Moments, Penalties
from supquant.validation import (
    as_float32,
    check_integer,
    check_nonnegative,
    check_vectors,
    random_generator,
    resolve_jobs,
)

KMEANS_ITERATIONS = 25
"""Of the start; as many as product quantization takes."""


class CompositeQuantizer(FittedQuantizer):
    """Codes of M bytes, each one of K codewords, whose sum is near the vector.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the bytes of a code.
    n_codewords : int, default=256
        K, at most 256.
    n_components : int, optional
        Quantize so many principal components instead of the vectors themselves, as published for vectors of thousands of
        dimensions; all dimensions if None.
    constraint_weight : float, default=50
        Mu, of the spread of the inter-dictionary products, times the variance of the vectors (their mean squared distance from
        their mean). Mu itself has the inverse unit of a squared length; this number has none, so that one value serves data of
        any scale. The paper chooses mu for each data set by validation; the value in its release, .0004 for SIFT vectors, is of
        the order of 50 in these units.
    max_iter : int, default=30
        Rounds at the most; 0 leaves the start, which is product quantization.
    tol : float
        The fit ends when a round lowers the objective by less than this part of itself.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Called with a `supquant.progress.Progress` after every round.
    verbose : int
        Above 0, rounds are logged.

    Attributes
    ----------
    codec_ : AdditiveCodec
    training_codes_ : (n, M) uint8
    objective_ : list of dict
        After every step: its name, the terms ``quantization`` and ``constraint``, their ``total``, and the rows recoded.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import CompositeQuantizer
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> cq = CompositeQuantizer(2, n_codewords=16, random_state=0).fit(X)
    >>> cq.encode(X[:3]).shape, cq.tables(X[:3]).shape
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

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the codebooks from vectors X (n, p); `y` is ignored.

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; after the start, the best model so far is fitted all the same.
        """
        del y
        X = check_vectors(X)
        M = check_integer(self.n_codebooks, "n_codebooks", 1, X.shape[1])
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        check_nonnegative(self.constraint_weight, "constraint_weight")
        max_iter = check_integer(self.max_iter, "max_iter", 0)
        check_nonnegative(self.tol, "tol")
        check_enough_rows(len(X), K)
        rng, n_jobs = random_generator(self.random_state), resolve_jobs(self.n_jobs)
        with single_blas():
            P = self._leading_directions(X, M, n_jobs)
            Z = X if P is None else np.concatenate([as_float32(X[a:b]) @ P for a, b in row_blocks(len(X))])
            start, codes = composite_start(Z, M, K, float(self.constraint_weight), rng, n_jobs)
            steps = joint_steps(start, max_iter=max_iter, tol=self.tol, solve=solve_codebooks)
            stage = FitStage("composite", max_iter, steps)
            # phi never rises, so the last finished step is the best
            with learn([stage], Reporter(self.callback, self.verbose)) as learned:
                self._store(learned.last, codes, X, P)
                self.objective_ = [_without_labels(entry) for entry in learned.record]
                self.n_iter_ = learned.n_iter
        return self

    def encode(self, X: object) -> Codes:
        """Give vectors X (n, p) their codes (n, M) uint8."""
        return self._codec().encode(X, n_jobs=self.n_jobs)

    def _leading_directions(self, X: NDArray[Any], M: int, n_jobs: int) -> NDArray[np.float32] | None:
        """Give the principal components (d, r) to quantize; None for the vectors as they are."""
        if self.n_components is None:
            return None
        r = check_integer(self.n_components, "n_components", M, X.shape[1])
        no_labels = _no_labels(len(X))
        rows = LocalRows(X, no_labels, np.zeros((len(X), 0), dtype=np.uint8), 2, n_jobs=n_jobs)
        return principal_components(rows.moments(), r).astype(np.float32)

    def _store(self, step: Step, codes: Codes, X: NDArray[Any], P: NDArray[np.float32] | None) -> None:
        state = step.state
        codec = AdditiveCodec(
            state.codebooks.astype(np.float32),
            P,
            constant=state.constant,
            quantization_weight=state.penalties.quantization,
            constraint_weight=state.penalties.constraint,
        )
        self.codec_ = seeded(codec, codes, X)
        self.n_features_in_ = int(X.shape[1])
        self.training_codes_ = codes


def composite_start(
    X: NDArray[Any],
    n_codebooks: int,
    n_codewords: int,
    relative_weight: float,
    rng: np.random.Generator,
    n_jobs: int,
) -> tuple[Start, Codes]:
    """Start from product quantization, as a supervised problem without labels whose projection is the identity.

    Returns the codes (n, M) too; a solver changes them in place.
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
    rows = LocalRows(X, _no_labels(len(X)), codes, n_codewords, n_jobs=n_jobs)
    moments = rows.moments()
    penalties = Penalties(
        quantization=1.0,
        constraint=relative_weight / (variance(moments) or 1.0),
        ridge=1.0,  # of a classifier without columns
    )
    start = Start(rows, moments, codebooks.astype(np.float64), np.eye(d), penalties, fixed_projection=True)
    return start, codes


def variance(moments: Moments) -> float:
    """Give the mean squared distance of the rows from their mean."""
    mean = moments.sum_x / moments.n_rows
    return max(float(np.trace(moments.xx)) / moments.n_rows - float(mean @ mean), 0.0)


def solve_codebooks(problem: SmallProblem, codebooks: Float64, max_iter: int) -> Float64:
    """Give better codebooks (M, K, d) for the codes as they are, eps the best for them."""
    C = minimise_preconditioned(
        problem.reduced_without_labels,
        used_codewords(problem, codebooks),
        problem.bb,
        problem.projected_best(codebooks).energy,
        max_iter=min(max_iter, MOST_ITERATIONS),
        tol=SETTLED,
    )
    return with_codewords(problem, codebooks, C)


def _no_labels(n: int) -> Labels:
    return Labels(np.arange(0), True, None, csr_array((n, 0), dtype=bool))


def _without_labels(entry: Record) -> Record:
    return {name: value for name, value in entry.items() if name not in ("classification", "ridge")}
