"""The triplet objective for given codes and triplets ("Classification loss vs. triplet loss" in the paper).

    psi = sum_(i, j, l) [ |s_i - s_j|^2 - |s_i - s_l|^2 + rho ]_+  +  gamma (|S - X P|^2 + delta |P|^2)
          + mu sum_i (e_i - eps)^2

The hinge does not contain P and eps, so their best values for given codebooks are those of supervised quantization. They are
substituted, and L-BFGS runs on the codebooks alone. At its kinks the hinge has no gradient; a subgradient is used there.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import scipy.sparse

from supquant.arrays import Codes, Float64
from supquant.parallel import ordered_map, row_blocks
from supquant.published.objective import SmallProblem
from supquant.published.projections import Projected
from supquant_lab.triplets.triplets import Triplets

BLOCK_TRIPLETS = 4096
"""Number of triplets whose vectors are gathered at a time."""


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
