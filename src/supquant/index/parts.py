"""Runs of rows that never change, and how they are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from supquant.arrays import Codes, Flags, RowNumbers
from supquant.index.bitmaps import LiveRows, rows_in_bits
from supquant.index.columns import Columns
from supquant.index.ids import join_ids
from supquant.index.layers import Layer, add_layer, cover_rows, group_similar, is_wasteful, stack_layers
from supquant.index.ordering import CodeOrder
from supquant.index.row_ids import Ids
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.stored import StoredArrays

__all__ = ["Part", "merge_parts", "merge_similar"]

_SMALLEST_LAYERED = 1024
"""The codes of a part with fewer rows are copied when a row is updated. That costs less than to scan another layer."""


@dataclass(frozen=True, eq=False)
class Part:
    """A run of rows.

    Parameters
    ----------
    segment : Segment
        The codes, as they were added.
    ids : Ids
        The ids.
    serials : Serials
        The serial numbers. A part with other rows, or with the same rows under other numbers, has another object.
    live : LiveRows, default=None
        The rows that were not removed. None stands for all rows.
    updates : tuple of Segment, default=()
        New codes of some rows, the newest last.
    columns : Columns, default=None
        Other columns of the rows. None if they have none.
    known_layers : tuple of Layer, default=None
        The codes and updates, with those that count. None if they are to be worked out when they are first needed.
    """

    segment: Segment
    ids: Ids
    serials: Serials
    live: LiveRows | None = None
    updates: tuple[Segment, ...] = ()
    columns: Columns | None = None
    known_layers: tuple[Layer, ...] | None = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """The number of rows, with removed ones."""
        return self.segment.n_rows

    @property
    def n_live(self) -> int:
        """The number of rows that were not removed."""
        return self.n_rows if self.live is None else self.live.count

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The codes as they were added, and those of all updates."""
        return (self.segment, *self.updates)

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """The codes as they were added, and those of all updates, with those that count."""
        return self.known_layers or stack_layers(self.segment, self.live, self.updates)

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, ids, removals and columns."""
        stored = (*self.segments, self.ids, self.live, self.columns)
        return sum(each.nbytes for each in stored if each is not None)

    def stored(self) -> list[StoredArrays]:
        """Return the codes, ids, removals and columns that are arrays and may come from files."""
        stored = (*self.segments, self.ids, self.live, self.columns)
        return [each for each in stored if isinstance(each, StoredArrays)]

    def live_rows(self) -> RowNumbers:
        """Return the rows that were not removed, in ascending order."""
        return np.arange(self.n_rows) if self.live is None else np.flatnonzero(self.live.mask())

    def are_live(self, rows: RowNumbers) -> Flags:
        """Return for each of some rows (r,) whether it was not removed."""
        return np.ones(rows.shape, dtype=bool) if self.live is None else rows_in_bits(self.live.words(), rows)

    def codes(self, rows: RowNumbers | None = None) -> Codes:
        """Return the present codes (r, M) uint8 of rows. None stands for all rows, also removed ones."""
        codes = self.segment.codes(rows)
        if self.updates and rows is None:
            codes = codes.copy()  # they may be a view of the segment
        for update in self.updates:
            if rows is None:
                codes[update.rows()] = update.codes()
            else:
                places = update.places(rows, missing=-1)
                found = places >= 0
                codes[found] = update.codes(places[found])
        return codes

    def without(self, rows: RowNumbers) -> Part:
        """Return the part after some rows (r,) are removed: distinct rows, none of them removed before."""
        if len(rows) == 0:
            return self
        live = LiveRows.after_removal(self.live, rows, self.n_rows)
        return replace(self, live=live, known_layers=cover_rows(self.layers, rows) if self.updates else None)

    def with_codes(self, rows: RowNumbers, codes: Codes, order: CodeOrder | None = None) -> Part:
        """Return the part after some rows (r,) get other codes (r, M): distinct rows, none of them removed.

        New codes are laid over the old ones. If more than half of the rows were updated, or if there are few rows, all codes are
        copied instead, and `order` says how they are sorted. Rows keep their numbers in either case.
        """
        if len(rows) == 0:
            return self
        ascending = rows.argsort()
        rows, codes = rows[ascending], codes[ascending]
        n_updated = sum(update.n_rows for update in self.updates) + len(rows)
        if self.n_rows < _SMALLEST_LAYERED or is_wasteful(self.n_rows - n_updated, self.n_rows):
            merged = self.codes().copy()
            merged[rows] = codes
            return replace(self, segment=Segment.of_codes(merged, order=order), updates=(), known_layers=None)
        layers = add_layer(self.layers, rows, codes)
        return replace(self, updates=tuple(layer.segment for layer in layers[1:]), known_layers=layers)

    def with_columns(self, rows: RowNumbers, table: Any) -> Part:
        """Return the part after some rows (r,) get other values of columns, from a table of r rows."""
        if len(rows) == 0:
            return self
        columns = self.columns or Columns.join(
            [(None, self.n_rows, None), (Columns.of_table(table.slice(0, 0)), 0, None)]
        )
        assert columns is not None
        return replace(self, columns=columns.replaced(rows, table))


def merge_similar(parts: Sequence[Part], order: CodeOrder | None = None) -> tuple[Part, ...]:
    """Merge neighbours of similar size, and rewrite parts of which more than half of the rows are removed.

    Afterwards each part has at least twice the rows of the next one, so there are O(log n) parts.

    Parameters
    ----------
    parts : sequence of Part
        The parts, in order of insertion.
    order : CodeOrder, default=None
        Decides how the codes of new parts are sorted. None leaves them as they are.

    Returns
    -------
    tuple of Part
        Parts with the same live rows in the same order.
    """
    return tuple(
        merge_parts(run, order) if len(run) > 1 or is_wasteful(run[0].n_live, run[0].n_rows) else run[0]
        for run in group_similar(parts, lambda part: part.n_live)
    )


def merge_parts(parts: Sequence[Part], order: CodeOrder | None = None) -> Part:
    """Copy the live rows of several parts into a new one, with their present codes."""
    masks = [None if part.live is None else part.live.mask() for part in parts]
    codes = np.concatenate([part.codes(None if part.live is None else part.live_rows()) for part in parts])
    ids = join_ids([(part.ids, mask) for part, mask in zip(parts, masks, strict=True)])
    serials = Serials.join([part.serials.keep(mask) for part, mask in zip(parts, masks, strict=True)])
    columns = Columns.join(
        [(part.columns, part.n_rows, mask) for part, mask in zip(parts, masks, strict=True)]
    )
    return Part(Segment.of_codes(codes, order=order), ids, serials, columns=columns)
