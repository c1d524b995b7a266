"""What an index holds at one moment: parts in order of insertion. Writers make a new one out of the old."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes
from supquant.errors import InputError
from supquant.index.ids import Ids, NumberRange, StringIds, name_some
from supquant.index.parts import Part, merged, settled
from supquant.index.segments import Segment
from supquant.index.topk import Positions, View

__all__ = ["MOST_ROWS", "IdKind", "Snapshot"]

IdKind = Literal["automatic", "int64", "str"]

MOST_ROWS = 2**32 - 1
"""Of an index: row numbers have 32 bits."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All rows of an index at one moment.

    Rows have positions, which count through the parts, removed rows too. They mean nothing outside the snapshot.

    Parameters
    ----------
    parts : tuple of Part
    id_kind : {"automatic", "int64", "str"}, optional
        None before the first rows.
    next_number : int
        The id of the next row, where ids are given automatically.
    """

    parts: tuple[Part, ...] = ()
    id_kind: IdKind | None = None
    next_number: int = 0
    firsts: tuple[int, ...] = field(init=False)
    """The position of each part's first row, and one past the last row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "firsts", (0, *accumulate(part.n_rows for part in self.parts)))

    @property
    def n_live(self) -> int:
        """Rows that are left."""
        return sum(part.n_live for part in self.parts)

    # reading -------------------------------------------------------------------------------------------------------------

    def placed(self) -> Iterator[tuple[int, Part]]:
        """Give every part with the position of its first row."""
        return zip(self.firsts, self.parts, strict=False)

    def views(self) -> list[View]:
        """Give what a search among all live rows reads."""
        return [
            View(part.segment.scanned(None if part.live is None else part.live.words()), first)
            for first, part in self.placed()
        ]

    def locate(self, ids: Ids) -> Positions:
        """Find the positions (n,) of live rows by their ids, all of which must be there."""
        positions = self._find(ids)
        missing = np.flatnonzero(positions < 0)
        if len(missing):
            raise InputError(f"these ids are not in the index: {name_some(ids.take(missing))}")
        return positions

    def check_new(self, ids: Ids | None) -> IdKind:
        """Check that rows with these ids, None for numbers, could be added; tell the kind of ids there would be."""
        if ids is None:
            if self.id_kind not in (None, "automatic"):
                raise InputError(f"the rows of this index have {_NAMES[self.id_kind]} as ids: give ids")
            return "automatic"
        if self.id_kind == "automatic":
            raise InputError("this index numbers its rows itself: add rows without ids")
        taken = np.flatnonzero(self._find(ids) >= 0)
        if len(taken):
            raise InputError(f"these ids are in the index already: {name_some(ids.take(taken))}")
        return "str" if isinstance(ids, StringIds) else "int64"

    def ids_at(self, positions: Positions) -> NDArray[Any]:
        """Give the ids of rows, in the shape of `positions`."""
        if len(self.parts) == 1:
            return self.parts[0].ids.take(positions)
        ids = np.empty(positions.shape, dtype=object if self.id_kind == "str" else np.int64)
        for part, here, rows in self._split(positions):
            ids[here] = part.ids.take(rows)
        return ids

    def live_ids(self) -> NDArray[Any]:
        """Give the ids of all live rows, in order of insertion."""
        ids = [part.ids.take(part.live_rows()) for part in self.parts]
        return np.concatenate(ids) if ids else self.ids_at(np.empty(0, dtype=np.int64))

    def codes_at(self, positions: Positions, n_codebooks: int) -> Codes:
        """Give the codes (n, M) of rows (n,)."""
        codes = np.empty((len(positions), n_codebooks), dtype=np.uint8)
        for part, here, rows in self._split(positions):
            codes[here] = part.segment.codes(rows)
        return codes

    def rows_at(self, positions: Positions) -> Iterator[tuple[Part, Positions]]:
        """Give the rows of each part among some positions (n,)."""
        return ((part, rows) for part, _, rows in self._split(positions))

    def _split(self, positions: Positions) -> Iterator[tuple[Part, NDArray[np.bool_], Positions]]:
        """Sort positions by part: the part, which positions are its own, their rows."""
        for first, part in self.placed():
            here = (first <= positions) & (positions < first + part.n_rows)
            yield part, here, positions[here] - first

    def _find(self, ids: Ids) -> Positions:
        """Find the positions (n,) of live rows by their ids, -1 where there is none."""
        positions = np.full(len(ids), -1, dtype=np.int64)
        if len(ids) == 0 or self.id_kind is None:
            return positions
        if isinstance(ids, StringIds) != (self.id_kind == "str"):
            given = "strings" if isinstance(ids, StringIds) else "integers"
            raise InputError(f"the rows of this index have {_NAMES[self.id_kind]} as ids, got {given}")
        for first, part in self.placed():
            rows = part.ids.find(ids)
            found = np.flatnonzero(rows >= 0)
            found = found[part.are_live(rows[found])]
            positions[found] = rows[found] + first
        return positions

    # writing -------------------------------------------------------------------------------------------------------------

    def plus(self, segment: Segment, ids: Ids | None) -> Snapshot:
        """Append rows, with the next numbers where they have no ids."""
        self._check_room(segment)
        kind = self.check_new(ids)
        numbered = 0
        if ids is None:
            numbered = segment.n_rows
            ids = NumberRange(self.next_number, numbered)
        parts = settled((*self.parts, Part(segment, ids)))
        return Snapshot(parts, kind, self.next_number + numbered)

    def minus(self, ids: Ids) -> Snapshot:
        """Remove rows by their ids, each named once."""
        return replace(self, parts=settled(self._without(ids)))

    def replaced(self, ids: Ids, segment: Segment) -> Snapshot:
        """Remove rows by their ids, each named once, and append others under the same ids."""
        self._check_room(segment)
        return replace(self, parts=settled((*self._without(ids), Part(segment, ids))))

    def compacted(self) -> Snapshot:
        """Put all live rows into one part."""
        if len(self.parts) <= 1 and self.n_live == self.firsts[-1]:
            return self
        return replace(self, parts=(merged(self.parts),))

    def _without(self, ids: Ids) -> list[Part]:
        return [part.without(rows) for part, rows in self.rows_at(self.locate(ids))]

    def _check_room(self, segment: Segment) -> None:
        if self.firsts[-1] + segment.n_rows > MOST_ROWS:
            raise InputError(
                f"an index holds at most {MOST_ROWS} rows, got {segment.n_rows} beside {self.firsts[-1]}"
            )


_NAMES = {"automatic": "numbers", "int64": "integers", "str": "strings"}
