"""Compiled Hamming distances and decision trees, a part of `native`: checks, arrays for the results, calls of `_native`."""

# ruff: noqa: D103  (`Kernels` documents these functions)

import numpy as np
from numpy.typing import NDArray

import supquant.kernels._native as _native  # noqa: PLR0402
from supquant.arrays import Float32, Float64
from supquant.kernels.arguments import check_codes, check_ensemble, check_level, check_threads
from supquant.kernels.protocol import Bytes, Numbers

__all__ = ["best_splits", "hamming", "tree_sums"]


def hamming(codes: Bytes, queries: Bytes, n_threads: int = 1) -> NDArray[np.uint16]:
    n, M = check_codes(codes, 256)
    q, _ = check_codes(queries, 256, n_codebooks=M, name="queries")
    check_threads(n_threads)
    distances = np.empty((q, n), dtype=np.uint16)
    _native.hamming(codes, queries, distances, n_threads)
    return distances


def tree_sums(
    x: Float32, features: Numbers, thresholds: Float32, leaves: Float32, n_threads: int = 1
) -> Float32:
    n, groups, _, depth = check_ensemble(x, features, thresholds, leaves)
    check_threads(n_threads)
    sums = np.empty((n, groups), dtype=np.float32)
    _native.tree_sums(x, features, thresholds, leaves, depth, sums, n_threads)
    return sums


def best_splits(
    bins: Bytes,
    rows: NDArray[np.uint32],
    weights: Float64,
    starts: NDArray[np.uint64],
    features: Numbers,
    n_threads: int = 1,
) -> tuple[Numbers, Bytes]:
    n_nodes, _ = check_level(bins, rows, weights, starts, features)
    check_threads(n_threads)
    chosen, last = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.uint8)
    _native.best_splits(bins, rows, weights, starts, features, chosen, last, n_threads)
    return chosen, last
