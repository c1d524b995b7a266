"""The rows of training: passes are sent to them, sums come back.

A solver sees its data through `TrainingRows` alone, so rows can live in memory, in a file, on another device or in several
places at once; `LocalRows` are rows of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32, Float64
from supquant.assignment import CodeSearch
from supquant.parallel import ordered_map, row_blocks
from supquant.statistics import CodeStatistics, Interaction, ModelState, Moments
from supquant.validation import as_float32

Positions = NDArray[np.intp]

FLOAT64_ROWS = 1024


class Targets(Protocol):
    """Y, the matrix that a classifier of the rows aims at: `Labels`, or any other."""

    @property
    def n_labels(self) -> int:
        """L, its columns."""

    def dense(self, start: int, stop: int) -> Float64:
        """Write out rows ``start`` to ``stop``, (b, L)."""


class TrainingRows(Protocol):
    """What a solver may ask of the rows."""

    def moments(self) -> Moments:
        """Give the sums that do not depend on the codes."""

    def statistics(self) -> CodeStatistics:
        """Give the sums for the codes as they are."""

    def assign(self, model: ModelState) -> CodeStatistics:
        """Give every row its best code under the model, and the sums for the new codes."""

    def interaction(self, used: Positions, gram: Float64, eps: float) -> Interaction:
        """Give the inter-dictionary products under a matrix (u, u) of products of the used codewords."""

    def codes(self) -> Iterator[Codes]:
        """Give the codes, block by block."""


class LocalRows:
    """Rows of this process, visited in fixed blocks.

    Parameters
    ----------
    X : (n, p) array of any real dtype, may be memory-mapped
        Vectors before the feature map.
    labels : Targets
        Their labels.
    codes : (n, M) uint8
        Codes to start from; recoded in place.
    n_codewords : int
        K.
    features : callable or None
        From a block (b, p) float32 to its features (b, d) float32.
    n_jobs : int
        Threads; results do not depend on it.
    cache_bytes : int
        Feature blocks are kept as long as they fit, and computed again where they do not.
    """

    def __init__(
        self,
        X: NDArray[np.generic],
        labels: Targets,
        codes: Codes,
        n_codewords: int,
        *,
        features: Callable[[Float32], Float32] | None = None,
        n_jobs: int = 1,
        cache_bytes: int = 4 << 30,
    ) -> None:
        self._X = X
        self._labels = labels
        self._codes = codes
        self._n_codewords = n_codewords
        self._features = features
        self._n_jobs = n_jobs
        self._blocks = row_blocks(len(X))
        self._cache: dict[int, Float32] = {}
        self._cache_left = cache_bytes if features is not None else 0
        self._distinct: tuple[Codes, Float64] | None = None
        self._compacted: tuple[Positions, tuple[Codes, Float64, list[int]]] | None = None

    def moments(self) -> Moments:
        """Give the sums that do not depend on the codes."""

        def of_block(block: tuple[int, int]) -> Moments:
            x, y = self.block(*block), self._labels.dense(*block)
            parts = (_moments(x[part], y[part]) for part in _slices(len(x)))
            return reduce(Moments.merge, parts)

        return reduce(Moments.merge, ordered_map(of_block, self._blocks, self._n_jobs))

    def statistics(self) -> CodeStatistics:
        """Give the sums for the codes as they are."""
        return self._gather((block, self.block(*block), 0) for block in self._blocks)

    def assign(self, model: ModelState) -> CodeStatistics:
        """Give every row its best code under the model, and the sums for the new codes."""
        weights = model.penalties
        search = CodeSearch(
            model.codebooks, model.classifier, weights.quantization, weights.constraint, model.constant
        )
        projection = model.projection.astype(np.float32)

        def recode(block: tuple[int, int]) -> tuple[tuple[int, int], Float32, int]:
            x, y, old = self.block(*block), self._labels.dense(*block), self._codes[slice(*block)]
            new = search.search(search.target(x @ projection, y), old)
            moved = np.flatnonzero((new != old).any(axis=1))
            changed = 0
            # the search is float32: a code changes only where float64 agrees that its cost is strictly lower
            for part in _slices(len(moved)):
                rows = moved[part]
                z = search.target(x[rows].astype(np.float64) @ model.projection, y[rows])
                better = rows[search.costs(z, new[rows]) < search.costs(z, old[rows])]
                old[better] = new[better]
                changed += len(better)
            return block, x, changed

        self._distinct = self._compacted = None
        return self._gather(ordered_map(recode, self._blocks, self._n_jobs))

    def interaction(self, used: Positions, gram: Float64, eps: float) -> Interaction:
        """Give the inter-dictionary products under a matrix (u, u) of products of the used codewords.

        `used` are their flat positions m K + k, ascending, and hold every codeword that a row uses.
        """
        codes, counts, sizes = self._compact(used)
        return Interaction(
            *kernels.active().interaction(codes, counts, gram, eps, sizes=sizes, n_threads=self._n_jobs)
        )

    def recode(self, codes: Codes) -> None:
        """Give the rows other codes (n, M), of any M."""
        self._codes = codes
        self._distinct = self._compacted = None

    def codes(self) -> Iterator[Codes]:
        """Give the codes, block by block."""
        for start, stop in self._blocks:
            yield self._codes[start:stop]

    def block(self, start: int, stop: int) -> Float32:
        """Give the features (b, d) of one block, from the cache where it holds them."""
        if start in self._cache:
            return self._cache[start]
        x = as_float32(self._X[start:stop])
        if self._features is not None:
            x = self._features(x)
            if x.nbytes <= self._cache_left:
                self._cache_left -= x.nbytes
                self._cache[start] = x
        return x

    def distinct(self) -> tuple[Codes, Float64]:
        """Give each distinct code (u, M) and how many rows have it (u,)."""
        if self._distinct is None:
            codes, counts = kernels.active().distinct(self._codes)
            self._distinct = codes, counts.astype(np.float64)
        return self._distinct

    def _compact(self, used: Positions) -> tuple[Codes, Float64, list[int]]:
        """Renumber the used codewords of each codebook from 0.

        Returns the distinct codes (u', M) in these numbers, their counts, and how many codewords of each codebook are used.
        """
        if self._compacted is None or not np.array_equal(self._compacted[0], used):
            codes, counts = self.distinct()
            n_codebooks, K = codes.shape[1], self._n_codewords
            sizes = np.bincount(used // K, minlength=n_codebooks).tolist()
            renumber = np.zeros(n_codebooks * K, dtype=np.uint8)
            renumber[used] = np.concatenate([np.arange(size) for size in sizes])
            self._compacted = used, (renumber[codes + K * np.arange(n_codebooks)], counts, sizes)
        return self._compacted[1]

    def _gather(self, visited: Iterator[tuple[tuple[int, int], Float32, int]]) -> CodeStatistics:
        n_words = self._codes.shape[1] * self._n_codewords
        bx: Float64 | None = None
        by = np.zeros((n_words, self._labels.n_labels))
        changed = 0
        for block, x, moved in visited:
            codes = self._codes[slice(*block)]
            bx = np.zeros((n_words, x.shape[1])) if bx is None else bx
            kernels.active().code_sums(codes, x, self._n_codewords, out=bx)
            y = self._labels.dense(*block).astype(np.float32)
            kernels.active().code_sums(codes, y, self._n_codewords, out=by)
            changed += moved
        assert bx is not None
        distinct, counts = self.distinct()
        bb = kernels.active().pair_counts(distinct, self._n_codewords, counts, n_threads=self._n_jobs)
        return CodeStatistics(bb, bx, by, changed)


def _slices(n_rows: int) -> list[slice]:
    """Cut a block into pieces small enough to stand in float64 beside those of other threads."""
    return [slice(start, stop) for start, stop in row_blocks(n_rows, FLOAT64_ROWS)]


def _moments(x: Float32, y: Float64) -> Moments:
    x64 = x.astype(np.float64)
    return Moments(len(x), x64.sum(axis=0), x64.T @ x64, x64.T @ y, float((y * y).sum()))
