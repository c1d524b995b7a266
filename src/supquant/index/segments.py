"""Codes of a run of rows as scans read them: in blocks, and once each where they repeat.

This is the one place that knows how codes lie in memory and in files.

    plain     blocks (b, M, 64) hold the code of every row
    grouped   blocks hold distinct codes, in lexicographic order; ``members[starts[i]:starts[i + 1]]`` are the rows of code i
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, RowNumbers
from supquant.errors import FileFormatError
from supquant.index.bitmaps import Words
from supquant.index.stored import StoredArrays, mapped_array
from supquant.kernels import BLOCK_ROWS, Scanned
from supquant.storage import ArrayFile

__all__ = ["Segment"]

Numbers = NDArray[np.uint32]

_ROWS_PER_CODE = 8
"""Codes are grouped where there are at least so many rows for each distinct one."""


class Segment(StoredArrays):
    """The codes of a run of rows, numbered from 0; made by `of_codes`.

    Parameters
    ----------
    blocks : ndarray (b, M, 64) uint8
    n_codes : int
        Codes in the blocks.
    starts : ndarray (n_codes + 1,) uint32, optional
    members : ndarray (n_rows,) uint32, optional
    n_codewords : int
        Of each codebook; no code in the blocks reaches it.
    """

    KIND: ClassVar[str] = "codes"

    def __init__(
        self,
        blocks: Codes,
        n_codes: int,
        starts: Numbers | None = None,
        members: Numbers | None = None,
        n_codewords: int = 256,
        file: ArrayFile | None = None,
    ) -> None:
        super().__init__(file)
        self._blocks = blocks
        self._n_codes = n_codes
        self._starts = starts
        self._members = members
        self._n_codewords = n_codewords

    @classmethod
    def of_codes(cls, codes: Codes) -> Self:
        """Keep codes (n, M) in the form that suits them.

        Examples
        --------
        >>> Segment.of_codes(np.zeros((100, 2), dtype=np.uint8)).n_distinct
        1
        """
        n = len(codes)
        limit = n // _ROWS_PER_CODE
        if kernels.active().count_distinct(codes, limit) > limit:
            return cls(_blocks_of(codes), n)
        distinct, starts, members = kernels.active().group(codes)
        return cls(_blocks_of(distinct), len(distinct), starts, members)

    @classmethod
    def mapped(cls, file: ArrayFile, n_rows: int, n_codebooks: int, n_codewords: int) -> Self:
        """Take the codes of a file."""
        starts = members = None
        n_codes = n_rows
        if "members" in file.arrays:
            starts = mapped_array(file, "starts", np.uint32, None)
            members = mapped_array(file, "members", np.uint32, n_rows)
            n_codes = len(starts) - 1
            if n_codes < 0:
                raise FileFormatError(f"{file.path}: array 'starts' is empty")
        n_blocks = -(-n_codes // BLOCK_ROWS)
        blocks = mapped_array(file, "blocks", np.uint8, n_blocks, n_codebooks, BLOCK_ROWS)
        return cls(blocks, n_codes, starts, members, n_codewords, file)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._n_codes if self._members is None else len(self._members)

    @property
    def grouped(self) -> bool:
        """Whether equal codes are kept once."""
        return self._members is not None

    @property
    def n_distinct(self) -> int | None:
        """How many distinct codes there are; None where they are not grouped and nobody counted."""
        return self._n_codes if self.grouped else None

    def scanned(self, eligible: Words | None = None) -> Scanned:
        """Give what a scan reads; `eligible` says which rows count, all by default."""
        self.touch()
        return Scanned(self._blocks, self._n_codes, self._starts, self._members, eligible)

    def codes(self, rows: RowNumbers | None = None) -> Codes:
        """Give the codes (r, M) of some rows in any order, or of all."""
        self.touch()
        places: NDArray[Any] | None = rows
        if self._members is not None and self._starts is not None:
            code_of_row = np.empty(self.n_rows, dtype=np.uint32)
            code_of_row[self._members] = np.repeat(
                np.arange(self._n_codes, dtype=np.uint32), np.diff(self._starts)
            )
            places = code_of_row if rows is None else code_of_row[rows]
        if places is None:
            by_row = self._blocks.transpose(0, 2, 1).reshape(-1, self._blocks.shape[1])
            return np.ascontiguousarray(by_row[: self._n_codes])
        return self._blocks[places // BLOCK_ROWS, :, places % BLOCK_ROWS]

    def part(self, rows: Numbers) -> Segment:
        """Copy some rows (r,), which ascend, into a segment of their own, in which they are 0, 1, ..."""
        self.touch()
        take = kernels.active().take
        if self._members is None or self._starts is None:
            return Segment(take(self._blocks, rows), len(rows))
        number = np.full(self.n_rows, len(rows), dtype=np.uint32)  # in the part; len(rows) for none
        number[rows] = np.arange(len(rows), dtype=np.uint32)
        members = number[self._members]
        kept = members < len(rows)
        ends = np.concatenate([[0], np.cumsum(kept)])[self._starts]  # of the codes' kept rows, (n_codes + 1,)
        used = np.flatnonzero(np.diff(ends)).astype(np.uint32)
        starts = np.concatenate([[0], ends[used + 1]]).astype(np.uint32)
        return Segment(take(self._blocks, used), len(used), starts, members[kept])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"blocks": self._blocks}
        if self._members is not None and self._starts is not None:
            arrays |= {"starts": self._starts, "members": self._members}
        return arrays

    def _flaw(self) -> str | None:
        if self._blocks.size and (largest := int(self._blocks.max())) >= self._n_codewords:
            return f"codes must be below {self._n_codewords}, got {largest}"
        if self._members is None or self._starts is None:
            return None
        starts, n_rows = self._starts, self.n_rows
        if starts[0] != 0 or starts[-1] != n_rows or (starts[1:] < starts[:-1]).any():
            return f"'starts' does not ascend from 0 to {n_rows}"
        if n_rows and self._members.max() >= n_rows:
            return f"'members' must be below {n_rows}, got {self._members.max()}"
        return None


def _blocks_of(codes: Codes) -> Codes:
    """Lay codes (n, M) out in blocks (ceil(n / 64), M, 64), zeros past the last."""
    n, M = codes.shape
    blocks = np.zeros((-(-n // BLOCK_ROWS), M, BLOCK_ROWS), dtype=np.uint8)
    full = n // BLOCK_ROWS
    blocks[:full] = codes[: full * BLOCK_ROWS].reshape(full, BLOCK_ROWS, M).transpose(0, 2, 1)
    if full < len(blocks):
        blocks[full, :, : n % BLOCK_ROWS] = codes[full * BLOCK_ROWS :].T
    return blocks
