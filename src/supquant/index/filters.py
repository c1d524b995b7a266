"""Searches restricted to some rows: a mask or ids become bits, and a filter may keep codes of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Flags
from supquant.errors import InputError
from supquant.index.bitmaps import LiveRows, Words, bits_of
from supquant.index.ids import read_ids
from supquant.index.parts import Lineage, Part
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.topk import View

__all__ = ["Chosen", "Filter", "choose", "views_of"]

Chosen = Mapping[Lineage, Words]
"""Rows, as bits for every part that holds some of them."""

_FEW = 0.25
"""A filter keeps copies of the codes of its rows where these are less than this share of a part."""


class Filter:
    """Rows prepared for searches among them; made by `CodeIndex.filter`.

    It stays valid when the index changes: rows that are removed drop out, and rows that are added later are not in it, not
    even under an id that it was made from. Any number of threads may use it.

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
        self._pieces: Mapping[Lineage, _Piece] = {}

    def belongs_to(self, owner: object) -> bool:
        """Tell whether the index that `owner` stands for has made it."""
        return self._owner is owner

    def views(self, snapshot: Snapshot) -> list[View]:
        """Give what a search reads."""
        pieces = self._pieces  # taken once: another thread may put others in its place
        if not all(_fits(pieces.get(part.lineage), part) for part in snapshot.parts):
            pieces = self._pieces = self._prepared(snapshot, pieces)
        return _placed(snapshot, pieces)

    def _prepared(self, snapshot: Snapshot, before: Mapping[Lineage, _Piece]) -> Mapping[Lineage, _Piece]:
        chosen = _carried(self._chosen, snapshot)
        return {
            part.lineage: piece
            if (piece := before.get(part.lineage)) is not None and _fits(piece, part)
            else _prepare(part, chosen)
            for part in snapshot.parts
        }


def views_of(snapshot: Snapshot, chosen: Chosen) -> list[View]:
    """Give what a single search among chosen rows reads; the scan itself passes over the others."""
    return [
        View(part.segment.scanned(eligible), first)
        for first, part in snapshot.placed()
        if (eligible := _eligible(part, chosen)) is not None
    ]


def choose(snapshot: Snapshot, ids_or_mask: object) -> Chosen:
    """Choose live rows by a mask over all of them, or by their ids, which may repeat."""
    mask = _as_mask(ids_or_mask)
    if mask is None:
        positions = snapshot.locate(read_ids(ids_or_mask))
        placed = snapshot.rows_at(positions)
        return {part.lineage: bits_of(rows, part.n_rows) for part, rows in placed if len(rows)}
    if mask.shape != (snapshot.n_live,):
        raise InputError(
            f"a mask must have one entry for each of the {snapshot.n_live} rows, got shape {mask.shape}"
        )
    return _chosen_by_mask(snapshot, mask)


def _as_mask(values: object) -> Flags | None:
    """Give values as a mask, None if they are something else."""
    if isinstance(values, Sequence):
        are_bools = len(values) > 0 and set(map(type, values)) <= {bool, np.bool_}
        return np.array(values, dtype=bool) if are_bools else None
    array = np.asarray(values)
    return np.ascontiguousarray(array) if array.dtype == bool else None


def _chosen_by_mask(snapshot: Snapshot, mask: Flags) -> Chosen:
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
class _Piece:
    """The chosen rows of one part, prepared.

    It does not hold on to the part's codes: a filter that nobody uses must not keep what the index has let go.
    """

    live: LiveRows | None
    """Those of the part when this was made."""
    eligible: Words | None
    """The rows, where they are scanned in their place; None where there are none, or where they were copied."""
    copied: Segment | None = None
    rows: NDArray[np.uint32] | None = None
    """Of the copied codes."""


def _fits(piece: _Piece | None, part: Part) -> bool:
    return piece is not None and piece.live is part.live


def _eligible(part: Part, chosen: Chosen) -> Words | None:
    """Give the chosen rows of a part that are left, as bits; None if none was chosen."""
    eligible = chosen.get(part.lineage)
    return eligible if eligible is None or part.live is None else eligible & part.live.words()


def _prepare(part: Part, chosen: Chosen) -> _Piece:
    """Prepare the chosen rows of a part for many searches."""
    eligible = _eligible(part, chosen)
    if eligible is None or (count := kernels.active().count_bits(eligible)) == 0:
        return _Piece(part.live, None)
    if count >= _FEW * part.n_rows:
        return _Piece(part.live, eligible)
    rows = kernels.active().set_bits(eligible)
    return _Piece(part.live, None, part.segment.part(rows), rows)


def _placed(snapshot: Snapshot, pieces: Mapping[Lineage, _Piece]) -> list[View]:
    views = []
    for first, part in snapshot.placed():
        piece = pieces[part.lineage]
        if piece.copied is not None:
            views.append(View(piece.copied.scanned(), first, piece.rows))
        elif piece.eligible is not None:
            views.append(View(part.segment.scanned(piece.eligible), first))
    return views


def _carried(chosen: Chosen, snapshot: Snapshot) -> Chosen:
    """Find chosen rows again in a later snapshot, wherever they were moved."""
    parts = {part.lineage: part for part in snapshot.parts}
    carried: dict[Lineage, Words] = {}
    for start, words in chosen.items():
        if start in parts:
            carried[start] = words
            continue
        lineage, rows = start, kernels.active().set_bits(words).astype(np.int64)
        while lineage not in parts and lineage.moved is not None:
            rows = lineage.moved.follow(rows)
            lineage = lineage.moved.lineage
        if lineage in parts:  # else all of its rows were removed
            bits = bits_of(rows, parts[lineage].n_rows)
            carried[lineage] = bits | carried[lineage] if lineage in carried else bits
    return carried
