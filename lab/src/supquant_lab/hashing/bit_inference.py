"""Labels to bits: one bit of all rows at a time, by minimum cuts of blocks of similar rows.

This is the first step of "Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin et al., CVPR 2014) and
"Supervised Hashing Using Graph Cuts and Boosted Decision Trees" (Lin, Shen, van den Hengel, TPAMI 2015). Two rows are similar
if they share a label. The loss of a pair is the hinge loss on the Hamming distance d of r bits,

    L(d) = d^2 for similar pairs,  max(r / 2 - d, 0)^2 for dissimilar pairs.

Given the earlier bits, the loss of a pair has two values: one if the new bits z_i, z_j in {1, -1} agree, one if they differ.
So the sum over pairs is, up to a constant and a factor,

    sum_{i < j} a_ij z_i z_j,    a_ij = L(d_ij) - L(d_ij + 1).

Similar pairs have a_ij < 0. A block is a set of rows that are all similar to each other. While the other rows are fixed, a
minimum cut finds the best bits of a block. The coefficients here are 4 a_ij: these are integers, so the cuts are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from scipy.sparse.linalg import eigsh

from supquant.arrays import Flags, RowNumbers
from supquant.inputs.labels import Labels
from supquant.metrics import relevance
from supquant.parallel import row_blocks
from supquant_lab.hashing.algebra import signs

Integers = NDArray[np.int64]
"""Signs of 1 and -1, distances and coefficients."""

ROWS_PER_BLOCK = 512
"""Number of rows whose similarity to all rows is computed at a time."""


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
