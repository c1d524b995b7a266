"""Optimized product quantization: product quantization after the rotation that suits it best.

"Optimized Product Quantization for Approximate Nearest Neighbor Search" (Ge, He, Ke, Sun, CVPR 2013). The non-parametric
method alternates between two steps: one step of k-means in every group of rotated dimensions, and the best rotation for the
decoded vectors S, an orthogonal Procrustes problem:

    min |X R - S|^2  over  R'R = I        R = U V'   where   X'S = U diag(s) V'

It starts from the parametric method, a rotation by eigenvalue allocation, or from no rotation, whichever has the smaller error
after product quantization, as in the authors' release. So the error is never larger than that of product quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, svd

from supquant import kernels
from supquant.arrays import Float32, Float64
from supquant.clustering import column_groups, product_codebooks, sample_rows
from supquant.codec.additive import AdditiveCodec
from supquant.estimators.base import UnsupervisedQuantizer
from supquant.estimators.course import Course, Record
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant.progress import Progress, Reporter

KMEANS_ITERATIONS = 25
"""Maximum number of k-means iterations at the start, the same as in product quantization."""


class OptimizedProductQuantizer(UnsupervisedQuantizer):
    """Product quantization of rotated vectors.

    A byte of a code is the number of the nearest of K centres in one group of the rotated dimensions.

    Parameters
    ----------
    n_codebooks : int, default=8
        M, the number of bytes of a code, at most the number of dimensions.
    n_codewords : int, default=256
        K, the number of centres in each group, from 2 to 256.
    max_iter : int, default=50
        Number of rounds of k-means and rotation; 0 keeps the start.
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
        The learned model; it encodes, decodes and makes tables. Its projection is the rotation.
    training_codes_ : (n, M) uint8
        Codes of the training rows.
    objective_ : list of dict
        ``quantization``, the squared error, at the start and after every round. It is summed over the sampled rows, at most
        256 per codeword.
    n_iter_ : int
        Number of rounds.
    n_features_in_ : int
        p, the number of dimensions of the vectors.

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

    def _check_parameters(self, n_features: int) -> None:
        del n_features
        check_integer(self.max_iter, "max_iter", 0)

    def _learn(self, X: NDArray[Any], rng: np.random.Generator) -> None:
        sample = sample_rows(X, self.n_codewords, rng)
        steps = rounds(
            sample, self.n_codebooks, self.n_codewords, self.max_iter, rng, resolve_jobs(self.n_jobs)
        )

        course: Course[RotationStep] = Course(Reporter(self.callback, self.verbose))
        try:
            course.take("opq", self.max_iter + 1, steps)
        finally:  # also after an interrupt
            if course.last is not None:
                codec = course.last.codec()
                self._store(codec, codec.encode(X, n_jobs=self.n_jobs))
                self.objective_, self.n_iter_ = course.record, course.n_iter


@dataclass(frozen=True)
class RotationStep:
    """A finished round: a rotation, codebooks of the rotated space, and the error |X R - S|^2."""

    rotation: Float64  # (d, d)
    codebooks: Float64  # (M, K, d)  zero outside their group of columns
    error: float
    number: int = 0  # of the round, counted from 1; 0 is the start

    def codec(self) -> AdditiveCodec:
        """Return the codec with this rotation and these codebooks."""
        return AdditiveCodec(
            self.codebooks.astype(np.float32), self.rotation.astype(np.float32), independent=True
        )

    @property
    def counts_as_iteration(self) -> bool:
        """Whether this is a round and not the start."""
        return self.number > 0

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {"quantization": self.error}

    def as_progress(self) -> Mapping[str, float]:
        """Return the error; the start is reported too."""
        return {"quantization": self.error}


def rounds(
    X: Float32, n_codebooks: int, n_codewords: int, max_iter: int, rng: np.random.Generator, n_jobs: int
) -> Iterator[RotationStep]:
    """Learn from rows X (n, d); yield the start, then every finished round."""
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
    """Return the parametric rotation (d, d), in which all groups of dimensions have nearly the same volume.

    Principal directions are dealt to the groups, largest eigenvalue first. Each goes to the group that has the smallest product
    of eigenvalues so far, among the groups that are not full.
    """
    d = X.shape[1]
    values, directions = eigh(np.cov(X, rowvar=False, dtype=np.float64).reshape(d, d))
    floor = np.finfo(np.float64).eps * values[-1] or 1.0
    logs = np.log(np.maximum(values, floor) / max(values[0], floor))  # (d,)  ascending from 0
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
) -> RotationStep:
    codebooks, _ = product_codebooks(
        X @ rotation.astype(np.float32),
        column_groups(X.shape[1], n_codebooks),
        n_codewords,
        rng=rng,
        max_iter=KMEANS_ITERATIONS,
        n_jobs=n_jobs,
    )
    start = RotationStep(rotation, codebooks.astype(np.float64), np.inf)
    sums, counts = _code_sums(X, start, n_jobs)
    flat = start.codebooks.reshape(sums.shape)
    return replace(start, error=_error(X, counts, flat, float(np.vdot(sums @ rotation, flat))))


def _round(X: Float32, model: RotationStep, n_jobs: int) -> RotationStep:
    """Return the step after one step of k-means and the best rotation."""
    M, K, d = model.codebooks.shape
    sums, counts = _code_sums(X, model, n_jobs)  # (M K, d), (M K,)
    codebooks = np.zeros_like(model.codebooks)
    for m, columns in enumerate(column_groups(d, M)):
        rows = slice(m * K, (m + 1) * K)
        means = sums[rows] @ model.rotation[:, columns] / np.maximum(counts[rows], 1)[:, None]
        # a centre without rows does not move
        codebooks[m][:, columns] = np.where(counts[rows, None] > 0, means, model.codebooks[m][:, columns])
    flat = codebooks.reshape(M * K, d)
    left, singular, right = svd(sums.T @ flat)
    error = _error(X, counts, flat, float(singular.sum()))
    return RotationStep(left @ right, codebooks, error, model.number + 1)


def _code_sums(X: Float32, model: RotationStep, n_jobs: int) -> tuple[Float64, Float64]:
    """Assign every row to its nearest centres; return the sums B'X (M K, d) and the number of rows (M K,) of each centre."""
    M, K, _ = model.codebooks.shape
    codes = model.codec().encode(X, n_jobs=n_jobs)
    # for i, m: counts[m K + codes[i, m]] += 1
    counts = np.bincount((codes + K * np.arange(M)).ravel(), minlength=M * K).astype(np.float64)
    return kernels.active().code_sums(codes, X, K, n_threads=n_jobs), counts


def _error(X: Float32, counts: Float64, flat: Float64, agreement: float) -> float:
    """Return |X R - S|^2 from `agreement`, which is tr(R'X'S), and the centres `flat` (M K, d).

    A rotation does not change |X|, and the groups are orthogonal, so |S|^2 is the sum of the squared centres of all rows.
    """
    energy = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    return energy - 2 * agreement + float(counts @ np.einsum("ij,ij->i", flat, flat))
