"""The projection P in psi: learned together with the codebooks, or fixed.

`LearnedProjection` and `FixedProjection` have the same methods, so a solver need not know which one it works with. Each makes the
quantization term of psi for the current codes, `LearnedQuantization` or `FixedQuantization`:

    |S - X P|^2 + delta |P|^2

A learned P always has its best value for the codewords, which is a closed form. A fixed P has no ridge: delta is zero. ``C``
is (u, r), the used codewords, one per row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from supquant.algebra import positive_factor
from supquant.arrays import Float64
from supquant.published.lbfgs import minimise_codebooks, minimise_preconditioned
from supquant.published.rows import Moments

RELATIVE_RIDGE = 1e-6
"""Delta is this fraction of the mean diagonal of X'X, which is nearly singular for kernel features."""

LBFGS_TOLERANCE = 1e-8
"""L-BFGS stops when an iteration lowers psi by less than this fraction of its initial value."""

FIXED_LBFGS_ITERATIONS = 30
"""L-BFGS takes at most this number of iterations in a round if P is fixed, because C then has one column for each feature."""

CodewordFunction = Callable[[Float64], tuple[float, Float64]]
"""A function of the codewords C (u, r) that returns its value and its gradient (u, r)."""


@dataclass(frozen=True)
class Projected:
    """The sums over projected rows that psi needs."""

    sums: Float64  # (u, r)  B'X P
    energy: float  # tr P'(X'X + delta I) P

    @classmethod
    def of(cls, P: Float64, bx: Float64, xx: Float64, delta: float) -> Projected:
        """Return the sums for any projection P (d, r), from B'X (u, d) and X'X (d, d)."""
        return cls(bx @ P, float(np.vdot(P, xx @ P) + delta * np.vdot(P, P)))


class ReducedQuantization(NamedTuple):
    """The quantization term as a function of C alone: ``tr(C' metric C) - 2 tr(C' pull) + constant``."""

    value: float
    metric: Float64  # (u, u)
    pull: Float64 | float  # (u, r), or 0.0 if there is none


# learned --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LearnedProjection:
    """P is an unknown. ``X'X + delta I`` is factored once, and every P of the fit comes from the factor."""

    STEPS: ClassVar[tuple[str, ...]] = ("classifier", "projection", "constant", "codebooks")
    """The published steps over the continuous unknowns, in their order."""

    moments: Moments
    lower: Float64  # (d, d)  L with L L' = X'X + delta I

    @classmethod
    def of(cls, moments: Moments, matrix: Float64, delta: float) -> LearnedProjection:
        """Factor X'X + delta I; the first projection does not matter."""
        del matrix
        return cls(moments, positive_factor(moments.xx + delta * np.eye(len(moments.xx))))

    @staticmethod
    def ridge(moments: Moments) -> float:
        """Return delta, in units of X'X."""
        mean_diagonal = float(np.trace(moments.xx)) / len(moments.xx)
        return RELATIVE_RIDGE * (mean_diagonal or 1.0)

    def quantization(self, bb: Float64, bx: Float64) -> LearnedQuantization:
        """Return the quantization term for the codes with B'B (u, u) and B'X (u, d)."""
        return LearnedQuantization(self, bb, bx)

    def leverage(self, features: Float64) -> Float64:
        """Return the leverage ``x'(X'X + delta I)^-1 x`` (s,) of rows with features (s, d).

        It is the fraction of its own projected vector that a row decides.
        """
        half = self.half_solve(features.T)  # (d, s)
        return np.einsum("ij,ij->j", half, half)

    def solve(self, right: Float64) -> Float64:
        """Return ``(X'X + delta I)^-1 right``."""
        solution: Float64 = cho_solve((self.lower, True), right)
        return solution

    def half_solve(self, right: Float64) -> Float64:
        """Return ``L^-1 right``, where ``L L' = X'X + delta I``."""
        solution: Float64 = solve_triangular(self.lower, right, lower=True)
        return solution


