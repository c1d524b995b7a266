"""A fit under way: the rows with their codes, and the codebooks, from the published start to ever longer codes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from supquant.arrays import Float64
from supquant.codec import spread_codes
from supquant.quantizers.initialisation import (
    SAMPLE_ROWS_PER_CODEWORD,
    lengthen,
    principal_components,
    product_start,
)
from supquant.quantizers.steps import Start
from supquant.rows import LocalRows
from supquant.statistics import ModelState, Moments, Penalties
from supquant.validation import as_float32

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from supquant.codec import AdditiveCodec, FeatureMap
    from supquant.rows import Targets

N_SEEDS = 1024
"""Training codes that a codec keeps to start encodings from."""

SHORTEST = 2
"""Codebooks of the code that starts from product quantization; longer ones start from it."""

Projection = Literal["learned", "identity", "pca"]

RELATIVE_PROJECTION_RIDGE = 1e-6
"""Delta, in units of the mean diagonal of X'X, which is nearly singular for kernel features."""


class Training:
    """The rows, what was summed over them once, and the current codebooks (M, K, r) and codes (n, M).

    The projection is learned from principal components on, or stays what it is: these, or the identity.
    """

    def __init__(
        self,
        X: NDArray[Any],
        labels: Targets,
        feature_map: FeatureMap | None,
        n_codewords: int,
        rng: np.random.Generator,
        n_jobs: int,
        projection: Projection = "learned",
    ) -> None:
        self._mode = projection
        self._X, self._labels, self._feature_map = X, labels, feature_map
        self._n_codewords, self.rng, self._n_jobs = n_codewords, rng, n_jobs
        self.codes: NDArray[np.uint8] = np.zeros((len(X), 0), dtype=np.uint8)
        self.rows = LocalRows(X, labels, self.codes, n_codewords, features=feature_map, n_jobs=n_jobs)
        self.moments: Moments = self.rows.moments()

    def begin(self, n_codebooks: int, n_components: int) -> None:
        """Start from principal components, or the identity, and product quantization."""
        d = len(self.moments.xx)
        if self._mode == "identity":
            self.projection = np.eye(d)
        else:
            self.projection = principal_components(self.moments, min(n_components, d))
        chosen = np.sort(self.rng.permutation(len(self._X))[: SAMPLE_ROWS_PER_CODEWORD * self._n_codewords])
        sample = as_float32(self._X[chosen])
        start = product_start(
            sample if self._feature_map is None else self._feature_map(sample),
            self.projection,
            self._labels.n_labels,
            n_codebooks=n_codebooks,
            n_codewords=self._n_codewords,
            rng=self.rng,
            n_jobs=self._n_jobs,
        )
        self._set(start.codebooks, np.zeros((len(self._X), n_codebooks), dtype=np.uint8))
        self.rows.assign(start)

    def begin_from(self, shorter: AdditiveCodec, codes: NDArray[np.uint8]) -> None:
        """Start from a fitted codec and the codes (n, M) of the rows under it."""
        projection = np.eye(shorter.n_components) if shorter.projection is None else shorter.projection
        self.projection = projection.astype(np.float64)
        self._set(shorter.codebooks.astype(np.float64), codes.copy())

    def lengthen(self, n_codebooks: int) -> None:
        """Add codebooks until there are `n_codebooks`."""
        if n_codebooks > self.codes.shape[1]:
            self._set(*lengthen(self.codebooks, self.codes, n_codebooks, self.rng))

    def take(self, state: ModelState) -> None:
        """Go on from a solver's model."""
        self.codebooks, self.projection = state.codebooks, state.projection

    @property
    def projection_is_fixed(self) -> bool:
        """Whether the projection stays what it is."""
        return self._mode != "learned"

    @property
    def projection_ridge(self) -> float:
        """Delta, absolute; 0 where the projection is fixed."""
        mean_diagonal = float(np.trace(self.moments.xx)) / len(self.moments.xx)
        return 0.0 if self.projection_is_fixed else RELATIVE_PROJECTION_RIDGE * (mean_diagonal or 1.0)

    def start(self, quantization: float, constraint: float, ridge: float) -> Start:
        """Give a solver what it needs."""
        penalties = Penalties(quantization, constraint, ridge, self.projection_ridge)
        return Start(
            self.rows, self.moments, self.codebooks, self.projection, penalties, self.projection_is_fixed
        )

    def _set(self, codebooks: Float64, codes: NDArray[np.uint8]) -> None:
        self.codebooks, self.codes = codebooks, codes
        self.rows.recode(codes)


def seeded(codec: AdditiveCodec, codes: NDArray[np.uint8], X: NDArray[Any]) -> AdditiveCodec:
    """Let encodings start from codes (n, M) of rows like X, if that finds codes of lower cost than a start of their own."""
    if codec.n_codebooks <= SHORTEST:  # searched exactly
        return codec
    from_codes = replace(codec, seeds=spread_codes(codes, N_SEEDS))
    sample = codec.features(as_float32(X[:: -(-len(X) // N_SEEDS)]))
    return min(from_codes, codec, key=lambda each: each.mean_cost(sample))
