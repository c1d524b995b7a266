"""The state of a fit: the rows with their codes, and the codebooks, from the published start to longer codes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32, Float64
from supquant.assignment import spread_codes
from supquant.inputs.validation import as_float32
from supquant.published.initialisation import (
    SAMPLE_ROWS_PER_CODEWORD,
    lengthen,
    principal_components,
    product_start,
)
from supquant.published.projections import FixedProjection, LearnedProjection, Projection
from supquant.published.rows import CodedRows
from supquant.published.statistics import Moments, Penalties
from supquant.published.steps import Start

if TYPE_CHECKING:
    from supquant.codec.additive import AdditiveCodec
    from supquant.codec.feature_map import FeatureMap
    from supquant.inputs.labels import Labels
    from supquant.rows import Rows

N_SEEDS = 1024
"""A codec keeps this number of training codes, from which encodings can start."""

SHORTEST_CODE = 2
"""Codes of at most this number of codebooks start from product quantization; longer codes start from a shorter one."""

ProjectionName = Literal["learned", "identity", "pca"]

PROJECTION_TYPES: Mapping[str, type[Projection]] = {
    "learned": LearnedProjection,
    "identity": FixedProjection,
    "pca": FixedProjection,
}
"""The class behind each value of the parameter `projection`."""


class Training:
    """The rows, the sums over them that do not change, and the current codebooks (M, K, r) and codes (n, M).

    Parameters
    ----------
    X : Rows of shape (n, p)
    labels : Labels
    feature_map : FeatureMap or None
        None takes the vectors themselves as features.
    n_codewords : int
        K.
    rng : Generator
    n_jobs : int
        Number of threads.
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
        projection: ProjectionName = "learned",
    ) -> None:
        self._projection_name = projection
        self.X, self._labels, self.feature_map = X, labels, feature_map
        self._n_codewords, self.rng, self._n_jobs = n_codewords, rng, n_jobs
        self.codes: Codes = np.zeros((len(X), 0), dtype=np.uint8)
        self.rows = CodedRows(X, labels, self.codes, n_codewords, features=feature_map, n_jobs=n_jobs)
        self.moments: Moments = self.rows.moments()

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
        self._set(start.codebooks, np.zeros((len(self.X), n_codebooks), dtype=np.uint8))
        self.rows.assign(start)

    def begin_from(self, shorter: AdditiveCodec, codes: Codes) -> None:
        """Start from a fitted codec and the codes (n, M) that the rows have under it."""
        projection = np.eye(shorter.n_components) if shorter.projection is None else shorter.projection
        self.projection = projection.astype(np.float64)
        self._set(shorter.codebooks.astype(np.float64), codes.copy())

    def lengthen(self, n_codebooks: int) -> None:
        """Add codebooks until there are `n_codebooks`."""
        if n_codebooks > self.codes.shape[1]:
            self._set(*lengthen(self.codebooks, self.codes, n_codebooks, self.rng))

    def take(self, codebooks: Float64, projection: Float64) -> None:
        """Continue from codebooks (M, K, r) and a projection (d, r) that a solver found."""
        self.codebooks, self.projection = codebooks, projection

    def start(self, quantization: float, constraint: float, ridge: float) -> Start:
        """Return where a solver starts, given the weights gamma, mu and lambda."""
        kind = PROJECTION_TYPES[self._projection_name]
        penalties = Penalties(quantization, constraint, ridge, kind.ridge(self.moments))
        return Start(self.rows, self.moments, self.codebooks, self.projection, penalties, kind)

    def stored_projection(self, P: Float64) -> Float32 | None:
        """Return P (d, r) as a codec holds it: None stands for the identity."""
        return None if self._projection_name == "identity" else P.astype(np.float32)

    def _set(self, codebooks: Float64, codes: Codes) -> None:
        self.codebooks, self.codes = codebooks, codes
        self.rows.recode(codes)


def with_seeds(codec: AdditiveCodec, codes: Codes, X: NDArray[Any] | Rows) -> AdditiveCodec:
    """Return a codec whose encodings start from some of the codes (n, M), if this lowers the cost on rows of X (n, p)."""
    if codec.n_codebooks <= SHORTEST_CODE:  # such codes are searched exactly
        return codec
    from_codes = replace(codec, seeds=spread_codes(codes, N_SEEDS))
    sample = codec.features(as_float32(X[:: -(-len(X) // N_SEEDS)]))
    return min(from_codes, codec, key=lambda each: each.mean_cost(sample))
