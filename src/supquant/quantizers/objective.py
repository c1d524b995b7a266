"""The objective psi given the codes: a small dense problem in statistics of the rows (equation 6 of the paper).

    psi = |Y - S W|^2 + lambda |W|^2 + gamma (|S - X P|^2 + delta |P|^2) + mu sum_i (e_i - eps)^2

Given the codes and the codebooks C, the best W, P and eps have closed forms; where P is fixed instead, delta is zero. Codewords
that no row uses drop out of the problem: `SmallProblem` holds the others only. `C` below is (u, r), the used codewords, one a
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from supquant.arrays import Float64
from supquant.rows import TrainingRows
from supquant.statistics import CodeStatistics, Interaction, Moments, Penalties


@dataclass(frozen=True)
class ObjectiveTerms:
    """The terms of psi, each with its weight."""

    classification: float  # |Y - S W|^2
    ridge: float  # lambda |W|^2
    quantization: float  # gamma (|S - X P|^2 + delta |P|^2)
    constraint: float  # mu sum (e - eps)^2

    @property
    def total(self) -> float:
        """Psi itself."""
        return self.classification + self.ridge + self.quantization + self.constraint

    def as_dict(self) -> dict[str, float]:
        """Give the terms and their sum by name."""
        return {**asdict(self), "total": self.total}


@dataclass(frozen=True)
class ProjectionSolver:
    """X'X + delta I, factored once: every P of the fit comes from it."""

    moments: Moments
    lower: Float64  # (d, d)  Cholesky factor

    @classmethod
    def of(cls, moments: Moments, delta: float) -> ProjectionSolver:
        """Factor the moments' X'X with a ridge delta on its diagonal."""
        return cls(moments, cholesky(moments.xx + delta * np.eye(len(moments.xx)), lower=True))

    def solve(self, right: Float64) -> Float64:
        """Give ``(X'X + delta I)^-1 right``."""
        solution: Float64 = cho_solve((self.lower, True), right)
        return solution

    def half_solve(self, right: Float64) -> Float64:
        """Give ``L^-1 right``, where ``L L' = X'X + delta I``."""
        solution: Float64 = solve_triangular(self.lower, right, lower=True)
        return solution


@dataclass(frozen=True)
class FixedProjection:
    """A projection that is given and stays as it is."""

    moments: Moments
    matrix: Float64  # (d, r)


@dataclass(frozen=True)
class Projected:
    """What psi needs to know of a projection P."""

    sums: Float64  # (u, r)  B'X P
    energy: float  # tr P'(X'X + delta I) P


