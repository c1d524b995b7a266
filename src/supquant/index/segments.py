"""The codes of a run of rows, as scans read them: in blocks, sorted if that helps, and each code once if codes repeat.

This is the only place of the index that knows how codes lie in memory and in files.

    plain     blocks (b, M, 64) hold the code of every row
    sorted    blocks hold the code of every row, sorted by the codebooks `lead`. ``members[i]`` is the row of code i
    grouped   blocks hold the distinct codes, in lexicographic order. ``members[starts[i]:starts[i + 1]]`` are the rows of code i

New codes of some rows of a part are a segment too. It knows the numbers of these rows in the part.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, RowNumbers
from supquant.errors import FileFormatError
from supquant.index import ordering
from supquant.index.bitmaps import Words
from supquant.index.ids import find_flaw_of_rows
from supquant.index.ordering import MAX_LEVELS, CodeOrder, find_cells, sort_codes
from supquant.index.stored import StoredArrays, array_of_file
from supquant.index.vectors import CodedRows, Vectors
from supquant.inputs.parameters import resolve_jobs
from supquant.kernels import BLOCK_ROWS, Cells, Scanned, blocks_of
from supquant.storage import ArrayFile

__all__ = ["Segment"]

Uint32 = NDArray[np.uint32]

_ROWS_PER_CODE = 8
"""Codes are grouped if there are at least this number of rows for each distinct code, on average."""

STREAMED_BLOCKS = 1024
"""Codes that are looked at one after another are copied from this number of blocks at a time."""


class Segment(StoredArrays):
    """The codes of a run of rows, which are numbered from 0. `of_codes` makes it.

    Parameters
    ----------
    blocks : ndarray (b, M, 64) uint8
        The codes, 64 in each block.
    n_codes : int
        The number of codes in the blocks.
    starts : ndarray (n_codes + 1,) uint32, default=None
        Where the rows of each code begin in `members`. None if codes are not grouped.
    members : ndarray (n_rows,) uint32, default=None
        The rows of all codes. None if codes are neither sorted nor grouped.
    n_codewords : int, default=256
        The number of codewords of a codebook. Every byte of a code is below it.
    file : ArrayFile, default=None
        The file that the arrays come from.
    updated : ndarray (n_rows,) uint32, default=None
        The numbers of the rows in their part, in ascending order, if these are new codes of some rows of it. None if these are
        the codes of all rows of a part.
    n_part_rows : int, default=2**32
        The number of rows of the part. Every number in `updated` is below it.
    lead : ndarray (l,) uint8, default=None
        The codebooks by which codes are sorted, the first one first. None if codes are not sorted.
    vectors : Vectors, default=None
        The vectors of the rows, in the order of the rows. They have a file of their own. None if the index keeps none.
    """

    KIND: ClassVar[str] = "codes"
    ARRAYS = ("blocks", "starts", "members", "lead", "updated")
    FOLLOWED = ("starts", "members", "lead", "updated")

    def __init__(
        self,
        blocks: Codes,
        n_codes: int,
        starts: Uint32 | None = None,
        members: Uint32 | None = None,
        n_codewords: int = 256,
        file: ArrayFile | None = None,
        updated: Uint32 | None = None,
        n_part_rows: int = 2**32,
        lead: NDArray[np.uint8] | None = None,
        vectors: Vectors | None = None,
    ) -> None:
        super().__init__(file)
        self.vectors = vectors
        self._blocks = blocks
        self._n_codes = n_codes
        self._starts = starts
        self._members = members
        self._n_codewords = n_codewords
        self._updated = updated
        self._n_part_rows = n_part_rows
        self._lead = lead

    @classmethod
    def of_codes(
        cls, rows: CodedRows | Codes, updated: Uint32 | None = None, order: CodeOrder | None = None
    ) -> Self:
        """Return a segment of codes, grouped if they repeat enough, else sorted if that helps.

        Parameters
        ----------
        rows : CodedRows, or ndarray (n, M) uint8
            The code of every row, with its vector if the index keeps vectors.
        updated : ndarray (n,) uint32, default=None
            The numbers of the rows in their part, if these are new codes of some rows of it.
        order : CodeOrder, default=None
            Decides whether codes are sorted. None leaves them as they are.

        Examples
        --------
        >>> Segment.of_codes(np.zeros((100, 2), dtype=np.uint8)).n_distinct
        1
        """
        coded = rows if isinstance(rows, CodedRows) else CodedRows(rows)
        made = cls._arranged(coded.codes, updated, order)
        made.vectors = coded.vectors
        return made

    @classmethod
    def _arranged(cls, codes: Codes, updated: Uint32 | None, order: CodeOrder | None) -> Self:
        n = len(codes)
        limit = n // _ROWS_PER_CODE
        n_distinct = kernels.active().count_distinct(codes, limit)
        if n_distinct > limit:
            lead = () if order is None else order.leading(codes)
            if not lead:
                return cls(blocks_of(codes), n, updated=updated)
            members = sort_codes(codes, lead)
            blocks = kernels.active().arrange(codes, members, resolve_jobs(None))
            return cls(blocks, n, members=members, updated=updated, lead=np.array(lead, dtype=np.uint8))
        distinct, starts, members = kernels.active().group(codes, n_distinct)
        return cls(blocks_of(distinct), len(distinct), starts, members, updated=updated)

    @classmethod
    def from_file(
        cls,
        file: ArrayFile,
        n_rows: int,
        n_codebooks: int,
        n_codewords: int,
        n_part_rows: int | None = None,
        vectors: Vectors | None = None,
    ) -> Self:
        """Return the codes that a file holds. With `n_part_rows` they are new codes of some rows of a part of so many rows."""
        starts = members = lead = None
        n_codes = n_rows
        if "lead" in file.arrays:
            lead = array_of_file(file, "lead", np.uint8, None)
            members = array_of_file(file, "members", np.uint32, n_rows)
        elif "members" in file.arrays:
            starts = array_of_file(file, "starts", np.uint32, None)
            members = array_of_file(file, "members", np.uint32, n_rows)
            n_codes = len(starts) - 1
            if n_codes < 0:
                raise FileFormatError(f"{file.path}: array 'starts' is empty")
        n_blocks = -(-n_codes // BLOCK_ROWS)
        blocks = array_of_file(file, "blocks", np.uint8, n_blocks, n_codebooks, BLOCK_ROWS)
        updated = None if n_part_rows is None else array_of_file(file, "updated", np.uint32, n_rows)
        end = 2**32 if n_part_rows is None else n_part_rows
        return cls(blocks, n_codes, starts, members, n_codewords, file, updated, end, lead, vectors)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self._n_codes if self._members is None else len(self._members)

    @property
    def grouped(self) -> bool:
        """Whether each distinct code is kept once."""
        return self._starts is not None

    @property
    def sorted(self) -> bool:
        """Whether codes are sorted by leading codebooks, so that scans can skip some."""
        return self._lead is not None

    @property
    def n_distinct(self) -> int | None:
        """The number of distinct codes. None if codes are not grouped, because then they were not counted."""
        return self._n_codes if self.grouped else None

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        made = (self.__dict__.get(name) for name in ("_cells", "_code_of_row"))
        return super().nbytes + sum(each.nbytes for each in made if each is not None)

    @cached_property
    def _cells(self) -> Cells | None:
        """The cells of the codes, found when the codes are first scanned. None if they have none."""
        if self._lead is not None:
            return find_cells(self._blocks, self._n_codes, self._lead.tolist())
        if self.grouped and self._n_codes >= ordering.MIN_SORTED:
            return find_cells(self._blocks, self._n_codes, range(min(MAX_LEVELS, self._blocks.shape[1])))
        return None

    def rows(self) -> Uint32 | None:
        """Return the numbers of the rows in their part, in ascending order. None if these are all rows of the part."""
        if self._updated is not None:
            self.check_once()
        return self._updated

    def places(self, rows: RowNumbers, missing: int | None = None) -> RowNumbers:
        """Return where the codes of some rows of the part are among the codes of this segment.

        Parameters
        ----------
        rows : ndarray (r,) int64
            The numbers of the rows in the part.
        missing : int, default=None
            What stands for a row that has no code here. None leaves such rows out.

        Returns
        -------
        ndarray (r,) int64
        """
        updated = self.rows()
        if updated is None:
            return rows
        places = np.searchsorted(updated, rows)
        found = updated[np.minimum(places, len(updated) - 1)] == rows
        return places[found] if missing is None else np.where(found, places, missing)

    def scanned(self, eligible: Words | None = None) -> Scanned:
        """Return what a scan reads. After the scan, `check_unchanged` must be called.

        Parameters
        ----------
        eligible : ndarray (ceil(n_rows / 64),) uint64, default=None
            The rows to scan, as bits. None stands for all rows.

        Returns
        -------
        Scanned
        """
        self.check_before_scan()
        return Scanned(self._blocks, self._n_codes, self._starts, self._members, eligible, self._cells)

    def codes(self, rows: RowNumbers | None = None) -> Codes:
        """Return the codes of rows.

        Parameters
        ----------
        rows : ndarray (r,) int64, default=None
            The rows, in any order. None stands for all rows.

        Returns
        -------
        ndarray (r, M) uint8
        """
        self.check_once()
        places: NDArray[Any] | None = rows  # of the rows' codes in the blocks
        if self._members is not None:
            places = self._find_codes() if rows is None else self._code_of_row[rows]
        if places is None:
            by_row = self._blocks.transpose(0, 2, 1).reshape(-1, self._blocks.shape[1])
            return np.ascontiguousarray(by_row[: self._n_codes])
        return self._blocks[places // BLOCK_ROWS, :, places % BLOCK_ROWS]

    def distinct_codes(self) -> Iterator[Codes]:
        """Yield the codes (n, M) that occur, some at a time, in the order of a scan. No row is looked up."""
        self.check_once()
        for start in range(0, len(self._blocks), STREAMED_BLOCKS):
            blocks = self._blocks[start : start + STREAMED_BLOCKS]
            by_code = blocks.transpose(0, 2, 1).reshape(-1, blocks.shape[1])
            yield by_code[: self._n_codes - start * BLOCK_ROWS]

    @cached_property
    def _code_of_row(self) -> Uint32:
        """The number (n_rows,) of the code of every row, found when codes of some rows are first asked for."""
        return self._find_codes()

    def _find_codes(self) -> Uint32:
        assert self._members is not None
        # for code in range(n_codes): code_of_row[members[starts[code]:starts[code + 1]]] = code
        counts = 1 if self._starts is None else np.diff(self._starts)
        code_of_row = np.empty(self.n_rows, dtype=np.uint32)
        code_of_row[self._members] = np.repeat(np.arange(self._n_codes, dtype=np.uint32), counts)
        return code_of_row

    def coded(self, rows: RowNumbers | None = None) -> CodedRows:
        """Return the codes of rows with their vectors, as `codes` does."""
        vectors = self.vectors if rows is None or self.vectors is None else self.vectors.take(rows)
        return CodedRows(self.codes(rows), vectors)

    def copy_rows(self, rows: Uint32) -> Segment:
        """Copy the codes of some rows into a segment of their own, in which they are numbered 0, 1, ...

        Parameters
        ----------
        rows : ndarray (r,) uint32
            The rows, in ascending order.

        Returns
        -------
        Segment
        """
        self.check_once()
        take = kernels.active().take
        if self._members is None:
            return Segment(take(self._blocks, rows), len(rows))
        # for code in range(n_codes):
        #     left = [new_number[row] for row in members[starts[code]:starts[code + 1]] if row in rows]
        #     if left: keep the code, with the rows `left`
        new_number = np.full(self.n_rows, len(rows), dtype=np.uint32)  # len(rows): a row that is not copied
        new_number[rows] = np.arange(len(rows), dtype=np.uint32)
        members = new_number[self._members]
        copied = members < len(rows)
        if self._starts is None:
            places = np.flatnonzero(copied).astype(np.uint32)
            return Segment(take(self._blocks, places), len(rows), members=members[copied], lead=self._lead)
        # (n_codes + 1,) copied rows of earlier codes
        ends = np.concatenate([[0], np.cumsum(copied)])[self._starts]
        used = np.flatnonzero(np.diff(ends)).astype(np.uint32)
        starts = np.concatenate([[0], ends[used + 1]]).astype(np.uint32)
        return Segment(take(self._blocks, used), len(used), starts, members[copied])

    def _followed(self) -> set[str]:
        # A code is followed into tables of n_codewords entries. With 256 of them, no byte leads outside.
        return super()._followed() | ({"blocks"} if self._n_codewords < 256 else set())

    def _find_flaw(self) -> str | None:
        if self._blocks.size and (largest := int(self._blocks.max())) >= self._n_codewords:
            return f"codes must be below {self._n_codewords}, got {largest}"
        updated, end = self._updated, self._n_part_rows
        if updated is not None and ((updated[1:] <= updated[:-1]).any() or updated.max(initial=0) >= end):
            return f"'updated' does not ascend to numbers below {end}"
        if self._members is None:
            return None
        lead, M = self._lead, self._blocks.shape[1]
        if lead is not None:
            found = lead.tolist()
            if not 1 <= len(found) == len(set(found)) <= MAX_LEVELS or max(found) >= M:
                return f"'lead' must be 1 to {MAX_LEVELS} distinct codebooks below {M}, got {found[:5]}"
        starts, n_rows = self._starts, self.n_rows
        if starts is None:
            return find_flaw_of_rows(self._members, "members")
        if starts[0] != 0 or starts[-1] != n_rows or (starts[1:] < starts[:-1]).any():
            return f"'starts' does not ascend from 0 to {n_rows}"
        return find_flaw_of_rows(self._members, "members")
