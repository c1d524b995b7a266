"""Runs of rows that never change, and how they are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Flags, RowNumbers
from supquant.index.bitmaps import LiveRows, Words, rows_in_bits
from supquant.index.columns import Columns
from supquant.index.ids import Ids, join_ids
from supquant.index.ordering import CodeOrder
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.stored import StoredArrays
from supquant.index.vectors import CodedRows
from supquant.kernels import Scanned

__all__ = ["Layer", "Part", "Positions", "Sums", "View", "merge_parts", "merge_similar", "stack_layers"]

Sums = NDArray[np.float32]
Positions = NDArray[np.int64]
Run = TypeVar("Run")

_MIN_LAYERED = 1024
"""The codes of a part with fewer rows are copied when a row is updated. That costs less than to scan another layer."""

_MIN_RUN = 64
"""Runs of fewer rows are merged with the next run. Copying these rows again costs less than scanning them on their own."""


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
        """The number of bytes of codes, vectors, ids, removals and columns."""
        return sum(each.nbytes for each in self._pieces())

    def _pieces(self) -> list[Any]:
        vectors = (segment.vectors for segment in self.segments)
        stored = (*self.segments, *vectors, self.ids, self.live, self.columns)
        return [each for each in stored if each is not None]

    def stored(self) -> list[StoredArrays]:
        """Return the codes, vectors, ids, removals and columns that are arrays and may come from files."""
        return [each for each in self._pieces() if isinstance(each, StoredArrays)]

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

    def coded(self, rows: RowNumbers | None = None) -> CodedRows:
        """Return the present codes of rows with their vectors, as `codes` does."""
        if self.segment.vectors is None:
            return CodedRows(self.codes(rows))
        # Row r of the result is row sources[r] of all layers, one after the other.
        wanted = np.arange(self.n_rows) if rows is None else rows
        sources, first = wanted.copy(), self.n_rows
        for update in self.updates:
            places = update.places(wanted, missing=-1)
            sources = np.where(places >= 0, first + places, sources)
            first += update.n_rows
        if not self.updates:
            return self.segment.coded(rows)
        return CodedRows.join([segment.coded() for segment in self.segments])[sources]

    def without(self, rows: RowNumbers) -> Part:
        """Return the part after some rows (r,) are removed: distinct rows, none of them removed before."""
        if len(rows) == 0:
            return self
        live = LiveRows.after_removal(self.live, rows, self.n_rows)
        return replace(self, live=live, known_layers=cover_rows(self.layers, rows) if self.updates else None)

    def with_codes(self, rows: RowNumbers, codes: CodedRows | Codes, order: CodeOrder | None = None) -> Part:
        """Return the part after some rows (r,) get other codes (r, M) and vectors: distinct rows, none of them removed.

        New codes are laid over the old ones. If more than half of the rows were updated, or if there are few rows, all codes are
        copied instead, and `order` says how they are sorted. Rows keep their numbers in either case.
        """
        if len(rows) == 0:
            return self
        ascending = rows.argsort()
        rows, codes = rows[ascending], codes[ascending]
        n_updated = sum(update.n_rows for update in self.updates) + len(rows)
        if self.n_rows < _MIN_LAYERED or is_wasteful(self.n_rows - n_updated, self.n_rows):
            places = np.arange(self.n_rows)
            places[rows] = self.n_rows + np.arange(len(rows))
            new = codes if isinstance(codes, CodedRows) else CodedRows(codes)
            merged = CodedRows.join([self.coded(), new])[places]
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
    codes = CodedRows.join([part.coded(None if part.live is None else part.live_rows()) for part in parts])
    ids = join_ids([(part.ids, mask) for part, mask in zip(parts, masks, strict=True)])
    serials = Serials.join([part.serials.keep(mask) for part, mask in zip(parts, masks, strict=True)])
    columns = Columns.join(
        [(part.columns, part.n_rows, mask) for part, mask in zip(parts, masks, strict=True)]
    )
    return Part(Segment.of_codes(codes, order=order), ids, serials, columns=columns)


@dataclass(frozen=True, eq=False)
class Layer:
    """Codes of all rows of a part or of some, and which of them count.

    Parameters
    ----------
    segment : Segment
        The codes. The codes of updated rows know the numbers of these rows in the part.
    current : LiveRows or None
        The codes that count: their rows were neither removed nor updated later. None stands for all codes.
    """

    segment: Segment
    current: LiveRows | None

    @property
    def n_current(self) -> int:
        """The number of codes that count."""
        return self.segment.n_rows if self.current is None else self.current.count

    def eligible(self, chosen: Words | None = None) -> Words | None:
        """Return which codes a search reads, as bits. None stands for all codes.

        Parameters
        ----------
        chosen : ndarray of uint64, default=None
            The rows of the part to search, as bits. None stands for all rows.
        """
        current = None if self.current is None else self.current.words()
        if chosen is None:
            return current
        if (rows := self.segment.rows()) is not None:
            chosen = kernels.active().pack_mask(rows_in_bits(chosen, rows))
        return chosen if current is None else chosen & current

    def view(self, first: int, chosen: Words | None = None) -> View:
        """Return what a search reads of the layer, whose part begins at position `first`, among all rows or chosen ones."""
        return View(self.segment, self.segment.scanned(self.eligible(chosen)), first, self.segment.rows())

    def without(self, rows: RowNumbers) -> Layer:
        """Return the layer after the codes of some rows (r,) of the part no longer count."""
        places = self.segment.places(rows)
        if self.current is not None:
            places = places[rows_in_bits(self.current.words(), places)]
        if len(places) == 0:
            return self
        return replace(self, current=LiveRows.after_removal(self.current, places, self.segment.n_rows))


@dataclass(frozen=True, eq=False)
class View:
    """A run of rows, as a search reads it.

    Parameters
    ----------
    segment : Segment
        The codes.
    scanned : Scanned
        The codes as a scan reads them.
    first : int
        The position of row 0 in the snapshot.
    rows : ndarray (n,) uint32, default=None
        The rows of the run that `segment` holds, in ascending order. None if it holds all of them.
    """

    segment: Segment
    scanned: Scanned
    first: int
    rows: NDArray[np.uint32] | None = None

    def positions(self, found: Positions) -> Positions:
        """Return the positions in the snapshot of rows that a scan of `scanned` found."""
        if self.rows is not None:
            return self.rows[found] + np.int64(self.first)
        return found + self.first if self.first else found


def stack_layers(segment: Segment, live: LiveRows | None, updates: Sequence[Segment]) -> tuple[Layer, ...]:
    """Return the layers of a part, whose current codes follow from the rows that are left and the order of the updates."""
    layers: tuple[Layer, ...] = (Layer(segment, live),)
    for update in updates:
        rows = update.rows()
        assert rows is not None
        current = None if live is None else LiveRows.of_mask(rows_in_bits(live.words(), rows))
        layers = (*cover_rows(layers, rows.astype(np.int64)), Layer(update, current))
    return layers


def cover_rows(layers: Sequence[Layer], rows: RowNumbers) -> tuple[Layer, ...]:
    """Return layers in which the codes of some rows (r,) no longer count, because the rows were removed or updated."""
    return tuple(layer.without(rows) for layer in layers)


def add_layer(layers: Sequence[Layer], rows: RowNumbers, codes: CodedRows | Codes) -> tuple[Layer, ...]:
    """Lay new codes (r, M) over rows (r,) in ascending order, and merge layers of similar size."""
    whole, *updates = cover_rows(layers, rows)
    updates.append(Layer(Segment.of_codes(codes, rows.astype(np.uint32)), None))
    runs = group_similar(updates, lambda layer: layer.n_current)
    return (whole, *map(_merge_layers, runs))


def _merge_layers(layers: Sequence[Layer]) -> Layer:
    if len(layers) == 1 and not is_wasteful(layers[0].n_current, layers[0].segment.n_rows):
        return layers[0]
    all_rows, all_codes = [], []
    for layer in layers:
        rows = layer.segment.rows()
        assert rows is not None
        places = np.arange(len(rows)) if layer.current is None else np.flatnonzero(layer.current.mask())
        all_rows.append(rows[places])
        all_codes.append(layer.segment.coded(places))
    joined = np.concatenate(all_rows)
    order = joined.argsort()
    return Layer(Segment.of_codes(CodedRows.join(all_codes)[order], joined[order]), None)


def group_similar(runs: Sequence[Run], size_of: Callable[[Run], int]) -> list[list[Run]]:
    """Group neighbours that are to be merged, so that each merged run has at least twice the rows of the next one.

    There are then O(log n) runs. A run is merged into one that has at least one and a half times its rows, so each row is copied
    O(log n) times. A run without rows is dropped.

    Parameters
    ----------
    runs : sequence
        The runs, in order of insertion.
    size_of : callable
        Returns the number of rows of a run.

    Returns
    -------
    list of list
    """
    groups: list[list[Run]] = []  # the last group comes first
    total = 0  # the number of rows in groups[-1]
    for run in reversed(runs):
        size = size_of(run)
        if size == 0:
            continue
        if groups and size < max(2 * total, _MIN_RUN):
            groups[-1].insert(0, run)
            total += size
        else:
            groups.append([run])
            total = size
    return groups[::-1]


def is_wasteful(n_current: int, n_rows: int) -> bool:
    """Return whether more than half of some rows are not needed any more."""
    return 2 * n_current < n_rows
