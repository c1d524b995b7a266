"""Codes to answers: everything that an index does without changing, and answers as tables."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Array, ArrayLike, Codes
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.columns import import_pyarrow
from supquant.index.files import StoredCodec
from supquant.index.filters import Filter, choose, chosen_positions, views_of
from supquant.index.ids import read_ids
from supquant.index.local import LocalIndex
from supquant.index.searchable import SearchOptions
from supquant.index.searching import Search
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant.model.codec import SupervisedCodec

__all__ = ["IndexReader", "answer_table", "check_state", "row_table"]


class IndexReader(LocalIndex):
    """The part of `CodeIndex` that reads rows: searches, ids and codes.

    Every method reads the reference to the snapshot once. So it sees the index as it was at one moment, without a lock.

    Parameters
    ----------
    codec : StoredCodec
        The codec of the index.
    snapshot : Snapshot
        The rows of the index. A writer replaces it.
    """

    def __init__(self, codec: StoredCodec, snapshot: Snapshot) -> None:
        self._codec = codec
        self._snapshot = snapshot
        self._has_unlabelled: weakref.WeakKeyDictionary[Segment, bool] = weakref.WeakKeyDictionary()

    # rows ----------------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> AnyCodec:
        """The codec, which encodes items and makes the tables of queries."""
        return self._codec.codec

    def __len__(self) -> int:
        return self._snapshot.n_live

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return for each of some ids (n,) whether a row has it: (n,) bool."""
        return self._snapshot.find(read_ids(ids)) >= 0

    @property
    def ids(self) -> Array:
        """The ids of all rows, in order of insertion: int64, or objects that are str."""
        return self._snapshot.live_ids()

    @property
    def state(self) -> str:
        """Names the present rows and their order. Every `add` and `remove` changes it, an `update` does not.

        A mask is by position, so it is right only for the rows that it was made for. Read the state first, make the mask, and
        give the state to the search: if rows were added or removed meanwhile, the search is refused.

        Examples
        --------
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32))).add_codes(np.zeros((4, 1), int))
        >>> state = index.state
        >>> mask = index.ids % 2 == 1
        >>> index.search([[0]], k=4, where=mask, state=state)[1]
        array([[1, 3]])
        """
        return self._snapshot.state

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, ids and removals, in memory or mapped from files, without the codec."""
        return sum(part.nbytes for part in self._snapshot.parts)

    def info(self) -> dict[str, Any]:
        """Describe the index.

        Returns
        -------
        dict
            - ``rows``: the number of rows
            - ``removed``: the number of removed rows that still take memory
            - ``bytes_per_code``: M
            - ``id_kind``: ``"automatic"``, ``"int64"``, ``"str"``, or None before the first rows
            - ``bytes``: the number of bytes of ``codes``, ``ids``, ``removals`` and ``codec``
            - ``instruction_set``: the one that the kernels use
            - ``segments``: for each segment the number of ``rows``, how many of them are ``removed``, whether equal codes are
              ``grouped``, the number of ``distinct_codes``, which is None if they are not grouped, and whether codes are
              ``sorted``

        Examples
        --------
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32))).add_codes(np.zeros((100, 1), int))
        >>> index.info()["segments"]
        [{'rows': 100, 'removed': 0, 'grouped': True, 'distinct_codes': 1, 'sorted': False}]
        """
        snapshot = self._snapshot
        segments = [
            {
                "rows": part.n_rows,
                "removed": part.n_rows - part.n_live,
                "grouped": part.segment.grouped,
                "distinct_codes": part.segment.n_distinct,
                "sorted": part.segment.sorted,
            }
            for part in snapshot.parts
        ]
        return {
            "rows": snapshot.n_live,
            "removed": snapshot.first_positions[-1] - snapshot.n_live,
            "bytes_per_code": self.codec.n_codebooks,
            "id_kind": snapshot.id_kind,
            "bytes": {
                "codes": sum(segment.nbytes for part in snapshot.parts for segment in part.segments),
                "ids": sum(part.ids.nbytes for part in snapshot.parts),
                "removals": sum(part.live.nbytes for part in snapshot.parts if part.live is not None),
                "codec": self.codec.nbytes,
            },
            "instruction_set": kernels.isa(),
            "segments": segments,
        }

    def codes(self, ids: ArrayLike) -> Codes:  # noqa: D102  # `LocalIndex` documents it
        snapshot = self._snapshot
        return snapshot.codes_at(snapshot.locate(read_ids(ids)), self.codec.n_codebooks)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are kept with the codes."""
        return list(self._snapshot.column_types())

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
        snapshot = self._snapshot
        positions = snapshot.locate(read_ids(ids))  # first, because it refuses what are no ids
        return row_table({"id": np.asarray(ids)}, snapshot, positions, columns)

    def search_table(
        self,
        Q: ArrayLike,
        k: int = 10,
        columns: Sequence[str] | None = None,
        **search: Any,
    ) -> Any:
        """Find the k best rows for every query, as `search` does, and return them as one table.

        Parameters
        ----------
        Q, k
            As in `search`.
        columns : sequence of str, default=None
            The columns to return. None stands for all that are kept with the codes.
        **search
            `ranking`, `novelty`, `where`, `state` and `n_jobs`, as in `search`.

        Returns
        -------
        pyarrow.Table
            A row for each answer, with the columns ``query`` (its number), ``rank`` (from 1), ``id``, ``score``, and those that
            were asked for. Answers to the first query come first. ``.to_pandas()`` makes it a DataFrame.

        Examples
        --------
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.array([[[0], [1]]], dtype=np.float32)))
        >>> _ = index.add_codes([[0], [1]], ["hat", "shoe"], metadata={"price": [5, 50]})
        >>> index.search_table([[1]], k=1).to_pylist()
        [{'query': 0, 'rank': 1, 'id': 'shoe', 'score': 0.0, 'price': 50}]
        """
        snapshot, options = self._snapshot, SearchOptions(**search)
        queries = Q[None] if isinstance(Q, np.ndarray) and Q.ndim == 1 else Q
        k = check_integer(k, "k", 1)
        scores, ids = self._start_search(options, snapshot).find_best(queries, k, options.ranking)
        return answer_table(snapshot, scores, ids, columns)

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
        return answer_table(self._snapshot, np.asarray(scores), np.asarray(ids), columns)

    def select(self, where: object, *, state: str | None = None) -> NDArray[Any]:
        """Return the ids of some rows, in order of insertion.

        Parameters
        ----------
        where : ids, mask (n,) of bool, or condition
            The rows, as in `search`.
        state : str, default=None
            As in `search`.

        Returns
        -------
        ndarray (m,)
            int64, or objects that are str.

        Raises
        ------
        InputError
            As in `filter`.

        Examples
        --------
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32)))
        >>> _ = index.add_codes([[0], [1]], ["hat", "shoe"], metadata={"price": [5, 50]})
        >>> index.select("price > 10")
        array(['shoe'], dtype=object)
        """
        snapshot = self._snapshot
        check_state(snapshot.state, state)
        return snapshot.ids_at(chosen_positions(snapshot, choose(snapshot, where)))

    def filter(self, where: ArrayLike, *, state: str | None = None) -> Filter:
        """Prepare searches among some of the rows.

        Parameters
        ----------
        where : ids, mask (n,) of bool, or condition
            The rows, as `where` in `search`.
        state : str, default=None
            As in `search`.

        Returns
        -------
        Filter
            An argument `where` of the searches. It always selects the same rows, even after the index changes.

        Raises
        ------
        InputError
            If an id is not in the index, a mask was made for other rows, or a condition cannot be evaluated.
        """
        snapshot = self._snapshot
        check_state(snapshot.state, state)
        return Filter(snapshot.origin, choose(snapshot, where))

    def _start_search(self, options: SearchOptions, snapshot: Snapshot | None = None) -> Search:
        snapshot, where = snapshot or self._snapshot, options.where
        if options.state is not None:
            check_state(snapshot.state, options.state)
        codec = self.codec
        all_labelled = isinstance(codec, SupervisedCodec) and not self._any_unlabelled(snapshot)
        if where is None:
            views = snapshot.views
        elif not isinstance(where, Filter):
            views = views_of(snapshot, choose(snapshot, where))
        elif where.belongs_to(snapshot):
            views = where.views(snapshot)
        else:
            raise InputError(
                "the filter was made by another index, or before this one was copied or reloaded: make one with the filter "
                "method of this index"
            )
        return Search(codec, snapshot, views, resolve_jobs(options.n_jobs), options.novelty, all_labelled)

    def _any_unlabelled(self, snapshot: Snapshot) -> bool:
        """Return whether any item was added without labels. A removed item counts until a merge drops it."""
        codec = self.codec
        assert isinstance(codec, SupervisedCodec)
        for part in snapshot.parts:
            for segment in part.segments:
                has = self._has_unlabelled.get(segment)
                if has is None:
                    has = self._has_unlabelled[segment] = codec.any_unlabelled(segment.codes())
                if has:
                    return True
        return False


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
    kept = snapshot.columns_at(positions) if wanted else None
    for name in wanted:
        values = pa.nulls(len(positions), known[name])
        if kept is not None and name in kept.table().column_names:
            values = kept.table()[name]
        table = table.append_column(name if name not in fixed else f"{name}_", values)
    return table
