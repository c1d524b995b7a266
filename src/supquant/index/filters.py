"""Searches among some of the rows: a mask or ids become bits. A filter may keep copies of the codes of its rows."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Flags
from supquant.errors import InputError
from supquant.index.bitmaps import LiveRows, Words, bits_of_rows
from supquant.index.columns import rows_where
from supquant.index.ids import read_ids
from supquant.index.parts import Layer, Part, Positions, View
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.snapshot import Origin, Snapshot
from supquant.inputs.validation import refuse_masked

__all__ = ["Chosen", "Filter", "as_mask", "choose", "chosen_positions", "is_condition", "views_of"]

Chosen = Mapping[Serials, Words]
"""The chosen rows as bits, for every part that holds some of them, by the serials of the part."""

_MAX_COPIED = 0.25
"""A filter copies the codes of its rows if they are less than this share of a layer's codes."""


class Filter:
    """Rows that are prepared for searches among them. `CodeIndex.filter` makes it.

    A filter stays valid when the index changes. Rows that are removed leave it. Rows that are updated stay in it. Rows that are
    added later are not in it, even if they have an id that the filter was made from. Its cost does not depend on the number of
    changes. Any number of threads may use it.

    A filter belongs to its index: a copy of the index refuses it. If both are pickled or copied together by `copy.deepcopy`, for
    example as a tuple, the new filter belongs to the new index.

    Examples
    --------
    >>> from supquant import AdditiveCodec, CodeIndex
    >>> codec = AdditiveCodec(np.array([[[0], [1]]], dtype=np.float32))  # one codebook of two codewords
    >>> index = CodeIndex(codec).add_codes([[0], [1], [0], [1]])
    >>> odd = index.filter([1, 3])
    >>> index.search([[0]], k=4, where=odd)
    (array([[1., 1.]], dtype=float32), array([[1, 3]]))
    """

    def __init__(self, origin: Origin, chosen: Chosen) -> None:
        self._origin = origin
        self._chosen = chosen
        self._forget()

    def _forget(self) -> None:
        self._prepared: Mapping[Serials, _PreparedPart] = {}
        self._views: weakref.WeakKeyDictionary[Snapshot, list[View]] = weakref.WeakKeyDictionary()

    def __getstate__(self) -> tuple[Origin, Chosen]:
        return self._origin, self._chosen

    def __setstate__(self, state: tuple[Origin, Chosen]) -> None:
        self._origin, self._chosen = state
        self._forget()

    def belongs_to(self, snapshot: Snapshot) -> bool:
        """Return whether the index of a snapshot made this filter."""
        return self._origin is snapshot.origin

    def views(self, snapshot: Snapshot) -> list[View]:
        """Return what a search among the filter's rows reads. It is prepared at the first search of a snapshot."""
        views = self._views.get(snapshot)
        if views is None:
            views = self._views[snapshot] = self._prepare(snapshot)
        return views

    def _prepare(self, snapshot: Snapshot) -> list[View]:
        before = self._prepared  # read once: another thread may replace it
        prepared = {
            part.serials: self._prepare_part(part, before.get(part.serials)) for part in snapshot.parts
        }
        if any(before.get(serials) is not each for serials, each in prepared.items()):
            self._prepared = prepared
        return [
            view
            for first, part in snapshot.parts_with_positions()
            for layer, each in zip(part.layers, prepared[part.serials].layers, strict=True)
            if (view := each.view(layer, first)) is not None
        ]

    def _prepare_part(self, part: Part, before: _PreparedPart | None) -> _PreparedPart:
        """Prepare the rows of a part, and use again what was prepared before and is still current."""
        if before is None:
            before = _PreparedPart(_find_rows(self._chosen, part), ())
        elif before.is_current(part):
            return before
        layers = tuple(_prepare_layer(layer, before) for layer in part.layers)
        return _PreparedPart(before.chosen, layers)


def views_of(snapshot: Snapshot, chosen: Chosen) -> list[View]:
    """Return what a single search among chosen rows reads. No code is copied: the scan skips the other rows."""
    return [
        layer.view(first, chosen[part.serials])
        for first, part in snapshot.parts_with_positions()
        if part.serials in chosen
        for layer in part.layers
    ]


def choose(snapshot: Snapshot, where: ArrayLike, known: Mapping[str, Any] | None = None) -> Chosen:
    """Choose live rows.

    Parameters
    ----------
    snapshot : Snapshot
        The rows to choose from.
    where : ids, mask (n,) of bool, or condition on columns
        The ids of the rows, which may come twice, or a mask with an entry for every live row, in order of insertion, or a
        condition: a str, or an expression of pyarrow.
    known : dict of str to pyarrow.DataType, default=None
        The columns that a condition may name. None stands for those of the snapshot.

    Returns
    -------
    Chosen

    Raises
    ------
    InputError
        If an id is not in the snapshot, the mask has another shape, or the condition cannot be evaluated.
    """
    if is_condition(where):
        return _choose_by_condition(snapshot, where, snapshot.column_types() if known is None else known)
    mask = as_mask(where)
    if mask is None:
        located = snapshot.rows_at(snapshot.locate(read_ids(where)))
        return {part.serials: bits_of_rows(rows, part.n_rows) for part, rows in located if len(rows)}
    if mask.shape != (snapshot.n_live,):
        raise InputError(
            f"a mask must have one entry for each of the {snapshot.n_live} rows, got shape {mask.shape}"
        )
    return _choose_by_mask(snapshot, mask)


