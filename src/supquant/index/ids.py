"""What users call their rows: automatic numbers, 64-bit integers, or strings.

Ids from users are read into the same form, whether they are to be stored or looked up.

Consecutive integers take no memory. Other integers take 8 bytes each, and 4 more for their sorted order if they do not ascend.
A string takes 12 bytes in addition to its UTF-8 text: 4 each for its offset, its hash and its row.
"""

# ruff: noqa: D102  (`Ids` documents these methods)

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers
from supquant.errors import InputError
from supquant.index.stored import StoredArrays, array_of_file
from supquant.inputs.validation import refuse_masked
from supquant.storage import ArrayFile

__all__ = [
    "Ids",
    "IntegerIds",
    "ListedIntegers",
    "NumberRange",
    "StringIds",
    "find_flaw_of_rows",
    "integer_ids",
    "join_ids",
    "name_some",
    "read_ids",
]

Integers = NDArray[np.int64]
Unsigned = NDArray[np.uint32 | np.uint64]

_MAX_SHORT_OFFSET = 2**32 - 1
"""Offsets have 4 bytes if the strings have at most this number of bytes in all, and 8 bytes otherwise."""


_MAX_NAMED, _MAX_LETTERS = 3, 100
"""An error names at most this number of ids, and this number of letters of each."""


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
        return 0

    @property
    def values(self) -> Integers:
        return np.arange(self._n, dtype=np.int64) + self.first

    def take(self, rows: RowNumbers) -> Integers:
        return rows + self.first if self.first else rows

    def find(self, wanted: Ids) -> RowNumbers:
        assert isinstance(wanted, IntegerIds)
        values = wanted.values
        inside = (values >= self.first) & (values <= self.first + (self._n - 1))
        return np.where(inside, values - self.first, -1)

    def repeated(self) -> Integers:
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
    ARRAYS = ("values", "order")
    FOLLOWED = ("order",)

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
        self.check_once()
        return self._values

    def take(self, rows: RowNumbers) -> Integers:
        return self.values[rows]

    def find(self, wanted: Ids) -> RowNumbers:
        assert isinstance(wanted, IntegerIds)
        values, sought = self.values, wanted.values
        places = np.searchsorted(values, sought, sorter=self._order)  # in ascending order of the ids
        rows = np.minimum(places, len(values) - 1)
        if self._order is not None:
            rows = self._order[rows].astype(np.int64)
        return np.where(values[rows] == sought, rows, -1)

    def repeated(self) -> Integers:
        ascending = self.values if self._order is None else self.values[self._order]
        return np.unique(ascending[1:][ascending[1:] == ascending[:-1]])

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


def _join_ranges(pieces: Sequence[tuple[IntegerIds, Flags | None]]) -> NumberRange | None:
    """Join ranges that continue each other, without listing their numbers. Return None if the pieces are something else."""
    ranges = [ids for ids, kept in pieces if isinstance(ids, NumberRange) and kept is None]
    if len(ranges) < len(pieces) or any(
        one.first + len(one) != other.first for one, other in pairwise(ranges)
    ):
        return None
    return NumberRange(ranges[0].first, sum(map(len, ranges)))


