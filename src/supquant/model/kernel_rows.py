"""Labelled rows seen through a kernel, block by block: their features, and the sums over rows that solvers need.

Features phi have a last column of ones. Least squares solves (G + D) W = R with G = Phi'Phi and R = Phi'Y. D is the ridge on the
diagonal, and zero at the intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Array, Counts, Float32, Float64, RowNumbers
from supquant.codec.gaussian_map import GaussianMap, squared_norms
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.kernels import GROUP
from supquant.parallel import row_blocks
from supquant.row_sums import FeatureCache
from supquant.rows import RowBlock, Rows, rows_of

Result = TypeVar("Result")

GRAM_BYTES = 1 << 30
"""Bytes for the matrices Phi'Phi of single blocks that wait to be added. It limits the number of threads."""

ROWS_PER_FEATURE, MIN_GRAM_ROWS = 2, 1 << 13
"""Phi'Phi is a sum over about `ROWS_PER_FEATURE` rows per feature, and at least `MIN_GRAM_ROWS`, if there are more rows. That is
enough for the start and the metric of logistic regression, which then sees all rows."""

GRAM_ROWS = 2048
"""Number of rows in a block of such a sample: enough that the products take longer than adding up their matrices."""

FEW_LABELS = 16
"""With at most this number of labels, features are kept as counts, and compiled code computes logits and gradients. Ten labels
take a third of the time of BLAS."""

FAR = 1e4
"""The exponent that stands for an infinite distance: the features of such a row are zero, whatever its products."""

TILE_ROWS = 1024
"""Number of rows whose features are finished while they are in the cache."""

UNIT = np.float32(2**-15)
"""The value of one count, if features are kept as counts."""

ROUNDING_SHARE = 0.1
"""A factor is float32 if the ridge is above this multiple of the largest possible rounding of an eigenvalue."""


