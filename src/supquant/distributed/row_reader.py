"""Rows of files, as a worker reads them: one block after the other, or some rows by their numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from supquant.arrays import Array, RowNumbers
from supquant.distributed.source_files import SourceFiles
from supquant.distributed.worker import Memory
from supquant.remote import Rows
from supquant.sources import Block, VectorSource

__all__ = ["RowReader"]

READ_ROWS = 16384
"""Rows that are read at a time to find some of them, and the largest gap between two rows of one reading."""


class RowReader:
    """Reads rows of a source. A block that begins where the last one ended is read on from there.

    A row group of a Parquet file is decoded from its beginning. Blocks that are each read for themselves would take the longer,
    the larger the row groups are.

    Parameters
    ----------
    source : VectorSource
        The opened files.
    """

    def __init__(self, source: VectorSource) -> None:
        self._source = source
        self._next = -1  # the row at which `_blocks` goes on
        self._blocks: Iterator[Block] = iter(())
        self._left: Array | None = None  # rows from `_next` on that were read already

    @classmethod
    def of(cls, files: SourceFiles, memory: Memory) -> RowReader:
        """Return the reader that a worker has of some files."""
        source = files.opened(memory)
        reader: RowReader | None = memory.get("reader")
        if reader is None or reader._source is not source:
            reader = memory["reader"] = cls(source)
        return reader

    def read(self, rows: Rows) -> Array:
        """Return the vectors (b, p) of some rows."""
        return self._read_on(*rows) if isinstance(rows, tuple) else self._read_some(rows)

    def _read_on(self, start: int, stop: int) -> Array:
        found = np.empty((stop - start, self._source.dim), dtype=self._source.dtype)
        if start != self._next:
            self._blocks = self._source.blocks(start, rows=max(1, stop - start))
            self._left = None
        self._next, done = -1, 0  # an error in the midst begins anew
        while done < len(found):
            read = next(self._blocks).X if self._left is None else self._left
            taken = min(len(read), len(found) - done)
            found[done : done + taken] = read[:taken]
            self._left = read[taken:] if taken < len(read) else None
            done += taken
        self._next = stop
        return found

    def _read_some(self, rows: RowNumbers) -> Array:
        """Return the vectors of rows (b,) in ascending order. Rows that lie close together are read in one go."""
        found = np.empty((len(rows), self._source.dim), dtype=self._source.dtype)
        far = np.flatnonzero(np.diff(rows) > READ_ROWS) + 1
        done = 0
        for run in np.split(rows, far):
            for block in self._source.blocks(int(run[0]), int(run[-1]) + 1, rows=READ_ROWS):
                here = rows[done : done + int(np.searchsorted(rows[done:], block.start + len(block)))]
                found[done : done + len(here)] = block.X[here - block.start]
                done += len(here)
        return found
