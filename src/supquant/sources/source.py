"""Before the flow: rows of vectors that are read in blocks, with their labels, ids and other columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from supquant.arrays import Array, RowNumbers
from supquant.errors import InputError

__all__ = ["BadRow", "Block", "VectorSource", "Wish", "check_finite", "laid_out"]

BLOCK_BYTES = 1 << 24
"""Approximate size in bytes of the vectors of a block, unless the caller chooses the number of rows."""

TAKEN_GAP = 4096
"""Rows that are taken by their numbers are read together if at most this number of rows lies between neighbours."""

_FLOAT32_MAX = float(np.finfo(np.float32).max)
"""The largest finite float32."""


class BadRow(Exception):  # noqa: N818  # never leaves this package: it becomes an `InputError` that names file and row
    """A row that cannot be used: its number within the values at hand, and what is wrong with it."""

    def __init__(self, row: int, fault: str) -> None:
        super().__init__(fault)
        self.row, self.fault = row, fault


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a source.

    Parameters
    ----------
    start : int
        The number of the first row.
    X : ndarray of shape (b, p)
        The vectors.
    labels : ndarray of shape (b,) or indicator matrix (b, L), or None
        The labels, None where a label is unknown. None if the source was opened without labels.
    ids : ndarray of shape (b,), or None
        The ids: int64, or objects that are str.
    metadata : pyarrow.Table of b rows, or None
        The other columns that were asked for.
    """

    start: int
    X: Array
    labels: Any = None
    ids: Array | None = None
    metadata: Any = None

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True)
class Wish:
    """What the caller wants to read from a source.

    Parameters
    ----------
    vectors : str, sequence of str, or None
        A column of lists, several columns of numbers, or a pattern such as ``"x*"`` for them. None guesses.
    labels, ids : str, bool or None
        A column. True guesses, and there must be one. False reads none. None reads no labels, and ids if only one column fits.
    metadata : sequence of str, bool or None
        Columns. True takes all that are left.
    """

    vectors: str | Sequence[str] | None = None
    labels: str | bool | None = None
    ids: str | bool | None = None
    metadata: Sequence[str] | bool | None = None


