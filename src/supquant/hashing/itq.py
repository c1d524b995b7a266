"""Vectors to bits: the rotation that makes signs lose least.

"Iterative Quantization" (Gong, Lazebnik, Gordo, Perronnin, PAMI 2013): centred vectors V (n, q) are turned by R so
that they come near to the corners B of a cube,

    min |B - V R|^2  over signs B (n, bits) and R (q, bits) with R R' = I.

In turns, B = sign(V R), and R solves the orthogonal Procrustes problem given B. The paper has q = bits. With fewer
dimensions than bits, V padded with columns of zeros is the same problem: only the first q rows of the square R meet a
number, and these are the R here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import svd

from supquant.arrays import Float64
from supquant.parallel import ordered_map, row_blocks


@dataclass(frozen=True)
class Rotation:
    """R after a round, and how far it leaves the vectors from the signs that it was solved for."""

    matrix: Float64  # (q, bits), q <= bits, its rows orthonormal
    error: float  # |B - V R|^2


def rotations(
    V: Float64, n_bits: int, n_rounds: int, rng: np.random.Generator, n_jobs: int
) -> Iterator[Rotation]:
    """Turn vectors V (n, q) towards signs, from a random rotation; the error never rises."""
    R = random_rotation(V.shape[1], n_bits, rng)
    constant = V.shape[0] * n_bits + np.vdot(V, V)  # |B|^2 + |V R|^2, the same for all B and R

    def products(block: tuple[int, int]) -> Float64:
        v = V[slice(*block)]
        return v.T @ np.where(v @ R > 0, 1.0, -1.0)

    for _ in range(n_rounds):
        vb = sum(ordered_map(products, row_blocks(len(V)), n_jobs), start=np.zeros(R.shape))
        R, correlation = closest_rotation(vb)
        yield Rotation(R, float(constant - 2 * correlation))


def random_rotation(n_dimensions: int, n_bits: int, rng: np.random.Generator) -> Float64:
    """Draw R (q, bits) with orthonormal rows, all directions being alike."""
    Q, triangle = np.linalg.qr(rng.normal(size=(n_bits, n_dimensions)))
    rotation: Float64 = (Q * np.sign(np.diag(triangle))).T
    return rotation


def closest_rotation(vb: Float64) -> tuple[Float64, float]:
    """Give the R with orthonormal rows whose products with V'B (q, bits) add up to the most, and that sum."""
    left, values, right = svd(vb, full_matrices=False)
    return left @ right, float(values.sum())
