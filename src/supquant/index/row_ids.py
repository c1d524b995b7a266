"""What all kinds of ids have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import RowNumbers

__all__ = ["Ids", "find_flaw_of_rows"]


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


def find_flaw_of_rows(rows: NDArray[np.uint32], name: str) -> str | None:
    """Return what is wrong with row numbers (n,) that should be all of 0 to n - 1, in any order, or None.

    Examples
    --------
    >>> find_flaw_of_rows(np.array([2, 0, 2], dtype=np.uint32), "order")
    "'order' must hold every row once, row 1 is missing"
    """
    if len(rows) and (last := int(rows.max())) >= len(rows):
        return f"'{name}' must be below {len(rows)}, got {last}"
    there = np.zeros(len(rows), dtype=bool)
    there[rows] = True
    if not there.all():
        return f"'{name}' must hold every row once, row {int(there.argmin())} is missing"
    return None