def chosen_positions(snapshot: Snapshot, chosen: Chosen) -> Positions:
    """Return the positions (m,) of the live rows among chosen ones of a snapshot, in order of insertion."""
    positions = [
        first + rows[part.are_live(rows)]
        for first, part in snapshot.parts_with_positions()
        if part.serials in chosen
        for rows in [kernels.active().set_bits(chosen[part.serials]).astype(np.int64)]
    ]
    return np.concatenate(positions) if positions else np.empty(0, dtype=np.int64)


def is_condition(where: object) -> bool:
    """Return whether rows are chosen by a condition: a str, or an expression of pyarrow. An array of pyarrow is ids."""
    return isinstance(where, str) or type(where).__name__ == "Expression"


def _choose_by_condition(snapshot: Snapshot, condition: object, known: Mapping[str, Any]) -> Chosen:
    if not known:
        raise InputError(f"the index has no columns, and {str(condition)!r} is a condition on columns")
    chosen = {}
    for part in snapshot.parts:
        rows = rows_where(part.columns, part.n_rows, known, condition)
        if len(rows):  # removed ones among them are never searched
            chosen[part.serials] = bits_of_rows(rows, part.n_rows)
    return chosen


def as_mask(values: object) -> Flags | None:
    """Return values as a mask (n,) of bool, or None if they are something else."""
    if isinstance(values, Sequence):
        are_bools = len(values) > 0 and set(map(type, values)) <= {bool, np.bool_}
        return np.array(values, dtype=bool) if are_bools else None
    array = np.asarray(refuse_masked(values, "where"))
    return np.ascontiguousarray(array) if array.dtype == bool else None


def _choose_by_mask(snapshot: Snapshot, mask: Flags) -> Chosen:
    chosen = {}
    start = 0
    for part in snapshot.parts:
        own = mask[start : start + part.n_live]
        start += part.n_live
        if part.live is not None:
            among_all = np.zeros(part.n_rows, dtype=bool)
            among_all[part.live.mask()] = own
            own = among_all
        chosen[part.serials] = kernels.active().pack_mask(own)
    return chosen


def _find_rows(chosen: Chosen, part: Part) -> Words | None:
    """Return the chosen rows of a part of any snapshot as bits, or None if no row of the part was chosen."""
    if part.serials in chosen:
        return chosen[part.serials]
    found = [np.empty(0, dtype=np.int64)]
    for serials, words in chosen.items():  # look only at rows whose serials may be in the part
        begin, end = serials.count_below(part.serials.first), serials.count_below(part.serials.stop)
        if begin < end:
            within = words[begin // 64 : -(-end // 64)]
            rows = kernels.active().set_bits(within).astype(np.int64) + begin // 64 * 64
            found.append(part.serials.find(serials.take(rows)))
    rows = np.concatenate(found)
    rows = rows[rows >= 0]
    return bits_of_rows(rows, part.n_rows) if len(rows) else None


@dataclass(frozen=True, eq=False)
class _PreparedPart:
    """The chosen rows of one part, prepared for many searches."""

    chosen: Words | None
    """The chosen rows as bits. None if there are none."""
    layers: tuple[_PreparedLayer, ...]

    def is_current(self, part: Part) -> bool:
        """Return whether this was prepared for the present codes of a part."""
        return len(self.layers) == len(part.layers) and all(
            prepared.segment() is layer.segment and prepared.current is layer.current
            for prepared, layer in zip(self.layers, part.layers, strict=True)
        )


@dataclass(frozen=True, eq=False)
class _PreparedLayer:
    """The chosen codes of one layer.

    It does not keep the codes of the layer. So a filter that nobody uses keeps no codes that the index has dropped.
    """

    segment: weakref.ref[Segment]
    """The codes of the layer."""
    current: LiveRows | None
    """The codes of the layer that counted when this was prepared."""
    eligible: Words | None
    """The chosen codes as bits. None if there are none."""
    copied: Segment | None = None
    """Copies of the chosen codes, if they are few."""
    rows: NDArray[np.uint32] | None = None
    """The rows of the copied codes in the part, in ascending order."""

    def view(self, layer: Layer, first: int) -> View | None:
        """Return what a search reads of the layer, whose part begins at position `first`."""
        if self.copied is not None:
            return View(self.copied, self.copied.scanned(), first, self.rows)
        if self.eligible is None:
            return None
        return View(layer.segment, layer.segment.scanned(self.eligible), first, layer.segment.rows())


def _prepare_layer(layer: Layer, before: _PreparedPart) -> _PreparedLayer:
    """Prepare the chosen codes of a layer. Copies of the same codes are used again."""
    prepared = _PreparedLayer(weakref.ref(layer.segment), layer.current, None)
    if before.chosen is None:
        return prepared
    eligible = layer.eligible(before.chosen)
    assert eligible is not None
    if (count := kernels.active().count_bits(eligible)) == 0:
        return prepared
    if count >= _MAX_COPIED * layer.segment.n_rows:
        return replace(prepared, eligible=eligible)
    for known in before.layers:
        if known.segment() is not layer.segment or known.eligible is None:
            continue
        if np.array_equal(known.eligible, eligible):
            return replace(known, current=layer.current)
    places = kernels.active().set_bits(eligible)
    rows = layer.segment.rows()
    copied = layer.segment.copy_rows(places)
    return replace(prepared, eligible=eligible, copied=copied, rows=places if rows is None else rows[places])
