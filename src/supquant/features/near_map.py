"""Vectors to features: a Gaussian kernel in fewer dimensions, which a classifier of many rows learns from.

Distances to thousands of anchors take most of their time in products, and most dimensions of a vector add little to them. The
products are therefore taken along the principal directions of the anchors. Lengths stay those of the whole vectors:

    |x - a|^2  is about  |x|^2 + |a|^2 - 2 (B'x) . (B'a)

What B leaves of two different rows hardly has a direction in common. The features differ by less than one part in a hundred
from those of the kernel itself, and weights that were learned from them have the same loss under it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supquant.arrays import Float32
from supquant.features.gaussian_map import GaussianMap, squared_norms
from supquant.parallel import row_blocks

__all__ = ["NearMap", "near_map"]

VARIANCE_KEPT = 0.99
"""Share of the variance of the anchors that the directions hold. With 0.95, MNIST's loss rises by a tenth."""

MOST_PART = 0.75
"""If more than this part of the directions is needed, to leave the others out would hardly save time."""

EIGENVECTORS = 64
"""Directions are sought if the products that they may save are more than this number of products of two square matrices of their
width. That takes several times as long as to find them."""


FAR = 1e4
"""What stands for an infinite distance in the exponent: the features of such a row are zero, whatever its products."""

TILE_ROWS = 512
"""Rows whose features are finished while they are in the cache."""


@dataclass(frozen=True)
class NearMap(GaussianMap):
    """A kernel whose features of large blocks are made from fewer dimensions."""

    mean: Float32  # (p,) of the anchors
    basis: Float32  # (p, r) orthonormal

    def fill(self, x: Float32, values: Float32) -> None:
        """Write the features of a large block (b, p) into values (b, h), nearly those of a call."""
        r = self.basis.shape[1]
        for block in row_blocks(len(x), TILE_ROWS):
            rows = slice(*block)
            centred = x[rows] - self.mean
            near = np.empty((len(centred), r + 2), dtype=np.float32)
            np.matmul(centred, self.basis, out=near[:, :r])
            near[:, r] = squared_norms(centred)
            near[np.isinf(near[:, r]), : r + 1] = [0] * r + [FAR / -self.scale]
            near[:, r + 1] = 1
            of_rows = np.matmul(near, self._near_anchors, out=values[rows])
            np.minimum(of_rows, 0, out=of_rows)
            np.exp(of_rows, out=of_rows)

    @cached_property
    def _near_anchors(self) -> Float32:
        """The matrix (r + 2, h) whose product with ``[B'x, |x|^2, 1]`` is ``-|x - a|^2 / 2 sigma^2``."""
        centred = self.anchors - self.mean
        r = self.basis.shape[1]
        matrix = np.empty((r + 2, len(centred)), dtype=np.float32)
        np.matmul(-2 * self.basis.T, centred.T, out=matrix[:r])
        matrix[r] = 1
        matrix[r + 1] = squared_norms(centred)
        matrix *= np.float32(self.scale)
        return matrix


def near_map(kernel: GaussianMap, n_rows: int) -> GaussianMap:
    """Return the kernel to learn from `n_rows` rows with: in fewer dimensions if that saves time, else the given one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> flat = (rng.standard_normal((500, 8)) @ rng.standard_normal((8, 64))).astype(np.float32)
    >>> near_map(GaussianMap(flat, 10.0), 100_000).basis.shape
    (64, 8)
    """
    h, p = kernel.anchors.shape
    if EIGENVECTORS * p * p >= (1 - MOST_PART) * n_rows * h:
        return kernel
    mean = kernel.anchors.mean(axis=0)
    centred = kernel.anchors - mean
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = centred.T @ centred
    if not np.isfinite(covariance).all():
        return kernel
    variances, vectors = np.linalg.eigh(covariance)
    held = np.cumsum(np.maximum(variances[::-1], 0), dtype=np.float64)
    r = int(np.searchsorted(held, VARIANCE_KEPT * held[-1])) + 1
    if r > MOST_PART * p:
        return kernel
    basis = np.ascontiguousarray(vectors[:, ::-1][:, :r])
    return NearMap(kernel.anchors, kernel.bandwidth, mean, basis)
