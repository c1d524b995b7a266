"""The state of a fit: the rows with their codes, and the codebooks, from the published start to longer codes.

The start is that of section 4 of the paper, Initialization. P comes from principal components. The codebooks and codes of the
shortest code come from product quantization of X P. A longer code starts from a shorter one: its added codebooks are zero and
its added codes are random.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from supquant.algebra import leading_eigenvectors
from supquant.arrays import Codes, Float32, Float64
from supquant.assignment import spread_codes
from supquant.clustering import product_codebooks
from supquant.inputs.validation import as_float32
from supquant.published.projections import FixedProjection, LearnedProjection, Projection
from supquant.published.rows import CodedRows, ModelState, Moments, Penalties
from supquant.published.solvers import Start

if TYPE_CHECKING:
    from supquant.codec.additive import AdditiveCodec
    from supquant.codec.interface import FeatureMap
    from supquant.inputs.labels import Labels
    from supquant.rows import Rows

N_SEEDS = 1024
"""Number of training codes that a codec keeps to start encodings from."""

SHORTEST_CODE = 2
"""Codes of at most this number of codebooks start from product quantization. Longer codes start from a shorter one."""

SAMPLE_ROWS_PER_CODEWORD = 32
"""Number of rows per codeword for k-means. A small sample is enough, because the solver soon moves every codeword."""

KMEANS_ITERATIONS = 10
"""Maximum number of k-means iterations."""

ProjectionName = Literal["learned", "identity", "pca"]

PROJECTION_TYPES: Mapping[str, type[Projection]] = {
    "learned": LearnedProjection,
    "identity": FixedProjection,
    "pca": FixedProjection,
}
"""The class for each value of the parameter `projection`."""


class Training:
    """The rows with their current codes, the sums over them that do not change, and the current codebooks (M, K, r).

    Parameters
    ----------
    X : Rows of shape (n, p)
    labels : Labels
    feature_map : FeatureMap or None
        None uses the vectors themselves.
    n_codewords : int
        K.
    rng : Generator
    n_jobs : int
        Number of threads.
    weights : tuple of float
        Gamma, mu and lambda.
    projection : {"learned", "identity", "pca"}, default="learned"
        ``"learned"`` starts from principal components. The other two do not change during the fit.
    """

    def __init__(
        self,
        X: Rows,
        labels: Labels,
        feature_map: FeatureMap | None,
        n_codewords: int,
        rng: np.random.Generator,
        n_jobs: int,
        weights: tuple[float, float, float],
        projection: ProjectionName = "learned",
    ) -> None:
        self._projection_name = projection
        self.X, self._labels, self.feature_map = X, labels, feature_map
        self._n_codewords, self.rng, self._n_jobs = n_codewords, rng, n_jobs
        no_codes = np.zeros((len(X), 0), dtype=np.uint8)
        self.rows = CodedRows(X, labels, no_codes, n_codewords, features=feature_map, n_jobs=n_jobs)
        self.moments: Moments = self.rows.moments()
        self._projection_type = PROJECTION_TYPES[projection]
        gamma, mu, ridge = map(float, weights)
        self._penalties = Penalties(gamma, mu, ridge, self._projection_type.ridge(self.moments))

    def begin(self, n_codebooks: int, n_components: int) -> None:
        """Start from principal components, or from the identity, and from product quantization."""
        d = len(self.moments.xx)
        if self._projection_name == "identity":
            self.projection = np.eye(d)
        else:
            self.projection = principal_components(self.moments, min(n_components, d))
        chosen = np.sort(self.rng.permutation(len(self.X))[: SAMPLE_ROWS_PER_CODEWORD * self._n_codewords])
        sample = as_float32(self.X[chosen])
        start = product_start(
            sample if self.feature_map is None else self.feature_map(sample),
            self.projection,
            self._labels.n_labels,
            n_codebooks=n_codebooks,
            n_codewords=self._n_codewords,
            rng=self.rng,
            n_jobs=self._n_jobs,
        )
        self.codebooks = start.codebooks
        self.rows.recode(np.zeros((len(self.X), n_codebooks), dtype=np.uint8))
        self.rows.assign(start)

    def begin_from(self, shorter: AdditiveCodec, codes: Codes) -> None:
        """Start from a fitted codec and the codes (n, M) that the rows have under it."""
        projection = np.eye(shorter.n_components) if shorter.projection is None else shorter.projection
        self.projection = projection.astype(np.float64)
        self.codebooks = shorter.codebooks.astype(np.float64)
        self.rows.recode(codes.copy())

    def take(self, codebooks: Float64, projection: Float64) -> None:
        """Continue from codebooks (M, K, r) and a projection (d, r) that a solver found."""
        self.codebooks, self.projection = codebooks, projection

    def lengthen(self, n_codebooks: int) -> None:
        """Add codebooks until there are `n_codebooks`."""
        if n_codebooks > len(self.codebooks):
            self.codebooks, codes = lengthen(self.codebooks, self.rows.codes, n_codebooks, self.rng)
            self.rows.recode(codes)

    def start(self) -> Start:
        """Return where a solver starts."""
        return Start(
            self.rows, self.moments, self.codebooks, self.projection, self._penalties, self._projection_type
        )

    def stored_projection(self, P: Float64) -> Float32 | None:
        """Return P (d, r) as a codec holds it: None stands for the identity."""
        return None if self._projection_name == "identity" else P.astype(np.float32)


# the start -----------------------------------------------------------------------------------------------------------


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


# the result ----------------------------------------------------------------------------------------------------------


def with_seeds(codec: AdditiveCodec, codes: Codes, X: NDArray[Any] | Rows) -> AdditiveCodec:
    """Return a codec that starts its search from some of the codes (n, M), if this lowers the cost of rows X (n, p)."""
    if codec.n_codebooks <= SHORTEST_CODE:  # such codes are searched exactly
        return codec
    from_codes = replace(codec, seeds=spread_codes(codes, N_SEEDS))
    sample = codec.features(as_float32(X[:: -(-len(X) // N_SEEDS)]))
    return min(from_codes, codec, key=lambda each: each.mean_cost(sample))
