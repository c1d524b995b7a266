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

from supquant import kernels
from supquant.arrays import Counts, Float32
from supquant.codec.gaussian_map import GaussianMap, squared_norms
from supquant.kernels import GROUP
from supquant.parallel import row_blocks

__all__ = ["NearMap", "near_map"]

VARIANCE_KEPT = 0.985
"""Share of the variance of the anchors that the directions hold. With 0.95, MNIST's loss rises by a tenth."""

MOST_PART = 0.75
"""If more than this part of the directions is needed, to leave the others out would hardly save time."""

EIGENVECTORS = 64
"""Directions are sought if the products that they may save are more than this number of products of two square matrices of their
width. That takes several times as long as to find them."""


FAR = 1e4
"""What stands for an infinite distance in the exponent: the features of such a row are zero, whatever its products."""

TILE_ROWS = 1024
"""Rows whose features are finished while they are in the cache."""

UNIT = np.float32(2**-15)
"""What one of the counts stands for in which features may be kept."""


@dataclass(frozen=True)
class NearMap(GaussianMap):
    """A kernel whose features of large blocks may be made from fewer dimensions, and kept as counts."""

    mean: Float32  # (p,) of the anchors
    basis: Float32 | None  # (p, r) orthonormal, or None to leave no dimension out

    def fill(self, x: Float32, values: Float32) -> None:
        """Write the features of a large block (b, p) into values (b, h), nearly those of a call."""
        h = len(self.anchors)
        for tile in row_blocks(len(x), TILE_ROWS):
            rows = slice(*tile)
            of_rows = np.matmul(self._lifted(x[rows]), self._near_anchors[:, :h], out=values[rows])
            np.minimum(of_rows, 0, out=of_rows)
            np.exp(of_rows, out=of_rows)

    def counts(self, x: Float32) -> Counts:
        """Return the features of a large block (b, p) as counts (b, w): h features, then one, and zeros up to whole groups."""
        counts = np.empty((len(x), self._near_anchors.shape[1]), dtype=np.uint16)
        exponents = np.empty((min(len(x), TILE_ROWS), counts.shape[1]), dtype=np.float32)
        for start, stop in row_blocks(len(x), TILE_ROWS):
            of_rows = np.matmul(
                self._lifted(x[start:stop]), self._near_anchors, out=exponents[: stop - start]
            )
            kernels.active().counted_exponentials(of_rows, counts[start:stop])
        return counts

    def _lifted(self, x: Float32) -> Float32:
        """Return ``[B'x, |x|^2, 1]`` (b, r + 2) of rows (b, p) less the mean."""
        centred = x - self.mean
        r = centred.shape[1] if self.basis is None else self.basis.shape[1]
        lifted = np.empty((len(x), r + 2), dtype=np.float32)
        if self.basis is None:
            lifted[:, :r] = centred
        else:
            np.matmul(centred, self.basis, out=lifted[:, :r])
        lifted[:, r] = squared_norms(centred)
        lifted[np.isinf(lifted[:, r]), : r + 1] = [0] * r + [FAR / -self.scale]
        lifted[:, r + 1] = 1
        return lifted

    @cached_property
    def _near_anchors(self) -> Float32:
        """The matrix (r + 2, w) whose product with ``[B'x, |x|^2, 1]`` is ``-|x - a|^2 / 2 sigma^2`` in its first h columns.

        It is 0 in one more column, whose exponential is 1, and far below 0 in those that fill up groups.
        """
        centred = self.anchors - self.mean
        turned = centred if self.basis is None else centred @ self.basis
        h, r = turned.shape
        matrix = np.zeros((r + 2, h + 1 + -(h + 1) % GROUP), dtype=np.float32)
        matrix[:r, :h] = -2 * turned.T
        matrix[r, :h] = 1
        matrix[r + 1, :h] = squared_norms(centred)
        matrix *= np.float32(self.scale)
        matrix[r + 1, h + 1 :] = -FAR
        return matrix


def near_map(kernel: GaussianMap, n_rows: int) -> GaussianMap:
    """Return the kernel to learn from `n_rows` rows with: in fewer dimensions if that saves time.

    If squared lengths of anchors are infinite in float32, it is the given one.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> flat = (rng.standard_normal((500, 8)) @ rng.standard_normal((8, 64))).astype(np.float32)
    >>> near_map(GaussianMap(flat, 10.0), 100_000).basis.shape
    (64, 8)
    """
    mean = kernel.anchors.mean(axis=0)
    centred = kernel.anchors - mean
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(squared_norms(centred)).all():
            return kernel
        return NearMap(kernel.anchors, kernel.bandwidth, mean, _basis(centred, n_rows))


def _basis(centred: Float32, n_rows: int) -> Float32 | None:
    """Return principal directions (p, r) of centred anchors (h, p), or None where they would not save time."""
    h, p = centred.shape
    if EIGENVECTORS * p * p >= (1 - MOST_PART) * n_rows * h:
        return None
    covariance = centred.T @ centred
    if not np.isfinite(covariance).all():
        return None
    variances, vectors = np.linalg.eigh(covariance)
    held = np.cumsum(np.maximum(variances[::-1], 0), dtype=np.float64)
    r = int(np.searchsorted(held, VARIANCE_KEPT * held[-1])) + 1
    return None if r > MOST_PART * p else np.ascontiguousarray(vectors[:, ::-1][:, :r])
