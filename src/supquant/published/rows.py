"""The rows of training: a solver asks for passes over them and gets sums back. All sums are float64.

A solver sees its data through `CodedRows` alone. The vectors are `Rows`: they are in memory, in a file, or read by other
processes. `FeatureCache` (`row_sums.py`) keeps the features of rows between passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Array, Codes, Float32, Float64
from supquant.assignment import CodeSearch
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.parallel import row_blocks
from supquant.row_sums import FeatureCache
from supquant.rows import RowBlock, Rows, rows_of

Positions = NDArray[np.intp]
Result = TypeVar("Result")

FLOAT64_ROWS = 1024
"""Number of rows converted to float64 at a time, small enough that the rows of every thread fit in memory."""

SUM_BYTES = 1 << 29
"""Maximum number of bytes of block sums that wait to be added. It limits the number of threads."""


# what rows and solvers hand each other ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moments:
    """Sums that do not depend on the codes. They are computed once."""

    n_rows: int
    sum_x: Float64  # (d,)
    xx: Float64  # (d, d)  X'X
    xy: Float64  # (d, L)  X'Y
    yy: float  # sum of Y^2


@dataclass(frozen=True)
class CodeStatistics:
    """Sums that depend on the codes. B is the (n, MK) indicator matrix of the codes."""

    bb: Float64  # (MK, MK)  B'B
    bx: Float64  # (MK, d)   B'X
    by: Float64  # (MK, L)   B'Y
    changed: int  # number of rows whose code changed


@dataclass(frozen=True)
class Interaction:
    """Sums of the inter-dictionary products e_i over all rows, and the derivative of their spread."""

    sum_e: float  # sum of e_i
    sum_squares: float  # sum of (e_i - eps)^2
    derivative: Float64  # (u, u)  of sum_squares by the matrix of codeword products


@dataclass(frozen=True)
class Penalties:
    """The weights of the terms of psi."""

    quantization: float  # gamma
    constraint: float  # mu
    ridge: float  # lambda
    projection_ridge: float = 0.0  # delta, in units of X'X


@dataclass(frozen=True)
class ModelState:
    """The continuous unknowns, as a solver sends them to the rows."""

    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    classifier: Float64  # (r, L)
    constant: float  # eps
    penalties: Penalties


# the rows --------------------------------------------------------------------------------------------------------------


class CodedRows:
    """The rows of a fit, visited in fixed blocks, with their codes.

    Parameters
    ----------
    X : ndarray or Rows of shape (n, p)
        Vectors before the feature map, of any real dtype.
    labels : Labels
        The labels of the rows.
    codes : ndarray of shape (n, M), uint8
        Codes to start from. They are changed in place.
    n_codewords : int
        K, the number of codewords in each codebook.
    features : callable or None, default=None
        Maps a block (b, p) float32 to its features (b, d) float32. None uses the vectors themselves.
    n_jobs : int, default=1
        Number of threads. The results do not depend on it.
    cache_bytes : int, default=4 GiB
        Maximum number of bytes of feature blocks to keep between passes. Others are computed again in every pass.
    """

    def __init__(
        self,
        X: NDArray[Any] | Rows,
        labels: Labels,
        codes: Codes,
        n_codewords: int,
        *,
        features: Callable[[Float32], Float32] | None = None,
        n_jobs: int = 1,
        cache_bytes: int = 4 << 30,
    ) -> None:
        self._X = rows_of(X)
        self._labels = labels
        self.codes = codes
        self._n_codewords = n_codewords
        self._features = features
        self._n_jobs = n_jobs
        self._cache = FeatureCache(cache_bytes)
        self._blocks = row_blocks(len(X))
        self._block_labels = [labels.take(np.arange(*block)) for block in self._blocks]
        self._width = self._X.shape[1]  # d, which the first pass corrects
        self._distinct: tuple[Codes, Float64] | None = None
        self._compacted: tuple[Positions, tuple[Codes, Float64, list[int]]] | None = None

    def map_features(self, function: Callable[[Float32, tuple[int, int]], Result]) -> Iterator[Result]:
        """Apply a function to the features (b, d) and the (start, stop) of every block; yield its results in their order."""
        shared = self._features, function
        return self._X.map_blocks(
            _of_features, self._blocks, shared, self._blocks, n_jobs=self._n_jobs, cache=self._cache
        )

    def assign(self, model: ModelState) -> CodeStatistics:
        """Assign to every row its best code under the model; return the sums for the new codes."""
        self._distinct = self._compacted = None
        found: list[Codes] = []
        shared = Recoding.of(model), self._n_codewords
        bx, by, changed = self._sum(_recode_and_sum, shared, self._n_words, found)
        for block, codes in zip(self._blocks, found, strict=True):
            self.codes[slice(*block)] = codes
        return self._statistics(bx, by, int(changed))

    def moments(self) -> Moments:
        """Return the sums that do not depend on the codes."""
        xx, sum_x, xy, yy = self._sum(_moments_of_block, None, 0)
        return Moments(sum(stop - start for start, stop in self._blocks), sum_x, xx, xy, float(yy))

    def statistics(self) -> CodeStatistics:
        """Return the sums for the current codes."""
        bx, by = self._sum(code_sums, self._n_codewords, self._n_words)
        return self._statistics(bx, by, 0)

    def interaction(self, used: Positions, gram: Float64, eps: float) -> Interaction:
        """Return the sums of inter-dictionary products, by the constant `eps` that every one should have.

        Parameters
        ----------
        used : ndarray of shape (u,), intp
            Flat positions m K + k of codewords, ascending. They hold every codeword that a row uses.
        gram : ndarray of shape (u, u), float64
            Products of these codewords.
        eps : float
            The constant that the inter-dictionary product of every code should have.
        """
        codes, counts, sizes = self._compact(used)
        return Interaction(
            *kernels.active().interaction(codes, counts, gram, eps, sizes=sizes, n_threads=self._n_jobs)
        )

    def recode(self, codes: Codes) -> None:
        """Replace the codes of all rows by codes (n, M), of any M."""
        self.codes = codes
        self._distinct = self._compacted = None

    def distinct(self) -> tuple[Codes, Float64]:
        """Return the distinct codes (u, M), and the number of rows that have each of them (u,)."""
        if self._distinct is None:
            codes, counts = kernels.active().distinct(self.codes)
            self._distinct = codes, counts.astype(np.float64)
        return self._distinct

    def _compact(self, used: Positions) -> tuple[Codes, Float64, list[int]]:
        """Renumber the used codewords of each codebook from 0.

        Returns the distinct codes (u', M) in these numbers, their counts (u',), and the number of used codewords of each
        codebook.
        """
        last = self._compacted
        if last is None or not (last[0] is used or np.array_equal(last[0], used)):
            codes, counts = self.distinct()
            n_codebooks, K = codes.shape[1], self._n_codewords
            sizes = np.bincount(used // K, minlength=n_codebooks).tolist()
            number = np.zeros(n_codebooks * K, dtype=np.uint8)  # new number of the codeword at m K + k
            number[used] = np.concatenate([np.arange(size) for size in sizes])
            # for i, code in enumerate(codes):
            #     for m in range(n_codebooks):
            #         compact[i, m] = number[m * K + code[m]]
            compact = number[codes + K * np.arange(n_codebooks)]
            last = self._compacted = used, (compact, counts, sizes)
        return last[1]

    @property
    def _n_words(self) -> int:
        """The number of codewords of all codebooks, M K."""
        return self.codes.shape[1] * self._n_codewords

    def _statistics(self, bx: Float64, by: Float64, changed: int) -> CodeStatistics:
        distinct, counts = self.distinct()
        bb = kernels.active().pair_counts(distinct, self._n_codewords, counts, n_threads=self._n_jobs)
        return CodeStatistics(bb, bx, by, changed)

    def _sum(
        self, function: BlockSums, shared: Any, n_words: int, results: list[Any] | None = None
    ) -> tuple[Float64, ...]:
        """Return the sums over all blocks of the arrays of a function, of which the first has `n_words` rows."""
        sums = self._X.sum_blocks(
            _sums,
            self._blocks,
            (self._features, function, shared),
            self._own(),
            n_jobs=self._sum_jobs(n_words),
            cache=self._cache,
            results=results,
        )
        self._width = sums[0].shape[1] if sums else self._width
        return sums

    def _own(self) -> list[tuple[Labels, Codes]]:
        """Return the labels and codes of each block."""
        codes = (self.codes[slice(*block)] for block in self._blocks)
        return list(zip(self._block_labels, codes, strict=True))

    def _sum_jobs(self, n_words: int) -> int:
        """Return the number of threads for sums of arrays (n_words or d, d + L): all their sums fit into `SUM_BYTES`."""
        d = self._width
        return max(1, min(self._n_jobs, SUM_BYTES // (8 * max(n_words, d) * (d + self._labels.n_labels)) - 1))


# what is done with a block, where its rows are read ------------------------------------------------------------------------


def _of_features(
    block: RowBlock,
    rows: tuple[int, int],
    shared: tuple[Any, Callable[[Float32, tuple[int, int]], Result]],
) -> Result:
    features, function = shared
    return function(_features(block, features), rows)


def _sums(block: RowBlock, own: tuple[Labels, Codes], shared: tuple[Any, BlockSums, Any]) -> Any:
    features, function, its_shared = shared
    labels, codes = own
    return function(_features(block, features), labels.dense(0, len(labels)), codes, its_shared)


def _features(block: RowBlock, features: Callable[[Float32], Float32] | None) -> Float32:
    """Return the features (b, d) of a block, which are kept as long as there is room."""
    if features is None:
        return as_float32(block.x)
    return block.cache.get(block.key, lambda: features(as_float32(block.x)))


BlockSums = Callable[[Float32, Float64, Codes, Any], Any]
"""A function of a module: it takes the features (b, d), labels (b, L) and codes (b, M) of a block and what all blocks share, and
returns arrays, which are summed over blocks, or a pair of such arrays and a result for the block."""


@dataclass(frozen=True)
class Recoding:
    """The search for better codes under a model. Its tables are made once in each process."""

    search: CodeSearch
    projection: Float64  # (d, r)

    @classmethod
    def of(cls, model: ModelState) -> Recoding:
        """Prepare for a model."""
        weights = model.penalties
        search = CodeSearch(
            model.codebooks, model.classifier, weights.quantization, weights.constraint, model.constant
        )
        return cls(search, model.projection)

    def __call__(self, x: Float32, y: Float64, codes: Codes) -> int:
        """Give rows with features (b, d) and labels (b, L) better codes, in place; return how many codes changed."""
        search = self.search
        new = search.search(search.target(x @ self.projection.astype(np.float32), y), codes)
        moved = np.flatnonzero((new != codes).any(axis=1))
        changed = 0
        # The search is float32: a code changes only where its cost is strictly lower in float64 too.
        for part in _slices(len(moved)):
            rows = moved[part]
            z = search.target(x[rows].astype(np.float64) @ self.projection, y[rows])
            better = rows[search.costs(z, new[rows]) < search.costs(z, codes[rows])]
            codes[better] = new[better]
            changed += len(better)
        return changed


def code_sums(x: Float32, y: Float64, codes: Codes, n_codewords: int) -> tuple[Float64, Float64]:
    """Return B'X (M K, d) and B'Y (M K, L) of a block."""
    n_words = codes.shape[1] * n_codewords
    bx, by = np.zeros((n_words, x.shape[1])), np.zeros((n_words, y.shape[1]))
    kernels.active().code_sums(codes, x, n_codewords, out=bx)
    kernels.active().code_sums(codes, y.astype(np.float32), n_codewords, out=by)
    return bx, by


def _recode_and_sum(
    x: Float32, y: Float64, codes: Codes, shared: tuple[Recoding, int]
) -> tuple[tuple[Float64, Float64, Array], Codes]:
    recoding, n_codewords = shared
    codes = codes.copy()
    changed = recoding(x, y, codes)
    return (*code_sums(x, y, codes, n_codewords), np.array(changed)), codes


def _moments_of_block(x: Float32, y: Float64, codes: Codes, shared: None) -> tuple[Array, ...]:
    del codes, shared
    parts = (_moments(x[part], y[part]) for part in _slices(len(x)))
    return reduce(lambda some, others: tuple(a + b for a, b in zip(some, others, strict=True)), parts)


def _moments(x: Float32, y: Float64) -> tuple[Array, ...]:
    """Return X'X, the sum of X, X'Y and the sum of Y^2."""
    x64 = x.astype(np.float64)
    return x64.T @ x64, x64.sum(axis=0), x64.T @ y, np.array((y * y).sum())


def _slices(n_rows: int) -> list[slice]:
    """Return slices of at most `FLOAT64_ROWS` rows that cover a block."""
    return [slice(start, stop) for start, stop in row_blocks(n_rows, FLOAT64_ROWS)]
