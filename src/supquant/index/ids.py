"""What users call their rows: numbers given in turn, 64-bit integers, or strings.

The ids of a run of rows are looked up both ways, from row to id and from id to row. Ids that come from outside are read
into the same form, whether they are to be kept or looked for.
"""

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
from supquant.index.stored import StoredArrays, mapped_array
from supquant.storage import ArrayFile

__all__ = [
    "Ids",
    "IntegerIds",
    "ListedIntegers",
    "NumberRange",
    "StringIds",
    "join_ids",
    "name_some",
    "read_ids",
]

Integers = NDArray[np.int64]

_NAMED = 3
"""Ids that an error names."""


class Ids(ABC):
    """The ids of a run of rows, numbered from 0. Those of two objects are compared only if both are of one kind."""

    @abstractmethod
    def __len__(self) -> int: ...

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes in memory."""

    @abstractmethod
    def take(self, rows: RowNumbers) -> NDArray[Any]:
        """Give the ids of some rows, in the shape of `rows`: int64, or objects that are str."""

    @abstractmethod
    def find(self, wanted: Ids) -> RowNumbers:
        """Find the row of every wanted id (n,), -1 where there is none."""

    @abstractmethod
    def repeated(self) -> NDArray[Any]:
        """Give the ids that stand here more than once, each once."""


def read_ids(values: object, *, distinct: bool = False) -> Ids:
    """Read ids that come from outside: integers that fit in 64 bits, or strings; if so asked, none of them twice.

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
    else:
        ids = _read_array(np.asarray(values), type(values).__name__)  # a tensor or a column of a table too
    if distinct and len(repeated := ids.repeated()):
        raise InputError(f"these ids are given more than once: {name_some(repeated)}")
    return ids


def _read_array(values: NDArray[Any], given: str) -> Ids:
    if values.ndim != 1:
        got = f"an array of shape {values.shape}" if values.ndim else f"a {given}"
        raise InputError(f"ids must be a list or a one-dimensional array, got {got}")
    if values.dtype.kind == "i" or (values.dtype.kind == "u" and values.max(initial=0) < 2**63):
        return _integer_ids(values.astype(np.int64))
    if len(values) and values.dtype.kind not in "uUTO":  # dates, for one, would become integers in a list
        raise InputError(f"ids must be integers or strings, got {values.dtype}")
    return _read_list(values.tolist())


def _read_list(values: Sequence[Any]) -> Ids:
    kinds = set(map(type, values))
    if all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds):
        try:
            return _integer_ids(np.fromiter(map(operator.index, values), np.int64, len(values)))
        except OverflowError as error:
            raise InputError("ids must fit in 64 bits, between -2**63 and 2**63 - 1") from error
    if all(issubclass(kind, str) for kind in kinds):
        return StringIds.of_texts(values)
    names = " and ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"ids must be all integers or all strings, got {names}")


def name_some(ids: NDArray[Any]) -> str:
    """Name a few of some ids (n,).

    Examples
    --------
    >>> name_some(np.arange(10, 20))
    '10, 11, 12 and 7 more'
    """
    named = ", ".join(map(repr, ids[:_NAMED].tolist()))
    return named if len(ids) <= _NAMED else f"{named} and {len(ids) - _NAMED} more"


class IntegerIds(Ids):
    """Ids that are 64-bit integers, in one of two forms."""

    @property
    @abstractmethod
    def values(self) -> Integers:
        """All ids (n,)."""


def _integer_ids(values: Integers) -> IntegerIds:
    """Keep integers in the smallest form that holds them."""
    n = len(values)
    if (values[1:] < values[:-1]).any():
        return ListedIntegers(values, values.argsort(kind="stable").astype(np.uint32))
    if n and int(values[-1]) - int(values[0]) == n - 1 and (values[1:] > values[:-1]).all():
        return NumberRange(int(values[0]), n)
    return ListedIntegers(values, None) if n else NumberRange(0, 0)


class NumberRange(IntegerIds):
    """Consecutive numbers, which need no memory: ``first``, ``first + 1``, ..."""

    def __init__(self, first: int, n: int) -> None:
        self.first = first
        self._n = n

    def __len__(self) -> int:
        return self._n

    @property
    def nbytes(self) -> int:
        """No bytes to speak of."""
        return 0

    @property
    def values(self) -> Integers:
        """All numbers (n,)."""
        return np.arange(self._n, dtype=np.int64) + self.first

    def take(self, rows: RowNumbers) -> Integers:
        """Give the numbers of some rows."""
        return rows + self.first

    def find(self, wanted: Ids) -> RowNumbers:
        """Find the row of every wanted number."""
        assert isinstance(wanted, IntegerIds)
        values = wanted.values
        inside = (values >= self.first) & (values <= self.first + (self._n - 1))
        return np.where(inside, values - self.first, -1)

    def repeated(self) -> Integers:
        """Give nothing: no number comes twice."""
        return np.empty(0, dtype=np.int64)


