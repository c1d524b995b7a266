"""What every kernel computes, whichever implementation runs it.

Arrays are C-contiguous. Codes are (n, M) uint8: n rows, one codeword of each of M <= 64 codebooks of K <= 256
codewords. Codeword k of codebook m has the flat index ``m * K + k``; formulas write it ``m k``. The number of threads
never changes a bit of a result. A wrong dtype, shape or range is a `ValueError`.

Scans read codes in blocks of 64 rows, (b, M, 64) uint8 with b = ceil(n / 64): ``blocks[i // 64, m, i % 64]`` is
codeword m of row i. Places after the last row are zero.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Counts, Float32, Float64, RowNumbers
from supquant.kernels.packing import Packed
from supquant.kernels.scanned import Bytes, Scanned

__all__ = ["Kernels", "Numbers", "Real", "Scans"]

Numbers = NDArray[np.int32]
Real = TypeVar("Real", np.float32, np.float64)


class Scans(Protocol):
    """Scans of codes."""

    def scan(
        self,
        scanned: Scanned,
        tables: Float32,
        k: int,
        query_bits: Bytes | None = None,
        prune: bool = True,
        n_threads: int = 1,
    ) -> tuple[Float32, RowNumbers]:
        """Return the k rows with the lowest sums of each table, exactly.

        The sum of a row is that of `table_sums`. Rows are sorted by sum, rows of equal sums by number.

        Parameters
        ----------
        scanned : Scanned
        tables : ndarray (q, M, K) float32
            A table with NaN or infinite entries, or whose sums could overflow, is a `ValueError`.
        k : int
        query_bits : ndarray (q, M) uint8, optional
            Codes of the queries, if the tables hold Hamming distances to them. The answer is the same and comes faster.
        prune : bool
            False adds up every row in float32. The answer is the same.

        Returns
        -------
        sums : ndarray (q, min(k, eligible rows)) float32
        rows : ndarray like `sums`, int64
        """

    def scan_within(
        self,
        scanned: Scanned,
        tables: Float32,
        limits: Float32,
        query_bits: Bytes | None = None,
        n_threads: int = 1,
    ) -> tuple[RowNumbers, Float32, RowNumbers]:
        """Return all rows with a sum of at most ``limits[i]`` in table i, sorted as by `scan`.

        Returns
        -------
        starts : ndarray (q + 1,) int64
            The rows of table i are at ``starts[i]`` up to ``starts[i + 1]``.
        sums : ndarray (starts[-1],) float32
        rows : ndarray (starts[-1],) int64
        """


class Kernels(Scans, Protocol):
    """Sums, searches and scans over codes."""

    def code_sums(
        self, codes: Bytes, X: Float32, K: int, out: Float64 | None = None, n_threads: int = 1
    ) -> Float64:
        """Return the sums (M*K, d) of the rows of X (n, d) that have each codeword; they are added to `out` if given.

        With the indicator matrix B (n, M*K) of the codes this is B'X.
        """

    def pair_counts(
        self, codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None = None, n_threads: int = 1
    ) -> Float64:
        """Return how many rows have both of two codewords: B'B (M*K, M*K). Row i counts `counts[i]` times."""

    def interaction(
        self,
        codes: Bytes,
        counts: Float64,
        gram: Float64,
        eps: float,
        sizes: Sequence[int] | None = None,
        n_threads: int = 1,
    ) -> tuple[float, float, Float64]:
        """Return sums over rows of the inter-dictionary products ``e_i = sum_{a != b} gram[a c_ia, b c_ib]``.

        Parameters
        ----------
        codes : ndarray (u, M) uint8
        counts : ndarray (u,) float64
            Number of times that each row counts.
        gram : ndarray (M*K, M*K) float64
            Inner products of codewords, symmetric. Products within one codebook are ignored.
        eps : float
        sizes : sequence of M int, optional
            Number of codewords of each codebook. `gram` is as wide as their sum. By default all codebooks are of one
            size.

        Returns
        -------
        sum_e : float
            ``sum_i counts_i e_i``
        sum_sq : float
            ``sum_i counts_i (e_i - eps)^2``
        derivative : ndarray like `gram`
            Derivative of `sum_sq` with respect to `gram`. It is symmetric, and zero within one codebook.
        """

    def assign(
        self,
        unary: Float32,
        cross: Float32,
        product: Float32,
        mu: float,
        eps: float,
        codes: Bytes,
        max_sweeps: int,
        n_threads: int = 1,
    ) -> Bytes:
        """Return a code c of low cost for every row. The search starts from `codes`.

        The cost is ``sum_m unary[m c_m] + sum_{a != b} cross[a c_a, b c_b] + mu (e - eps)^2`` with
        ``e = sum_{a != b} product[a c_a, b c_b]``.

        With one or two codebooks the code has the lowest cost of all. With more, the search takes the best codeword of
        one codebook at a time, given the others, and visits the codebooks in turn until none changes. Of equal costs
        the current codeword wins, then the smallest index. No row gets a code of higher cost than its start.

        Parameters
        ----------
        unary : ndarray (n, M*K) float32
        cross, product : ndarray (M*K, M*K) float32
            Symmetric. Entries within one codebook are ignored.
        mu, eps : float
        codes : ndarray (n, M) uint8
            Codes from which the search starts. They are not changed.
        max_sweeps : int
            Largest number of visits to each codebook.

        Returns
        -------
        ndarray (n, M) uint8
        """

    def beam(self, unary: Float32, cross: Float32, K: int, width: int = 1, n_threads: int = 1) -> Bytes:
        """Return codes (n, M) to start a search from, chosen one codebook after the other.

        After each codebook, the `width` beginnings of a code with the lowest costs are kept, at most 64. Codeword k of
        codebook m adds ``unary[m k] + 2 sum_{b < m} cross[b c_b, m k]`` to the cost. Of equal costs, the earlier beginning
        and then the smaller k wins. A width of 1 is a greedy choice.
        """

    def table_sums(self, codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
        """Return the sums (q, n) of the tables (q, M, K) at the codes, added in float32 and in the order of the codebooks.

        ``sums[j, i] = tables[j, 0, codes[i, 0]] + tables[j, 1, codes[i, 1]] + ...``
        """

    def decode(self, codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
        """Return the sums (n, r) of the codewords in codebooks (M, K, r), added in the order of the codebooks."""

    def distinct(self, codes: Bytes) -> tuple[Bytes, NDArray[np.int64]]:
        """Return the distinct codes (u, M) in lexicographic order, and how many rows have each (u,)."""

    def group(
        self, codes: Bytes, n_distinct: int | None = None
    ) -> tuple[Bytes, NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the distinct codes (u, M) in lexicographic order, and their rows as `starts` and `members` of `Scanned`.

        `n_distinct` is u if it is known, so that codes need not be counted.
        """

    def scores(
        self,
        sums: Float32,
        offsets: Float32,
        descending: bool = False,
        curves: Float32 | None = None,
        curve_of: RowNumbers | None = None,
    ) -> Float32:
        """Return the scores (q, k) of sums (q, k): ``offset + sum``, or ``offset - sum``, and then a point on a curve.

        Parameters
        ----------
        sums : ndarray (q, k) float32
        offsets : ndarray (q,) float32
        descending : bool
            Whether sums are subtracted.
        curves : ndarray (c, 2, p) float32, optional
            For each curve, p ascending scores and the values that they stand for. Straight lines join these points.
        curve_of : ndarray (q,) int64, optional
            The number of the curve of each query. By default all have the first one.
        """

    def count_distinct(self, codes: Bytes, limit: int) -> int:
        """Return the number of distinct codes, or ``limit + 1`` if there are more than `limit`."""

    def take(self, blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
        """Return new blocks (ceil(r / 64), M, 64) with the codes of the given rows (r,)."""

    def sort_by(self, codes: Bytes, lead: Sequence[int]) -> NDArray[np.uint32]:
        """Return the numbers (n,) of codes (n, M) in the order of 1 to 4 of their columns, the first one first.

        Codes that are equal there stay in order.
        """

    def arrange(self, codes: Bytes, rows: NDArray[np.uint32], n_threads: int = 1) -> Bytes:
        """Return codes (n, M) in the order of their numbers (r,), in blocks (ceil(r / 64), M, 64)."""

    def pack_mask(self, mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """Return a mask (n,) as bits of words (ceil(n / 64),): bit ``i % 64`` of word ``i // 64`` is ``mask[i]``."""

    def count_bits(self, words: NDArray[np.uint64]) -> int:
        """Return the number of set bits in words (w,)."""

    def set_bits(self, words: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the numbers of the set bits in words (w,), ascending; bit i is bit ``i % 64`` of word ``i // 64``."""

    def products(self, x: Float32, y: Packed, n_threads: int = 1) -> Float32:
        """Return the inner products ``x y'`` (q, n) of rows x (q, d) and of a packed matrix y (n, d).

        A product does not depend on the other rows of x and y, because all additions have a fixed order. The products of
        `PRODUCT_DEPTH` columns are added one after the other by fused multiply-adds, then the sums of these parts.
        """

    def row_dots(
        self,
        x: NDArray[np.int8] | NDArray[np.float16],
        rows: RowNumbers,
        asking: RowNumbers,
        factors: Float32,
        n_threads: int = 1,
    ) -> Float32:
        """Return the inner products (r, t) of some rows of x (n, d) and the factors of the queries that ask for them.

        The products of a row do not depend on other rows. Their additions have the order of `count_products`.

        Parameters
        ----------
        x : ndarray (n, d) int8 or float16
        rows : ndarray (r,) int64
            Numbers of rows, below n.
        asking : ndarray (r,) int64
            The number of the query of each row, below q.
        factors : ndarray (q, t, d) float32
            t is 1 or 2.
        """

    def counted_exponentials(self, exponents: Float32, counts: Counts) -> None:
        """Write ``round(2**15 * exp(exponents))`` into `counts`, both (n, d); exponents above 0 count as 0.

        Features of a Gaussian kernel are kept as such counts. They take half the memory of floats.
        """

    def count_products(self, x: Counts, weights: Float32) -> Float32:
        """Return the inner products (n, L) of rows of counts x (n, d) and weights (L, d). d is a multiple of `GROUP`.

        `GROUP` sums of products of every `GROUP`-th column are added up by halves: the second half of them to the first.
        """

    def count_slopes(
        self, x: Counts, weights: Float32, targets: Float32, out: Float32, *, several: bool
    ) -> None:
        """Add the gradient of the negative log likelihood of targets (n, L), 0 and 1, to the sums `out` (L, d).

        Logits are the products (n, L) of rows of counts x (n, d) and weights (L, d), for at most `MAX_FEW_LABELS` labels: of each
        label alone if there may be `several` in a row, else of all labels together. Rows are added one after the other by fused
        multiply-adds. It takes a third of the time of matrix products of floats, which read all rows twice.
        """

    def gaussian(
        self, x: Float32, anchors: Packed, norms: Float32, scale: float, n_threads: int = 1
    ) -> Float32:
        """Return ``exp(scale * |x - a|^2)`` (q, n) of rows x (q, d) and anchors a (n, d), for a scale of at most 0.

        Parameters
        ----------
        x : ndarray (q, d) float32
        anchors : Packed
        norms : ndarray (n',) float32
            The squared lengths of the anchors, filled up with zeros to a multiple of `GROUP`.
        scale : float
            It is rounded to float32.
        """

    def tree_sums(
        self,
        x: Float32,
        features: Numbers,
        thresholds: Float32,
        leaves: Float32,
        n_threads: int = 1,
    ) -> Float32:
        """Return the sums of the leaves that rows reach in groups of decision trees, added in float32, tree by tree.

        A row goes from node k of a tree to node ``2 k + 2`` if its feature is above the threshold of the node, else to
        node ``2 k + 1``. The numbers after the last node are the leaves.

        Parameters
        ----------
        x : ndarray (n, d) float32
        features : ndarray (groups, trees, 2**depth - 1) int32
            Number of the feature that a node compares, below d.
        thresholds : ndarray like `features`, float32
        leaves : ndarray (groups, trees, 2**depth) float32
            The depth is at most 16.

        Returns
        -------
        ndarray (n, groups) float32
        """

    def best_splits(
        self,
        bins: Bytes,
        rows: NDArray[np.uint32],
        weights: Float64,
        starts: NDArray[np.uint64],
        features: Numbers,
        n_threads: int = 1,
    ) -> tuple[Numbers, Bytes]:
        """Return the best split of every node in one level of a decision tree.

        The best split has the lowest weighted Gini impurity of two classes. With s the sum of the weights on one side and
        m the sum of their magnitudes, that is the greatest sum of ``s**2 / m`` over both sides. Of equal splits the first
        feature in the list of the node wins, then the lowest bin. A node that cannot be split gets its first feature and
        bin 255.

        Parameters
        ----------
        bins : ndarray (d, n) uint8
            Bin of every row, for each feature.
        rows : ndarray (m,) uint32
            Rows of the first node, then rows of the second node, and so on.
        weights : ndarray (m,) float64
            Weights of these rows. They are negative for the negative class, and none is zero.
        starts : ndarray (nodes + 1,) uint64
            Node k has the rows at ``starts[k]`` up to ``starts[k + 1]``.
        features : ndarray (nodes, f) int32
            Features, below d, from which each node may choose.

        Returns
        -------
        features : ndarray (nodes,) int32
        last : ndarray (nodes,) uint8
            The last bin that goes left.
        """
