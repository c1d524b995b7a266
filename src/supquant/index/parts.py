"""Runs of rows, none of which ever changes, and how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, Flags, RowNumbers
from supquant.index.bitmaps import LiveRows, bits_at
from supquant.index.ids import Ids, join_ids
from supquant.index.segments import Segment
from supquant.index.stored import StoredArrays

__all__ = ["Lineage", "Moved", "Part", "merged", "settled"]

_SMALL = 64
"""Parts of fewer rows are not kept: copying the rows again costs less than scanning them by themselves."""


class Lineage:
    """Stands for the row numbers of a part; tells where the rows went when the part was merged into another.

    Filters hold on to it instead of to the rows. What is merged does not know what it came from, so nothing but a filter
    keeps the past in memory.
    """

    def __init__(self) -> None:
        self.moved: Moved | None = None


@dataclass(frozen=True, eq=False)
class Moved:
    """Where the live rows of a part went: one after the other, from row `first` of another part on."""

    lineage: Lineage
    first: int
    live: LiveRows | None

    def follow(self, rows: RowNumbers) -> RowNumbers:
        """Give the new numbers of those rows that were live, in their order."""
        if self.live is not None:
            words = self.live.words()
            rows = np.searchsorted(kernels.active().set_bits(words), rows[bits_at(words, rows)])
        return rows + self.first


@dataclass(frozen=True, eq=False)
class Part:
    """A run of rows: their codes, their ids, and which of them are left (None: all)."""

    segment: Segment
    ids: Ids
    live: LiveRows | None = None
    lineage: Lineage = field(default_factory=Lineage)

    @property
    def n_rows(self) -> int:
        """Rows, removed ones too."""
        return self.segment.n_rows

    @property
    def n_live(self) -> int:
        """Rows that are left."""
        return self.n_rows if self.live is None else self.live.count

    @property
    def nbytes(self) -> int:
        """Bytes of codes, ids and removals."""
        return self.segment.nbytes + self.ids.nbytes + (0 if self.live is None else self.live.nbytes)

    def touch(self) -> None:
        """Check all that came from files and was not used yet."""
        for stored in (self.segment, self.ids, self.live):
            if isinstance(stored, StoredArrays):
                stored.touch()

    def live_rows(self) -> RowNumbers:
        """Give the rows that are left, ascending."""
        return np.arange(self.n_rows) if self.live is None else np.flatnonzero(self.live.mask())

    def live_codes(self) -> Codes:
        """Give the codes (n, M) of the rows that are left."""
        return self.segment.codes(None if self.live is None else self.live_rows())

    def are_live(self, rows: RowNumbers) -> Flags:
        """Tell which of some rows are left."""
        return np.ones(rows.shape, dtype=bool) if self.live is None else bits_at(self.live.words(), rows)

    def without(self, rows: RowNumbers) -> Part:
        """Remove rows that are left, each named once."""
        return replace(self, live=LiveRows.after(self.live, rows, self.n_rows)) if len(rows) else self


def settled(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Merge neighbours of similar size, and rid parts of removed rows where these are more than half.

    Afterwards each part has at least twice the rows of the next one, so there are O(log n) of them. The rows of a part come
    into one at least half as large again, so each is copied O(log n) times.
    """
    runs: list[list[Part]] = []  # to be merged; from the last to the first
    size = 0  # live rows of the latest run
    for part in reversed(parts):
        if part.n_live == 0:
            continue
        if runs and part.n_live < max(2 * size, _SMALL):
            runs[-1].insert(0, part)
            size += part.n_live
        else:
            runs.append([part])
            size = part.n_live
    return tuple(merged(run) if len(run) > 1 or _is_wasteful(run[0]) else run[0] for run in reversed(runs))


def _is_wasteful(part: Part) -> bool:
    return 2 * part.n_live < part.n_rows


def merged(parts: Sequence[Part]) -> Part:
    """Copy the live rows of parts into one, and let filters know where they went."""
    codes = np.concatenate([part.live_codes() for part in parts])
    ids = join_ids([(part.ids, None if part.live is None else part.live.mask()) for part in parts])
    made = Part(Segment.of_codes(codes), ids)
    first = 0
    for part in parts:
        part.lineage.moved = Moved(made.lineage, first, part.live)
        first += part.n_live
    return made