@dataclass(frozen=True)
class SmallProblem:
    """Psi as a function of the used codewords and W, P, eps, from statistics alone."""

    solver: ProjectionSolver | FixedProjection
    penalties: Penalties
    rows: TrainingRows
    n_codewords: int  # K
    used: NDArray[np.intp]  # (u,)  flat positions of the codewords that some row uses
    bb: Float64  # (u, u)  B'B of these
    bx: Float64  # (u, d)  B'X
    by: Float64  # (u, L)  B'Y
    changed: int  # rows that the last pass recoded

    @classmethod
    def of(
        cls,
        solver: ProjectionSolver | FixedProjection,
        statistics: CodeStatistics,
        penalties: Penalties,
        rows: TrainingRows,
        n_codewords: int,
    ) -> SmallProblem:
        """Cut the statistics (M K, ...) down to the used codewords."""
        used = np.flatnonzero(np.diag(statistics.bb) > 0)
        bb, bx, by = statistics.bb, statistics.bx, statistics.by
        if len(used) < len(bb):
            bb, bx, by = bb[np.ix_(used, used)], bx[used], by[used]
        return cls(solver, penalties, rows, n_codewords, used, bb, bx, by, statistics.changed)

    @cached_property
    def explained(self) -> Float64:
        """B'X (X'X + delta I)^-1 X'B, (u, u): what the best projection explains of B'B."""
        half = self._learned().half_solve(self.bx.T)  # (d, u)
        return half.T @ half

    @cached_property
    def t(self) -> Float64:
        """T = B'B - B'X (X'X + delta I)^-1 X'B, (u, u): with the best P the quantization term is gamma tr(C'TC)."""
        half = self._learned().half_solve(self.bx.T)  # (d, u)
        t = half.T @ half
        return np.subtract(self.bb, t, out=t)

    # the best W, P and eps given C ---------------------------------------------------------------------------------

    def classifier(self, C: Float64) -> Float64:
        """W (r, L) = (S'S + lambda I)^-1 S'Y (equation 7)."""
        gram = C.T @ (self.bb @ C) + self.penalties.ridge * np.eye(C.shape[1])
        solution: Float64 = cho_solve(cho_factor(gram, lower=True), C.T @ self.by)
        return solution

    def projection(self, C: Float64) -> Float64:
        """P (d, r) = (X'X + delta I)^-1 X'S (equation 8), or the fixed one."""
        if isinstance(self.solver, FixedProjection):
            return self.solver.matrix
        return self.solver.solve(self.bx.T @ C)

    def constant(self, gram: Float64) -> float:
        """Eps = mean of e (equation 9), from the products (u, u) of the codewords."""
        book = self.used // self.n_codewords
        first = np.searchsorted(book, np.arange(book[-1] + 2))  # where each codebook begins among the used
        total = np.vdot(self.bb, gram)
        for start, stop in pairwise(first):  # e leaves out products within a codebook
            total -= np.vdot(self.bb[start:stop, start:stop], gram[start:stop, start:stop])
        return float(total) / self.solver.moments.n_rows

    def projected(self, P: Float64) -> Projected:
        """Sum up the rows under any projection P (d, r)."""
        moments, delta = self.solver.moments, self.penalties.projection_ridge
        return Projected(self.bx @ P, float(np.vdot(P, moments.xx @ P) + delta * np.vdot(P, P)))

    def projected_best(self, C: Float64) -> Projected:
        """Sum up the rows under the best projection for C (u, r), without making it, or under the fixed one."""
        if isinstance(self.solver, FixedProjection):
            return self._projected_fixed
        sums = self.explained @ C
        return Projected(sums, float(np.vdot(C, sums)))

    @cached_property
    def _projected_fixed(self) -> Projected:
        assert isinstance(self.solver, FixedProjection)
        return self.projected(self.solver.matrix)

    # psi and its derivatives -----------------------------------------------------------------------------------------

    def terms(self, C: Float64, W: Float64, projected: Projected, eps: float) -> ObjectiveTerms:
        """Give psi's terms at any point."""
        weights = self.penalties
        SS = C.T @ (self.bb @ C)
        classification = self.solver.moments.yy - 2 * np.vdot(C.T @ self.by, W) + np.vdot(W, SS @ W)
        quantization = np.trace(SS) - 2 * np.vdot(projected.sums, C) + projected.energy
        spread = self._interaction(C @ C.T, eps).sum_squares
        return ObjectiveTerms(
            float(classification),
            float(weights.ridge * np.vdot(W, W)),
            float(weights.quantization * quantization),
            float(weights.constraint * spread),
        )

    def codebook_function(
        self, W: Float64, projected: Projected, eps: float
    ) -> Callable[[Float64], tuple[float, Float64]]:
        """Give psi as a function of C, W, P and eps fixed, up to a constant; with its gradient (equation 10)."""
        weights = self.penalties
        metric = W @ W.T + weights.quantization * np.eye(len(W))  # H
        pull = self.by @ W.T + weights.quantization * projected.sums  # (u, r)

        def function(C: Float64) -> tuple[float, Float64]:
            BBCH = self.bb @ (C @ metric)
            inner = self._interaction(C @ C.T, eps)
            value = np.vdot(C, BBCH) - 2 * np.vdot(C, pull) + weights.constraint * inner.sum_squares
            gradient = 2 * (BBCH - pull) + (2 * weights.constraint) * (inner.derivative @ C)
            return float(value), gradient

        return function

    def reduced_gradient(self, C: Float64) -> tuple[float, Float64]:
        """Psi with the best W, P and eps for C, and its gradient, which is the partial one at that point."""
        value, gradient = self.reduced_without_labels(C)
        BBC = self.bb @ C
        SY = C.T @ self.by
        gram = C.T @ BBC + self.penalties.ridge * np.eye(C.shape[1])
        W: Float64 = cho_solve(cho_factor(gram, lower=True, check_finite=False), SY, check_finite=False)
        value += self.solver.moments.yy - float(np.vdot(SY, W))
        gradient += 2 * ((BBC @ W - self.by) @ W.T)
        return value, gradient

    def reduced_without_labels(self, C: Float64) -> tuple[float, Float64]:
        """Quantization and constraint alone, with the best P and eps for C, and their gradient.

        Both depend on the products of codewords, so that one product with C serves both gradients.
        """
        gamma, mu = self.penalties.quantization, self.penalties.constraint
        products = C @ C.T
        inner = self._interaction(products, self.constant(products))
        error, metric = self._quantization(C, products)
        weights = np.multiply(metric, 2 * gamma, out=products)  # (u, u), in the place of what is done with
        weights += np.multiply(inner.derivative, 2 * mu, out=inner.derivative)
        gradient = weights @ C
        if isinstance(self.solver, FixedProjection):
            gradient -= 2 * gamma * self._projected_fixed.sums
        return gamma * error + mu * inner.sum_squares, gradient

    def _quantization(self, C: Float64, products: Float64) -> tuple[float, Float64]:
        """Give |S - X P|^2 under the best or the fixed P, and its derivative (u, u) by the products of the codewords."""
        if isinstance(self.solver, FixedProjection):
            fixed = self._projected_fixed
            return float(np.vdot(self.bb, products) - 2 * np.vdot(C, fixed.sums) + fixed.energy), self.bb
        return float(np.vdot(self.t, products)), self.t

    def _interaction(self, gram: Float64, eps: float) -> Interaction:
        return self.rows.interaction(self.used, gram, eps)

    def _learned(self) -> ProjectionSolver:
        assert isinstance(self.solver, ProjectionSolver)
        return self.solver
