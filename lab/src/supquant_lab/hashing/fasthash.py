"""Features to bits: fast supervised hashing with decision trees (FastHash).

"Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin, Shen, Shi, van den Hengel, Suter, CVPR 2014), and
"Supervised Hashing Using Graph Cuts and Boosted Decision Trees" (Lin, Shen, van den Hengel, TPAMI 2015). Each bit takes two
steps: it is inferred for all rows from the labels and the earlier bits, by minimum cuts of blocks of similar rows, and an
ensemble of trees is trained to predict it (`boosted_trees`). The next bit is inferred from the bits that the trees predict.

Two rows are similar if they share a label. The loss of a pair is the hinge loss on the Hamming distance d of r bits,

    L(d) = d^2 for similar pairs,  max(r / 2 - d, 0)^2 for dissimilar pairs.

Given the earlier bits, the loss of a pair has two values: one if the new bits z_i, z_j in {1, -1} agree, one if they differ.
So the sum over pairs is, up to a constant and a factor,

    sum_{i < j} a_ij z_i z_j,    a_ij = L(d_ij) - L(d_ij + 1).

Similar pairs have a_ij < 0. A block is a set of rows that are all similar to each other. While the other rows are fixed, a
minimum cut finds the best bits of a block. The coefficients here are 4 a_ij: these are integers, so the cuts are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from scipy.sparse.linalg import eigsh

from supquant import kernels
from supquant.arrays import Flags, RowNumbers
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, check_positive
from supquant.parallel import row_blocks
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.boosted_trees import BinnedRows, BoostedTrees, Boosting, boost
from supquant_lab.hashing.rows import HashRows, signs
from supquant_lab.quality import relevance

MAX_TREE_DEPTH = 12
"""Maximum number of levels of a tree. All 2**depth leaves of a tree are stored."""


Integers = NDArray[np.int64]
"""Signs of 1 and -1, distances and coefficients."""

ROWS_PER_BLOCK = 512
"""Number of rows whose similarity to all rows is computed at a time."""


class FastHash(HashEstimator):
    """Fast supervised hashing: bits inferred from pairs of rows by graph cuts and predicted by boosted decision trees.

    The defaults are the settings of the authors' release.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8.
    n_trees : int, default=200
        Number of trees for each bit.
    tree_depth : int, default=4
        Number of levels of a tree, at most 12. It is worth tuning: with more rows, deeper trees are better.
    n_split_features : int, default=200
        Number of random features that a node of a tree chooses from; all features if there are fewer.
    kept_weight : float, default=0.99
        A tree is grown on the rows of largest weight that together hold this fraction of the weight. Above 0 and at most 1.
    n_pairs : int, default=100
        Number of rows that share a label, and of rows that do not, drawn for each row to infer bits from.
    n_sweeps : int, default=2
        Number of sweeps over the blocks of similar rows, for each bit.
    features : AnchorKernel, "auto" or None, default=None
        The input of the trees; None takes the vectors, as published.
    max_rows : int or None, default=5000
        Maximum number of random rows to learn from; None for all.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the rows, the anchors, the pairs, and the features that nodes choose from.
    callback : callable or None, default=None
        Called with a `Progress` after each bit.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
        The inferred bits of the rows that were learned from, and the bits of the trees for the others.
    objective_ : list of dict
        After each bit: "objective" is the mean loss of the trees' codes over the drawn pairs, divided by the square of the
        number of bits; "inferred" is the same with the last bit as it was inferred; "error" is the fraction of rows whose bit
        the trees predict wrongly.
    n_iter_ : int
        Number of bits learned.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant_lab.hashing import FastHash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=200)
    >>> X = rng.normal(size=(4, 8))[y] * 3 + rng.normal(size=(200, 8))
    >>> hashing = FastHash(8, n_trees=5, random_state=0).fit(X, y)
    >>> hashing.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "fasthash"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_trees: int = 200,
        tree_depth: int = 4,
        n_split_features: int = 200,
        kept_weight: float = 0.99,
        n_pairs: int = 100,
        n_sweeps: int = 2,
        features: Features = None,
        max_rows: int | None = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_trees = n_trees
        self.tree_depth = tree_depth
        self.n_split_features = n_split_features
        self.kept_weight = kept_weight
        self.n_pairs = n_pairs
        self.n_sweeps = n_sweeps
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_integer(self.n_trees, "n_trees", 1)
        check_integer(self.tree_depth, "tree_depth", 1, MAX_TREE_DEPTH)
        check_integer(self.n_split_features, "n_split_features", 1)
        check_positive(self.kept_weight, "kept_weight", 1)
        check_integer(self.n_pairs, "n_pairs", 1)
        check_integer(self.n_sweeps, "n_sweeps", 0)

    def _n_steps(self) -> int:
        return self.n_bits

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        X = rows.features()  # (n, d)
        binned = BinnedRows.of(X)
        boosting = Boosting(self.n_trees, self.tree_depth, self.n_split_features, self.kept_weight)
        pairs, blocks = draw_pairs(rows.labels, self.n_pairs, rng), label_blocks(rows.labels)
        distances = np.zeros(len(pairs.first), dtype=np.int64)  # in the bits of the trees
        n_leaves = 2**self.tree_depth
        features = np.zeros((self.n_bits, self.n_trees, n_leaves - 1), dtype=np.int32)
        thresholds = np.zeros(features.shape, dtype=np.float32)
        leaves = np.zeros((self.n_bits, self.n_trees, n_leaves), dtype=np.float32)
        inferred = np.zeros((len(X), self.n_bits), dtype=np.bool_)

        def functions() -> HashFunctions:
            trees = BoostedTrees(
                features.copy(), thresholds.copy(), leaves.copy(), X.shape[1], rows.feature_map
            )
            return HashFunctions(None, np.zeros(self.n_bits), inferred.copy(), trees)

        for bit in range(self.n_bits):
            matrix = pairs.matrix(hinge_coefficients(pairs, distances, bit + 1))
            z = infer_bit(matrix, blocks, self.n_sweeps, rng)  # (n,)
            ensemble = boost(binned, z.astype(np.float64), boosting, rng, rows.n_jobs)
            sums = kernels.active().tree_sums(
                X, ensemble.features[None], ensemble.thresholds[None], ensemble.leaves[None], rows.n_jobs
            )[:, 0]  # (n,)
            inferred_distances = distances + pairs.differ(z)
            distances = distances + pairs.differ(sums > 0)
            features[bit], thresholds[bit] = ensemble.features, ensemble.thresholds
            inferred[:, bit], leaves[bit] = z > 0, ensemble.leaves
            values = {
                "objective": relative_loss(pairs, distances, bit + 1),
                "inferred": relative_loss(pairs, inferred_distances, bit + 1),
                "error": float(np.mean((sums > 0) != (z > 0))),
            }
            yield HashStep(values, functions)


