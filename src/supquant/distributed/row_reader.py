"""Rows of files, as a worker reads them: in pages of consecutive rows, which are kept as long as there is room."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from supquant.arrays import Array
from supquant.distributed.source_files import SourceFiles
from supquant.distributed.worker import Memory
from supquant.parallel import BLOCK_ROWS
from supquant.row_sums import FeatureCache
from supquant.rows import RowNames
from supquant.sources import Block, VectorSource

__all__ = ["RowReader"]

PAGE_ROWS = BLOCK_ROWS
"""Number of rows of a page. Most passes go through blocks of this size, which are then pages as they are."""

SKIPPED_ROWS = 16384
"""A page at most this number of rows after the last one is reached by reading on."""


class RowReader:
    """Reads rows of a source. Every pass finds the pages that an earlier one has left, whatever rows it asks for.

    A row group of a Parquet file is decoded from its beginning. Pages that are each read for themselves would take the longer,
    the larger the row groups are. So a page that comes soon after the last one is read on from there.

    Parameters
    ----------
    source : VectorSource
        The opened files.
    cache_bytes : int
        Bytes of the pages that are kept. Others are read again whenever they are asked for.
    """

    def __init__(self, source: VectorSource, cache_bytes: int) -> None:
        self._source = source
        self._kept = FeatureCache(cache_bytes)
        # The last page and its number: the next rows may begin in it.
        self._last: tuple[int, Array | None] = -1, None
        self._next = -1  # the row at which `_blocks` goes on
        self._blocks: Iterator[Block] = iter(())
        self._left: Array | None = None  # rows from `_next` on that were read already

    @classmethod
    def of(cls, files: SourceFiles, memory: Memory, cache_bytes: int) -> RowReader:
        """Return the reader that a worker has of some files."""
        source = files.opened(memory)
        reader: RowReader | None = memory.get("reader")
        if reader is None or reader._source is not source:
            reader = memory["reader"] = cls(source, cache_bytes)
        return reader

    def read(self, rows: RowNames) -> Array:
        """Return the vectors (b, p) of some rows. They may be those of a page: nobody writes to them."""
        numbers = np.arange(*rows) if isinstance(rows, tuple) else rows
        pages = numbers // PAGE_ROWS
        firsts = np.flatnonzero(np.diff(pages, prepend=-1))
        if len(firsts) == 1 and len(numbers) == self._size(int(pages[0])):
            return self._page(int(pages[0]))
        found = np.empty((len(numbers), self._source.dim), dtype=self._source.dtype)
        for first, after in zip(firsts, [*firsts[1:], len(numbers)], strict=True):
            page = int(pages[first])
            found[first:after] = self._page(page)[numbers[first:after] - page * PAGE_ROWS]
        return found

    def _size(self, page: int) -> int:
        """Return the number of rows of a page: the last one may have fewer than others."""
        return min(PAGE_ROWS, len(self._source) - page * PAGE_ROWS)

    def _page(self, number: int) -> Array:
        if self._last[0] != number:
            self._last = number, self._kept.get(number, partial(self._read_page, number))
        found = self._last[1]
        assert found is not None
        return found

    def _read_page(self, number: int) -> Array:
        start = number * PAGE_ROWS
        stop = start + self._size(number)
        found = np.empty((stop - start, self._source.dim), dtype=self._source.dtype)
        if self._next < 0 or not 0 <= start - self._next <= SKIPPED_ROWS:
            self._blocks = self._source.blocks(start, rows=PAGE_ROWS)
            self._next, self._left = start, None
        row, self._next = self._next, -1  # an error in the midst begins anew
        while row < stop:
            read = next(self._blocks).X if self._left is None else self._left
            taken = min(len(read), (start if row < start else stop) - row)
            if row >= start:
                found[row - start : row - start + taken] = read[:taken]
            self._left = read[taken:] if taken < len(read) else None
            row += taken
        self._next = stop
        return found
