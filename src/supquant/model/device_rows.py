"""Labelled rows on a GPU: their kernel features lie there, and so do the sums over rows that solvers need.

The arrays of the GPU have the functions of NumPy, so the solvers of `kernel_classifier` take them as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import RowNumbers
from supquant.inputs.gpu_arrays import copy_to_host
from supquant.interrupts import check_interrupt
from supquant.kernels import device
from supquant.model.kernel_classifier import LabelClassifier
from supquant.model.kernel_rows import FAR, BlockMap, Factor, KernelRows, NormalEquations
from supquant.row_sums import FeatureCache
from supquant.rows import Rows, rows_of

__all__ = ["DeviceRows", "device_cache", "with_host_weights"]

MIN_FEATURES = 1 << 23
"""Rows with fewer features in all stay on the CPU."""


def device_cache(X: NDArray[Any] | Rows, kernel: Any, most: int) -> FeatureCache | None:
    """Return a cache of at most `most` bytes for features on the GPU; None if the rows are to stay on the CPU.

    They do if no GPU is chosen, if they are few, or if other processes read them.
    """
    width = X.shape[1] if kernel is None else len(kernel.anchors)
    if (
        (gpu := device.chosen_gpu()) is None
        or len(X) * width < MIN_FEATURES
        or not rows_of(X).here
        or not (kernel is None or isinstance(kernel, BlockMap))
    ):
        return None
    return FeatureCache(min(most, gpu.free_bytes() // 2))


@dataclass(frozen=True, eq=False)
class DeviceRows(KernelRows):
    """Labelled rows whose features, sums and logits are arrays of the GPU. One thread visits all blocks."""

    @cached_property
    def _arrays(self) -> Any:
        return device.cuda().arrays

    @cached_property
    def _anchors(self) -> Any:
        """The matrix (p + 2, h) of `BlockMap` whose products with lifted rows are exponents."""
        assert isinstance(self.kernel, BlockMap)
        return self._arrays.asarray(self.kernel._lifted_anchors[:, : self.width - 1])

    def features(self, rows: RowNumbers) -> Any:
        """Return phi (b, d + 1) of one block."""
        check_interrupt()
        return self.cache.get(int(rows[0]), lambda: self._computed(rows))

    def _computed(self, rows: RowNumbers) -> Any:
        arrays = self._arrays
        x = arrays.asarray(self.vectors(rows))
        phi = arrays.empty((len(x), self.width), dtype=np.float32)
        phi[:, -1] = 1
        if not isinstance(self.kernel, BlockMap):
            phi[:, :-1] = x
            return phi
        n, p = x.shape
        lifted = arrays.empty((n, p + 2), dtype=np.float32)
        lifted[:, :p] = x - arrays.asarray(self.kernel.mean)
        squares = arrays.square(lifted[:, :p]).sum(axis=1)
        near = arrays.isfinite(squares)
        lifted[:, :p] = arrays.where(near[:, None], lifted[:, :p], np.float32(0))
        lifted[:, p] = arrays.where(near, squares, np.float32(FAR / -self.kernel.scale))
        lifted[:, p + 1] = 1
        phi[:, :-1] = arrays.exp(arrays.minimum(lifted @ self._anchors, 0))
        return phi

    def _ones(self, rows: RowNumbers) -> tuple[Any, Any]:
        """Return the places of the ones in Y (b, L) of one block: their rows and columns."""

        def compute() -> Any:
            Y = self.indicators(rows)
            owners = np.repeat(np.arange(len(rows)), np.diff(Y.indptr))
            return self._arrays.asarray(np.stack([owners, Y.indices]))

        places = self.cache.get(-1 - int(rows[0]), compute)
        return places[0], places[1]

    def logits(self, weights: Any) -> Any:
        """Return phi W (n, L) of all rows for weights W (d + 1, L), in the order of the blocks."""
        W = self._arrays.asarray(weights).astype(np.float32)
        return self._arrays.concatenate([self.features(rows) @ W for rows in self.blocks])

    def normal_equations(self) -> NormalEquations:
        """Sum products over the sample, whose rows stand for all; without a sample over all rows."""
        arrays, L = self._arrays, self.labels.n_labels
        gram, products = arrays.zeros((self.width, self.width)), arrays.zeros((self.width, L))
        summed = self.blocks[: self.n_sampled or None]
        for rows in summed:
            phi, Y = self.features(rows), arrays.zeros((len(rows), L), dtype=np.float32)
            Y[self._ones(rows)] = 1
            gram += phi.T @ phi
            products += phi.T @ Y
        share = len(self) / max(sum(map(len, summed)), 1)
        return DeviceEquations(gram * share, products * share)

    def gradient(self, weights: Any) -> Any:
        """Return the gradient (d + 1, L) of the negative log likelihood, summed over rows."""
        arrays = self._arrays
        W, gradient = arrays.asarray(weights).astype(np.float32), arrays.zeros(weights.shape)
        for rows in self.blocks:
            phi = self.features(rows)
            residuals = phi @ W
            if self.labels.multilabel:
                residuals = (1 + arrays.tanh(residuals / 2)) / 2  # a sigmoid that cannot overflow
            else:
                residuals = arrays.exp(residuals - residuals.max(axis=1, keepdims=True))
                residuals /= residuals.sum(axis=1, keepdims=True)
            residuals[self._ones(rows)] -= 1
            gradient += phi.T @ residuals
        return gradient


@dataclass(frozen=True, eq=False)
class DeviceEquations(NormalEquations):
    """The sums over rows that least squares needs, on the GPU."""

    def _factor(self, ridge: float, dtype: type[np.floating]) -> Factor | None:
        matrix = self.gram.astype(dtype)
        features = np.arange(len(matrix) - 1)  # the intercept has no ridge
        matrix[features, features] += dtype(ridge * (float(self.gram[features, features].mean()) or 1.0))
        lower = device.cuda().cholesky(matrix)
        return None if lower is None else DeviceFactor(ridge, lower)


@dataclass(frozen=True, eq=False)
class DeviceFactor(Factor):
    """The Cholesky factor of G + D, on the GPU."""

    def solve(self, right: Any) -> Any:
        """Solve (G + D) W = right (d + 1, L) for W."""
        return device.cuda().solve_cholesky(self.lower, right.astype(self.lower.dtype)).astype(np.float64)


def with_host_weights(classifier: LabelClassifier) -> LabelClassifier:
    """Return a classifier whose weights are arrays of NumPy."""
    weights, held_weights = copy_to_host(classifier.weights), copy_to_host(classifier.held_weights)
    return replace(classifier, weights=weights, held_weights=held_weights)
