"""The nearest rows of every row, and what they tell without labels: isolated rows.

Neighbours are found by codes of 16 bytes: product quantization of principal coordinates, searched exactly. Labels play no part in
them. Distances to the neighbours are then computed from the vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import leading_eigenvectors
from supquant.arrays import Float32, Float64, RowNumbers
from supquant.baselines.product import ProductQuantizer
from supquant.codec.gaussian_map import map_rows
from supquant.index import CodeIndex
from supquant.inputs.validation import as_float32
from supquant.model.kernel_rows import gram_jobs
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.rows import sum_rows

N_DIRECTIONS = 32
"""Vectors have at most this number of principal coordinates."""

N_CODEBOOKS = 16
"""A code has at most this number of bytes, one for every two coordinates."""

CODEBOOK_ROWS = 8192
"""The codebooks are learned from at most this number of rows."""

MAX_ROWS = 1 << 18
"""Neighbours are searched among at most this number of rows, which are drawn at random from more."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The k nearest other rows of every row."""

    rows: RowNumbers  # (n, k) row numbers, the nearest first; -1 where there are fewer
    distances: Float32  # (n, k) in the space of the vectors; infinite where there is no neighbour
    around: RowNumbers  # (n, w) more near rows in no exact order, the k nearest among them; -1 where there are fewer
    positions: Float32  # (n, g) principal coordinates

    def usual_distance(self) -> float:
        """Return the median distance of a row to the last of its neighbours that is not at its own place."""
        last = np.where(np.isfinite(self.distances), self.distances, 0).max(axis=1, initial=0)
        apart = last[last > 0]
        return float(np.median(apart)) if len(apart) else 0.0

    def loneliness(self) -> Float64:
        """Return for every row (n,) how far its neighbours are, compared with how far the neighbours of these are.

        It is the mean distance of the row to its neighbours over the median of the same of its neighbours. It is about 1 inside a
        cloud of rows, however dense the cloud is.
        """
        there = np.isfinite(self.distances)
        total = np.where(there, self.distances, 0).sum(axis=1, dtype=np.float64)
        mean = total / np.maximum(there.sum(axis=1), 1)
        around = np.where(there, mean[self.rows], np.nan)
        around[~there.any(axis=1)] = 1
        usual = np.maximum(np.nanmedian(around, axis=1), 1e-3 * self.usual_distance())
        return mean / np.where(usual > 0, usual, 1)


def find_neighbours(
    X: NDArray[Any], k: int, rng: np.random.Generator, n_jobs: int, n_around: int = 0
) -> Neighbours:
    """Find the k nearest other rows of every row of X (n, p).

    Parameters
    ----------
    X : ndarray of shape (n, p)
    k : int
        At most n - 1 are found.
    rng : numpy Generator
        Draws the rows that codebooks are learned from, and those to search among if there are very many.
    n_jobs : int
        Number of threads.
    n_around : int, default=0
        At least this number of near rows are found, though not exactly in their order.

    Returns
    -------
    Neighbours

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [1.0], [1.2]])
    >>> find_neighbours(X, 1, np.random.default_rng(0), 1).rows.ravel().tolist()
    [1, 0, 3, 2]
    """
    n = len(X)
    k, n_around = min(k, n - 1), min(max(k, n_around), n - 1)
    with single_blas():
        mean, directions = _scaled_directions(X, N_DIRECTIONS, n_jobs)
        positions = map_rows(lambda x: np.asarray((x - mean) @ directions), X, directions.shape[1], n_jobs)
    sample = np.sort(rng.permutation(n)[:CODEBOOK_ROWS])
    quantizer = ProductQuantizer(
        min(N_CODEBOOKS, positions.shape[1]),
        n_codewords=max(2, min(256, len(sample))),
        n_jobs=n_jobs,
        random_state=rng,
    ).fit(positions[sample])
    searched = np.sort(rng.permutation(n)[:MAX_ROWS])
    index = CodeIndex(quantizer).add_codes(quantizer.encode(positions[searched]), searched)
    found = np.full((n, n_around), -1, dtype=np.int64)
    for start, stop in row_blocks(n):
        _, ids = index.search(positions[start:stop], n_around + 1, n_jobs=n_jobs)
        found[start:stop, : ids.shape[1] - 1] = _without_own(ids, start)
    return _sorted(X, found, k, positions, n_jobs)


def _scaled_directions(X: NDArray[Any], n_directions: int, n_jobs: int) -> tuple[Float32, Float32]:
    """Return the mean (p,) of rows X (n, p) and their principal directions (p, g).

    Directions are scaled so that the coordinates of centred rows have a mean squared length of one.
    """
    n, p = X.shape
    (total,) = sum_rows(_column_sums, X, None, n_jobs)
    mean = (total / n).astype(np.float32)
    (covariance,) = sum_rows(_centred_products, X, mean, gram_jobs(p, n_jobs))
    covariance /= n
    variances, vectors = leading_eigenvectors(covariance, min(n_directions, p))
    length = float(np.sqrt(np.maximum(variances, 0).sum())) or 1.0
    return mean, as_float32(vectors / length)


def _column_sums(x: NDArray[Any], shared: None) -> tuple[Float64]:
    del shared
    return (x.sum(axis=0, dtype=np.float64),)


def _centred_products(x: NDArray[Any], mean: Float32) -> tuple[Float32]:
    centred = as_float32(x) - mean
    return (centred.T @ centred,)


def _without_own(ids: RowNumbers, start: int) -> RowNumbers:
    """Return the answers (b, k) to rows that begin at a number, each without the row itself, or else without the last answer."""
    own = ids == np.arange(start, start + len(ids))[:, None]
    own[~own.any(axis=1), -1] = True
    return np.asarray(ids[~own].reshape(len(ids), -1))


def _sorted(X: NDArray[Any], around: RowNumbers, k: int, positions: Float32, n_jobs: int) -> Neighbours:
    """Compute the distances to the first k of the near rows (n, w) that were found, and order these by distance."""
    found = around[:, :k]

    def of_block(block: tuple[int, int]) -> Float32:
        others = found[slice(*block)]
        x = as_float32(X[slice(*block)])
        columns = [np.square(as_float32(X[others[:, j]]) - x).sum(axis=1) for j in range(others.shape[1])]
        distances = np.sqrt(np.stack(columns, axis=1))
        distances[others < 0] = np.inf
        return distances

    distances = np.concatenate(list(ordered_map(of_block, row_blocks(len(X)), n_jobs)))
    order = np.argsort(distances, axis=1, kind="stable")
    rows, distances = (np.take_along_axis(each, order, axis=1) for each in (found, distances))
    return Neighbours(rows, distances, around, positions)
