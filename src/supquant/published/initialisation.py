"""Where the supervised solvers start, as published (section 4, Initialization).

P comes from principal components. The codebooks and codes of the shortest code come from product quantization of X P. A longer
code starts from a shorter one: its added codebooks are zero and its added codes are random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import leading_eigenvectors
from supquant.arrays import Codes, Float32, Float64
from supquant.clustering import product_codebooks
from supquant.published.statistics import ModelState, Moments, Penalties

SAMPLE_ROWS_PER_CODEWORD = 32
"""K-means sees this number of rows for each codeword. A small sample is enough, because the solver soon moves every codeword."""

KMEANS_ITERATIONS = 10
"""K-means takes at most this number of iterations."""


def principal_components(moments: Moments, n_components: int) -> Float64:
    """Return the leading directions (d, r) of centred X, computed from its moments."""
    mean = moments.sum_x / moments.n_rows
    covariance = moments.xx / moments.n_rows - np.outer(mean, mean)
    return np.ascontiguousarray(leading_eigenvectors(covariance, n_components)[1])


def product_start(
    sample: Float32,
    projection: Float64,
    n_labels: int,
    *,
    n_codebooks: int,
    n_codewords: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> ModelState:
    """Learn product codebooks from a sample of the rows.

    The dimensions are dealt to the codebooks in turn (m, m + M, ...), so every codebook has some of the leading ones.

    Parameters
    ----------
    sample : (s, d) float32
        Features of some rows.
    projection : (d, r) float64
    n_labels, n_codebooks, n_codewords : int
        L, M and K.
    rng : Generator
    n_jobs : int
        Number of threads.

    Returns
    -------
    ModelState
        A model under which the best codes are those of product quantization.
    """
    r = projection.shape[1]
    codebooks, _ = product_codebooks(
        sample @ projection.astype(np.float32),
        [np.arange(m, r, n_codebooks) for m in range(n_codebooks)],
        n_codewords,
        rng=rng,
        max_iter=KMEANS_ITERATIONS,
        n_jobs=n_jobs,
    )
    no_labels = Penalties(quantization=1.0, constraint=0.0, ridge=0.0)
    return ModelState(codebooks.astype(np.float64), projection, np.zeros((r, n_labels)), 0.0, no_labels)


def lengthen(
    codebooks: NDArray[np.floating], codes: Codes, n_codebooks: int, rng: np.random.Generator
) -> tuple[Float64, Codes]:
    """Return codebooks (M, K, r) with zero codebooks added, and codes (n, M) with random codes added."""
    M, K, r = codebooks.shape
    longer = np.zeros((n_codebooks, K, r))
    longer[:M] = codebooks
    added = rng.integers(K, size=(len(codes), n_codebooks - M), dtype=np.uint8)
    return longer, np.hstack([codes, added])
