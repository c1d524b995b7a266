"""The codes of a part in layers: an update lays new codes over some of its rows, and no row changes its place.

layer 0        codes of all rows, as they were added
layer 1, ...   codes of updated rows, the newest last. A row may have codes in several layers: the last one counts
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, RowNumbers
from supquant.index.bitmaps import LiveRows, Words, rows_in_bits
from supquant.index.segments import Segment

__all__ = ["Layer", "add_layer", "cover_rows", "group_similar", "is_wasteful", "stack_layers"]

_SMALLEST_RUN = 64
"""Fewer rows are merged with the next ones. To copy these rows again costs less than to scan them alone."""

Run = TypeVar("Run")


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

    def without(self, rows: RowNumbers) -> Layer:
        """Return the layer after the codes of some rows (r,) of the part no longer count."""
        places = self.segment.places(rows)
        if self.current is not None:
            places = places[rows_in_bits(self.current.words(), places)]
        if len(places) == 0:
            return self
        return replace(self, current=LiveRows.after_removal(self.current, places, self.segment.n_rows))


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


def add_layer(layers: Sequence[Layer], rows: RowNumbers, codes: Codes) -> tuple[Layer, ...]:
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
        all_codes.append(layer.segment.codes(places))
    joined = np.concatenate(all_rows)
    order = joined.argsort()
    return Layer(Segment.of_codes(np.concatenate(all_codes)[order], joined[order]), None)


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
        if groups and size < max(2 * total, _SMALLEST_RUN):
            groups[-1].insert(0, run)
            total += size
        else:
            groups.append([run])
            total = size
    return groups[::-1]


def is_wasteful(n_current: int, n_rows: int) -> bool:
    """Return whether more than half of some rows are not needed any more."""
    return 2 * n_current < n_rows
