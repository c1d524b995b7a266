"""Hamming distances and decision trees in NumPy, a part of `reference`."""

# ruff: noqa: D103  (`Kernels` documents these functions)

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64
from supquant.kernels import arguments
from supquant.kernels.protocol import Numbers
from supquant.kernels.scanned import Bytes

__all__ = ["best_splits", "hamming", "tree_sums"]

# (256,) number of set bits of every byte
_POPCOUNTS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint16)


def hamming(codes: Bytes, queries: Bytes, n_threads: int = 1) -> NDArray[np.uint16]:
    q, n = arguments.check_hamming(codes, queries, n_threads)
    distances = np.empty((q, n), dtype=np.uint16)
    for query, distance in zip(queries, distances, strict=True):
        _POPCOUNTS[codes ^ query].sum(axis=1, dtype=np.uint16, out=distance)
    return distances


def tree_sums(
    x: Float32, features: Numbers, thresholds: Float32, leaves: Float32, n_threads: int = 1
) -> Float32:
    n, groups, size, depth = arguments.check_ensemble(x, features, thresholds, leaves, n_threads)
    rows, sums = np.arange(n), np.zeros((n, groups), dtype=np.float32)
    for group in range(groups):
        for tree in range(size):
            node = np.zeros(n, dtype=np.intp)
            for _ in range(depth):
                above = x[rows, features[group, tree, node]] > thresholds[group, tree, node]
                node = 2 * node + 1 + above
            sums[:, group] += leaves[group, tree, node - (2**depth - 1)]
    return sums


def best_splits(
    bins: Bytes,
    rows: NDArray[np.uint32],
    weights: Float64,
    starts: NDArray[np.uint64],
    features: Numbers,
    n_threads: int = 1,
) -> tuple[Numbers, Bytes]:
    n_nodes = arguments.check_level(bins, rows, weights, starts, features, n_threads)
    chosen = features[:, 0].copy()
    last = np.full(n_nodes, 255, dtype=np.uint8)
    for node in range(n_nodes):
        part = slice(int(starts[node]), int(starts[node + 1]))
        signed = np.zeros(256)
        mass = np.zeros(256)
        total, whole = (sum_in_order(values) for values in (weights[part], np.abs(weights[part])))
        best = -1.0
        for feature in features[node]:
            column = bins[feature, rows[part]]
            signed[:] = mass[:] = 0
            np.add.at(signed, column, weights[part])
            np.add.at(mass, column, np.abs(weights[part]))
            left, left_mass = np.add.accumulate(signed), np.add.accumulate(mass)
            right, right_mass = total - left, whole - left_mass
            split = (left_mass > 0) & (right_mass > 0)
            split[255] = False
            scores = np.full(256, -1.0)
            scores[split] = (left * left)[split] / left_mass[split] + (right * right)[split] / right_mass[
                split
            ]
            if (highest := scores.max()) > best:
                best, chosen[node], last[node] = highest, feature, scores.argmax()
    return chosen, last


def sum_in_order(values: Float64) -> float:
    # np.sum adds in pairs. A running sum adds one after the other, as the compiled loop does.
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0