class ListedIntegers(StoredArrays, IntegerIds):
    """Any integers, with the order in which they ascend.

    Parameters
    ----------
    values : ndarray (n,) int64
    order : ndarray (n,) uint32, optional
        The rows in ascending order of their ids, equal ones by row. None where the ids ascend as they are.
    """

    KIND: ClassVar[str] = "ids"

    def __init__(
        self, values: Integers, order: NDArray[np.uint32] | None, file: ArrayFile | None = None
    ) -> None:
        super().__init__(file)
        self._values = values
        self._order = order

    @classmethod
    def mapped(cls, file: ArrayFile, n_rows: int) -> Self:
        """Take the integers of a file."""
        order = mapped_array(file, "order", np.uint32, n_rows) if "order" in file.arrays else None
        return cls(mapped_array(file, "values", np.int64, n_rows), order, file)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def values(self) -> Integers:
        """All integers (n,)."""
        self.touch()
        return self._values

    def take(self, rows: RowNumbers) -> Integers:
        """Give the integers of some rows."""
        return self.values[rows]

    def find(self, wanted: Ids) -> RowNumbers:
        """Find the row of every wanted integer by bisection."""
        assert isinstance(wanted, IntegerIds)
        values, sought = self.values, wanted.values
        places = np.searchsorted(values, sought, sorter=self._order)
        rows = np.minimum(places, len(values) - 1)
        if self._order is not None:
            rows = self._order[rows].astype(np.int64)
        return np.where(values[rows] == sought, rows, -1)

    def repeated(self) -> Integers:
        """Give the integers that stand here more than once."""
        ascending = self.values if self._order is None else self.values[self._order]
        return np.unique(ascending[1:][ascending[1:] == ascending[:-1]])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"values": self._values} | ({} if self._order is None else {"order": self._order})

    def _flaw(self) -> str | None:
        return None if self._order is None else _flawed_order(self._order)