@dataclass(frozen=True)
class LearnedQuantization:
    """The quantization term under the best P for the codewords: ``tr(C'TC)``."""

    solver: LearnedProjection
    bb: Float64  # (u, u)
    bx: Float64  # (u, d)

    @cached_property
    def explained(self) -> Float64:
        """B'X (X'X + delta I)^-1 X'B, (u, u): what the best P explains of B'B."""
        half = self.solver.half_solve(self.bx.T)  # (d, u)
        return half.T @ half

    @cached_property
    def t(self) -> Float64:
        """T = B'B - B'X (X'X + delta I)^-1 X'B, (u, u)."""
        half = self.solver.half_solve(self.bx.T)  # (d, u)
        t = half.T @ half  # `explained` would stay in memory next to T
        return np.subtract(self.bb, t, out=t)

    def projection(self, C: Float64) -> Float64:
        """Return P (d, r) = (X'X + delta I)^-1 X'S (equation 8)."""
        return self.solver.solve(self.bx.T @ C)

    def projected(self, C: Float64) -> Projected:
        """Return the sums under the best P for the codewords C, without making P."""
        sums = self.explained @ C
        return Projected(sums, float(np.vdot(C, sums)))

    def reduced(self, C: Float64, products: Float64) -> ReducedQuantization:
        """Return the term under the best P for C, given the products C C' (u, u)."""
        del C
        return ReducedQuantization(float(np.vdot(self.t, products)), self.t, 0.0)

    def basis(self, C: Float64) -> Float64:
        """Return coordinates (r, r') for a solver that starts from C (u, r): a basis of the rows of C.

        Psi given the codes depends on C C' alone, so other directions do not matter.
        """
        return row_basis(C)

    def minimise(self, function: CodewordFunction, C: Float64, max_iter: int) -> Float64:
        """Return codewords (u, r) that lower psi; L-BFGS works on as many columns as the codewords span."""
        basis = row_basis(C)
        turned = minimise_codebooks(function, C @ basis, max_iter=max_iter, tol=LBFGS_TOLERANCE)
        return turned @ basis.T


# fixed ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedProjection:
    """P is given and does not change."""

    STEPS: ClassVar[tuple[str, ...]] = ("classifier", "constant", "codebooks")
    """The published steps over the continuous unknowns, in their order."""

    moments: Moments
    matrix: Float64  # (d, r)
    delta: float

    @classmethod
    def of(cls, moments: Moments, matrix: Float64, delta: float) -> FixedProjection:
        """Keep the projection `matrix` (d, r)."""
        return cls(moments, matrix, delta)

    @staticmethod
    def ridge(moments: Moments) -> float:
        """Return 0: nothing is solved for."""
        del moments
        return 0.0

    def quantization(self, bb: Float64, bx: Float64) -> FixedQuantization:
        """Return the quantization term for the codes with B'B (u, u) and B'X (u, d)."""
        return FixedQuantization(self, bb, bx)

    def leverage(self, features: Float64) -> Float64:
        """Return zeros (s,): no row has a say in P."""
        return np.zeros(len(features))


@dataclass(frozen=True)
class FixedQuantization:
    """The quantization term under a P that does not change: ``tr(C' B'B C) - 2 tr(C' B'X P) + |X P|^2``."""

    solver: FixedProjection
    bb: Float64  # (u, u)
    bx: Float64  # (u, d)

    @cached_property
    def sums(self) -> Projected:
        """The sums under P, which do not depend on the codewords."""
        solver = self.solver
        return Projected.of(solver.matrix, self.bx, solver.moments.xx, solver.delta)

    def projection(self, C: Float64) -> Float64:
        """Return P (d, r)."""
        del C
        return self.solver.matrix

    def projected(self, C: Float64) -> Projected:
        """Return the sums under P."""
        del C
        return self.sums

    def reduced(self, C: Float64, products: Float64) -> ReducedQuantization:
        """Return the term as a function of C, given the products C C' (u, u)."""
        sums, energy = self.sums.sums, self.sums.energy
        value = float(np.vdot(self.bb, products) - 2 * np.vdot(C, sums) + energy)
        return ReducedQuantization(value, self.bb, sums)

    def basis(self, C: Float64) -> Float64:
        """Return coordinates (r, r) for a solver: all of them. A fixed P pulls the codewords out of the space that they span."""
        return np.eye(C.shape[1])

    def minimise(self, function: CodewordFunction, C: Float64, max_iter: int) -> Float64:
        """Return codewords (u, r) that lower psi; L-BFGS is preconditioned with B'B."""
        return minimise_preconditioned(
            function,
            C,
            self.bb,
            self.sums.energy,
            max_iter=min(max_iter, FIXED_LBFGS_ITERATIONS),
            tol=LBFGS_TOLERANCE,
        )


def row_basis(C: Float64) -> Float64:
    """Return an orthonormal basis (r, min(u, r)) of a space that contains the rows of C (u, r)."""
    basis: Float64 = np.linalg.qr(C.T)[0] if len(C) < C.shape[1] else np.eye(C.shape[1])
    return basis


Projection = LearnedProjection | FixedProjection
"""What a fit knows about P apart from the codes."""

Quantization = LearnedQuantization | FixedQuantization
"""The quantization term for the current codes."""
