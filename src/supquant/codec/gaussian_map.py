"""Vectors to features: the fitted map of a Gaussian kernel, and rows through any map block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.codec.base import check_parts, number_in
from supquant.codec.feature_map import block_rows
from supquant.codec.prefixes import add_prefix, split_prefix
from supquant.errors import InputError
from supquant.inputs.parameters import check_positive
from supquant.inputs.validation import as_float32
from supquant.kernels import GROUP, Packed, pack_rows
from supquant.parallel import row_blocks, single_blas
from supquant.rows import RowBlock, Rows, rows_of
from supquant.storage import lay_out_as_stored

_KERNEL = "kernel."
"""Prefix of a kernel's arrays among those of a map that holds it."""


@dataclass(frozen=True)
class GaussianMap:
    """The fitted, frozen map that a codec holds: ``exp(-|x - a|^2 / 2 sigma^2)`` for every anchor a."""

    anchors: Float32  # (h, p)
    bandwidth: float  # sigma

    kind: ClassVar[str] = "anchor-kernel"

    def __post_init__(self) -> None:
        lay_out_as_stored(self, ["anchors"])

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""
        return int(self.anchors.shape[1])

    @cached_property
    def packed(self) -> Packed:
        """The anchors, packed for products."""
        return pack_rows(self.anchors)

    @cached_property
    def norms(self) -> Float32:
        """Squared lengths of the anchors, filled up with zeros to groups. To compute them takes longer than one query."""
        return np.pad(squared_norms(self.anchors), (0, -len(self.anchors) % GROUP))

    @property
    def scale(self) -> float:
        """What a squared distance is multiplied by, ``-1 / (2 sigma^2)``."""
        return -0.5 / self.bandwidth**2

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, h)."""
        return kernels.active().gaussian(np.ascontiguousarray(x), self.packed, self.norms, self.scale)

    def fill(self, x: Float32, values: Float32) -> None:
        """Write the features of a large block (b, p) into values (b, h), in half the time of a call.

        They differ from those of a call by rounding, which depends on the BLAS library and on the number of rows.
        """
        squared_distances(x, self.anchors, self.norms[: len(self.anchors)], out=values)
        values *= np.float32(self.scale)
        np.exp(values, out=values)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""
        return {"anchors": self.anchors, "bandwidth": np.array([self.bandwidth])}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""
        check_parts(arrays, anchors=("h", "p"))
        return cls(arrays["anchors"], check_positive(float(number_in(arrays, "bandwidth")), "bandwidth"))


def kernel_features(kernel: GaussianMap | None, x: Float32) -> Float32:
    """Return the features (b, d) of a block (b, p): those of the kernel, or the vectors themselves if there is none."""
    return x if kernel is None else kernel(x)


def kernel_arrays(kernel: GaussianMap | None) -> dict[str, NDArray[Any]]:
    """Return the arrays of a kernel within a map that holds it; none if there is no kernel."""
    return {} if kernel is None else add_prefix(_KERNEL, kernel.arrays())


def kernel_from_arrays(arrays: dict[str, NDArray[Any]], n_inputs: int, n_features: int) -> GaussianMap | None:
    """Return the kernel whose arrays `kernel_arrays` gave, from all arrays of the map that holds it.

    An `InputError` says that it is no kernel from `n_inputs` to `n_features` numbers, or that without it these two differ.
    """
    inner, _ = split_prefix(_KERNEL, arrays)
    kernel = GaussianMap.from_arrays(inner) if inner else None
    found = (n_inputs, n_inputs) if kernel is None else kernel.anchors.shape[::-1]
    if found != (n_inputs, n_features):
        raise InputError(
            f"expected a kernel from {n_inputs} to {n_features} numbers, got {found[0]} to {found[1]}"
        )
    return kernel


def map_rows(
    feature_map: Callable[[Float32], Float32],
    X: NDArray[Any] | Rows,
    width: int,
    n_jobs: int,
    rows: int | None = None,
) -> Float32:
    """Return the features (n, width) of rows X (n, p), mapped block by block.

    Parameters
    ----------
    feature_map : callable
        Maps a block (b, p) float32 to features (b, width) float32.
    X : ndarray or Rows of shape (n, p)
    width : int
    n_jobs : int
        Number of threads.
    rows : int or None, default=None
        Rows of a block; None takes the number that the map asks for.
    """
    features = np.empty((len(X), width), dtype=np.float32)
    blocks = row_blocks(len(X), rows or block_rows(feature_map))
    with single_blas():
        rows_of(X).map_into(features, _mapped, blocks, feature_map, n_jobs=n_jobs)
    return features


def _mapped(block: RowBlock, own: None, feature_map: Callable[[Float32], Float32]) -> Float32:
    del own
    return feature_map(as_float32(block.x))


def squared_norms(rows: Float32) -> Float32:
    """Return the squared lengths (n,) of rows (n, p)."""
    norms: Float32 = np.einsum("ij,ij->i", rows, rows)
    return norms


def squared_distances(x: Float32, anchors: Float32, norms: Float32, out: Float32 | None = None) -> Float32:
    """Return the squared distances (b, h), never negative, of rows (b, p) to anchors (h, p) of squared lengths `norms` (h,)."""
    squares: Float32 = np.matmul(x, anchors.T, out=out)
    squares *= -2
    lengths = squared_norms(x)
    squares[np.isinf(lengths)] = 0  # infinitely far from all anchors, whatever the products
    squares += lengths[:, None]
    squares += norms
    return np.maximum(squares, 0, out=squares)
