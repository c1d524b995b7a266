"""Vectors to bits: the rotation that brings vectors closest to their signs.

"Iterative Quantization" (Gong, Lazebnik, Gordo, Perronnin, PAMI 2013): a matrix R brings centred vectors V (n, q) close to
corners B of a cube,

    min |B - V R|^2  over signs B (n, bits) and R (q, bits) with R R' = I.

Two steps alternate: B = sign(V R), and R solves the orthogonal Procrustes problem for B. The paper has q = bits. If there are
fewer dimensions than bits, V padded with columns of zeros is the same problem: only the first q rows of the square R are ever
multiplied by a number that is not zero, and R here is these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from supquant.arrays import Float64
from supquant.parallel import ordered_map, row_blocks
from supquant_lab.hashing.algebra import signs


@dataclass(frozen=True)
class Rotation:
    """R after a round, and the squared distance that is left to the signs it was solved for."""

    matrix: Float64  # (q, bits), q <= bits, with orthonormal rows
    error: float  # |B - V R|^2


def rotations(
    V: Float64, n_bits: int, n_rounds: int, rng: np.random.Generator, n_jobs: int
) -> Iterator[Rotation]:
    """Yield a rotation after every round, from a random one on; the error never rises.

    Parameters
    ----------
    V : (n, q) float64
        Centred vectors, q <= `n_bits`.
    n_bits : int
        Number of columns of R.
    n_rounds : int
        Number of rotations to yield.
    rng : numpy Generator
        Draws the first rotation.
    n_jobs : int
        Number of threads.
    """
    R = random_rotation(V.shape[1], n_bits, rng)
    constant = V.shape[0] * n_bits + np.vdot(V, V)  # |B|^2 + |V R|^2, the same for all B and R

    def products(block: tuple[int, int]) -> Float64:
        v = V[slice(*block)]
        return v.T @ signs(v @ R)

    for _ in range(n_rounds):
        vb = sum(ordered_map(products, row_blocks(len(V)), n_jobs), start=np.zeros(R.shape))
        R, correlation = closest_rotation(vb)
        yield Rotation(R, float(constant - 2 * correlation))


def random_rotation(n_dimensions: int, n_bits: int, rng: np.random.Generator) -> Float64:
    """Draw R (q, bits) with orthonormal rows, uniformly over all directions."""
    Q, triangle = np.linalg.qr(rng.normal(size=(n_bits, n_dimensions)))
    rotation: Float64 = (Q * np.sign(np.diag(triangle))).T
    return rotation


def closest_rotation(vb: Float64) -> tuple[Float64, float]:
    """Return the R with orthonormal rows that maximises the sum of R * V'B, given V'B (q, bits), and that sum."""
    left, values, right = svd(vb, full_matrices=False)
    return left @ right, float(values.sum())