def relative_loss(pairs: Pairs, distances: Integers, n_bits: int) -> float:
    """Return the mean loss of pairs, divided by the square of the number of bits, given their Hamming distances (P,)."""
    return float(hinge_loss(pairs, distances, n_bits).mean() / n_bits**2)


@dataclass(frozen=True)
class Pairs:
    """P distinct pairs of n rows; the first row of a pair has the smaller number."""

    n: int
    first: RowNumbers  # (P,)
    second: RowNumbers  # (P,)
    similar: Flags  # (P,)

    def differ(self, bit: NDArray[np.generic]) -> Flags:
        """Return a mask (P,) of the pairs whose rows differ in a bit (n,)."""
        return np.asarray(bit[self.first] != bit[self.second])

    def matrix(self, coefficients: Integers) -> sp.csr_array:
        """Return the symmetric matrix (n, n) that holds the coefficient (P,) of every pair."""
        half = sp.coo_array((coefficients, (self.first, self.second)), shape=(self.n, self.n)).tocsr()
        return (half + half.T).tocsr()


def draw_pairs(labels: Labels, n_pairs: int, rng: np.random.Generator) -> Pairs:
    """Draw `n_pairs` similar and `n_pairs` dissimilar partners for every row, or all of a kind if there are fewer."""
    n = len(labels)
    drawn: list[Integers] = []
    for start, stop in row_blocks(n, ROWS_PER_BLOCK):
        similar = relevance(labels, labels, start, stop)  # (b, n)
        for row, similar_to_row in enumerate(similar, start):
            for candidates in (similar_to_row, ~similar_to_row):
                candidates[row] = False
                partners = np.flatnonzero(candidates)
                if len(partners) > n_pairs:
                    partners = rng.choice(partners, n_pairs, replace=False, shuffle=False)
                # a pair (i, j), i < j, is the number i n + j, so that equal pairs are equal numbers
                drawn.append(np.minimum(partners, row) * n + np.maximum(partners, row))
    first, second = np.divmod(np.unique(np.concatenate(drawn)), n)
    similar = labels.take(first).shared_with(labels.take(second)).ravel()
    return Pairs(n, first, second, similar)


