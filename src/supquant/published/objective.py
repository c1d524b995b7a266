"""The objective psi for given codes: a small dense problem in sums over the rows (equation 6 of the paper).

    psi = |Y - S W|^2 + lambda |W|^2 + gamma (|S - X P|^2 + delta |P|^2) + mu sum_i (e_i - eps)^2

If codes and codebooks are given, the best W, P and eps have closed forms. P can also be fixed (`projections`). Codewords that
no row uses drop out of the problem, so `SmallProblem` holds only the others. ``C`` is (u, r), the used codewords, one in each
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import solve_positive
from supquant.arrays import Float64
from supquant.published.projections import Projected, Projection, Quantization
from supquant.published.rows import CodedRows
from supquant.published.statistics import CodeStatistics, Interaction, Moments, Penalties


@dataclass(frozen=True)
class ObjectiveTerms:
    """The terms of psi, multiplied by their weights."""

    classification: float  # |Y - S W|^2
    ridge: float  # lambda |W|^2
    quantization: float  # gamma (|S - X P|^2 + delta |P|^2)
    constraint: float  # mu sum (e - eps)^2

    @property
    def total(self) -> float:
        """Psi, the sum of the terms."""
        return self.classification + self.ridge + self.quantization + self.constraint

    def as_dict(self) -> dict[str, float]:
        """Return the terms and their sum by name."""
        return {**vars(self), "total": self.total}


@dataclass(frozen=True)
class SmallProblem:
    """Psi as a function of the used codewords C and of W, P and eps, for given codes."""

    moments: Moments
    penalties: Penalties
    rows: CodedRows
    n_codewords: int  # K
    used: NDArray[np.intp]  # (u,)  flat positions m K + k of the codewords that some row uses
    bb: Float64  # (u, u)  B'B of these codewords
    bx: Float64  # (u, d)  B'X
    by: Float64  # (u, L)  B'Y
    changed: int  # number of rows that the last pass recoded
    quantization: Quantization

    @classmethod
    def of(
        cls,
        projection: Projection,
        statistics: CodeStatistics,
        penalties: Penalties,
        rows: CodedRows,
        n_codewords: int,
    ) -> SmallProblem:
        """Make the problem from statistics (M K, ...), of which the rows of used codewords are kept."""
        used = np.flatnonzero(np.diag(statistics.bb) > 0)
        bb, bx, by = statistics.bb, statistics.bx, statistics.by
        if len(used) < len(bb):
            bb, bx, by = bb[np.ix_(used, used)], bx[used], by[used]
        quantization = projection.quantization(bb, bx)
        return cls(
            projection.moments,
            penalties,
            rows,
            n_codewords,
            used,
            bb,
            bx,
            by,
            statistics.changed,
            quantization,
        )

    # the best W, P and eps for given C --------------------------------------------------------------------------------

    def classifier(self, C: Float64) -> Float64:
        """Return W (r, L) = (S'S + lambda I)^-1 S'Y (equation 7)."""
        gram = C.T @ (self.bb @ C) + self.penalties.ridge * np.eye(C.shape[1])
        return solve_positive(gram, C.T @ self.by)

    def projection(self, C: Float64) -> Float64:
        """Return P (d, r): the best one for C (equation 8), or the fixed one."""
        return self.quantization.projection(C)

    def constant(self, gram: Float64) -> float:
        """Return eps, the mean of e (equation 9), from the products (u, u) of the codewords."""
        # for words j, k of two different codebooks: total += bb[j, k] * gram[j, k]
        total = np.vdot(self.bb, gram)
        for words in self._words_of_codebooks:
            total -= np.vdot(self.bb[words, words], gram[words, words])
        return float(total) / self.moments.n_rows

    @cached_property
    def _words_of_codebooks(self) -> list[slice]:
        """The places of each codebook's words among the used ones."""
        book = self.used // self.n_codewords
        first = np.searchsorted(book, np.arange(book[-1] + 2))
        return [slice(start, stop) for start, stop in pairwise(first)]

    def projected(self, P: Float64) -> Projected:
        """Return the sums over rows under any projection P (d, r)."""
        return Projected.of(P, self.bx, self.moments.xx, self.penalties.projection_ridge)

    # psi and its derivatives ------------------------------------------------------------------------------------------

    def terms(self, C: Float64, W: Float64, projected: Projected, eps: float) -> ObjectiveTerms:
        """Return the terms of psi at any point."""
        weights = self.penalties
        SS = C.T @ (self.bb @ C)
        classification = self.moments.yy - 2 * np.vdot(C.T @ self.by, W) + np.vdot(W, SS @ W)
        quantization = np.trace(SS) - 2 * np.vdot(projected.sums, C) + projected.energy
        spread = self.interaction(C @ C.T, eps).sum_squares
        return ObjectiveTerms(
            float(classification),
            float(weights.ridge * np.vdot(W, W)),
            float(weights.quantization * quantization),
            float(weights.constraint * spread),
        )

    def codebook_function(
        self, W: Float64, projected: Projected, eps: float
    ) -> Callable[[Float64], tuple[float, Float64]]:
        """Return psi without its constant part as a function of C, with its gradient (equation 10); W, P and eps are fixed."""
        weights = self.penalties
        metric = W @ W.T + weights.quantization * np.eye(len(W))  # H
        pull = self.by @ W.T + weights.quantization * projected.sums  # (u, r)

        def function(C: Float64) -> tuple[float, Float64]:
            BBCH = self.bb @ (C @ metric)
            inner = self.interaction(C @ C.T, eps)
            value = np.vdot(C, BBCH) - 2 * np.vdot(C, pull) + weights.constraint * inner.sum_squares
            gradient = 2 * (BBCH - pull) + (2 * weights.constraint) * (inner.derivative @ C)
            return float(value), gradient

        return function

    def reduced_gradient(self, C: Float64) -> tuple[float, Float64]:
        """Return psi with the best W, P and eps for C, and its gradient, which is the partial gradient at that point."""
        value, gradient = self.reduced_without_labels(C)
        BBC = self.bb @ C
        SY = C.T @ self.by
        gram = C.T @ BBC + self.penalties.ridge * np.eye(C.shape[1])
        W = solve_positive(gram, SY)
        value += self.moments.yy - float(np.vdot(SY, W))
        gradient += 2 * ((BBC @ W - self.by) @ W.T)
        return value, gradient

    def reduced_without_labels(self, C: Float64) -> tuple[float, Float64]:
        """Return the quantization and constraint terms with the best P and eps for C, and their gradient.

        Both depend on the products of codewords, so one product with C gives both gradients.
        """
        gamma, mu = self.penalties.quantization, self.penalties.constraint
        products = C @ C.T
        inner = self.interaction(products, self.constant(products))
        quantization = self.quantization.reduced(C, products)
        weights = np.multiply(quantization.metric, 2 * gamma, out=products)  # (u, u), reuses the memory
        weights += np.multiply(inner.derivative, 2 * mu, out=inner.derivative)
        gradient = weights @ C
        gradient -= 2 * gamma * quantization.pull
        return gamma * quantization.value + mu * inner.sum_squares, gradient

    def interaction(self, gram: Float64, eps: float) -> Interaction:
        """Return the sums of the inter-dictionary products, from the products (u, u) of the codewords."""
        return self.rows.interaction(self.used, gram, eps)

    # codebooks and used codewords -------------------------------------------------------------------------------------

    def used_codewords(self, codebooks: Float64) -> Float64:
        """Return the used codewords C (u, r) of codebooks (M, K, r)."""
        return codebooks.reshape(-1, codebooks.shape[2])[self.used]

    def with_codewords(self, codebooks: Float64, C: Float64) -> Float64:
        """Return codebooks (M, K, r) in which the used codewords are C (u, r)."""
        changed = np.array(codebooks)
        changed.reshape(-1, codebooks.shape[2])[self.used] = C
        return changed
