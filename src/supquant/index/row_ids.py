"""What all kinds of ids have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import RowNumbers

__all__ = ["Ids", "find_flaw_of_order"]


class Ids(ABC):
    """The ids of a run of rows. The rows are numbered from 0.

    The ids are looked up both ways, from row to id and from id to row. The ids of two objects are compared only if both are
    integers or both are strings.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""

    @abstractmethod
    def take(self, rows: RowNumbers) -> NDArray[Any]:
        """Return the ids of some rows, in the shape of `rows`: int64, or objects that are str."""

    @abstractmethod
    def find(self, wanted: Ids) -> RowNumbers:
        """Return the row of every wanted id, (n,) int64, and -1 where there is none."""

    @abstractmethod
    def repeated(self) -> NDArray[Any]:
        """Return the ids that come more than once, each of them once."""


def find_flaw_of_order(order: NDArray[np.uint32]) -> str | None:
    """Return what is wrong with row numbers (n,) that should be below n, or None."""
    if len(order) and (last := int(order.max())) >= len(order):
        return f"'order' must be below {len(order)}, got {last}"
    return None
