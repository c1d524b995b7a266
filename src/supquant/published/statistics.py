"""What rows and solvers hand each other: sums over the rows, and the model that is sent to the rows.

All sums are float64. They can be merged, and depend only on the order of the blocks of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from supquant.arrays import Float64


@dataclass(frozen=True)
class Moments:
    """Sums that do not depend on the codes; they are made once."""

    n_rows: int
    sum_x: Float64  # (d,)
    xx: Float64  # (d, d)  X'X
    xy: Float64  # (d, L)  X'Y
    yy: float  # sum of Y^2

    def merge(self, other: Moments) -> Moments:
        """Return the sums over the rows of both."""
        return Moments(
            self.n_rows + other.n_rows,
            self.sum_x + other.sum_x,
            self.xx + other.xx,
            self.xy + other.xy,
            self.yy + other.yy,
        )


@dataclass(frozen=True)
class CodeStatistics:
    """Sums that depend on the codes. B is the (n, MK) indicator matrix of the codes."""

    bb: Float64  # (MK, MK)  B'B
    bx: Float64  # (MK, d)   B'X
    by: Float64  # (MK, L)   B'Y
    changed: int  # number of rows that got another code

    def merge(self, other: CodeStatistics) -> CodeStatistics:
        """Return the sums over the rows of both."""
        return CodeStatistics(
            self.bb + other.bb, self.bx + other.bx, self.by + other.by, self.changed + other.changed
        )


@dataclass(frozen=True)
class Interaction:
    """Sums of the inter-dictionary products e_i over all rows, and the derivative of their spread."""

    sum_e: float  # sum of e_i
    sum_squares: float  # sum of (e_i - eps)^2
    derivative: Float64  # (u, u)  of sum_squares by the matrix of codeword products

    def merge(self, other: Interaction) -> Interaction:
        """Return the sums over the rows of both."""
        return Interaction(
            self.sum_e + other.sum_e,
            self.sum_squares + other.sum_squares,
            self.derivative + other.derivative,
        )


@dataclass(frozen=True)
class Penalties:
    """The weights of the terms of psi."""

    quantization: float  # gamma
    constraint: float  # mu
    ridge: float  # lambda
    projection_ridge: float = 0.0  # delta, in units of X'X


@dataclass(frozen=True)
class ModelState:
    """The continuous unknowns, as a solver sends them to the rows."""

    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    classifier: Float64  # (r, L)
    constant: float  # eps
    penalties: Penalties
