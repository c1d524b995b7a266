"""What kernels promise, whichever implementation runs them.

Arrays are C-contiguous. Codes are (n, M) uint8, M <= 64 codebooks of K <= 256 codewords; codeword k of
codebook m has the flat index ``m * K + k``. Results are the same bits for every ``n_threads``. A wrong dtype,
shape or range is a `ValueError`.

Scans read codes in blocks (b, M, 64) uint8, b = ceil(n / 64): ``blocks[i // 64, m, i % 64]`` is codeword m of row i, and
what lies past the last row is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64, RowNumbers

__all__ = ["BLOCK_ROWS", "Bytes", "Kernels", "Numbers", "Real", "Scanned"]

BLOCK_ROWS = 64
"""Rows of a block that scans read."""

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int32]
Real = TypeVar("Real", np.float32, np.float64)


@dataclass(frozen=True)
class Scanned:
    """What a scan reads, and which of its rows count.

    Parameters
    ----------
    blocks : ndarray (b, M, 64) uint8
    n : int
        Codes in the blocks.
    starts : ndarray (n + 1,) uint32, optional
    members : ndarray (N,) uint32, optional
        Where equal codes are kept once: code i is that of the rows ``members[starts[i]:starts[i + 1]]``, which ascend.
        Without them the rows are the codes themselves, N = n.
    eligible : ndarray (ceil(N / 64),) uint64, optional
        Row i counts if bit ``i % 64`` of word ``i // 64`` is set; all rows by default. Bits past the last row are zero.
    """

    blocks: Bytes
    n: int
    starts: NDArray[np.uint32] | None = None
    members: NDArray[np.uint32] | None = None
    eligible: NDArray[np.uint64] | None = None


class Kernels(Protocol):
    """Sums, searches and scans over codes."""

    def code_sums(
        self, codes: Bytes, X: Float32, K: int, out: Float64 | None = None, n_threads: int = 1
    ) -> Float64:
        """Sum the rows of X (n, d) by codeword: B'X (M*K, d), added to `out` if that is given."""
        ...

    def pair_counts(
        self, codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None = None, n_threads: int = 1
    ) -> Float64:
        """Count how often two codewords meet in a row: B'B (M*K, M*K), row i counting `counts[i]` times."""
        ...

    def interaction(
        self,
        codes: Bytes,
        counts: Float64,
        gram: Float64,
        eps: float,
        sizes: Sequence[int] | None = None,
        n_threads: int = 1,
    ) -> tuple[float, float, Float64]:
        """Sum the inter-dictionary products ``e_i = sum_{a != b} gram[a c_ia, b c_ib]`` of all rows.

        Parameters
        ----------
        codes : ndarray (u, M) uint8
        counts : ndarray (u,) float64
            How often each row stands in the data.
        gram : ndarray (M*K, M*K) float64
            Symmetric inner products of codewords; the blocks of one codebook with itself are ignored.
        eps : float
        sizes : sequence of M int
            Codewords of each codebook, where they differ; `gram` is then as wide as their sum.

        Returns
        -------
        sum_e : float
            ``sum_i counts_i e_i``
        sum_sq : float
            ``sum_i counts_i (e_i - eps)^2``
        derivative : ndarray like `gram`
            Of `sum_sq` by `gram`: symmetric, zero in the ignored blocks.
        """
        ...

    def assign(
        self,
        unary: Float32,
        cross: Float32,
        product: Float32,
        mu: float,
        eps: float,
        codes: Bytes,
        max_sweeps: int,
        pairwise: bool = False,
        n_threads: int = 1,
    ) -> Bytes:
        """Find for every row codes b of low ``f(b)``, starting from `codes`.

        ``f(b) = sum_m unary[m, b_m] + sum_{a != b} cross[a b_a, b b_b] + mu (e(b) - eps)^2`` with
        ``e(b) = sum_{a != b} product[a b_a, b b_b]``.

        One codebook: the lowest unary cost. Two: exact over all K*K pairs. More: every codeword of one
        codebook at a time, sweep after sweep, until no codebook changes or `max_sweeps` are done. Of equal
        costs the current codeword wins, then the smallest index. No row comes back with a higher cost.

        Parameters
        ----------
        unary : ndarray (n, M*K) float32
        cross, product : ndarray (M*K, M*K) float32
            Symmetric; the blocks of one codebook with itself are ignored.
        mu, eps : float
        codes : ndarray (n, M) uint8
            Where the search starts; not changed.
        max_sweeps : int
        pairwise : bool
            With three codebooks or more, go on with exact moves over pairs of codebooks, in turn with sweeps,
            for at most `max_sweeps` rounds.

        Returns
        -------
        ndarray (n, M) uint8
        """
        ...

    def greedy(self, unary: Float32, cross: Float32, K: int, n_threads: int = 1) -> Bytes:
        """Choose codes (n, M) to start a search from, one codebook after the other.

        Each codeword has the lowest ``unary[m, k] + 2 sum_{b < m} cross[b c_b, m k]`` given those already
        chosen, the smallest index of equals.
        """
        ...

    def table_sums(self, codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
        """Add up the tables (q, M, K) at the codes, in float32 and in codebook order: (q, n)."""
        ...

    def decode(self, codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
        """Add up the codewords of codebooks (M, K, r) in codebook order: (n, r) of the same dtype."""
        ...

    def distinct(self, codes: Bytes) -> tuple[Bytes, NDArray[np.int64]]:
        """Return the distinct rows (u, M) in lexicographic order and how often each occurs (u,)."""
        ...

    def group(self, codes: Bytes) -> tuple[Bytes, NDArray[np.uint32], NDArray[np.uint32]]:
        """Find the distinct rows (u, M) in lexicographic order, and `starts` and `members` as in `Scanned`."""
        ...

    def scan(
        self,
        scanned: Scanned,
        tables: Float32,
        k: int,
        query_bits: Bytes | None = None,
        prune: bool = True,
        n_threads: int = 1,
    ) -> tuple[Float32, RowNumbers]:
        """Find the k rows with the lowest sums of every table, exactly.

        A row's sum is that of `table_sums`. Rows come by sum, equal sums by row number.

        Parameters
        ----------
        scanned : Scanned
        tables : ndarray (q, M, K) float32
            A table whose entries are not finite, or whose sums could overflow, is a `ValueError`.
        k : int
        query_bits : ndarray (q, M) uint8, optional
            Given where the tables hold Hamming distances to these codes; a faster way to the same answer.
        prune : bool
            False adds up every row in float32. The answer is the same.

        Returns
        -------
        sums : ndarray (q, min(k, eligible rows)) float32
        rows : ndarray like `sums`, int64
        """
        ...

    def scan_within(
        self,
        scanned: Scanned,
        tables: Float32,
        limits: Float32,
        query_bits: Bytes | None = None,
        n_threads: int = 1,
    ) -> tuple[RowNumbers, Float32, RowNumbers]:
        """Find all rows whose sum is at most ``limits[i]`` for table i, ordered as by `scan`.

        Returns
        -------
        starts : ndarray (q + 1,) int64
            Table i has the answers ``starts[i]`` up to ``starts[i + 1]``.
        sums : ndarray (starts[-1],) float32
        rows : ndarray (starts[-1],) int64
        """
        ...

    def count_distinct(self, codes: Bytes, limit: int) -> int:
        """Count the distinct rows, but no further than ``limit + 1``."""
        ...

    def take(self, blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
        """Copy the codes of some rows (r,) into blocks (ceil(r / 64), M, 64) of their own."""
        ...

    def pack_mask(self, mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Pack a mask (n,) into words (ceil(n / 64),): bit i is bit ``i % 64`` of word ``i // 64``."""
        ...

    def count_bits(self, words: NDArray[np.uint64]) -> int:
        """Count the bits of words (w,) that are set."""
        ...

    def set_bits(self, words: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """List the bits of words (w,) that are set, ascending; bit i is bit ``i % 64`` of word ``i // 64``."""
        ...

    def hamming(self, codes: Bytes, queries: Bytes, n_threads: int = 1) -> NDArray[np.uint16]:
        """Count the bits in which codes (n, M) differ from queries (q, M): (q, n)."""
        ...

    def products(self, x: Float32, y: Float32, n_threads: int = 1) -> Float32:
        """Multiply rows x (q, d) and y (n, d): ``x y'`` (q, n), every sum in one order whatever rows stand beside it.

        Sixteen partial sums each take every sixteenth column by fused multiply-adds; then the upper half of them is added to
        the lower, until one is left.
        """
        ...

    def tree_sums(
        self,
        x: Float32,
        features: Numbers,
        thresholds: Float32,
        leaves: Float32,
        n_threads: int = 1,
    ) -> Float32:
        """Add up the leaves that rows come to in groups of decision trees, in float32 and in the order of the trees.

        A row goes from node k of a tree to node ``2 k + 1``, or to ``2 k + 2`` where its feature is above the threshold;
        past the last node the leaves begin.

        Parameters
        ----------
        x : ndarray (n, d) float32
        features : ndarray (groups, trees, 2**depth - 1) int32
            Which feature a node compares, below d.
        thresholds : ndarray like `features`, float32
        leaves : ndarray (groups, trees, 2**depth) float32
            The depth is at most 16.

        Returns
        -------
        ndarray (n, groups) float32
        """
        ...

    def best_splits(
        self,
        bins: Bytes,
        rows: NDArray[np.uint32],
        weights: Float64,
        starts: NDArray[np.uint64],
        features: Numbers,
        n_threads: int = 1,
    ) -> tuple[Numbers, Bytes]:
        """Find the best split of every node of one level of a decision tree.

        It leaves the lowest weighted Gini impurity of two classes: with s the sum of a side's weights and m that of their
        magnitudes, the sum of ``s**2 / m`` over both sides is greatest. Of equal splits that of the first feature in the
        node's list wins, then that of the lowest bin. A node without any split gets its first feature and bin 255.

        Parameters
        ----------
        bins : ndarray (d, n) uint8
            Feature by feature, the bin of every row.
        rows : ndarray (m,) uint32
            The rows of the first node, then those of the second, and so on.
        weights : ndarray (m,) float64
            Of those rows, negative for the negative class, and not zero.
        starts : ndarray (nodes + 1,) uint64
            Node k has the rows ``starts[k]`` up to ``starts[k + 1]``.
        features : ndarray (nodes, f) int32
            From which each node may choose, below d.

        Returns
        -------
        features : ndarray (nodes,) int32
        last : ndarray (nodes,) uint8
            The last bin that goes left.
        """
        ...
