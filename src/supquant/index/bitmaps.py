"""Sets of rows as bits of 64-bit words: row i is bit ``i % 64`` of word ``i // 64``."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Flags, RowNumbers
from supquant.index.stored import StoredArrays, mapped_array
from supquant.storage import ArrayFile

__all__ = ["LiveRows", "Words", "bits_at", "bits_of"]

Words = NDArray[np.uint64]


def bits_of(rows: RowNumbers, n_rows: int) -> Words:
    """Set the bits of some of `n_rows` rows.

    Examples
    --------
    >>> bits_of(np.array([0, 65]), 70)
    array([1, 2], dtype=uint64)
    """
    words = np.zeros(-(-n_rows // 64), dtype=np.uint64)
    np.bitwise_or.at(words, rows // 64, _bit(rows))
    return words


def bits_at(words: Words, rows: RowNumbers) -> Flags:
    """Tell which of some rows are in the set, like `rows`."""
    return (words[rows // 64] & _bit(rows)) != 0


def _bit(rows: RowNumbers) -> Words:
    return np.left_shift(np.uint64(1), (rows % 64).astype(np.uint64))


class LiveRows(StoredArrays):
    """The rows of a segment that are left after some were removed.

    Parameters
    ----------
    words : ndarray (ceil(n_rows / 64),) uint64
        Bits past the last row are zero.
    n_rows : int
    count : int
        How many are left.
    """

    KIND: ClassVar[str] = "live"

    def __init__(self, words: Words, n_rows: int, count: int, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._words = words
        self.n_rows = n_rows
        self.count = count

    @classmethod
    def mapped(cls, file: ArrayFile, n_rows: int, count: int) -> Self:
        """Take the words of a file."""
        return cls(mapped_array(file, "words", np.uint64, -(-n_rows // 64)), n_rows, count, file)

    @classmethod
    def after(cls, before: LiveRows | None, rows: RowNumbers, n_rows: int) -> Self:
        """Remove distinct rows that are all still there; None is all rows."""
        words = kernels.active().pack_mask(np.ones(n_rows, dtype=bool)) if before is None else before.words()
        gone = bits_of(rows, n_rows)
        return cls(words & ~gone, n_rows, (n_rows if before is None else before.count) - len(rows))

    def words(self) -> Words:
        """Give the rows as bits."""
        self.touch()
        return self._words

    def mask(self) -> Flags:
        """Tell of all rows whether they are left, (n_rows,)."""
        self.touch()
        return self._mask()

    def _mask(self) -> Flags:
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little", count=self.n_rows)
        return bits.view(np.bool_)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"words": self._words}

    def _flaw(self) -> str | None:
        within, found = int(self._mask().sum()), kernels.active().count_bits(self._words)
        if within == found == self.count:
            return None
        return f"{found} rows are set, {within} of them within the {self.n_rows} there are, expected {self.count}"