class VectorSource(ABC):
    """Vectors in files or tables, with labels, ids and metadata if they were asked for; made by `open_vectors`.

    Vectors are read when they are used, and checked: a ragged, missing or infinite vector is an `InputError` that names the file
    and the row. A source can be read any number of times.

    Attributes
    ----------
    name : str
        The file, the folder or the kind of object, as errors name it.
    shape : tuple of int
        The number of rows and the number of dimensions.
    dtype : numpy.dtype
        The type of the numbers as they are stored.
    parts : list of (str, int, int)
        The files of the source, or the source itself: the name of each, its first row, and one past its last row.
    notes : tuple of str
        What was guessed, in sentences: which columns hold the vectors, the labels and the ids.
    """

    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    parts: list[tuple[str, int, int]]
    notes: tuple[str, ...] = ()
    _given: Mapping[str, Any] = MappingProxyType({})  # labels, ids and metadata from elsewhere

    def with_values(self, **given: Any) -> Self:
        """Return this source with labels, ids or metadata that come from elsewhere.

        Raises
        ------
        InputError
            If their number is not that of the rows.
        """
        for what, values in given.items():
            n = values.num_rows if hasattr(values, "num_rows") else values.shape[0]
            if n != len(self):
                raise InputError(f"{self.name} has {len(self)} rows, but there are {n} {what}")
        source = copy(self)
        source._given = {**self._given, **given}
        return source

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return self.shape[1]

    def __repr__(self) -> str:
        return f"VectorSource({self.name}: {len(self)} rows of {self.dim} {self.dtype})"

    def blocks(self, start: int = 0, stop: int | None = None, *, rows: int | None = None) -> Iterator[Block]:
        """Read the rows from `start` up to `stop`, block by block.

        Parameters
        ----------
        start, stop : int or None, default=0 and None
            Row numbers, as in a slice.
        rows : int or None, default=None
            Maximum number of rows per block. None makes blocks of about 16 MiB.

        Returns
        -------
        iterator of Block
            Memory does not grow with the number of rows.
        """
        first, last, _ = slice(start, stop).indices(len(self))
        size = rows or max(1, BLOCK_BYTES // max(1, self.dim * self.dtype.itemsize))
        for block in self._blocks(first, last, size):
            check_finite(block.X, block.start, self.where)
            stop = block.start + len(block)
            yield replace(block, **{what: values[block.start : stop] for what, values in self._given.items()})

    def take(self, rows: RowNumbers) -> Array:
        """Return the vectors (r, p) of some rows (r,), by their numbers. Rows that lie near each other are read together."""
        X = np.empty((len(rows), self.dim), dtype=self.dtype)
        order = np.argsort(rows, kind="stable")
        ascending = rows[order]
        for places in np.split(order, np.flatnonzero(np.diff(ascending) > TAKEN_GAP) + 1):
            if len(places) == 0:
                continue
            own = rows[places]
            for block in self.blocks(int(own[0]), int(own[-1]) + 1):
                low, high = np.searchsorted(own, [block.start, block.start + len(block)])
                X[places[low:high]] = block.X[own[low:high] - block.start]
        return X

    @property
    def X(self) -> Array:  # noqa: N802
        """All vectors (n, p). They are read into memory, unless the source is one array or one mapped file."""
        X = np.empty(self.shape, dtype=self.dtype)
        for block in self.blocks():
            X[block.start : block.start + len(block)] = block.X
        return X

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        del copy  # what is read from a file is a copy
        return self.X if dtype is None else self.X.astype(dtype, copy=False)

    @property
    def labels(self) -> Any:
        """The labels of all rows (n,), None where a label is unknown; None if the source was opened without labels."""
        return self._all("labels")

    @property
    def ids(self) -> Array | None:
        """The ids of all rows (n,); None if the source was opened without ids."""
        return self._all("ids")

    @property
    def metadata(self) -> Any:
        """The other columns of all rows, a pyarrow.Table; None if none was asked for."""
        return self._all("metadata")

    def _all(self, what: str) -> Any:
        return self._given[what] if what in self._given else self._column(what)

    @abstractmethod
    def _column(self, what: str) -> Any:
        """Read the "labels", "ids" or "metadata" of all rows; None if the source has none."""

    def where(self, row: int) -> str:
        """Return the file and the row within it, as errors name them."""
        name, first, _ = next(part for part in self.parts if part[1] <= row < part[2])
        return f"{name}, row {row - first}"

    @abstractmethod
    def _blocks(self, start: int, stop: int, rows: int) -> Iterator[Block]:
        """Read rows in blocks; `blocks` checks that their values are finite."""


def laid_out(sizes: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    """Return the parts of a source, given their names and numbers of rows.

    Examples
    --------
    >>> laid_out([("a.npy", 5), ("b.npy", 3)])
    [('a.npy', 0, 5), ('b.npy', 5, 8)]
    """
    parts, first = [], 0
    for name, n_rows in sizes:
        parts.append((name, first, first + n_rows))
        first += n_rows
    return parts


def check_finite(X: Array, start: int, where: Callable[[int], str]) -> None:
    """Raise an `InputError` that names the first row of X (b, p) with a value that is not a finite float32."""
    if X.dtype.kind != "f" or not X.size:
        return
    low, high = float(X.min()), float(X.max())
    if low >= -_FLOAT32_MAX and high <= _FLOAT32_MAX:  # false if a value is NaN
        return
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(X.astype(np.float64)) <= _FLOAT32_MAX).all(axis=1)
    row = int(np.argmax(bad))
    value = next(v for v in X[row].tolist() if not abs(v) <= _FLOAT32_MAX)
    raise InputError(
        f"{where(start + row)} has the value {value}, but vectors must be finite float32 numbers"
    )
