"""Which row is which: a row gets a serial number when it is added, and keeps it through merges and updates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers

__all__ = ["Serials"]

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Serials:
    """The serial numbers of a run of rows, in ascending order, as runs of consecutive numbers.

    A filter keeps serials, and finds its rows by them in every later and earlier snapshot. So its cost does not depend on the
    number of changes. Rows that were added one after the other are one run, if none of them was removed.

    Parameters
    ----------
    starts : ndarray (r,) int64
        The serial of the first row of every run.
    first_rows : ndarray (r + 1,) int64
        The first row of every run, and the number of all rows.
    """

    starts: Integers
    first_rows: Integers

    @classmethod
    def consecutive(cls, first: int, n_rows: int) -> Self:
        """Return the serials ``first``, ``first + 1``, ... of at least one row."""
        return cls(np.array([first]), np.array([0, n_rows]))

    @classmethod
    def join(cls, pieces: Sequence[Serials]) -> Self:
        """Join the serials of several runs of rows. They ascend from each to the next.

        Examples
        --------
        >>> Serials.join([Serials.consecutive(0, 3), Serials.consecutive(3, 2), Serials.consecutive(9, 1)])
        Serials(starts=array([0, 9]), first_rows=array([0, 5, 6]))
        """
        starts = np.concatenate([piece.starts for piece in pieces])
        lengths = np.concatenate([np.diff(piece.first_rows) for piece in pieces])
        # Run i stays a run of its own unless it continues run i - 1.
        kept = np.ones(len(starts), dtype=bool)
        kept[1:] = starts[1:] != starts[:-1] + lengths[:-1]
        first_rows = np.concatenate([[0], np.cumsum(lengths)])
        return cls(starts[kept], first_rows[np.append(kept, True)])

    @property
    def first(self) -> int:
        """The serial of the first row."""
        return int(self.starts[0])

    @property
    def stop(self) -> int:
        """One more than the serial of the last row."""
        return int(self.starts[-1] + self.first_rows[-1] - self.first_rows[-2])

    def keep(self, mask: Flags | None) -> Serials:
        """Return the serials of the rows that a mask (n,) keeps: at least one. None keeps all."""
        if mask is None:
            return self
        lengths = np.diff(self.first_rows)
        values = (np.arange(len(mask)) + np.repeat(self.starts - self.first_rows[:-1], lengths))[mask]
        breaks = np.flatnonzero(values[1:] != values[:-1] + 1) + 1
        first_rows = np.concatenate([[0], breaks, [len(values)]])
        return Serials(values[first_rows[:-1]], first_rows)

    def take(self, rows: RowNumbers) -> Integers:
        """Return the serials of some rows (m,)."""
        run = np.searchsorted(self.first_rows, rows, side="right") - 1
        return self.starts[run] + (rows - self.first_rows[run])

    def find(self, serials: Integers) -> RowNumbers:
        """Return the rows (m,) of some serials, and -1 where there is none.

        Examples
        --------
        >>> Serials.join([Serials.consecutive(0, 3), Serials.consecutive(9, 1)]).find(np.array([2, 3, 9]))
        array([ 2, -1,  3])
        """
        run = np.searchsorted(self.starts, serials, side="right") - 1
        rows = self.first_rows[run] + (serials - self.starts[run])
        return np.where((run >= 0) & (rows < self.first_rows[run + 1]), rows, -1)

    def count_below(self, serial: int) -> int:
        """Return the number of rows whose serial is below a number."""
        run = int(np.searchsorted(self.starts, serial, side="left")) - 1
        if run < 0:
            return 0
        return int(min(self.first_rows[run] + (serial - self.starts[run]), self.first_rows[run + 1]))
