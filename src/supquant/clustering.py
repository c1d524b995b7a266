"""K-means of groups of columns, which starts from k-means++ (Arthur and Vassilvitskii, 2007)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from supquant.arrays import Float32
from supquant.inputs.validation import as_float32
from supquant.parallel import ordered_map, single_blas

ROWS_PER_CODEWORD = 256
"""K-means sees at most this number of rows for each codeword; more rows change the centres little."""

BLOCK_ROWS = 1024
"""Distances are computed for this number of rows at a time, so that their float64 values stay in the cache."""


def plus_plus_seeds(X: Float32, n_codewords: int, random_state: np.random.RandomState) -> Float32:
    """Draw rows that are far from each other.

    The draws and their bits are those of scikit-learn, which converts all rows to float64 and computes their norms again for
    every codeword. Here this is done once: with 256 codewords for two columns it took 90% of the time of a fit.

    Each is the best of a few rows, drawn with probabilities proportional to the squared distance to the nearest row so far.

    Parameters
    ----------
    X : ndarray of shape (n, d), float32
    n_codewords : int
        K, the number of rows to draw, at most n.
    random_state : numpy RandomState

    Returns
    -------
    ndarray of shape (K, d), float32

    Examples
    --------
    >>> X = np.float32([[0, 0], [0, 1], [9, 9], [9, 8]])
    >>> plus_plus_seeds(X, 2, np.random.RandomState(0))
    array([[9., 9.],
           [0., 1.]], dtype=float32)
    """
    n = len(X)
    rows = X.astype(np.float64)
    norms = np.einsum("ij,ij->i", rows, rows)
    rows *= -2  # exact, so that a product with it has the bits of one that is doubled afterwards
    columns = X.T.astype(np.float64, order="C")  # (d, n)
    ones = np.ones(n, dtype=np.float32)

    def distances(drawn: NDArray[np.intp]) -> Float32:
        """Return the squared distances (t, n) of the rows of numbers `drawn` (t,) to all rows."""
        found = np.empty((len(drawn), n), dtype=np.float32)
        for start in range(0, n, BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            products = rows[drawn] @ columns[:, block]
            products += norms[drawn, None]
            products += norms[block]
            found[:, block] = products
        return np.maximum(found, 0, out=found)

    n_tries = 2 + int(np.log(n_codewords))
    seeds = [random_state.choice(n, p=ones / ones.sum())]
    nearest = distances(np.array(seeds))[0]  # squared distance of every row to the nearest seed
    total = nearest @ ones
    while len(seeds) < n_codewords:
        places = random_state.uniform(size=n_tries) * total
        tried = np.cumsum(nearest).searchsorted(places).clip(max=n - 1)  # rounding can lead past the last row
        nearer = np.minimum(nearest, distances(tried))
        totals = nearer @ ones[:, None]  # (t, 1)
        best = totals.argmin()
        seeds.append(tried[best])
        nearest, total = nearer[best], totals[best]
    return X[seeds]


def sample_rows(X: NDArray[Any], n_codewords: int, rng: np.random.Generator) -> Float32:
    """Return a random sample (s, d) of the rows of X (n, d) for k-means, in their order."""
    return as_float32(X[np.sort(rng.permutation(len(X))[: ROWS_PER_CODEWORD * n_codewords])])


def column_groups(n_columns: int, n_codebooks: int) -> list[NDArray[np.intp]]:
    """Return the columns of each codebook: consecutive groups, which differ in size by at most one."""
    return np.array_split(np.arange(n_columns), n_codebooks)


def product_codebooks(
    Z: Float32,
    groups: Sequence[NDArray[np.intp]],
    n_codewords: int,
    *,
    rng: np.random.Generator,
    max_iter: int,
    n_jobs: int,
) -> tuple[Float32, int]:
    """Run k-means on each group of columns.

    Parameters
    ----------
    Z : (n, r) float32
    groups : sequence of M int arrays
        Columns of each group.
    n_codewords : int
        K.
    rng : Generator
    max_iter : int
        Maximum number of k-means iterations.
    n_jobs : int
        Number of threads.

    Returns
    -------
    codebooks : (M, K, r) float32
        Zero outside their group.
    n_iter : int
        Number of iterations of the group that took the most, at least 1.
    """
    seeds = rng.integers(2**31, size=len(groups))
    codebooks = np.zeros((len(groups), n_codewords, Z.shape[1]), dtype=np.float32)

    def centres(item: tuple[NDArray[np.intp], int]) -> tuple[Float32, int]:
        columns, seed = item
        if len(columns) == 0:  # more codebooks than dimensions
            return np.zeros((n_codewords, 0), dtype=np.float32), 0
        kmeans = KMeans(
            n_codewords, init=plus_plus_seeds, n_init=1, max_iter=max_iter, random_state=int(seed)
        )
        with threadpool_limits(1, user_api="openmp"):
            kmeans.fit(np.ascontiguousarray(Z[:, columns]))
        return kmeans.cluster_centers_, kmeans.n_iter_

    iterations = 1
    with single_blas(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than codewords are allowed
        found = ordered_map(centres, zip(groups, seeds, strict=True), n_jobs)
        for codebook, columns, (centre, n_iter) in zip(codebooks, groups, found, strict=True):
            codebook[:, columns] = centre
            iterations = max(iterations, n_iter)
    return codebooks, iterations
