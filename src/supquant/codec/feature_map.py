"""What codecs know of a feature map."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.parallel import BLOCK_ROWS

__all__ = ["FeatureMap", "block_rows"]


class FeatureMap(Protocol):
    """A fitted, frozen map from vectors to features."""

    kind: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, d)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""


def block_rows(feature_map: object) -> int:
    """Return the number of rows of a block: the map's attribute `block_rows` if it has one, else `BLOCK_ROWS`."""
    return int(getattr(feature_map, "block_rows", BLOCK_ROWS))