class StringIds(StoredArrays, Ids):
    """Strings, with the order in which their hashes ascend.

    Parameters
    ----------
    blob : ndarray (bytes,) uint8
        All strings in UTF-8, one after the other.
    offsets : ndarray (n + 1,) uint64
        The string of row i is ``blob[offsets[i]:offsets[i + 1]]``.
    hashes : ndarray (n,) uint64
        Ascending.
    order : ndarray (n,) uint32
        The rows in the order of their hashes, equal ones by row.
    """

    KIND: ClassVar[str] = "ids"

    def __init__(
        self,
        blob: NDArray[np.uint8],
        offsets: NDArray[np.uint64],
        hashes: NDArray[np.uint64],
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
        """Keep strings, all of which UTF-8 can hold."""
        try:
            encoded = [text.encode() for text in texts]
        except UnicodeEncodeError as error:
            raise InputError(f"ids must be strings that UTF-8 can hold, got {error.object!r}") from error
        lengths = np.fromiter(map(len, encoded), np.uint64, len(encoded))
        hashes = np.fromiter(map(_hash, encoded), np.uint64, len(encoded))
        return cls._of_rows(np.frombuffer(b"".join(encoded), np.uint8), lengths, hashes)

    @classmethod
    def _of_rows(
        cls, blob: NDArray[np.uint8], lengths: NDArray[np.uint64], hashes: NDArray[np.uint64]
    ) -> Self:
        """Take strings with their lengths and hashes in the order of their rows."""
        offsets = np.zeros(len(lengths) + 1, dtype=np.uint64)
        np.cumsum(lengths, out=offsets[1:])
        order = hashes.argsort(kind="stable").astype(np.uint32)
        return cls(blob, offsets, hashes[order], order)

    @classmethod
    def joined(cls, pieces: Sequence[tuple[StringIds, Flags | None]]) -> Self:
        """Put together the strings of several runs of rows, of each those that its mask keeps."""
        parts = [each._kept_rows(kept) for each, kept in pieces]
        return cls._of_rows(*map(np.concatenate, zip(*parts, strict=True)))

    def _kept_rows(
        self, kept: Flags | None
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
        """Give blob, lengths and hashes of the rows that a mask keeps, in the order of the rows."""
        self.touch()
        lengths = np.diff(self._offsets)
        hashes = np.empty_like(self._hashes)
        hashes[self._order] = self._hashes
        if kept is None:
            return self._blob, lengths, hashes
        return self._blob[np.repeat(kept, lengths.astype(np.int64))], lengths[kept], hashes[kept]

    @classmethod
    def mapped(cls, file: ArrayFile, n_rows: int) -> Self:
        """Take the strings of a file."""
        return cls(
            mapped_array(file, "blob", np.uint8, None),
            mapped_array(file, "offsets", np.uint64, n_rows + 1),
            mapped_array(file, "hashes", np.uint64, n_rows),
            mapped_array(file, "order", np.uint32, n_rows),
            file,
        )

    def __len__(self) -> int:
        return len(self._hashes)

    def take(self, rows: RowNumbers) -> NDArray[Any]:
        """Give the strings of some rows."""
        flat = np.fromiter(
            (str(each, "utf-8") for each in self._encoded(rows.reshape(-1))), object, rows.size
        )
        return flat.reshape(rows.shape)

    def find(self, wanted: Ids) -> RowNumbers:
        """Find the row of every wanted string: those of its hash, then the one that is equal."""
        assert isinstance(wanted, StringIds)
        self.touch()
        starts = np.searchsorted(self._hashes, wanted._hashes, side="left")
        counts = np.searchsorted(self._hashes, wanted._hashes, side="right") - starts
        # One pair of rows for every wanted string and every string here of the same hash.
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        here = self._order[np.repeat(starts, counts) + within]
        there = np.repeat(wanted._order, counts)
        pairs = zip(self._encoded(here), wanted._encoded(there), strict=True)
        equal = np.fromiter((one == other for one, other in pairs), bool, len(here))
        rows = np.full(len(wanted), -1, dtype=np.int64)
        rows[there[equal]] = here[equal]
        return rows

    def repeated(self) -> NDArray[Any]:
        """Give the strings that stand here more than once."""
        self.touch()
        same = np.zeros(len(self) + 1, dtype=bool)  # the hash is that of its neighbour below
        same[1:-1] = self._hashes[1:] == self._hashes[:-1]
        suspects = self.take(self._order[same[1:] | same[:-1]].astype(np.int64))
        again = [text for text, count in Counter(suspects.tolist()).items() if count > 1]
        return np.array(again, dtype=object)

    def _encoded(self, rows: NDArray[np.int64] | NDArray[np.uint32]) -> Iterator[memoryview]:
        """Give the strings of some rows (r,) in UTF-8."""
        self.touch()
        blob = self._blob.data
        spans = zip(self._offsets[rows].tolist(), self._offsets[rows + 1].tolist(), strict=True)
        return (blob[start:stop] for start, stop in spans)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"blob": self._blob, "offsets": self._offsets, "hashes": self._hashes, "order": self._order}

    def _flaw(self) -> str | None:
        offsets, end = self._offsets, len(self._blob)
        if offsets[0] != 0 or offsets[-1] != end or (offsets[1:] < offsets[:-1]).any():
            return f"'offsets' does not ascend from 0 to {end}"
        try:
            str(self._blob.data, "utf-8")
        except UnicodeDecodeError as error:
            return f"'blob' is not UTF-8: {error}"
        if (self._blob[offsets[offsets < end]] >> 6 == 0b10).any():
            return "'offsets' falls between the bytes of a character"
        return _flawed_order(self._order)


_hash = xxhash.xxh3_64_intdigest


def _flawed_order(order: NDArray[np.uint32]) -> str | None:
    if len(order) and (last := int(order.max())) >= len(order):
        return f"'order' must be below {len(order)}, got {last}"
    return None


def join_ids(pieces: Sequence[tuple[Ids, Flags | None]]) -> Ids:
    """Put together the ids of several runs of rows, of each those that its mask keeps; all are of one kind."""
    strings = [(ids, kept) for ids, kept in pieces if isinstance(ids, StringIds)]
    if strings:
        return StringIds.joined(strings)
    integers = [(ids, kept) for ids, kept in pieces if isinstance(ids, IntegerIds)]
    return _joined_range(integers) or _integer_ids(
        np.concatenate([ids.values if kept is None else ids.values[kept] for ids, kept in integers])
    )


def _joined_range(pieces: Sequence[tuple[IntegerIds, Flags | None]]) -> NumberRange | None:
    """Join ranges that continue each other without listing their numbers, None if that is not what they are."""
    ranges = [ids for ids, kept in pieces if isinstance(ids, NumberRange) and kept is None]
    if len(ranges) < len(pieces) or any(
        one.first + len(one) != other.first for one, other in pairwise(ranges)
    ):
        return None
    return NumberRange(ranges[0].first, sum(map(len, ranges)))
