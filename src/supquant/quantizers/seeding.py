"""The codewords that k-means starts from: k-means++ (Arthur and Vassilvitskii, 2007).

The draws and their bits are those of scikit-learn, which converts all rows to float64 and computes their norms anew for every
codeword. Here this is done once: with 256 codewords for two columns it took nine tenths of a fit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32

BLOCK_ROWS = 1024
"""Distances are computed for this number of rows at a time, so that their float64 values stay in the cache."""


def plus_plus_seeds(X: Float32, n_codewords: int, random_state: np.random.RandomState) -> Float32:
    """Draw rows that are far from each other.

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
