"""Codes to answers: rows and answers as tables, with the columns that are kept beside codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike
from supquant.errors import InputError
from supquant.index.columns import import_pyarrow
from supquant.index.filters import choose, chosen_positions
from supquant.index.ids import read_ids
from supquant.index.reader import IndexReader, check_state

__all__ = ["TableReader", "answer_table", "row_table"]


class TableReader(IndexReader):
    """The part of `CodeIndex` that returns tables."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are kept beside codes."""
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
            The columns to return. None stands for all that are kept beside codes.
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
        pinned = self._pinned()
        return answer_table(pinned._snapshot, *pinned.search(Q, k, **search), columns)

    def _tabulate(self, scores: ArrayLike, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the answers of a search as one table, as `search_table` does.

        Parameters
        ----------
        scores, ids : array (q, k), or (k,) for one query
            What `search` returned.
        columns : sequence of str, default=None
            The columns to return. None stands for all that are kept beside codes.

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

    def _pinned(self) -> IndexReader:
        """Return a reader of the present rows, which no later change reaches."""
        pinned = IndexReader(self._codec, self._snapshot)
        pinned._has_unlabelled = self._has_unlabelled
        return pinned


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
