"""Sets of rows as bits of 64-bit words: row i is bit ``i % 64`` of word ``i // 64``."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Flags, RowNumbers
from supquant.index.stored import StoredArrays, array_of_file
from supquant.storage import ArrayFile

__all__ = ["LiveRows", "Words", "bits_of_rows", "rows_in_bits"]

Words = NDArray[np.uint64]


def bits_of_rows(rows: RowNumbers, n_rows: int) -> Words:
    """Return the bits of a set of rows.

    Parameters
    ----------
    rows : ndarray (r,) int64
        The rows of the set. A row may come twice.
    n_rows : int
        The number of all rows.

    Returns
    -------
    ndarray (ceil(n_rows / 64),) uint64

    Examples
    --------
    >>> bits_of_rows(np.array([0, 65]), 70)
    array([1, 2], dtype=uint64)
    """
    words = np.zeros(-(-n_rows // 64), dtype=np.uint64)
    # for row in rows: words[row // 64] |= 1 << row % 64
    np.bitwise_or.at(words, rows // 64, _bits_in_words(rows))
    return words


def rows_in_bits(words: Words, rows: RowNumbers | NDArray[np.uint32]) -> Flags:
    """Return for each of some rows whether it is in the set, in the shape of `rows`."""
    return (words[rows // 64] & _bits_in_words(rows)) != 0


def _bits_in_words(rows: RowNumbers | NDArray[np.uint32]) -> Words:
    """Return for each row a word with only the row's bit set."""
    return np.left_shift(np.uint64(1), (rows % 64).astype(np.uint64))


class LiveRows(StoredArrays):
    """The rows of a segment that were not removed.

    Parameters
    ----------
    words : ndarray (ceil(n_rows / 64),) uint64
        The bits of these rows. Bits past the last row are zero.
    n_rows : int
        The number of all rows of the segment.
    count : int
        The number of rows that were not removed.
    file : ArrayFile, default=None
        The file that `words` comes from.
    """

    KIND: ClassVar[str] = "live"
    ARRAYS = FOLLOWED = ("words",)

    def __init__(self, words: Words, n_rows: int, count: int, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._words = words
        self.n_rows = n_rows
        self.count = count

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int, count: int) -> Self:
        """Return the live rows that a file holds."""
        return cls(array_of_file(file, "words", np.uint64, -(-n_rows // 64)), n_rows, count, file)

    @classmethod
    def of_mask(cls, mask: Flags) -> Self:
        """Return the rows that a mask (n_rows,) keeps."""
        return cls(kernels.active().pack_mask(mask), len(mask), int(mask.sum()))

    @classmethod
    def after_removal(cls, before: LiveRows | None, rows: RowNumbers, n_rows: int) -> Self:
        """Return the rows that are left after some are removed.

        Parameters
        ----------
        before : LiveRows or None
            The rows before the removal. None stands for all rows.
        rows : ndarray (r,) int64
            The rows to remove: distinct, and none of them removed before.
        n_rows : int
            The number of all rows of the segment.
        """
        words = kernels.active().pack_mask(np.ones(n_rows, dtype=bool)) if before is None else before.words()
        count = n_rows if before is None else before.count
        return cls(words & ~bits_of_rows(rows, n_rows), n_rows, count - len(rows))

    def words(self) -> Words:
        """Return the rows as bits, (ceil(n_rows / 64),) uint64."""
        self.check_once()
        return self._words

    def mask(self) -> Flags:
        """Return for each row whether it is left, (n_rows,) bool."""
        self.check_once()
        return self._unpacked()

    def _unpacked(self) -> Flags:
        bits = np.unpackbits(self._words.view(np.uint8), bitorder="little", count=self.n_rows)
        return bits.view(np.bool_)

    def _find_flaw(self) -> str | None:
        within, found = int(self._unpacked().sum()), kernels.active().count_bits(self._words)
        if within == found == self.count:
            return None
        return f"{found} rows are set, {within} of them within the {self.n_rows} there are, expected {self.count}"