@dataclass(frozen=True, eq=False)
class KernelRows:
    """Labelled rows and their kernel features; sums do not depend on the number of threads."""

    X: NDArray[Any] | Rows  # (n, p) of any real dtype, may be memory-mapped
    labels: Labels
    kernel: GaussianMap | None  # None takes vectors as features: d = p
    blocks: Sequence[RowNumbers]  # row numbers in X
    cache: FeatureCache
    n_jobs: int
    key: int | None = None  # that of the only block in the cache; None takes the number of its first row
    n_sampled: int = 0  # number of the first blocks whose rows are a sample of all; 0 if there is none

    @classmethod
    def of(
        cls,
        X: NDArray[Any] | Rows,
        labels: Labels,
        kernel: GaussianMap | None,
        rows: RowNumbers,
        *,
        cache: FeatureCache,
        n_jobs: int,
    ) -> Self:
        """Return the rows of X (n, p) with the given numbers, divided into blocks."""
        blocks = [rows[slice(*block)] for block in row_blocks(len(rows))]
        return cls(X, labels, kernel, blocks, cache, n_jobs)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))

    def joined(self, other: KernelRows) -> KernelRows:
        """Return these rows and other rows of the same data."""
        return replace(self, blocks=[*self.blocks, *other.blocks])

    def sample_first(self) -> KernelRows:
        """Return the rows with an evenly spaced sample of them in the first blocks, if there are more than Phi'Phi needs."""
        every = round(len(self) / max(ROWS_PER_FEATURE * self.width, MIN_GRAM_ROWS))
        if every < 2:
            return self
        numbers = np.concatenate(self.blocks)
        first, rest = numbers[::every], np.delete(numbers, np.s_[::every])
        sample = [first[slice(*block)] for block in row_blocks(len(first), GRAM_ROWS)]
        others = [rest[slice(*block)] for block in row_blocks(len(rest))]
        return replace(self, blocks=[*sample, *others], n_sampled=len(sample))

    def vectors(self, rows: RowNumbers) -> Float32:
        """Return the vectors (b, p) of one block."""
        return as_float32(self.X[rows])

    def features(self, rows: RowNumbers) -> Float32:
        """Return phi (b, d + 1) of one block."""
        counts = self.counts(rows)
        if counts is not None:
            return counts[:, : self.width] * UNIT

        def compute() -> Float32:
            x = self.vectors(rows)
            phi = np.empty((len(x), self.width), dtype=np.float32)
            phi[:, -1] = 1
            if self.kernel is None:
                phi[:, :-1] = x
            else:
                self.kernel.fill(x, phi[:, :-1])
            return phi

        return self.cache.get(self._key(rows), compute)

    def counts(self, rows: RowNumbers) -> Counts | None:
        """Return phi (b, w) of one block as counts, filled up with zeros to whole groups; None if features are kept as floats."""
        kernel = self.kernel
        if (
            not isinstance(kernel, BlockMap)
            or self.labels.n_labels > FEW_LABELS
            or kernels.compiled() is None
        ):
            return None
        return self.cache.get(self._key(rows), lambda: kernel.counts(self.vectors(rows)))

    def _key(self, rows: RowNumbers) -> int:
        return int(rows[0]) if self.key is None else self.key

    @property
    def width(self) -> int:
        """Width of phi, d + 1."""
        return 1 + (self.X.shape[1] if self.kernel is None else len(self.kernel.anchors))

    def indicators(self, rows: RowNumbers) -> scipy.sparse.csr_array:
        """Return Y (b, L) float32 of some rows."""
        return self.labels.take(rows).sparse().astype(np.float32)

    def all_indicators(self) -> scipy.sparse.csr_array:
        """Return Y (n, L) float32 of all rows, in the order of the blocks."""
        return self.indicators(np.concatenate([np.zeros(0, dtype=np.int64), *self.blocks]))

    def map_blocks(
        self, function: Callable[[KernelRows, RowNumbers, Any], Result], shared: object = None
    ) -> Iterator[Result]:
        """Apply a function of a module to every block; results come in the order of the blocks.

        The function takes the rows, the row numbers of a block, and `shared`.
        """
        shared = self.kernel, function, shared
        own, cache = self._labels_of_blocks, self.cache
        return rows_of(self.X).map_blocks(_visit, self.blocks, shared, own, n_jobs=self.n_jobs, cache=cache)

    def sum_blocks(
        self,
        function: Callable[[KernelRows, RowNumbers, Any], tuple[Array, ...]],
        shared: object = None,
        n_jobs: int | None = None,
    ) -> tuple[Float64, ...]:
        """Return the sums of the arrays that a function returns for every block; it is called as in `map_blocks`."""
        shared = self.kernel, function, shared
        own, cache, n_jobs = self._labels_of_blocks, self.cache, n_jobs or self.n_jobs
        return rows_of(self.X).sum_blocks(_visit, self.blocks, shared, own, n_jobs=n_jobs, cache=cache)

    @cached_property
    def _labels_of_blocks(self) -> list[Labels]:
        return [self.labels.take(rows) for rows in self.blocks]

    def logits(self, weights: Float64) -> Float32:
        """Return phi W (n, L) of all rows for weights W (d + 1, L), in the order of the blocks."""
        return np.concatenate(list(self.map_blocks(_logits, weights.astype(np.float32))))

    def normal_equations(self) -> NormalEquations:
        """Sum products over the sample, whose rows stand for all: in float32 within a block, in float64 over blocks.

        Without a sample all rows are summed.
        """
        width = self.width
        if not self.blocks:
            return NormalEquations(np.zeros((width, width)), np.zeros((width, self.labels.n_labels)))
        summed = replace(self, blocks=self.blocks[: self.n_sampled or None])
        gram, products = summed.sum_blocks(_products, None, gram_jobs(width, self.n_jobs))
        if len(summed) < len(self):
            gram *= len(self) / len(summed)
            products *= len(self) / len(summed)
        return NormalEquations(gram, products)

    def gradient(self, weights: Float64) -> Float64:
        """Return the gradient (d + 1, L) of the negative log likelihood, summed over rows."""
        if not self.blocks:
            return np.zeros(weights.shape)
        (gradient,) = self.sum_blocks(_gradient, weights.astype(np.float32))
        return gradient


def _logits(rows: KernelRows, numbers: RowNumbers, W: Float32) -> Float32:
    counts = rows.counts(numbers)
    if counts is None:
        return np.asarray(rows.features(numbers) @ W)
    return kernels.active().count_products(counts, _for_counts(W, counts))


def _for_counts(W: Float32, counts: Counts) -> Float32:
    """Return weights (L, w) for products with counts (b, w), from weights W (d + 1, L) of features."""
    weights = _aligned_zeros(W.shape[1], counts.shape[1])
    np.multiply(W.T, UNIT, out=weights[:, : len(W)])
    return weights