class StringIds(StoredArrays, Ids):
    """Strings, with the sorted order of their hashes.

    Parameters
    ----------
    blob : ndarray (bytes,) uint8
        All strings in UTF-8, one after the other.
    offsets : ndarray (n + 1,) uint32 or uint64
        The string of row i is ``blob[offsets[i]:offsets[i + 1]]``.
    hashes : ndarray (n,) uint32
        The upper half of the xxh3 of every string, in ascending order.
    order : ndarray (n,) uint32
        The rows in the order of their hashes, and rows of equal hashes in ascending order.
    file : ArrayFile, default=None
        The file that the arrays come from.
    """

    KIND: ClassVar[str] = "ids"
    ARRAYS = ("blob", "offsets", "hashes", "order")
    FOLLOWED = ("offsets", "order")

    def __init__(
        self,
        blob: NDArray[np.uint8],
        offsets: Unsigned,
        hashes: NDArray[np.uint32],
        order: NDArray[np.uint32],
        file: ArrayFile | None = None,
    ) -> None:
        super().__init__(file)
        self._blob = blob
        self._offsets = offsets
        self._hashes = hashes
        self._order = order

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> Self:
        """Return the ids of rows by their strings, which must be valid in UTF-8."""
        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError as error:
            raise InputError(f"ids must be strings that UTF-8 can hold, got {error.object!r}") from error
        lengths = np.fromiter(map(len, encoded), np.uint64, len(encoded))
        hashes = np.fromiter(
            (xxhash.xxh3_64_intdigest(each) >> 32 for each in encoded), np.uint32, len(encoded)
        )
        return cls._of_rows(np.frombuffer(b"".join(encoded), np.uint8), lengths, hashes)

    @classmethod
    def _of_rows(cls, blob: NDArray[np.uint8], lengths: Unsigned, hashes: NDArray[np.uint32]) -> Self:
        """Return ids from all strings, their lengths in bytes and their hashes, in the order of the rows."""
        offsets: Unsigned = np.zeros(
            len(lengths) + 1, np.uint32 if len(blob) <= _MAX_SHORT_OFFSET else np.uint64
        )
        np.cumsum(lengths, out=offsets[1:])
        order = hashes.argsort(kind="stable").astype(np.uint32)
        return cls(blob, offsets, hashes[order], order)

    @classmethod
    def join(cls, pieces: Sequence[tuple[StringIds, Flags | None]]) -> Self:
        """Join the ids of several runs of rows.

        Parameters
        ----------
        pieces : sequence of (StringIds, mask (n,) of bool or None)
            The ids of each run, and which of them to keep. None keeps all.
        """
        parts = [ids._keep_rows(kept) for ids, kept in pieces]
        return cls._of_rows(*map(np.concatenate, zip(*parts, strict=True)))

    def _keep_rows(self, kept: Flags | None) -> tuple[NDArray[np.uint8], Unsigned, NDArray[np.uint32]]:
        """Return the strings, lengths and hashes of the rows that a mask keeps, in the order of the rows."""
        self.check_once()
        lengths = np.diff(self._offsets)
        hashes = np.empty(len(self), dtype=np.uint32)
        hashes[self._order] = self._hashes
        if kept is None:
            return self._blob, lengths, hashes
        return self._blob[np.repeat(kept, lengths.astype(np.int64))], lengths[kept], hashes[kept]

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int) -> Self:
        """Return the strings that a file holds."""
        return cls(
            array_of_file(file, "blob", np.uint8, None),
            array_of_file(file, "offsets", (np.uint32, np.uint64), n_rows + 1),
            array_of_file(file, "hashes", np.uint32, n_rows),
            array_of_file(file, "order", np.uint32, n_rows),
            file,
        )

    def __len__(self) -> int:
        return len(self._hashes)

    def take(self, rows: RowNumbers) -> NDArray[Any]:
        texts = (str(each, "utf-8") for each in self._encoded(rows.reshape(-1)))
        return np.fromiter(texts, object, rows.size).reshape(rows.shape)

    def find(self, wanted: Ids) -> RowNumbers:
        assert isinstance(wanted, StringIds)
        self.check_once()
        # One pair for each wanted string and each string here with the same hash:
        #   here, there = [], []
        #   for i in range(len(wanted)):
        #       for place in range(starts[i], starts[i] + counts[i]):
        #           here.append(self._order[place])
        #           there.append(wanted._order[i])
        hashes, sought = self._hashes, wanted._hashes
        starts = np.searchsorted(hashes, sought, side="left")
        counts = np.searchsorted(hashes, sought, side="right") - starts
        # 0 .. counts[i] - 1 for each i
        numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        here = self._order[np.repeat(starts, counts) + numbers]
        there = np.repeat(wanted._order, counts)
        pairs = zip(self._encoded(here), wanted._encoded(there), strict=True)
        equal = np.fromiter((one == other for one, other in pairs), bool, len(here))
        rows = np.full(len(wanted), -1, dtype=np.int64)
        rows[there[equal]] = here[equal]
        return rows

    def repeated(self) -> NDArray[Any]:
        self.check_once()
        # same[i]: whether hash i equals hash i - 1. Strings with the hash of a neighbour are compared in full.
        same = np.zeros(len(self) + 1, dtype=bool)
        same[1:-1] = self._hashes[1:] == self._hashes[:-1]
        suspects = self.take(self._order[same[1:] | same[:-1]].astype(np.int64))
        repeated = [text for text, count in Counter(suspects.tolist()).items() if count > 1]
        return np.array(repeated, dtype=object)

    def _encoded(self, rows: NDArray[np.int64] | NDArray[np.uint32]) -> Iterator[memoryview]:
        """Return the strings of some rows (r,) in UTF-8."""
        self.check_once()
        blob = self._blob.data
        spans = zip(self._offsets[rows].tolist(), self._offsets[1:][rows].tolist(), strict=True)
        return (blob[start:stop] for start, stop in spans)

    def _find_flaw(self) -> str | None:
        offsets, end = self._offsets, len(self._blob)
        if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
            return f"'offsets' does not ascend from 0 to {end}"
        try:
            str(self._blob.data, "utf-8")
        except UnicodeDecodeError as error:
            return f"'blob' is not UTF-8: {error}"
        # In UTF-8, the second and later bytes of a character begin with the bits 10.
        if (self._blob[offsets[offsets < end]] >> 6 == 0b10).any():
            return "'offsets' falls between the bytes of a character"
        if (self._hashes[1:] < self._hashes[:-1]).any():
            return "'hashes' does not ascend"
        return find_flaw_of_rows(self._order, "order")


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


