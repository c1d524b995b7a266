"""The triplet objective given the codes and a fixed set of triplets ("Classification loss vs. triplet loss" in the paper).

    psi = sum_(i, j, l) [ |s_i - s_j|^2 - |s_i - s_l|^2 + rho ]_+  +  gamma (|S - X P|^2 + delta |P|^2)
          + mu sum_i (e_i - eps)^2

P and eps do not stand in the hinge, so their best values given the codebooks are those of supervised quantization, and L-BFGS
runs on the codebooks alone, P and eps substituted. The hinge has kinks: what stands here is its gradient where it has one, and
a subgradient elsewhere.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.parallel import ordered_map, row_blocks
from supquant.quantizers.objective import Projected, SmallProblem
from supquant.quantizers.triplets import Triplets

BLOCK_TRIPLETS = 4096
"""Triplets whose vectors are gathered at a time."""


@dataclass(frozen=True)
class TripletTerms:
    """The terms of psi, each with its weight."""

    triplet: float  # sum of the hinges
    quantization: float  # gamma (|S - X P|^2 + delta |P|^2)
    constraint: float  # mu sum (e - eps)^2

    @property
    def total(self) -> float:
        """Psi itself."""
        return self.triplet + self.quantization + self.constraint

    def as_dict(self) -> dict[str, float]:
        """Give the terms and their sum by name."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class TripletLoss:
    """The hinge of fixed triplets with margin rho, as a function of the decoded vectors S (n, r)."""

    triplets: Triplets
    margin: float
    n_jobs: int = 1

    def violations(self, S: Float64) -> Float64:
        """Give ``|s_i - s_j|^2 - |s_i - s_l|^2 + rho`` of every triplet, (t,)."""
        squares = np.einsum("ij,ij->i", S, S)
        i, j, o = self.triplets.anchor, self.triplets.similar, self.triplets.other
        values = squares[j] - squares[o] + self.margin

        def add_products(block: tuple[int, int]) -> None:
            part = slice(*block)
            values[part] -= 2.0 * np.einsum("ij,ij->i", S[i[part]], S[j[part]] - S[o[part]])

        for _ in ordered_map(add_products, row_blocks(len(values), BLOCK_TRIPLETS), self.n_jobs):
            pass
        return values

    def value(self, S: Float64) -> float:
        """Sum the hinges."""
        return float(np.maximum(self.violations(S), 0.0).sum())

    def gradient(self, S: Float64) -> tuple[float, Float64]:
        """Give the sum of the hinges and its derivative (n, r) by S."""
        violations = self.violations(S)
        violated = violations > 0
        i, j, o = (
            rows[violated] for rows in (self.triplets.anchor, self.triplets.similar, self.triplets.other)
        )
        # the sum is tr(S'AS) + rho times the violated ones, A symmetric: -1 at (i, j), +1 at (i, l), +1 at (j, j), -1 at (l, l)
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
    def of(cls, small: SmallProblem, loss: TripletLoss, codes: NDArray[np.uint8]) -> TripletProblem:
        """Join the small problem of codes (n, M) with the loss of some triplets."""
        n, M = codes.shape
        number = np.zeros(M * small.n_codewords, dtype=np.intp)
        number[small.used] = np.arange(len(small.used))
        columns = number[codes + small.n_codewords * np.arange(M)]
        indicator = scipy.sparse.csr_array(
            (np.ones(n * M), columns.ravel(), M * np.arange(n + 1)), shape=(n, len(small.used))
        )
        return cls(small, loss, indicator)

    def terms(self, C: Float64, projected: Projected, eps: float) -> TripletTerms:
        """Give psi's terms at any point."""
        small = self.small
        weights = small.penalties
        quantization = np.vdot(C, small.bb @ C) - 2 * np.vdot(projected.sums, C) + projected.energy
        spread = small.rows.interaction(small.used, C @ C.T, eps).sum_squares
        return TripletTerms(
            self.loss.value(self.indicator @ C),
            float(weights.quantization * quantization),
            float(weights.constraint * spread),
        )

    def reduced_gradient(self, C: Float64) -> tuple[float, Float64]:
        """Psi with the best P and eps for C, and its gradient, which is the partial one at that point."""
        value, gradient = self.small.reduced_without_labels(C)
        triplet, by_rows = self.loss.gradient(self.indicator @ C)
        gradient += self.indicator.T @ by_rows
        return value + triplet, gradient
