"""Optimized product quantization: product quantization after the rotation that suits it best.

"Optimized Product Quantization for Approximate Nearest Neighbor Search" (Ge, He, Ke, Sun, CVPR 2013). The non-parametric
method takes turns: one step of k-means in every group of rotated dimensions, then the best rotation for the decoded vectors S,
an orthogonal Procrustes problem:

    min |X R - S|^2  over  R'R = I        R = U V'   where   X'S = U diag(s) V'

The parametric method, a rotation by eigenvalue allocation, is where it starts from, or the rotation that does nothing, whichever
product quantization likes better, as in the authors' release: so it ends no worse than product quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, svd

from supquant import kernels
from supquant.arrays import Float32, Float64
from supquant.codec import AdditiveCodec
from supquant.fitting import FitStage, Record, learn
from supquant.parallel import single_blas
from supquant.progress import Progress, Reporter
from supquant.quantizers.base import FittedQuantizer
from supquant.quantizers.product import check_enough_rows, column_groups, product_codebooks, sample_rows
from supquant.validation import check_integer, check_vectors, random_generator, resolve_jobs

KMEANS_ITERATIONS = 25
"""Of the starts; as many as product quantization takes."""


class OptimizedProductQuantizer(FittedQuantizer):
    """Codes of M bytes, each the nearest of K centres in its share of the dimensions of the rotated vectors.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the bytes of a code.
    n_codewords : int, default=256
        K, at most 256.
    max_iter : int, default=50
        Rounds of k-means and rotation; 0 leaves the start.
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
        Its projection is the rotation.
    training_codes_ : (n, M) uint8
    objective_ : list of dict
        ``quantization``, the squared error over the rows learned from (65,536 at the most), of the start and after every round.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import OptimizedProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(500, 4)) @ np.ones((4, 8))
    >>> opq = OptimizedProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    >>> opq.encode(X[:3]).shape, opq.transform(X[:3]).shape
    ((3, 2), (3, 8))
    """

    _file_kind: ClassVar[str] = "optimized-product-quantizer"
    _recorded: ClassVar[tuple[str, ...]] = ("objective", "n_iter")

    def __init__(
        self,
        n_codebooks: int = 8,
        *,
        n_codewords: int = 256,
        max_iter: int = 50,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_codebooks = n_codebooks
        self.n_codewords = n_codewords
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def fit(self, X: object, y: object = None) -> Self:
        """Learn the rotation and the codebooks from vectors X (n, p); `y` is ignored.

        Raises
        ------
        KeyboardInterrupt
            If it was interrupted; after the start, the best model so far is fitted all the same.
        """
        del y
        X = check_vectors(X)
        M = check_integer(self.n_codebooks, "n_codebooks", 1, X.shape[1])
        K = check_integer(self.n_codewords, "n_codewords", 2, 256)
        max_iter = check_integer(self.max_iter, "max_iter", 0)
        check_enough_rows(len(X), K)
        rng = random_generator(self.random_state)
        sample = sample_rows(X, K, rng)
        with single_blas():
            steps = rounds(sample, M, K, max_iter, rng, resolve_jobs(self.n_jobs))
            stage = FitStage("opq", max_iter + 1, steps)
            with learn([stage], Reporter(self.callback, self.verbose)) as learned:
                self.codec_ = learned.last.codec()
                self.objective_, self.n_iter_ = learned.record, learned.n_iter
                self.n_features_in_ = int(X.shape[1])
                self.training_codes_ = self.codec_.encode(X, n_jobs=self.n_jobs)
        return self

    def encode(self, X: object) -> NDArray[np.uint8]:
        """Give vectors X (n, p) their codes (n, M) uint8."""
        return self._codec().encode(X, n_jobs=self.n_jobs)


@dataclass(frozen=True)
class Rotated:
    """A finished round: a rotation, codebooks in the rotated space, and the error |X R - S|^2 they leave."""

    rotation: Float64  # (d, d)
    codebooks: Float64  # (M, K, d)  zero outside their group of columns
    error: float
    number: int = 0  # of the round, counted from 1; 0 is the start

    def codec(self) -> AdditiveCodec:
        """Give the codec of both."""
        return AdditiveCodec(
            self.codebooks.astype(np.float32), self.rotation.astype(np.float32), independent=True
        )

    @property
    def counts_as_iteration(self) -> bool:
        """Whether it is more than the start."""
        return self.number > 0

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {"quantization": self.error}

    def as_progress(self) -> Mapping[str, float]:
        """Return the error; the start is reported too."""
        return {"quantization": self.error}


def rounds(
    X: Float32, n_codebooks: int, n_codewords: int, max_iter: int, rng: np.random.Generator, n_jobs: int
) -> Iterator[Rotated]:
    """Give the start and what every round makes of it."""
    starts = [np.eye(X.shape[1]), eigenvalue_allocation(X, n_codebooks)]
    model = min(
        (_product_start(X, rotation, n_codebooks, n_codewords, rng, n_jobs) for rotation in starts),
        key=lambda start: start.error,
    )
    yield model
    for _ in range(max_iter):
        model = _round(X, model, n_jobs)
        yield model


def eigenvalue_allocation(X: Float32, n_codebooks: int) -> Float64:
    """Give the parametric rotation (d, d): principal directions dealt out so that every group has the same volume.

    The largest eigenvalue left goes to the group whose product of eigenvalues is the least, of those that have room.
    """
    d = X.shape[1]
    values, directions = eigh(np.cov(X, rowvar=False, dtype=np.float64).reshape(d, d))
    floor = np.finfo(np.float64).eps * values[-1] or 1.0
    logs = np.log(np.maximum(values, floor) / max(values[0], floor))  # (d,) ascending, from 0 on
    groups = column_groups(d, n_codebooks)
    volumes = np.zeros(n_codebooks)
    filled = np.zeros(n_codebooks, dtype=np.intp)
    rotation = np.empty((d, d))
    for each in range(d - 1, -1, -1):
        m = int(np.argmin(np.where(filled < [len(group) for group in groups], volumes, np.inf)))
        rotation[:, groups[m][filled[m]]] = directions[:, each]
        volumes[m] += logs[each]
        filled[m] += 1
    return rotation


def _product_start(
    X: Float32,
    rotation: Float64,
    n_codebooks: int,
    n_codewords: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> Rotated:
    codebooks, _ = product_codebooks(
        X @ rotation.astype(np.float32),
        column_groups(X.shape[1], n_codebooks),
        n_codewords,
        rng=rng,
        max_iter=KMEANS_ITERATIONS,
        n_jobs=n_jobs,
    )
    start = Rotated(rotation, codebooks.astype(np.float64), np.inf)
    sums, counts = _code_sums(X, start, n_jobs)
    flat = start.codebooks.reshape(sums.shape)
    return replace(start, error=_error(X, counts, flat, float(np.vdot(sums @ rotation, flat))))


def _round(X: Float32, model: Rotated, n_jobs: int) -> Rotated:
    """Take one step of k-means, then the best rotation."""
    M, K, d = model.codebooks.shape
    sums, counts = _code_sums(X, model, n_jobs)  # (M K, d), (M K,)
    codebooks = np.zeros_like(model.codebooks)
    for m, columns in enumerate(column_groups(d, M)):
        rows = slice(m * K, (m + 1) * K)
        means = sums[rows] @ model.rotation[:, columns] / np.maximum(counts[rows], 1)[:, None]
        # a centre without rows stays where it is
        codebooks[m][:, columns] = np.where(counts[rows, None] > 0, means, model.codebooks[m][:, columns])
    flat = codebooks.reshape(M * K, d)
    left, singular, right = svd(sums.T @ flat)
    error = _error(X, counts, flat, float(singular.sum()))
    return Rotated(left @ right, codebooks, error, model.number + 1)


def _code_sums(X: Float32, model: Rotated, n_jobs: int) -> tuple[Float64, Float64]:
    """Give every row its nearest centres; the sums B'X (M K, d) and how many rows each centre has (M K,)."""
    M, K, _ = model.codebooks.shape
    codes = model.codec().encode(X, n_jobs=n_jobs)
    counts = np.bincount((codes + K * np.arange(M)).ravel(), minlength=M * K).astype(np.float64)
    return kernels.active().code_sums(codes, X, K, n_threads=n_jobs), counts


def _error(X: Float32, counts: Float64, flat: Float64, agreement: float) -> float:
    """|X R - S|^2 from tr(R'X'S) and the centres (M K, d): rotations keep |X|, and groups are orthogonal."""
    energy = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    return energy - 2 * agreement + float(counts @ np.einsum("ij,ij->i", flat, flat))
