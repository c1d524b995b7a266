"""Which triplets the triplet loss looks at: the active set, chosen again for every iteration.

All O(n^3) triplets (i, j, l) of rows, i and j similar, i and l not, are too many. As published, those most likely to trigger
the hinge are chosen with the help of an approximate neighbour list for every row: here its neighbours, in the space of the
decoded vectors, among rows drawn at random. They are drawn in parts that hold about `SIMILAR_PER_PART` similar rows each, and
the most violated triplet of every part is taken. Larger parts find triplets that violate more, and worse codes: the extremes
of a large part are the same few outliers for all rows, and the codes come to serve these alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.labels import Labels
from supquant.metrics import relevance
from supquant.parallel import ordered_map, row_blocks

Rows = NDArray[np.intp]

SIMILAR_PER_PART = 2

BLOCK_ROWS = 256
"""Rows that draw the same parts."""


@dataclass(frozen=True)
class Triplets:
    """Triplets of row numbers, ordered by anchor: `similar` shares a label with `anchor`, `other` does not."""

    anchor: Rows  # (t,)  i
    similar: Rows  # (t,)  j
    other: Rows  # (t,)  l

    def __len__(self) -> int:
        return len(self.anchor)


def active_triplets(
    S: Float64, labels: Labels, per_row: int, rng: np.random.Generator, n_jobs: int = 1
) -> Triplets:
    """Choose `per_row` triplets for every row, each the most violated one of a random part of the rows.

    Parameters
    ----------
    S : (n, r)
        Decoded vectors.
    labels : Labels
        Rows are similar if they share a label.
    per_row : int
        Fewer where there are not so many parts, or where a part holds no row similar to i, or no other.
    rng : Generator
        Draws the parts.
    n_jobs : int
        Threads; the triplets do not depend on it.
    """
    n = len(S)
    size = part_size(labels)
    n_parts = min(per_row, max(1, n // size))
    order = rng.permutation(n)

    def of_block(block: tuple[int, int]) -> Triplets:
        first = block[0] // BLOCK_ROWS * n_parts * size
        drawn = order[np.arange(first, first + n_parts * size) % n] if n_parts * size < n else order
        return most_violated(S, labels, block, np.array_split(drawn, n_parts))

    found = list(ordered_map(of_block, row_blocks(n, BLOCK_ROWS), n_jobs))
    return Triplets(
        np.concatenate([each.anchor for each in found]),
        np.concatenate([each.similar for each in found]),
        np.concatenate([each.other for each in found]),
    )


def part_size(labels: Labels) -> int:
    """Give how many random rows hold about `SIMILAR_PER_PART` that are similar to a row, at most all of them."""
    n = len(labels)
    counts = sum(labels.dense(*block).sum(axis=0) for block in row_blocks(n))  # (L,)
    share = float(
        np.square(counts / n).sum()
    )  # of similar pairs; with several labels a row, a little too much
    return min(n, int(np.ceil(SIMILAR_PER_PART / share)))


def most_violated(S: Float64, labels: Labels, block: tuple[int, int], parts: list[Rows]) -> Triplets:
    """Find for the rows i of a block (start, stop) and every part (m,) of the rows the triplet that is violated most.

    That is the one of greatest ``|s_i - s_j|^2 - |s_i - s_l|^2``: the farthest similar and the nearest other row. A row is
    never its own j.
    """
    candidates = np.concatenate(parts)
    chosen = S[candidates]  # (m, r)
    rows = np.arange(*block)
    distances = np.einsum("ij,ij->i", chosen, chosen) - 2.0 * (S[slice(*block)] @ chosen.T)  # less |s_i|^2
    similar = relevance(labels, labels.take(candidates), *block)
    far = np.where(similar & (rows[:, None] != candidates), distances, -np.inf)
    near = np.where(similar, np.inf, distances)
    starts = np.cumsum([0, *map(len, parts)])
    j = np.stack([a + far[:, a:b].argmax(axis=1) for a, b in pairwise(starts)], axis=1)  # (b, T)
    o = np.stack([a + near[:, a:b].argmin(axis=1) for a, b in pairwise(starts)], axis=1)
    exists = np.isfinite(np.take_along_axis(far, j, axis=1)) & np.isfinite(
        np.take_along_axis(near, o, axis=1)
    )
    row, part = np.nonzero(exists)
    return Triplets(rows[row], candidates[j[row, part]], candidates[o[row, part]])