def label_blocks(labels: Labels) -> list[RowNumbers]:
    """Return blocks of rows that cover all rows: the rows of each label, and each row without labels by itself."""
    if labels.indices is not None:
        return [np.flatnonzero(labels.indices == k) for k in np.unique(labels.indices)]
    assert labels.indicator is not None
    by_label = labels.indicator.tocsc()
    blocks = np.split(by_label.indices.astype(np.int64), by_label.indptr[1:-1])
    unlabelled = np.flatnonzero(labels.indicator.sum(axis=1) == 0)
    return [np.sort(block) for block in blocks if len(block)] + [np.array([row]) for row in unlabelled]


def hinge_loss(pairs: Pairs, distances: Integers, n_bits: int) -> NDArray[np.float64]:
    """Return the loss (P,) of pairs, given the Hamming distances (P,) of their codes of `n_bits` bits."""
    shortfall = np.maximum(n_bits / 2 - distances, 0)
    return np.where(pairs.similar, distances, shortfall) ** 2


def hinge_coefficients(pairs: Pairs, distances: Integers, n_bits: int) -> Integers:
    """Return 4 a (P,) for the last of `n_bits` bits, given the Hamming distances (P,) in the bits before it."""
    shortfall = n_bits - 2 * distances
    dissimilar = np.maximum(shortfall, 0) ** 2 - np.maximum(shortfall - 2, 0) ** 2
    return np.where(pairs.similar, -4 - 8 * distances, dissimilar)


def infer_bit(
    matrix: sp.csr_array, blocks: list[RowNumbers], n_sweeps: int, rng: np.random.Generator
) -> Integers:
    """Return signs z (n,) with a low ``z' A z``: those of the spectral relaxation, improved one block at a time."""
    z = spectral_signs(matrix, rng)
    for _ in range(n_sweeps):
        for block in blocks:
            z[block] = cut_block(matrix, block, z)
    return z


def spectral_signs(matrix: sp.csr_array, rng: np.random.Generator) -> Integers:
    """Return the signs (n,) of the vector v of length 1 with the lowest ``v' A v``."""
    # No eigenvalue is above the bound, so the lowest of A is the one of largest magnitude after the shift. The shift also
    # keeps a matrix of zeros from ARPACK, which cannot work on one.
    bound = abs(matrix).sum(axis=1).max() + 1
    shifted = matrix.astype(np.float64) - bound * sp.eye_array(matrix.shape[0], format="csr")
    _, vectors = eigsh(shifted, k=1, which="LM", v0=rng.normal(size=matrix.shape[0]), tol=1e-3)
    return signs(vectors[:, 0], np.int64)


def cut_block(matrix: sp.csr_array, block: RowNumbers, z: Integers) -> Integers:
    """Return the signs (b,) of a block of rows that minimise ``z' A z`` while the signs (n,) of the other rows are fixed.

    The signs are those of a minimum cut. A row on the side of the source has sign 1. If sign 1 costs a row more than -1, half
    the difference is the capacity from the row to the sink; if it costs less, half of it is the capacity from the source to the
    row. The capacity between two rows is half of what it costs that their signs differ.
    """
    rows = matrix[block]
    inside = rows[:, block].tocoo()
    unary = rows @ z - inside @ z[block]  # (b,)
    b = len(block)
    source, sink = b, b + 1
    to_sink, from_source = np.flatnonzero(unary > 0), np.flatnonzero(unary < 0)
    tails = np.concatenate([inside.row, to_sink, np.full(len(from_source), source)])
    heads = np.concatenate([inside.col, np.full(len(to_sink), sink), from_source])
    capacities = np.concatenate([-inside.data, unary[to_sink], -unary[from_source]]).astype(np.int32)
    graph = sp.coo_array((capacities, (tails, heads)), shape=(b + 2, b + 2)).tocsr()
    residual = graph - maximum_flow(graph, source, sink).flow
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    best = np.full(b + 2, -1)
    best[reached] = 1
    return best[:b]
