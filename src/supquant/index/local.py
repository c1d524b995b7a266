"""Items to codes and queries to answers in this process: what `CodeIndex` and `ShardedIndex` have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Flags, Float32, RowNumbers
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.columns import import_pyarrow
from supquant.index.ids import Ids, read_ids
from supquant.index.searchable import Change, SearchableIndex, SearchOptions
from supquant.index.searching import Search
from supquant.index.unknown_labels import UnknownMode, coded_rows, read_item_labels
from supquant.index.vectors import CodedRows, VectorKind
from supquant.sources import VectorSource

__all__ = ["CodecStep", "LocalIndex", "answer_table", "check_state"]


@dataclass(frozen=True, eq=False)
class CodecStep:
    """The codec of an index for which items were encoded, and the one that the index has with them."""

    before: AnyCodec
    after: AnyCodec


class LocalIndex(SearchableIndex):
    """An index whose codec is in this process: items are encoded here, and the tables of queries are made here."""

    _reading: AbstractContextManager[object] = nullcontext()
    """Held while a search reads rows."""

    @property
    @abstractmethod
    def codec(self) -> AnyCodec:
        """The codec, which encodes items and makes the tables of queries."""

    @property
    @abstractmethod
    def vectors(self) -> VectorKind | None:
        """The type of the vectors that are kept with the codes; None if there are none."""

    @abstractmethod
    def _start_search(self, options: SearchOptions) -> Search:
        """Return a search of the present rows."""

    @abstractmethod
    def _table(self) -> Any:
        """Return the columns of the present rows, as a snapshot has them."""

    @abstractmethod
    def _check_change(self, change: Change, ids: Ids | None) -> None:
        """Check that rows with these ids can be added, updated or upserted."""

    @abstractmethod
    def _change_rows(
        self,
        change: Change,
        ids: Ids | None,
        codes: CodedRows,
        metadata: object,
        step: CodecStep | None,
        **place: int,
    ) -> bool:
        """Add, update or upsert n coded rows under n distinct ids. None numbers new rows automatically.

        With a `step`, the index gets the codec `after` in the same change. If it no longer has the codec `before`, nothing
        changes, and False is returned.
        """

    # rows ----------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def contains(self, ids: ArrayLike) -> Flags:
        """Return for each of some ids (n,) whether a row has it: (n,) bool."""

    def __contains__(self, id_: object) -> bool:
        """Return whether a row has this id."""
        try:
            return bool(self.contains([id_])[0])
        except InputError:  # ids of this kind are not in the index
            return False

    @abstractmethod
    def codes(self, ids: ArrayLike) -> Codes:
        """Return the codes of rows.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.

        Returns
        -------
        ndarray (n, M) uint8

        Raises
        ------
        InputError
            If an id is not in the index.
        """

    def reconstruct(self, ids: ArrayLike) -> Float32:
        """Return the vectors that the codes of rows stand for.

        Parameters and errors are those of `codes`.

        Returns
        -------
        ndarray (n, r) float32
        """
        return self.codec.decode(self.codes(ids))

    def get(self, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the columns of rows.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.
        columns : sequence of str, default=None
            The names of the columns. None stands for all.

        Returns
        -------
        pyarrow.Table
            The column ``id``, and those that were asked for. ``.to_pandas()`` makes it a DataFrame.

        Raises
        ------
        InputError
            If an id or a column is not in the index.

        Examples
        --------
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32)))
        >>> _ = index.add_codes([[0], [1]], ["hat", "shoe"], metadata={"price": [5, 50]})
        >>> index.get(["shoe"]).to_pylist()
        [{'id': 'shoe', 'price': 50}]
        """
        with self._reading:
            table = self._table()
            positions = table.locate(read_ids(ids))  # first, because it refuses what are no ids
            return row_table({"id": np.asarray(ids)}, table, positions, columns)

    def _tabulate(self, scores: ArrayLike, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the answers of a search as one table, as `search_table` does.

        Parameters
        ----------
        scores, ids : array (q, k), or (k,) for one query
            What `search` returned.
        columns : sequence of str, default=None
            The columns to return. None stands for all that are kept with the codes.

        Returns
        -------
        pyarrow.Table

        Raises
        ------
        InputError
            If an id or a column is not in the index.
        """
        with self._reading:
            return answer_table(self._table(), np.asarray(scores), np.asarray(ids), columns)

    # searches ------------------------------------------------------------------------------------------------------------

    def _find_best(self, Q: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        with self._reading:
            return self._start_search(options).find_best(Q, k, options.ranking, options.refine)

    def _find_lowest_sums(self, tables: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        with self._reading:
            return self._start_search(options).find_lowest_sums(tables, k)

    def _find_in_range(
        self, Q: ArrayLike, threshold: float, options: SearchOptions
    ) -> tuple[RowNumbers, Float32, Array]:
        with self._reading:
            return self._start_search(options).find_in_range(Q, threshold, options.ranking)

    def _rank_rows(self, Q: ArrayLike, options: SearchOptions) -> Iterator[tuple[Float32, Array]]:
        with self._reading:
            return self._start_search(options).rank_rows(Q, options.ranking)

    # changes -------------------------------------------------------------------------------------------------------------

    def _change_items(
        self,
        change: Change,
        ids: ArrayLike,
        X: ArrayLike,
        y: Any,
        metadata: object,
        unknown_labels: UnknownMode,
        n_jobs: int | None,
        **place: int,
    ) -> Self:
        if change == "add" and isinstance(X, VectorSource):
            y, ids = X.labels if y is None else y, X.ids if ids is None else ids
            metadata = X.metadata if metadata is None else metadata
        read = _read_distinct(change, ids)
        self._check_change(change, read)  # before the long work of encoding
        if change == "add" and hasattr(X, "__len__"):
            self._check_room(len(X))
        while True:
            before = self.codec
            labels = read_item_labels(before, X, y, unknown_labels)
            by_blocks = change == "add" and isinstance(X, VectorSource)
            codes = labels.coded(X, n_jobs, by_blocks=by_blocks, kind=self.vectors)
            if self._put(change, read, codes, metadata, CodecStep(before, labels.codec), **place):
                return self  # otherwise another thread has extended the codec meanwhile

    def _check_room(self, n: int) -> None:
        """Check that the index can have n more rows. Shards check when they get theirs."""

    def _check_new(self, ids: ArrayLike | None = None) -> None:
        """Check that rows with these ids can be added, before the work of encoding them.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str, default=None
            As in `add`, which raises the same errors.
        """
        self._check_change("add", _read_distinct("add", ids))

    def add_codes(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        metadata: object = None,
        vectors: ArrayLike | None = None,
    ) -> Self:
        """Append rows that are already encoded.

        Parameters
        ----------
        codes : array (n, M) of int
            The codes.
        ids, metadata
            As in `add`, which has the same result and raises the same errors.
        vectors : array (n, p), default=None
            The items, which an index that keeps vectors needs. The label of an item is the one that its code has.
        """
        return self._change_codes("add", ids, codes, metadata, vectors=vectors)

    def update_codes(
        self,
        ids: ArrayLike,
        codes: ArrayLike,
        *,
        metadata: object = None,
        vectors: ArrayLike | None = None,
    ) -> Self:
        """Replace the codes of rows. Each row keeps its id and its place.

        Parameters
        ----------
        codes : array (n, M) of int
            The new codes.
        ids, metadata
            As in `update`, which has the same result and raises the same errors.
        vectors
            As in `add_codes`.
        """
        return self._change_codes("update", ids, codes, metadata, vectors=vectors)

    def upsert_codes(
        self,
        ids: ArrayLike,
        codes: ArrayLike,
        *,
        metadata: object = None,
        vectors: ArrayLike | None = None,
    ) -> Self:
        """Update the codes of rows whose ids are in the index, and append the others.

        Parameters
        ----------
        codes : array (n, M) of int
            The codes.
        ids, metadata
            As in `upsert`, which has the same result and raises the same errors.
        vectors
            As in `add_codes`.
        """
        return self._change_codes("upsert", ids, codes, metadata, vectors=vectors)

    def _change_codes(
        self,
        change: Change,
        ids: ArrayLike,
        codes: ArrayLike,
        metadata: object,
        step: CodecStep | None = None,
        *,
        vectors: Any = None,
        **place: int,
    ) -> Self:
        read = _read_distinct(change, ids)
        coded = coded_rows(self.codec, self.codec.check_codes(codes), vectors, self.vectors)
        self._put(change, read, coded, metadata, step, **place)
        return self

    def _put(
        self,
        change: Change,
        ids: Ids | None,
        codes: CodedRows,
        metadata: object,
        step: CodecStep | None,
        **place: int,
    ) -> bool:
        if ids is not None and len(ids) != len(codes):
            raise InputError(f"expected one id for every row, got {len(ids)} ids for {len(codes)} rows")
        return self._change_rows(change, ids, codes, metadata, step, **place)


def _read_distinct(change: Change, ids: ArrayLike) -> Ids | None:
    return None if change == "add" and ids is None else read_ids(ids, distinct=True)


def check_state(present: str, state: str | None) -> None:
    """Raise an `InputError` if rows have another state than the one that is given."""
    if state is not None and state != present:
        raise InputError(
            "rows were added or removed since the mask was made, or it was made for another index: "
            "read the state, make the mask again, or choose rows by their ids"
        )


def answer_table(snapshot: Any, scores: Any, ids: Any, columns: Sequence[str] | None) -> Any:
    """Return a table of the answers (q, k) or (k,) of a search."""
    scores, ids = np.atleast_2d(scores), np.atleast_2d(ids)
    n_queries, n_answers = ids.shape
    fixed = {
        "query": np.repeat(np.arange(n_queries), n_answers),
        "rank": np.tile(np.arange(1, n_answers + 1), n_queries),
        "id": ids.ravel(),
        "score": scores.ravel(),
    }
    return row_table(fixed, snapshot, snapshot.locate(read_ids(ids.ravel())), columns)


def row_table(fixed: dict[str, Any], snapshot: Any, positions: Any, columns: Sequence[str] | None) -> Any:
    """Return a table of fixed columns, and the columns of rows by their positions."""
    pa = import_pyarrow("tables of answers")
    known = snapshot.column_types()
    wanted = list(known) if columns is None else list(columns)
    for name in wanted:
        if name not in known:
            raise InputError(f"the index has no column {name!r}: it has {', '.join(known) or 'none'}")
    table = pa.table(fixed)
    kept = snapshot.columns_at(positions, wanted) if wanted else None
    for name in wanted:
        values = pa.nulls(len(positions), known[name])
        if kept is not None and name in kept.table().column_names:
            values = kept.table()[name]
        table = table.append_column(name if name not in fixed else f"{name}_", values)
    return table
