"""Vectors to features: the fitted map of a Gaussian kernel, and rows through any map block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec import block_rows, row_products
from supquant.parallel import ordered_map, row_blocks, single_blas
from supquant.storage import lay_out_as_stored
from supquant.validation import as_float32


@dataclass(frozen=True)
class GaussianMap:
    """The fitted, frozen map: what a codec holds."""

    anchors: Float32  # (h, p)
    bandwidth: float  # sigma

    kind: ClassVar[str] = "anchor-kernel"

    def __post_init__(self) -> None:
        lay_out_as_stored(self, ["anchors"])

    @property
    def n_inputs(self) -> int:
        """Width of what comes in."""
        return int(self.anchors.shape[1])

    @cached_property
    def _norms(self) -> Float32:
        """Squared lengths (h,) of the anchors; they take longer than one query."""
        return squared_norms(self.anchors)

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, h)."""
        squares = squared_distances(x, self.anchors, self._norms)
        squares *= np.float32(-0.5 / self.bandwidth**2)
        return np.exp(squares, out=squares)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold."""
        return {"anchors": self.anchors, "bandwidth": np.array([self.bandwidth])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""
        return cls(arrays["anchors"], float(arrays["bandwidth"][0]))


def map_rows(
    feature_map: Callable[[Float32], Float32],
    X: NDArray[Any],
    width: int,
    n_jobs: int,
    rows: int | None = None,
) -> Float32:
    """Return the features (n, width) of rows X (n, p), so many rows at a time; as many as the map asks for if None."""
    features = np.empty((len(X), width), dtype=np.float32)

    def fill(block: tuple[int, int]) -> None:
        features[slice(*block)] = feature_map(as_float32(X[slice(*block)]))

    with single_blas():
        for _ in ordered_map(fill, row_blocks(len(X), rows or block_rows(feature_map)), n_jobs):
            pass
    return features


def squared_norms(rows: Float32) -> Float32:
    """Give the squared lengths (n,) of rows (n, p)."""
    norms: Float32 = np.einsum("ij,ij->i", rows, rows)
    return norms


def squared_distances(x: Float32, anchors: Float32, norms: Float32) -> Float32:
    """Give the squared distances (b, h) between rows and anchors of squared lengths `norms` (h,), never negative."""
    squares = row_products(x, anchors)
    squares *= -2
    squares += squared_norms(x)[:, None]
    squares += norms
    return np.maximum(squares, 0, out=squares)
