"""Labels to bits: one bit of all rows at a time, by exact cuts of blocks of similar rows.

The first step of "Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin et al., CVPR 2014) and
"Supervised Hashing Using Graph Cuts and Boosted Decision Trees" (Lin, Shen, van den Hengel, TPAMI 2015), with the hinge loss
on Hamming distances d of r bits,

    L(d) = d^2 for similar pairs,  max(r / 2 - d, 0)^2 for dissimilar ones.

Given the bits before, a pair's loss takes two values, one where the new bits z_i, z_j in {1, -1} agree and one where they
differ; so the sum over pairs is, up to a constant and a factor,

    sum_{i < j} a_ij z_i z_j,    a_ij = L(d_ij) - L(d_ij + 1).

Similar pairs have a_ij < 0. Rows that are similar to each other all form a block; with the others fixed, the bits of a block
are found exactly by a minimum cut. Coefficients are four times a_ij here, which are whole numbers, and so cuts are exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, maximum_flow
from scipy.sparse.linalg import eigsh

from supquant.labels import Labels
from supquant.metrics import relevance
from supquant.parallel import row_blocks

Signs = NDArray[np.int64]  # of 1 and -1
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows, each once, of which the first is the earlier row."""

    n: int
    first: NDArray[np.int64]  # (P,)
    second: NDArray[np.int64]  # (P,)
    similar: NDArray[np.bool_]  # (P,)

    def differing(self, bits: NDArray[np.generic]) -> NDArray[np.bool_]:
        """Tell which pairs differ in a bit (n,)."""
        found: NDArray[np.bool_] = bits[self.first] != bits[self.second]
        return found

    def matrix(self, coefficients: Integers) -> sp.csr_array:
        """Give the symmetric matrix (n, n) of the pairs' coefficients (P,)."""
        half = sp.coo_array((coefficients, (self.first, self.second)), shape=(self.n, self.n)).tocsr()
        return (half + half.T).tocsr()


def draw_pairs(labels: Labels, n_pairs: int, rng: np.random.Generator) -> Pairs:
    """Draw for every row `n_pairs` similar and as many dissimilar rows, all of them where there are fewer."""
    n = len(labels)
    drawn: list[Integers] = []
    for start, stop in row_blocks(n, 512):
        similar = relevance(labels, labels, start, stop)  # (b, n)
        for row, others in enumerate(similar, start):
            for wanted in (others, ~others):
                wanted[row] = False
                partners = np.flatnonzero(wanted)
                if len(partners) > n_pairs:
                    partners = rng.choice(partners, n_pairs, replace=False, shuffle=False)
                drawn.append(np.minimum(partners, row) * n + np.maximum(partners, row))
    first, second = np.divmod(np.unique(np.concatenate(drawn)), n)
    return Pairs(n, first, second, _are_similar(labels, first, second))


def _are_similar(labels: Labels, first: Integers, second: Integers) -> NDArray[np.bool_]:
    """Tell of pairs whether they share a label."""
    if labels.indices is not None:
        return np.asarray(labels.indices[first] == labels.indices[second])
    assert labels.indicator is not None
    shared = labels.indicator[first].multiply(labels.indicator[second])
    return np.asarray(shared.sum(axis=1)).ravel() > 0


def blocks_of(labels: Labels) -> list[NDArray[np.int64]]:
    """Cover the rows by blocks whose rows are similar to each other: those of a label; a row without labels is alone."""
    if labels.indices is not None:
        return [np.flatnonzero(labels.indices == k) for k in np.unique(labels.indices)]
    assert labels.indicator is not None
    by_label = labels.indicator.tocsc()
    blocks = np.split(by_label.indices.astype(np.int64), by_label.indptr[1:-1])
    alone = np.flatnonzero(labels.indicator.sum(axis=1) == 0)
    return [np.sort(block) for block in blocks if len(block)] + [np.array([row]) for row in alone]


def hinge_loss(pairs: Pairs, distances: Integers, n_bits: int) -> NDArray[np.float64]:
    """Give the loss (P,) of pairs whose codes of `n_bits` bits are `distances` (P,) apart."""
    short = np.maximum(n_bits / 2 - distances, 0)
    return np.where(pairs.similar, distances, short) ** 2


def hinge_coefficients(pairs: Pairs, distances: Integers, n_bits: int) -> Integers:
    """Give 4 a (P,) for the last of `n_bits` bits, where the pairs are `distances` (P,) apart in those before it."""
    short = n_bits - 2 * distances
    apart = np.maximum(short, 0) ** 2 - np.maximum(short - 2, 0) ** 2
    return np.where(pairs.similar, -4 - 8 * distances, apart)


def infer_bit(
    matrix: sp.csr_array, blocks: list[NDArray[np.int64]], n_sweeps: int, rng: np.random.Generator
) -> Signs:
    """Search for signs z (n,) of low ``z' A z``: the spectral relaxation, then block by block."""
    signs = spectral_signs(matrix, rng)
    for _ in range(n_sweeps):
        for block in blocks:
            signs[block] = cut_block(matrix, block, signs)
    return signs


def spectral_signs(matrix: sp.csr_array, rng: np.random.Generator) -> Signs:
    """Give the signs (n,) of the vector of length one that has the lowest ``v' A v``."""
    bound = (
        abs(matrix).sum(axis=1).max() + 1
    )  # no eigenvalue is greater; the shift keeps ARPACK from a matrix of zeros
    shifted = matrix.astype(np.float64) - bound * sp.eye_array(matrix.shape[0], format="csr")
    _, vectors = eigsh(shifted, k=1, which="LM", v0=rng.normal(size=matrix.shape[0]), tol=1e-3)
    return np.where(vectors[:, 0] > 0, 1, -1)


def cut_block(matrix: sp.csr_array, block: NDArray[np.int64], signs: Signs) -> Signs:
    """Find the signs (b,) of a block of rows with the lowest ``z' A z``, the other rows' signs as they are.

    In the graph a row on the source's side has the sign 1. A row that would rather have -1 for the others' sake is tied to
    the sink by what 1 costs more, half of it, else to the source; pairs are tied by what a difference costs, half of it.
    """
    rows = matrix[block]
    inside = rows[:, block].tocoo()
    unary = rows @ signs - inside @ signs[block]  # (b,)
    b = len(block)
    source, sink = b, b + 1
    to_sink, from_source = np.flatnonzero(unary > 0), np.flatnonzero(unary < 0)
    tails = np.concatenate([inside.row, to_sink, np.full(len(from_source), source)])
    heads = np.concatenate([inside.col, np.full(len(to_sink), sink), from_source])
    ties = np.concatenate([-inside.data, unary[to_sink], -unary[from_source]]).astype(np.int32)
    graph = sp.coo_array((ties, (tails, heads)), shape=(b + 2, b + 2)).tocsr()
    left = graph - maximum_flow(graph, source, sink).flow
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    found = np.full(b + 2, -1)
    found[reached] = 1
    return found[:b]