def _aligned_zeros(n: int, width: int) -> Float32:
    """Return zeros (n, width) whose rows begin with a line of the cache, if the width is a multiple of `GROUP`."""
    memory = np.zeros(n * width + GROUP, dtype=np.float32)
    first = -memory.ctypes.data // memory.itemsize % GROUP
    return memory[first : first + n * width].reshape(n, width)


def _products(rows: KernelRows, numbers: RowNumbers, shared: None) -> tuple[Float32, Float32]:
    del shared
    phi = rows.features(numbers)
    return upper_products(phi), (rows.indicators(numbers).T @ phi).T


def upper_products(phi: Float32) -> Float32:
    """Return Phi'Phi (d + 1, d + 1) where it is above the diagonal or on it, and zeros elsewhere.

    NumPy computes one half of a product with itself, too, but then copies it to the other.
    """
    return np.asarray(scipy.linalg.blas.ssyrk(1.0, phi.T, lower=True).T)


def _gradient(rows: KernelRows, numbers: RowNumbers, W: Float32) -> tuple[Float32]:
    counts, Y = rows.counts(numbers), rows.indicators(numbers).toarray()
    multilabel = rows.labels.multilabel
    if counts is None:
        phi = rows.features(numbers)
        residuals = label_probabilities(phi @ W, multilabel=multilabel)
        residuals -= Y
        return ((residuals.T @ phi).T,)  # BLAS is slower with the long matrix on the left
    weights = _for_counts(W, counts)
    gradient = _aligned_zeros(*weights.shape)
    kernels.active().count_slopes(counts, weights, Y, gradient, several=multilabel)
    gradient *= UNIT
    return (gradient[:, : len(W)].T,)


def _visit(block: RowBlock, labels: Labels, shared: tuple[GaussianMap | None, Any, Any]) -> Any:
    """Apply a function to one block of labelled rows, in the process that reads them."""
    kernel, function, its_shared = shared
    numbers = np.arange(len(labels))
    rows = KernelRows(_Unread(block), labels, kernel, [numbers], block.cache, 1, block.key)  # type: ignore[arg-type]
    return function(rows, numbers, its_shared)


@dataclass(frozen=True)
class _Unread:
    """The vectors (b, p) of a block, which are not read as long as their features are in the cache."""

    block: RowBlock

    def __getitem__(self, rows: RowNumbers) -> Array:
        return self.block.x  # `_visit` asks for all rows

    @property
    def shape(self) -> tuple[int, ...]:
        return self.block.x.shape


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """The sums over rows that least squares needs."""

    gram: Float64  # (d + 1, d + 1)  Phi'Phi, of which the part below the diagonal is not used
    products: Float64  # (d + 1, L)  Phi'Y

    def merged(self, other: NormalEquations) -> NormalEquations:
        """Return the sums over the rows of both."""
        return replace(self, gram=self.gram + other.gram, products=self.products + other.products)

    def factor(self, ridge: float) -> Factor | None:
        """Factor G + D for a ridge in units of the mean diagonal of G; None if rounding made the matrix indefinite.

        The factor is float32 if its rounding is small compared with the ridge, else float64, which takes three times as long.
        """
        # an upper bound, since no eigenvalue of G exceeds its trace
        rounding = float(np.finfo(np.float32).eps) * len(self.gram)
        types = (np.float32, np.float64) if ridge > ROUNDING_SHARE * rounding else (np.float64,)
        return next(
            (each for each in (self._factor(ridge, type_) for type_ in types) if each is not None), None
        )

    def _factor(self, ridge: float, dtype: type[np.floating]) -> Factor | None:
        matrix = self.gram.astype(dtype)
        features = np.arange(len(matrix) - 1)  # the intercept has no ridge
        matrix[features, features] += dtype(ridge * (float(self.gram[features, features].mean()) or 1.0))
        # NumPy's Cholesky takes three times as long as this one of SciPy.
        (factorize,) = scipy.linalg.get_lapack_funcs(("potrf",), (matrix,))
        lower, failed = factorize(matrix.T, lower=True, clean=False, overwrite_a=True)
        return None if failed else Factor(ridge, lower)

    def safe_factor(self, ridge: float) -> Factor:
        """Factor G + D; the ridge is multiplied by ten until rounding permits it."""
        while (factor := self.factor(ridge)) is None:
            ridge *= 10
        return factor


