"""Where the supervised solvers start from, as published (section 4, Initialization).

P from principal components; the codebooks and codes of the shortest code from product quantization of X P; those of a longer
code from a shorter one, its added codebooks zero and its added codes random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from supquant.arrays import Codes, Float64
from supquant.quantizers.product import product_codebooks
from supquant.statistics import ModelState, Moments, Penalties

SAMPLE_ROWS_PER_CODEWORD = 32
KMEANS_ITERATIONS = 10
"""A few k-means iterations on a sample are enough: the solver soon moves every codeword."""


def principal_components(moments: Moments, n_components: int) -> Float64:
    """Give the leading directions (d, r) of centred X, from its moments."""
    mean = moments.sum_x / moments.n_rows
    covariance = moments.xx / moments.n_rows - np.outer(mean, mean)
    d = len(covariance)
    _, directions = eigh(covariance, subset_by_index=(d - n_components, d - 1))
    leading: Float64 = directions[:, ::-1]
    return np.ascontiguousarray(leading)


def product_start(
    sample: NDArray[np.float32],
    projection: Float64,
    n_labels: int,
    *,
    n_codebooks: int,
    n_codewords: int,
    rng: np.random.Generator,
    n_jobs: int,
) -> ModelState:
    """Learn product codebooks from a sample (s, d) of the rows, as a model whose assignment is product quantization.

    Dimensions are dealt out in turn (m, m + M, ...), so that every codebook gets its share of the leading ones.
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
    """Add zero codebooks (to M, K, r) and random codes (to n, M)."""
    M, K, r = codebooks.shape
    longer = np.zeros((n_codebooks, K, r))
    longer[:M] = codebooks
    added = rng.integers(K, size=(len(codes), n_codebooks - M), dtype=np.uint8)
    return longer, np.hstack([codes, added])
