"""Ids that are strings: one UTF-8 buffer with offsets, and hashes in sorted order, by which the strings are found.

Beside its text, a string takes 12 bytes: 4 each for its offset, its hash and its row. Folders before version 4 have offsets and
hashes of 8 bytes. The upper half of such a hash is the hash of today, so both are in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers
from supquant.errors import InputError
from supquant.index.row_ids import Ids, find_flaw_of_rows
from supquant.index.stored import StoredArrays, array_of_file
from supquant.storage import ArrayFile

__all__ = ["StringIds"]

Unsigned = NDArray[np.uint32 | np.uint64]

_LARGEST_OFFSET = 2**32 - 1
"""Strings of more bytes in all have offsets of 8 bytes."""


class StringIds(StoredArrays, Ids):
    """Strings, with the sorted order of their hashes.

    Parameters
    ----------
    blob : ndarray (bytes,) uint8
        All strings in UTF-8, one after the other.
    offsets : ndarray (n + 1,) uint32 or uint64
        The string of row i is ``blob[offsets[i]:offsets[i + 1]]``.
    hashes : ndarray (n,) uint32 or uint64
        The hashes of all strings, in ascending order.
    order : ndarray (n,) uint32
        The rows in the order of their hashes, and rows of equal hashes in ascending order.
    file : ArrayFile, default=None
        The file that the arrays come from.
    """

    KIND: ClassVar[str] = "ids"

    def __init__(
        self,
        blob: NDArray[np.uint8],
        offsets: Unsigned,
        hashes: Unsigned,
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
        hashes = np.fromiter((_hash(each) >> 32 for each in encoded), np.uint32, len(encoded))
        return cls._of_rows(np.frombuffer(b"".join(encoded), np.uint8), lengths, hashes)

    @classmethod
    def _of_rows(cls, blob: NDArray[np.uint8], lengths: Unsigned, hashes: NDArray[np.uint32]) -> Self:
        """Return ids from all strings, their lengths in bytes and their hashes, in the order of the rows."""
        offsets: Unsigned = np.zeros(
            len(lengths) + 1, np.uint32 if len(blob) <= _LARGEST_OFFSET else np.uint64
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
        hashes[self._order] = self._short_hashes
        if kept is None:
            return self._blob, lengths, hashes
        return self._blob[np.repeat(kept, lengths.astype(np.int64))], lengths[kept], hashes[kept]

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int) -> Self:
        """Return the strings that a file holds."""
        return cls(
            array_of_file(file, "blob", np.uint8, None),
            array_of_file(file, "offsets", (np.uint32, np.uint64), n_rows + 1),
            array_of_file(file, "hashes", (np.uint32, np.uint64), n_rows),
            array_of_file(file, "order", np.uint32, n_rows),
            file,
        )

    def __len__(self) -> int:
        return len(self._hashes)

    @property
    def short(self) -> bool:
        """Whether offsets or hashes have 4 bytes. Folders before version 4 cannot hold such ids."""
        return np.dtype(np.uint32) in (self._hashes.dtype, self._offsets.dtype)

    @cached_property
    def _short_hashes(self) -> NDArray[np.uint32]:
        """The hashes in 4 bytes."""
        if self._hashes.dtype == np.uint32:
            return self._hashes.view(np.uint32)
        return (self._hashes >> np.uint64(32)).astype(np.uint32)

    def take(self, rows: RowNumbers) -> NDArray[Any]:
        """Return the strings of some rows, in the shape of `rows`."""
        texts = (str(each, "utf-8") for each in self._encoded(rows.reshape(-1)))
        return np.fromiter(texts, object, rows.size).reshape(rows.shape)

    def find(self, wanted: Ids) -> RowNumbers:
        """Return the row of every wanted string, and -1 where there is none."""
        assert isinstance(wanted, StringIds)
        self.check_once()
        # One pair for each wanted string and each string here with the same hash:
        #   here, there = [], []
        #   for i in range(len(wanted)):
        #       for place in range(starts[i], starts[i] + counts[i]):
        #           here.append(self._order[place])
        #           there.append(wanted._order[i])
        hashes, sought = self._short_hashes, wanted._short_hashes
        starts = np.searchsorted(hashes, sought, side="left")
        counts = np.searchsorted(hashes, sought, side="right") - starts
        numbers = np.arange(counts.sum()) - np.repeat(
            np.cumsum(counts) - counts, counts
        )  # 0 .. counts[i] - 1
        here = self._order[np.repeat(starts, counts) + numbers]
        there = np.repeat(wanted._order, counts)
        pairs = zip(self._encoded(here), wanted._encoded(there), strict=True)
        equal = np.fromiter((one == other for one, other in pairs), bool, len(here))
        rows = np.full(len(wanted), -1, dtype=np.int64)
        rows[there[equal]] = here[equal]
        return rows

    def repeated(self) -> NDArray[Any]:
        """Return the strings that come more than once, each of them once."""
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

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"blob": self._blob, "offsets": self._offsets, "hashes": self._hashes, "order": self._order}

    def _followed(self) -> set[str]:
        return {"offsets", "order"}

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


_hash = xxhash.xxh3_64_intdigest
