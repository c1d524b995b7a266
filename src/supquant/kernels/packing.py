"""Matrices packed for products with rows, in the layout that kernels read from the first number to the last."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32

__all__ = ["GROUP", "Packed", "pack_rows"]

GROUP = 16
"""Number of columns of a group. The last group is filled up with zeros."""

PANEL_GROUPS = 4
"""The largest number of groups in a panel."""

_NO_FLOATS, _NO_HALVES = np.empty(0, dtype=np.float32), np.empty(0, dtype=np.uint16)


@dataclass(frozen=True, eq=False)
class Packed:
    """A matrix y (n, d), of which every row is multiplied with other rows; `pack_rows` makes it.

    Parameters
    ----------
    floats : ndarray (d * width,) float32
        The entries; empty if they are halves.
    halves : ndarray (d * width,) uint16
        The bits of the entries in half precision; empty unless all of them are the same numbers in half precision.
    n, d : int
    """

    floats: Float32
    halves: NDArray[np.uint16]
    n: int
    d: int

    def __post_init__(self) -> None:
        size = _groups(self.n) * GROUP * self.d
        for name, dtype in (("floats", np.float32), ("halves", np.uint16)):
            array = getattr(self, name)
            if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
                raise ValueError(f"{name} must be contiguous {np.dtype(dtype).name} (n,), got {array.dtype}")
        if {len(self.floats), len(self.halves)} != {0, size}:
            raise ValueError(
                f"expected {size} floats or {size} halves, got {len(self.floats)} and {len(self.halves)}"
            )

    @property
    def nbytes(self) -> int:
        """The number of bytes of the entries."""
        return self.floats.nbytes + self.halves.nbytes

    def rows(self) -> Float32:
        """Return the matrix (n, d)."""
        values = self.halves.view(np.float16) if len(self.halves) else self.floats
        y = np.empty((_groups(self.n) * GROUP, self.d), dtype=np.float32)
        for first, end in _panels(self.n):
            y[first:end] = values[first * self.d : end * self.d].reshape(self.d, end - first).T
        return y[: self.n]


def pack_rows(y: Float32) -> Packed:
    """Pack a matrix y (n, d): in half precision if that loses nothing.

    Panels of up to 64 columns follow each other. Entry k of column j of a panel that is w columns wide is at ``k * w + j``, so
    one vector holds neighbouring columns.

    Examples
    --------
    >>> packed = pack_rows(np.float32([[1, 2, 3], [4, 5, 6]]))
    >>> packed.nbytes, packed.rows()[1]
    (96, array([4., 5., 6.], dtype=float32))
    """
    n, d = y.shape
    padded = np.zeros((_groups(n) * GROUP, d), dtype=np.float32)
    padded[:n] = y
    with np.errstate(over="ignore"):
        halves = padded.astype(np.float16)
    exact = bool(y.size) and np.array_equal(halves, padded)
    values: NDArray[np.float16 | np.float32] = halves if exact else padded
    panels = [values[first:end].T.ravel() for first, end in _panels(n)]
    flat = np.concatenate(panels) if panels else np.empty(0, dtype=values.dtype)
    return Packed(
        _NO_FLOATS if exact else flat.astype(np.float32, copy=False),
        flat.view(np.uint16) if exact else _NO_HALVES,
        n,
        d,
    )


def _groups(n: int) -> int:
    return -(-n // GROUP)


def _panels(n: int) -> Iterator[tuple[int, int]]:
    """Return the first column of every panel, and one past its last column. Panels have almost the same number of groups."""
    groups = _groups(n)
    panels = -(-groups // PANEL_GROUPS)
    for panel in range(panels):
        yield panel * groups // panels * GROUP, (panel + 1) * groups // panels * GROUP