# ids of users ------------------------------------------------------------------------------------------------------------


def read_ids(values: object, *, distinct: bool = False) -> Ids:
    """Read ids from a user.

    Parameters
    ----------
    values : sequence or array (n,)
        Integers that fit in 64 bits, or strings.
    distinct : bool, default=False
        Whether ids that come twice are refused.

    Returns
    -------
    Ids

    Raises
    ------
    InputError
        If `values` are not such ids.

    Examples
    --------
    >>> read_ids([7, 5]).take(np.array([1, 0]))
    array([5, 7])
    >>> read_ids([7, "seven"])
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: ids must be all integers or all strings, got int and str
    """
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        ids = _read_list(values)
    else:  # also a tensor, or a column of a table
        ids = _read_array(np.asarray(refuse_masked(values, "ids")), type(values).__name__)
    if distinct and len(repeated := ids.repeated()):
        raise InputError(f"these ids are given more than once: {name_some(repeated)}")
    return ids


def _read_array(values: NDArray[Any], given: str) -> Ids:
    if values.ndim != 1:
        got = f"an array of shape {values.shape}" if values.ndim else f"a {given}"
        raise InputError(f"ids must be a list or a one-dimensional array, got {got}")
    if values.dtype.kind == "i" or (values.dtype.kind == "u" and values.max(initial=0) < 2**63):
        return integer_ids(values.astype(np.int64))
    if len(values) and values.dtype.kind not in "uUTO":  # in a list, dates would become integers
        raise InputError(f"ids must be integers or strings, got {values.dtype}")
    return _read_list(values.tolist())


def _read_list(values: Sequence[Any]) -> Ids:
    kinds = set(map(type, values))
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return integer_ids(np.fromiter(map(operator.index, values), np.int64, len(values)))
        except OverflowError as error:
            raise InputError("ids must fit in 64 bits, between -2**63 and 2**63 - 1") from error
    if all(issubclass(kind, str) for kind in kinds):
        return StringIds.of_texts(values)
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"ids must be all integers or all strings, got {names}")


def name_some(ids: NDArray[Any]) -> str:
    """Return the first few of some ids (n,) as text for an error.

    Examples
    --------
    >>> name_some(np.arange(10, 20))
    '10, 11, 12 and 7 more'
    """
    named = ", ".join(
        repr(each[:_MAX_LETTERS] if isinstance(each, str) else each) for each in ids[:_MAX_NAMED].tolist()
    )
    return named if len(ids) <= _MAX_NAMED else f"{named} and {len(ids) - _MAX_NAMED} more"


def join_ids(pieces: Sequence[tuple[Ids, Flags | None]]) -> Ids:
    """Join the ids of several runs of rows, which are all integers or all strings.

    Parameters
    ----------
    pieces : sequence of (Ids, mask (n,) of bool or None)
        The ids of each run, and which of them to keep. None keeps all.

    Returns
    -------
    Ids
    """
    strings = [(ids, kept) for ids, kept in pieces if isinstance(ids, StringIds)]
    if strings:
        return StringIds.join(strings)
    integers = [(ids, kept) for ids, kept in pieces if isinstance(ids, IntegerIds)]
    return _join_ranges(integers) or integer_ids(
        np.concatenate([ids.values if kept is None else ids.values[kept] for ids, kept in integers])
    )
