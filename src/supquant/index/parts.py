"""Runs of rows that never change, and how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, Flags, RowNumbers
from supquant.index.bitmaps import LiveRows, rows_in_bits
from supquant.index.ids import join_ids
from supquant.index.row_ids import Ids
from supquant.index.segments import Segment
from supquant.index.stored import StoredArrays

__all__ = ["Lineage", "Move", "Part", "merge_parts", "merge_similar"]

_SMALLEST_PART = 64
"""A part of fewer rows is merged with the next one. To copy these rows again costs less than to scan them alone."""


class Lineage:
    """Stands for the row numbers of a part, and knows where the rows went when the part was merged into another.

    A filter keeps the lineage instead of the rows. A merged part does not know its old parts. So only filters keep old lineages
    in memory, and nothing keeps old codes.
    """

    def __init__(self) -> None:
        self.move: Move | None = None


@dataclass(frozen=True, eq=False)
class Move:
    """Where the live rows of a part went: into another part, one after the other.

    Parameters
    ----------
    lineage : Lineage
        Stands for the row numbers of the other part.
    first : int
        The number of the first moved row in the other part.
    live : LiveRows or None
        The rows that were moved. None stands for all rows.
    """

    lineage: Lineage
    first: int
    live: LiveRows | None

    def follow(self, rows: RowNumbers) -> RowNumbers:
        """Return the new numbers of some rows (r,), without those that were removed before the move."""
        # The new number of a live row is the number of live rows before it, counted from `first`.
        if self.live is not None:
            words = self.live.words()
            rows = np.searchsorted(kernels.active().set_bits(words), rows[rows_in_bits(words, rows)])
        return rows + self.first


@dataclass(frozen=True, eq=False)
class Part:
    """A run of rows.

    Parameters
    ----------
    segment : Segment
        The codes.
    ids : Ids
        The ids.
    live : LiveRows, default=None
        The rows that were not removed. None stands for all rows.
    lineage : Lineage
        Stands for the row numbers. By default a new one.
    """

    segment: Segment
    ids: Ids
    live: LiveRows | None = None
    lineage: Lineage = field(default_factory=Lineage)

    @property
    def n_rows(self) -> int:
        """The number of rows, with removed ones."""
        return self.segment.n_rows

    @property
    def n_live(self) -> int:
        """The number of rows that were not removed."""
        return self.n_rows if self.live is None else self.live.count

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, ids and removals."""
        return self.segment.nbytes + self.ids.nbytes + (0 if self.live is None else self.live.nbytes)

    def stored(self) -> list[StoredArrays]:
        """Return the codes, ids and removals that are arrays and may come from files."""
        return [each for each in (self.segment, self.ids, self.live) if isinstance(each, StoredArrays)]

    def live_rows(self) -> RowNumbers:
        """Return the rows that were not removed, in ascending order."""
        return np.arange(self.n_rows) if self.live is None else np.flatnonzero(self.live.mask())

    def live_codes(self) -> Codes:
        """Return the codes (n, M) uint8 of the rows that were not removed."""
        return self.segment.codes(None if self.live is None else self.live_rows())

    def are_live(self, rows: RowNumbers) -> Flags:
        """Return for each of some rows (r,) whether it was not removed."""
        return np.ones(rows.shape, dtype=bool) if self.live is None else rows_in_bits(self.live.words(), rows)

    def without(self, rows: RowNumbers) -> Part:
        """Return the part after some rows (r,) are removed: distinct rows, none of them removed before."""
        if len(rows) == 0:
            return self
        return replace(self, live=LiveRows.after_removal(self.live, rows, self.n_rows))


def merge_similar(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Merge neighbours of similar size, and rewrite parts of which more than half of the rows are removed.

    Afterwards each part has at least twice the rows of the next one, so there are O(log n) parts. A part is merged into one that
    has at least one and a half times its rows, so each row is copied O(log n) times.

    Parameters
    ----------
    parts : sequence of Part
        The parts, in order of insertion.

    Returns
    -------
    tuple of Part
        Parts with the same live rows in the same order.
    """
    runs: list[list[Part]] = []  # each is merged into one part; the last run comes first
    size = 0  # the number of live rows in runs[-1]
    for part in reversed(parts):
        if part.n_live == 0:
            continue
        if runs and part.n_live < max(2 * size, _SMALLEST_PART):
            runs[-1].insert(0, part)
            size += part.n_live
        else:
            runs.append([part])
            size = part.n_live
    return tuple(
        merge_parts(run) if len(run) > 1 or _is_wasteful(run[0]) else run[0] for run in reversed(runs)
    )


def _is_wasteful(part: Part) -> bool:
    return 2 * part.n_live < part.n_rows


def merge_parts(parts: Sequence[Part]) -> Part:
    """Copy the live rows of several parts into a new one, and note in the old parts' lineages where they went."""
    codes = np.concatenate([part.live_codes() for part in parts])
    ids = join_ids([(part.ids, None if part.live is None else part.live.mask()) for part in parts])
    merged = Part(Segment.of_codes(codes), ids)
    first = 0
    for part in parts:
        part.lineage.move = Move(merged.lineage, first, part.live)
        first += part.n_live
    return merged