@dataclass(frozen=True, eq=False)
class Factor:
    """The Cholesky factor of G + D."""

    ridge: float  # in units of the mean diagonal of G
    lower: Float32 | Float64  # (d + 1, d + 1)  what is above the diagonal is not used

    def solve(self, right: Float64) -> Float64:
        """Solve (G + D) W = right (d + 1, L) for W."""
        right = right.astype(self.lower.dtype, copy=False)
        return np.asarray(scipy.linalg.cho_solve((self.lower, True), right, check_finite=False), np.float64)


def gram_jobs(width: int, n_jobs: int) -> int:
    """Return the number of threads, at most `n_jobs`, for sums of matrices (width, width) float32.

    One more matrix than there are threads waits to be added; all of them fit into `GRAM_BYTES`.
    """
    return max(1, min(n_jobs, GRAM_BYTES // (4 * width**2) - 1))


# the kernel of large blocks --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BlockMap(GaussianMap):
    """A kernel whose features of large blocks take one product, and can be kept as counts.

    With ``c = x - mean`` and ``b = a - mean``, the exponent is ``-[c, |c|^2, 1] . [-2 b, 1, |b|^2] / 2 sigma^2``.
    """

    mean: Float32  # (p,) of the anchors

    def fill(self, x: Float32, values: Float32) -> None:
        """Write the features of a large block (b, p) into values (b, h), as those of a call but for rounding."""
        h = len(self.anchors)
        for tile in row_blocks(len(x), TILE_ROWS):
            rows = slice(*tile)
            of_rows = np.matmul(self._lifted(x[rows]), self._lifted_anchors[:, :h], out=values[rows])
            np.minimum(of_rows, 0, out=of_rows)
            np.exp(of_rows, out=of_rows)

    def counts(self, x: Float32) -> Counts:
        """Return the features of a large block (b, p) as counts (b, w): h features, a one, then zeros that fill a group."""
        counts = np.empty((len(x), self._lifted_anchors.shape[1]), dtype=np.uint16)
        exponents = np.empty((min(len(x), TILE_ROWS), counts.shape[1]), dtype=np.float32)
        for start, stop in row_blocks(len(x), TILE_ROWS):
            of_rows = np.matmul(
                self._lifted(x[start:stop]), self._lifted_anchors, out=exponents[: stop - start]
            )
            kernels.active().counted_exponentials(of_rows, counts[start:stop])
        return counts

    def _lifted(self, x: Float32) -> Float32:
        """Return ``[c, |c|^2, 1]`` (b, p + 2) of rows (b, p)."""
        p = x.shape[1]
        lifted = np.empty((len(x), p + 2), dtype=np.float32)
        centred = np.subtract(x, self.mean, out=lifted[:, :p])
        lifted[:, p] = squared_norms(centred)
        lifted[np.isinf(lifted[:, p]), : p + 1] = [0] * p + [FAR / -self.scale]
        lifted[:, p + 1] = 1
        return lifted

    @cached_property
    def _lifted_anchors(self) -> Float32:
        """The matrix (p + 2, w) whose product with the rows of `_lifted` is the exponent in its first h columns.

        It is 0 in one more column, whose exponential is 1, and far below 0 in those that fill up groups.
        """
        centred = self.anchors - self.mean
        h, p = centred.shape
        matrix = np.zeros((p + 2, h + 1 + -(h + 1) % GROUP), dtype=np.float32)
        matrix[:p, :h] = -2 * centred.T
        matrix[p, :h] = 1
        matrix[p + 1, :h] = squared_norms(centred)
        matrix *= np.float32(self.scale)
        matrix[p + 1, h + 1 :] = -FAR
        return matrix


def block_map(kernel: GaussianMap) -> GaussianMap:
    """Return the kernel for large blocks; the given one if squared lengths of its anchors are infinite in float32.

    Examples
    --------
    >>> anchors = np.float32([[0, 0], [3, 4]])
    >>> values = np.empty((1, 2), dtype=np.float32)
    >>> block_map(GaussianMap(anchors, 5.0)).fill(anchors[:1], values)
    >>> values.round(3)
    array([[1.   , 0.607]], dtype=float32)
    """
    mean = kernel.anchors.mean(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(squared_norms(kernel.anchors - mean)).all()
    return BlockMap(kernel.anchors, kernel.bandwidth, mean) if finite else kernel
