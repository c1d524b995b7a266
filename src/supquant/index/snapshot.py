"""The rows of an index at one moment: parts in order of insertion. A writer makes a new snapshot from the old one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.columns import Columns
from supquant.index.ids import Ids, NumberRange, StringIds, join_ids, name_some
from supquant.index.ordering import CodeOrder
from supquant.index.parts import Part, Positions, View, merge_parts, merge_similar
from supquant.index.segments import Segment
from supquant.index.serials import Serials
from supquant.index.vectors import CodedRows, VectorKind
from supquant.model.exact import ExactQueries

__all__ = ["MAX_ROWS", "IdKind", "Origin", "Snapshot", "Source"]

IdKind = Literal["automatic", "int64", "str"]

MAX_ROWS = 2**32 - 64
"""The greatest number of rows of an index. Row numbers have 32 bits, and so has the end of the last block of 64 rows."""

_KIND_NAMES = {"automatic": "numbers", "int64": "integers", "str": "strings"}
"""What errors call each kind of ids."""


class Origin:
    """Stands for the serial numbers of an index. Snapshots have the same origin if equal serials stand for the same row.

    A filter keeps the origin. So it is refused by every index but its own, and does not keep an index alive.
    """


@dataclass(frozen=True)
class Source:
    """The folder that a snapshot was loaded from.

    Parameters
    ----------
    folder : Path
        The folder.
    digest : str
        The digest of its manifest.
    load : callable
        Loads the snapshot again from the folder, or raises a `FileFormatError` if the digest is another.
    """

    folder: Path
    digest: str
    load: Callable[[Path, str], Snapshot]


def _new_state() -> str:
    return os.urandom(8).hex()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All rows of an index at one moment.

    The position of a row is its number among the rows of all parts, with removed rows. It has no meaning outside the snapshot.

    Parameters
    ----------
    parts : tuple of Part, default=()
        The parts, in order of insertion.
    id_kind : {"automatic", "int64", "str"}, default=None
        The kind of the ids. None before the first rows.
    next_number : int, default=0
        The id of the next row, if ids are automatic numbers.
    next_serial : int, default=0
        The serial of the next row.
    state : str
        Names the rows and their order. By default a new name.
    origin : Origin
        Stands for the serials. By default a new one.
    source : Source, default=None
        Where the snapshot was loaded from. None if it was made in memory.
    order : CodeOrder
        Decides how the codes of new parts are sorted. By default they are not.
    vectors : {"int8", "float16"}, default=None
        The type of the vectors that every row has next to its code. None if rows have none.
    """

    parts: tuple[Part, ...] = ()
    id_kind: IdKind | None = None
    next_number: int = 0
    next_serial: int = 0
    state: str = field(default_factory=_new_state)
    origin: Origin = field(default_factory=Origin)
    source: Source | None = None
    order: CodeOrder = field(default_factory=CodeOrder)
    vectors: VectorKind | None = None
    first_positions: tuple[int, ...] = field(init=False)
    """The position of the first row of every part, and one past the position of the last row."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_positions", (0, *accumulate(part.n_rows for part in self.parts)))

    @property
    def n_live(self) -> int:
        """The number of rows that were not removed."""
        return sum(part.n_live for part in self.parts)

    @property
    def nbytes_of_vectors(self) -> int:
        """The number of bytes of the vectors of all rows."""
        kept = (segment.vectors for part in self.parts for segment in part.segments)
        return sum(vectors.nbytes for vectors in kept if vectors is not None)

    # reading -------------------------------------------------------------------------------------------------------------

    def described(self, codec: AnyCodec) -> dict[str, Any]:
        """Return what `CodeIndex.info` says of the rows, whose codes are of a codec."""
        segments = [
            {
                "rows": part.n_rows,
                "removed": part.n_rows - part.n_live,
                "grouped": part.segment.grouped,
                "distinct_codes": part.segment.n_distinct,
                "sorted": part.segment.sorted,
            }
            for part in self.parts
        ]
        return {
            "rows": self.n_live,
            "removed": self.first_positions[-1] - self.n_live,
            "bytes_per_code": codec.n_codebooks,
            "id_kind": self.id_kind,
            **({} if self.vectors is None else {"vectors": self.vectors}),
            "bytes": {
                "codes": sum(segment.nbytes for part in self.parts for segment in part.segments),
                **({} if self.vectors is None else {"vectors": self.nbytes_of_vectors}),
                "ids": sum(part.ids.nbytes for part in self.parts),
                "removals": sum(part.live.nbytes for part in self.parts if part.live is not None),
                "codec": codec.nbytes,
            },
            "segments": segments,
        }

    def check_files(self) -> None:
        """Check all arrays that came from files."""
        for part in self.parts:
            for stored in part.stored():
                stored.check_once()

    def check_unchanged(self) -> None:
        """Check that no mapped file of codes was changed since it was checked. A search does this after its scan."""
        for part in self.parts:
            for segment in part.segments:
                segment.check_unchanged()

    def parts_with_positions(self) -> Iterator[tuple[int, Part]]:
        """Return the position of every part's first row, and the part."""
        return zip(self.first_positions, self.parts, strict=False)

    @cached_property
    def views(self) -> list[View]:
        """What a search among all live rows reads. It is prepared at the first search."""
        return [layer.view(first) for first, part in self.parts_with_positions() for layer in part.layers]

    def locate(self, ids: Ids) -> Positions:
        """Return the positions (n,) int64 of live rows by their ids.

        Raises
        ------
        InputError
            If an id is not in the index.
        """
        positions = self.find(ids)
        missing = np.flatnonzero(positions < 0)
        if len(missing):
            raise InputError(f"these ids are not in the index: {name_some(ids.take(missing))}")
        return positions

    def check_room(self, n: int) -> None:
        """Raise an `InputError` if the index would have more than `MAX_ROWS` rows with n more. Removed rows count, too."""
        if (there := self.first_positions[-1]) + n > MAX_ROWS:
            raise InputError(f"an index holds at most {MAX_ROWS} rows, got {n} in addition to {there}")

    def check_new(self, ids: Ids | None) -> IdKind:
        """Check that rows with these ids can be added.

        Parameters
        ----------
        ids : Ids or None
            The ids. None stands for automatic numbers.

        Returns
        -------
        {"automatic", "int64", "str"}
            The kind of ids that the index then has.

        Raises
        ------
        InputError
            If the index has ids of another kind, or one of these.
        """
        if ids is None:
            if self.id_kind not in (None, "automatic"):
                raise InputError(f"the rows of this index have {_KIND_NAMES[self.id_kind]} as ids: give ids")
            return "automatic"
        if self.id_kind == "automatic":
            raise InputError("this index numbers its rows itself: add rows without ids")
        taken = np.flatnonzero(self.find(ids) >= 0)
        if len(taken):
            raise InputError(f"these ids are in the index already: {name_some(ids.take(taken))}")
        return "str" if isinstance(ids, StringIds) else "int64"

    def ids_at(self, positions: Positions) -> NDArray[Any]:
        """Return the ids of rows, in the shape of `positions`."""
        if len(self.parts) == 1:
            return self.parts[0].ids.take(positions)
        ids = np.empty(positions.shape, dtype=object if self.id_kind == "str" else np.int64)
        for part, here, rows in self._split(positions):
            ids[here] = part.ids.take(rows)
        return ids

    def live_ids(self) -> NDArray[Any]:
        """Return the ids of all live rows, in order of insertion."""
        ids = [part.ids.take(part.live_rows()) for part in self.parts]
        return np.concatenate(ids) if ids else self.ids_at(np.empty(0, dtype=np.int64))

    def codes_at(self, positions: Positions, n_codebooks: int) -> Codes:
        """Return the codes (n, M) uint8 of rows by their positions (n,)."""
        codes = np.empty((len(positions), n_codebooks), dtype=np.uint8)
        for part, here, rows in self._split(positions):
            codes[here] = part.codes(rows)
        return codes

    def exact_scores(
        self, positions: Positions, queries: ExactQueries, n_threads: int
    ) -> tuple[Float32, Float32]:
        """Return the exact scores and the cosines, both (q, n), of rows by their positions (q, n), for each query its own."""
        scores, cosines = np.empty((2, *positions.shape), dtype=np.float32)
        for part, here, rows in self._split(positions):
            asking = np.nonzero(here)[0]
            own = np.empty((2, len(rows)), dtype=np.float32)
            for segment in part.segments:  # a later one has newer vectors of some rows
                places = segment.places(rows, missing=-1)
                found = np.flatnonzero(places >= 0)
                if len(found):
                    assert segment.vectors is not None
                    own[:, found] = segment.vectors.products(places[found], asking[found], queries, n_threads)
            scores[here], cosines[here] = own
        return scores, cosines

    def column_types(self) -> dict[str, Any]:
        """Return the name and the pyarrow type of every column. A part in which all values are null says nothing of the type."""
        types: dict[str, Any] = {}
        for part in self.parts:
            for column in () if part.columns is None else part.columns.table().schema:
                if types.get(column.name) in (None, "null"):
                    types[column.name] = column.type
        return types

    def columns_at(self, positions: Positions, names: Sequence[str]) -> Columns | None:
        """Return some columns of rows by their positions (n,); None if no row has any."""
        order = np.argsort(positions, kind="stable")  # the rows of the first part come first
        pieces = []
        for part, _, rows in self._split(positions[order]):
            taken = None if part.columns is None else part.columns.take(rows, names)
            columns = Columns.of_table(taken) if taken is not None and taken.num_columns else None
            pieces.append((columns, len(rows), None))
        joined = Columns.join(pieces)
        return None if joined is None else Columns.of_table(joined.take(np.argsort(order)))

    def rows_at(self, positions: Positions) -> Iterator[tuple[Part, Positions]]:
        """Return every part, and its own rows among some positions (n,)."""
        return ((part, rows) for part, _, rows in self._split(positions))

    def _split(self, positions: Positions) -> Iterator[tuple[Part, NDArray[np.bool_], Positions]]:
        """Return every part, which of some positions lie in it (like `positions`), and their row numbers in the part."""
        for first, part in self.parts_with_positions():
            here = (first <= positions) & (positions < first + part.n_rows)
            yield part, here, positions[here] - first

    def find(self, ids: Ids) -> Positions:
        """Return the positions (n,) int64 of live rows by their ids, and -1 where there is none."""
        positions = np.full(len(ids), -1, dtype=np.int64)
        if len(ids) == 0 or self.id_kind is None:
            return positions
        if isinstance(ids, StringIds) != (self.id_kind == "str"):
            given = "strings" if isinstance(ids, StringIds) else "integers"
            raise InputError(f"the rows of this index have {_KIND_NAMES[self.id_kind]} as ids, got {given}")
        for first, part in self.parts_with_positions():
            rows = part.ids.find(ids)
            found = np.flatnonzero(rows >= 0)
            found = found[part.are_live(rows[found])]
            positions[found] = rows[found] + first
        return positions

    # writing -------------------------------------------------------------------------------------------------------------

    def with_rows(self, segment: Segment, ids: Ids | None, columns: Columns | None = None) -> Snapshot:
        """Return a snapshot with more rows at the end.

        Parameters
        ----------
        segment : Segment
            The codes of the rows.
        ids : Ids or None
            The ids of the rows. None stands for the next automatic numbers.
        columns : Columns, default=None
            Other columns of the rows.
        """
        self.check_room(segment.n_rows)
        kind = self.check_new(ids)
        next_number = self.next_number
        if ids is None:
            ids = NumberRange(next_number, segment.n_rows)
            next_number += segment.n_rows
        serials = Serials.consecutive(self.next_serial, segment.n_rows)
        added = Part(segment, ids, serials, columns=columns)
        return self._changed(
            parts=merge_similar((*self.parts, added), self.order),
            id_kind=kind,
            next_number=next_number,
            next_serial=self.next_serial + segment.n_rows,
            state=_new_state(),
        )

    def without_rows(self, ids: Ids) -> Snapshot:
        """Return a snapshot without some rows, by their distinct ids."""
        positions = self.locate(ids)
        if len(positions) == 0:
            return self
        left = [part.without(rows) for part, rows in self.rows_at(positions)]
        return self._changed(parts=merge_similar(left, self.order), state=_new_state())

    def with_codes(self, ids: Ids, codes: CodedRows | Codes, columns: Columns | None = None) -> Snapshot:
        """Return a snapshot in which some rows, by their distinct ids, have other codes (n, M). All rows keep their places.

        If columns are given, the rows also have other values of these. Otherwise they keep theirs.
        """
        updated = []
        for part, here, rows in self._split(self.locate(ids)):
            changed = part.with_codes(rows, codes[here], self.order)
            if columns is not None:
                changed = changed.with_columns(rows, columns.take(np.flatnonzero(here)))
            updated.append(changed)
        return self._changed(parts=tuple(updated))

    def with_upserted(self, ids: Ids, codes: CodedRows, columns: Columns | None = None) -> Snapshot:
        """Return a snapshot with codes (n, M) for distinct ids. Rows that are there keep their places, the others are new."""
        there = self.find(ids) >= 0
        old, new = (None if columns is None else columns.kept(mask) for mask in (there, ~there))
        snapshot = self
        if there.any():
            snapshot = snapshot.with_codes(join_ids([(ids, there)]), codes[there], old)
        if not there.all():
            segment = Segment.of_codes(codes[~there], order=self.order)
            snapshot = snapshot.with_rows(segment, join_ids([(ids, ~there)]), new)
        return snapshot

    def detached(self, origin: Origin | None = None) -> Snapshot:
        """Return a snapshot of the same rows for another index, whose later rows have serials of its own."""
        return replace(self, origin=origin or Origin())

    def reordered(self, order: CodeOrder) -> Snapshot:
        """Return a snapshot of the same rows, whose new parts are sorted as another codec wants it."""
        return replace(self, order=order)

    def compacted(self) -> Snapshot:
        """Return a snapshot with all live rows in one part."""
        if (
            len(self.parts) <= 1
            and not any(part.updates for part in self.parts)
            and self.n_live == self.first_positions[-1]
        ):
            return self
        return self._changed(parts=(merge_parts(self.parts, self.order),))

    def _changed(self, **fields: Any) -> Snapshot:
        return replace(self, source=None, **fields)

    # pickling ------------------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone. What searches prepared is prepared anew in a copy."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle a snapshot as the place that it was loaded from, or with all its arrays."""
        if self.source is None:
            return super().__reduce_ex__(protocol)
        return _open_again, (self.source, self.state, self.origin)


def _open_again(source: Source, state: str, origin: Origin) -> Snapshot:
    return replace(source.load(source.folder, source.digest), state=state, origin=origin)
