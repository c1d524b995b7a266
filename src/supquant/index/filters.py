"""Searches among some of the rows: a mask or ids become bits. A filter may keep copies of the codes of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Flags
from supquant.errors import InputError
from supquant.index.bitmaps import LiveRows, Words, bits_of_rows
from supquant.index.ids import read_ids
from supquant.index.parts import Lineage, Part
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.topk import View

__all__ = ["Chosen", "Filter", "choose", "views_of"]

Chosen = Mapping[Lineage, Words]
"""The chosen rows as bits, for every part that holds some of them."""

_COPIED_SHARE = 0.25
"""A filter copies the codes of its rows if they are less than this share of a part's rows."""


class Filter:
    """Rows that are prepared for searches among them. `CodeIndex.filter` makes it.

    A filter stays valid when the index changes. Rows that are removed leave it. Rows that are added later are not in it, even if
    they have an id that the filter was made from. Any number of threads may use it.

    Examples
    --------
    >>> from supquant import AdditiveCodec, CodeIndex
    >>> codec = AdditiveCodec(np.array([[[0], [1]]], dtype=np.float32))  # one codebook of two codewords
    >>> index = CodeIndex(codec).add_codes([[0], [1], [0], [1]])
    >>> odd = index.filter([1, 3])
    >>> index.search([[0]], k=4, where=odd)
    (array([[1., 1.]], dtype=float32), array([[1, 3]]))
    """

    def __init__(self, owner: object, chosen: Chosen) -> None:
        self._owner = owner
        self._chosen = chosen
        self._prepared: Mapping[Lineage, _PreparedRows] = {}

    def belongs_to(self, owner: object) -> bool:
        """Return whether the index that `owner` stands for made this filter."""
        return self._owner is owner

    def views(self, snapshot: Snapshot) -> list[View]:
        """Return what a search among the filter's rows reads."""
        prepared = self._prepared  # read once: another thread may replace it
        if not all(_is_current(prepared.get(part.lineage), part) for part in snapshot.parts):
            prepared = self._prepared = self._prepare_parts(snapshot, prepared)
        return _views_of_prepared(snapshot, prepared)

    def _prepare_parts(
        self, snapshot: Snapshot, before: Mapping[Lineage, _PreparedRows]
    ) -> Mapping[Lineage, _PreparedRows]:
        """Prepare the rows of every part, and use again what was prepared before and is still current."""
        chosen = _follow_moves(self._chosen, snapshot)
        return {
            part.lineage: known
            if (known := before.get(part.lineage)) is not None and _is_current(known, part)
            else _prepare_rows(part, chosen)
            for part in snapshot.parts
        }


def views_of(snapshot: Snapshot, chosen: Chosen) -> list[View]:
    """Return what a single search among chosen rows reads. No code is copied: the scan skips the other rows."""
    return [
        View(part.segment.scanned(eligible), first)
        for first, part in snapshot.parts_with_positions()
        if (eligible := _eligible_rows(part, chosen)) is not None
    ]


def choose(snapshot: Snapshot, ids_or_mask: object) -> Chosen:
    """Choose live rows.

    Parameters
    ----------
    snapshot : Snapshot
        The rows to choose from.
    ids_or_mask : ids, or mask (n,) of bool
        The ids of the rows, which may come twice, or a mask with an entry for every live row, in order of insertion.

    Returns
    -------
    Chosen

    Raises
    ------
    InputError
        If an id is not in the snapshot, or the mask has another shape.
    """
    mask = _as_mask(ids_or_mask)
    if mask is None:
        located = snapshot.rows_at(snapshot.locate(read_ids(ids_or_mask)))
        return {part.lineage: bits_of_rows(rows, part.n_rows) for part, rows in located if len(rows)}
    if mask.shape != (snapshot.n_live,):
        raise InputError(
            f"a mask must have one entry for each of the {snapshot.n_live} rows, got shape {mask.shape}"
        )
    return _choose_by_mask(snapshot, mask)


def _as_mask(values: object) -> Flags | None:
    """Return values as a mask (n,) of bool, or None if they are something else."""
    if isinstance(values, Sequence):
        are_bools = len(values) > 0 and set(map(type, values)) <= {bool, np.bool_}
        return np.array(values, dtype=bool) if are_bools else None
    array = np.asarray(values)
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
        chosen[part.lineage] = kernels.active().pack_mask(own)
    return chosen


@dataclass(frozen=True, eq=False)
class _PreparedRows:
    """The chosen rows of one part, prepared for many searches.

    It does not refer to the part's codes. So a filter that nobody uses keeps no codes that the index has dropped.
    """

    live: LiveRows | None
    """The live rows of the part when this was prepared."""
    eligible: Words | None
    """The chosen rows as bits, if they are scanned among the others. None if they were copied, or if there are none."""
    copied: Segment | None = None
    """Copies of the codes of the chosen rows."""
    rows: NDArray[np.uint32] | None = None
    """The rows of the copied codes, in ascending order."""


def _is_current(prepared: _PreparedRows | None, part: Part) -> bool:
    return prepared is not None and prepared.live is part.live


def _eligible_rows(part: Part, chosen: Chosen) -> Words | None:
    """Return the chosen live rows of a part as bits, or None if no row of the part was chosen."""
    eligible = chosen.get(part.lineage)
    return eligible if eligible is None or part.live is None else eligible & part.live.words()


def _prepare_rows(part: Part, chosen: Chosen) -> _PreparedRows:
    eligible = _eligible_rows(part, chosen)
    if eligible is None or (count := kernels.active().count_bits(eligible)) == 0:
        return _PreparedRows(part.live, None)
    if count >= _COPIED_SHARE * part.n_rows:
        return _PreparedRows(part.live, eligible)
    rows = kernels.active().set_bits(eligible)
    return _PreparedRows(part.live, None, part.segment.copy_rows(rows), rows)


def _views_of_prepared(snapshot: Snapshot, prepared: Mapping[Lineage, _PreparedRows]) -> list[View]:
    views = []
    for first, part in snapshot.parts_with_positions():
        chosen = prepared[part.lineage]
        if chosen.copied is not None:
            views.append(View(chosen.copied.scanned(), first, chosen.rows))
        elif chosen.eligible is not None:
            views.append(View(part.segment.scanned(chosen.eligible), first))
    return views


def _follow_moves(chosen: Chosen, snapshot: Snapshot) -> Chosen:
    """Return the bits of chosen rows in the parts of a later snapshot, where merges may have moved them."""
    parts = {part.lineage: part for part in snapshot.parts}
    moved: dict[Lineage, Words] = {}
    for start, words in chosen.items():
        if start in parts:
            moved[start] = words
            continue
        lineage, rows = start, kernels.active().set_bits(words).astype(np.int64)
        while lineage not in parts and lineage.move is not None:
            rows = lineage.move.follow(rows)
            lineage = lineage.move.lineage
        if lineage in parts:  # otherwise all rows of the part were removed
            bits = bits_of_rows(rows, parts[lineage].n_rows)
            moved[lineage] = bits | moved[lineage] if lineage in moved else bits
    return moved
