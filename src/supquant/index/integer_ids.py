"""Ids that are 64-bit integers: consecutive numbers, which take no memory, or any integers with their sorted order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers
from supquant.index.row_ids import Ids, find_flaw_of_rows
from supquant.index.stored import StoredArrays, array_of_file
from supquant.storage import ArrayFile

__all__ = ["IntegerIds", "ListedIntegers", "NumberRange", "integer_ids", "join_integers"]

Integers = NDArray[np.int64]


class IntegerIds(Ids):
    """Ids that are 64-bit integers."""

    @property
    @abstractmethod
    def values(self) -> Integers:
        """All ids, (n,) int64."""


def integer_ids(values: Integers) -> IntegerIds:
    """Return integers (n,) in the form that takes the least memory."""
    n = len(values)
    if (values[1:] < values[:-1]).any():
        return ListedIntegers(values, values.argsort(kind="stable").astype(np.uint32))
    if n and int(values[-1]) - int(values[0]) == n - 1 and (values[1:] > values[:-1]).all():
        return NumberRange(int(values[0]), n)
    return ListedIntegers(values, None) if n else NumberRange(0, 0)


class NumberRange(IntegerIds):
    """Consecutive numbers: ``first``, ``first + 1``, ...

    Parameters
    ----------
    first : int
        The id of row 0.
    n : int
        The number of rows.
    """

    def __init__(self, first: int, n: int) -> None:
        self.first = first
        self._n = n

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays, which is 0."""
        return 0

    @property
    def values(self) -> Integers:
        """All ids, (n,) int64."""
        return np.arange(self._n, dtype=np.int64) + self.first

    def take(self, rows: RowNumbers) -> Integers:
        """Return the ids of some rows, in the shape of `rows`."""
        return rows + self.first if self.first else rows

    def find(self, wanted: Ids) -> RowNumbers:
        """Return the row of every wanted id, and -1 where there is none."""
        assert isinstance(wanted, IntegerIds)
        values = wanted.values
        inside = (values >= self.first) & (values <= self.first + (self._n - 1))
        return np.where(inside, values - self.first, -1)

    def repeated(self) -> Integers:
        """Return an empty array, because no number comes twice."""
        return np.empty(0, dtype=np.int64)


class ListedIntegers(StoredArrays, IntegerIds):
    """Any integers, with their sorted order.

    Parameters
    ----------
    values : ndarray (n,) int64
        The ids.
    order : ndarray (n,) uint32 or None
        The rows in ascending order of their ids, and rows of equal ids in ascending order. None if the ids ascend already.
    file : ArrayFile, default=None
        The file that the arrays come from.
    bounds : tuple of int, default=None
        Integers of a file must be at least the first of these two numbers, and below the second one. None allows any integers.
    """

    KIND: ClassVar[str] = "ids"

    def __init__(
        self,
        values: Integers,
        order: NDArray[np.uint32] | None,
        file: ArrayFile | None = None,
        bounds: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(file)
        self._values = values
        self._order = order
        self._bounds = bounds

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int, bounds: tuple[int, int] | None = None) -> Self:
        """Return the integers that a file holds."""
        order = array_of_file(file, "order", np.uint32, n_rows) if "order" in file.arrays else None
        return cls(array_of_file(file, "values", np.int64, n_rows), order, file, bounds)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> Integers:
        """All ids, (n,) int64."""
        self.check_once()
        return self._values

    def take(self, rows: RowNumbers) -> Integers:
        """Return the ids of some rows, in the shape of `rows`."""
        return self.values[rows]

    def find(self, wanted: Ids) -> RowNumbers:
        """Return the row of every wanted id, and -1 where there is none. Ids are found by bisection."""
        assert isinstance(wanted, IntegerIds)
        values, sought = self.values, wanted.values
        places = np.searchsorted(values, sought, sorter=self._order)  # in ascending order of the ids
        rows = np.minimum(places, len(values) - 1)
        if self._order is not None:
            rows = self._order[rows].astype(np.int64)
        return np.where(values[rows] == sought, rows, -1)

    def repeated(self) -> Integers:
        """Return the ids that come more than once, each of them once."""
        ascending = self.values if self._order is None else self.values[self._order]
        return np.unique(ascending[1:][ascending[1:] == ascending[:-1]])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"values": self._values} | ({} if self._order is None else {"order": self._order})

    def _followed(self) -> set[str]:
        return {"order"}

    def _find_flaw(self) -> str | None:
        if self._order is not None and (flaw := find_flaw_of_rows(self._order, "order")) is not None:
            return flaw
        ascending = self._values if self._order is None else self._values[self._order]
        if (ascending[1:] < ascending[:-1]).any():
            return "'values' does not ascend in the order of the file"
        if (ascending[1:] == ascending[:-1]).any():
            return "'values' holds an id twice"
        if self._bounds is not None and len(ascending):
            low, high = self._bounds
            if not low <= ascending[0] <= ascending[-1] < high:
                return f"ids must be from {low} to {high - 1}, got {ascending[0]} to {ascending[-1]}"
        return None


def join_integers(pieces: Sequence[tuple[IntegerIds, Flags | None]]) -> IntegerIds:
    """Join the ids of several runs of rows.

    Parameters
    ----------
    pieces : sequence of (IntegerIds, mask (n,) of bool or None)
        The ids of each run, and which of them to keep. None keeps all.

    Returns
    -------
    IntegerIds
    """
    return _join_ranges(pieces) or integer_ids(
        np.concatenate([ids.values if kept is None else ids.values[kept] for ids, kept in pieces])
    )


def _join_ranges(pieces: Sequence[tuple[IntegerIds, Flags | None]]) -> NumberRange | None:
    """Join ranges that continue each other, without listing their numbers. Return None if the pieces are something else."""
    ranges = [ids for ids, kept in pieces if isinstance(ids, NumberRange) and kept is None]
    if len(ranges) < len(pieces) or any(
        one.first + len(one) != other.first for one, other in pairwise(ranges)
    ):
        return None
    return NumberRange(ranges[0].first, sum(map(len, ranges)))
