"""The triplets of the triplet loss: the active set, which is chosen again in every iteration.

There are O(n^3) triplets (i, j, l) of rows, where i is similar to j and not to l: too many. The paper takes those that are most
likely to be violated, with an approximate list of neighbours for every row. Here the neighbours, in the space of the decoded
vectors, are searched among random rows. These come in parts with about `SIMILAR_PER_PART` similar rows each, and the most
violated triplet of every part is taken. Larger parts contain triplets that are violated more, but give worse codes: their
extremes are the same few outliers for all rows, and the codes then suit only these.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.inputs.labels import Labels
from supquant.metrics import relevance
from supquant.parallel import ordered_map, row_blocks

Rows = NDArray[np.intp]
"""Rows are given by their numbers."""

SIMILAR_PER_PART = 2
"""Number of rows in a part that are similar to a given row, on average."""

BLOCK_ROWS = 256
"""Number of consecutive rows that use the same parts."""


@dataclass(frozen=True)
class Triplets:
    """Triplets of row numbers, ordered by anchor. `similar` shares a label with `anchor`, and `other` does not."""

    anchor: Rows  # (t,)  i
    similar: Rows  # (t,)  j
    other: Rows  # (t,)  l

    @property
    def places(self) -> tuple[Rows, Rows, Rows]:
        """The rows at the places i, j and l."""
        return self.anchor, self.similar, self.other


def choose_triplets(
    S: Float64, labels: Labels, per_row: int, rng: np.random.Generator, n_jobs: int = 1
) -> Triplets:
    """Choose triplets for every row, each the most violated one in a random part of the rows.

    Parameters
    ----------
    S : (n, r) float64
        Decoded vectors.
    labels : Labels
        Rows are similar if they share a label.
    per_row : int
        Number of triplets for each row. There are fewer if the rows do not make so many parts, or if a part has no row that
        is similar, or none that is not.
    rng : Generator
        Draws the parts.
    n_jobs : int, default=1
        Number of threads. The triplets do not depend on it.

    Returns
    -------
    Triplets
    """
    n = len(S)
    size = part_size(labels)
    n_parts = min(per_row, max(1, n // size))
    order = rng.permutation(n)

    def of_block(block: tuple[int, int]) -> Triplets:
        # block b takes the next n_parts * size rows of `order` after those of block b - 1, and begins again at its end
        first = block[0] // BLOCK_ROWS * n_parts * size
        drawn = order[np.arange(first, first + n_parts * size) % n] if n_parts * size < n else order
        return most_violated(S, labels, block, np.array_split(drawn, n_parts))

    found = list(ordered_map(of_block, row_blocks(n, BLOCK_ROWS), n_jobs))
    return Triplets(*map(np.concatenate, zip(*(each.places for each in found), strict=True)))


def part_size(labels: Labels) -> int:
    """Return the number of random rows that have about `SIMILAR_PER_PART` rows similar to a given one, at most all rows."""
    n = len(labels)
    counts = sum(labels.dense(*block).sum(axis=0) for block in row_blocks(n))  # (L,)
    # the part of all pairs that is similar; a little too high if rows have several labels
    share = float(np.square(counts / n).sum())
    return min(n, int(np.ceil(SIMILAR_PER_PART / share)))


def most_violated(S: Float64, labels: Labels, block: tuple[int, int], parts: list[Rows]) -> Triplets:
    """Return the most violated triplet of each row i of a block (start, stop) in each part of the rows.

    It has the greatest ``|s_i - s_j|^2 - |s_i - s_l|^2``: j is the farthest similar row and l the nearest other row. A row is
    never its own j.
    """
    candidates = np.concatenate(parts)
    chosen = S[candidates]  # (m, r)
    rows = np.arange(*block)
    distances = np.einsum("ij,ij->i", chosen, chosen) - 2.0 * (S[slice(*block)] @ chosen.T)  # without |s_i|^2
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
