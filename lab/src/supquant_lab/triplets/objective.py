"""The triplet objective ("Classification loss vs. triplet loss" in the paper), and the choice of its triplets.

    psi = sum_(i, j, l) [ |s_i - s_j|^2 - |s_i - s_l|^2 + rho ]_+  +  gamma (|S - X P|^2 + delta |P|^2)
          + mu sum_i (e_i - eps)^2

The hinge does not contain P and eps, so their best values for given codebooks are those of supervised quantization. They are
substituted, and L-BFGS runs on the codebooks alone. At its kinks the hinge has no gradient; a subgradient is used there.

There are O(n^3) triplets (i, j, l) of rows, where i is similar to j and not to l: too many. Every iteration chooses an active
set. The paper takes the triplets that are most likely to be violated, with an approximate list of neighbours for every row.
Here the neighbours, in the space of the decoded vectors, are searched among random rows. These come in parts with about
`SIMILAR_PER_PART` similar rows each, and the most violated triplet of every part is taken. Larger parts contain triplets that are
violated more, but give worse codes: their extremes are the same few outliers for all rows, and the codes then suit only these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Codes, Float64
from supquant.inputs.labels import Labels
from supquant.parallel import ordered_map, row_blocks
from supquant.published.objective import SmallProblem
from supquant.published.projections import Projected
from supquant_lab.quality import relevance

Rows = NDArray[np.intp]
"""Rows are given by their numbers."""

SIMILAR_PER_PART = 2
"""Number of rows in a part that are similar to a given row, on average."""

BLOCK_ROWS = 256
"""Number of consecutive rows that use the same parts."""


BLOCK_TRIPLETS = 4096
"""Number of triplets whose vectors are gathered at a time."""


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
    # the fraction of all pairs that is similar; a little too high if rows have several labels
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


@dataclass(frozen=True)
class TripletTerms:
    """The terms of psi, multiplied by their weights."""

    triplet: float  # sum of the hinges
    quantization: float  # gamma (|S - X P|^2 + delta |P|^2)
    constraint: float  # mu sum (e - eps)^2

    @property
    def total(self) -> float:
        """Psi, the sum of the terms."""
        return self.triplet + self.quantization + self.constraint

    def as_dict(self) -> dict[str, float]:
        """Return the terms and their sum by name."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class TripletLoss:
    """The hinge of fixed triplets with margin rho, as a function of the decoded vectors S (n, r)."""

    triplets: Triplets
    margin: float
    n_jobs: int = 1

    def violations(self, S: Float64) -> Float64:
        """Return ``|s_i - s_j|^2 - |s_i - s_l|^2 + rho`` for every triplet, (t,)."""
        squares = np.einsum("ij,ij->i", S, S)
        i, j, o = self.triplets.places
        values = squares[j] - squares[o] + self.margin

        def add_products(block: tuple[int, int]) -> None:
            part = slice(*block)
            values[part] -= 2.0 * np.einsum("ij,ij->i", S[i[part]], S[j[part]] - S[o[part]])

        for _ in ordered_map(add_products, row_blocks(len(values), BLOCK_TRIPLETS), self.n_jobs):
            pass
        return values

    def value(self, S: Float64) -> float:
        """Return the sum of the hinges."""
        return float(np.maximum(self.violations(S), 0.0).sum())

    def gradient(self, S: Float64) -> tuple[float, Float64]:
        """Return the sum of the hinges and its derivative (n, r) by S."""
        violations = self.violations(S)
        violated = violations > 0
        i, j, o = (rows[violated] for rows in self.triplets.places)
        # The sum is tr(S'AS) + rho times the number of violated triplets, with A symmetric. Every violated triplet adds:
        #     A[i, j] -= 1; A[j, i] -= 1; A[i, l] += 1; A[l, i] += 1; A[j, j] += 1; A[l, l] -= 1
        one = np.ones(len(i))
        n = len(S)
        A = scipy.sparse.csr_array(
            (
                np.concatenate([-one, -one, one, one, one, -one]),
                (np.concatenate([i, j, i, o, j, o]), np.concatenate([j, i, o, i, j, o])),
            ),
            shape=(n, n),
        )
        AS = np.concatenate(list(ordered_map(lambda block: A[slice(*block)] @ S, row_blocks(n), self.n_jobs)))
        return float(violations[violated].sum()), 2.0 * AS


@dataclass(frozen=True)
class TripletProblem:
    """Psi as a function of the used codewords C (u, r), for fixed codes and triplets."""

    small: SmallProblem
    loss: TripletLoss
    indicator: scipy.sparse.csr_array  # (n, u)  B of the used codewords

    @classmethod
    def of(cls, small: SmallProblem, loss: TripletLoss, codes: Codes) -> TripletProblem:
        """Return the problem for codes (n, M) and the loss of some triplets."""
        n, M = codes.shape
        # for i, m: indicator[i, number of the used codeword m K + codes[i, m]] = 1
        number = np.zeros(M * small.n_codewords, dtype=np.intp)
        number[small.used] = np.arange(len(small.used))
        columns = number[codes + small.n_codewords * np.arange(M)]
        indicator = scipy.sparse.csr_array(
            (np.ones(n * M), columns.ravel(), M * np.arange(n + 1)), shape=(n, len(small.used))
        )
        return cls(small, loss, indicator)

    def terms(self, C: Float64, projected: Projected, eps: float) -> TripletTerms:
        """Return the terms of psi at any point."""
        small = self.small
        weights = small.penalties
        quantization = np.vdot(C, small.bb @ C) - 2 * np.vdot(projected.sums, C) + projected.energy
        spread = small.interaction(C @ C.T, eps).sum_squares
        return TripletTerms(
            self.loss.value(self.indicator @ C),
            float(weights.quantization * quantization),
            float(weights.constraint * spread),
        )

    def reduced_gradient(self, C: Float64) -> tuple[float, Float64]:
        """Return psi with the best P and eps for C, and its gradient, which is the partial gradient at that point."""
        value, gradient = self.small.reduced_without_labels(C)
        triplet, by_rows = self.loss.gradient(self.indicator @ C)
        gradient += self.indicator.T @ by_rows
        return value + triplet, gradient
