"""Codes to answers: everything that an index does without changing."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes
from supquant.codec import AnyCodec, SemanticCodec
from supquant.errors import InputError
from supquant.index.files import StoredCodec
from supquant.index.filters import Filter, choose, views_of
from supquant.index.ids import read_ids
from supquant.index.searching import Search
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.topk import Positions, Sums
from supquant.parameters import check_integer, resolve_jobs

__all__ = ["IndexReader", "check_state"]


class IndexReader:
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

    def __contains__(self, id_: object) -> bool:
        """Return whether a row has this id."""
        try:
            return bool(self._snapshot.find(read_ids([id_]))[0] >= 0)
        except InputError:  # ids of this kind are not in the index
            return False

    def contains(self, ids: ArrayLike) -> NDArray[np.bool_]:
        """Return for each of some ids (n,) whether a row has it: (n,) bool."""
        return self._snapshot.find(read_ids(ids)) >= 0

    @property
    def ids(self) -> NDArray[Any]:
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
        snapshot = self._snapshot
        return snapshot.codes_at(snapshot.locate(read_ids(ids)), self.codec.n_codebooks)

    def reconstruct(self, ids: ArrayLike) -> NDArray[np.float32]:
        """Return the vectors that the codes of rows stand for.

        Parameters and errors are those of `codes`.

        Returns
        -------
        ndarray (n, r) float32
        """
        return self.codec.decode(self.codes(ids))

    # searches ------------------------------------------------------------------------------------------------------------

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Sums, NDArray[Any]]:
        """Find the k best rows for every query, exactly.

        Parameters
        ----------
        Q : array (q, p), or one query (p,)
            The queries.
        k : int, default=10
            The number of rows to find.
        ranking : str, default=None
            One of the codec's `rankings`. None stands for the first of them.
        novelty : float or array (q,), default=None
            The probability that a query belongs to no known class: 0 compares only labels, 1 compares only positions. None lets
            the codec predict it, or takes 0 if all items of the index have labels.
        where : ids, Filter, mask (n,) of bool, or condition, default=None
            Search only among these rows. A mask has an entry for every row, in the order of `ids`. A condition is text in the
            SQL of DuckDB, such as ``"price < 10 and brand = 'x'"``, or an expression of pyarrow. It uses columns of the index.
        state : str, default=None
            The `state` of the index that a mask was made for. If rows were added or removed since, the search is refused. None
            compares only the length of the mask with the number of rows.
        n_jobs : int, default=None
            The number of threads. None stands for all cores. The answer does not depend on it.

        Returns
        -------
        scores : ndarray (q, k') float32
            The best score comes first. Distances ascend. Scores for which greater is better descend. k' is k, or the number of
            rows if that is smaller.
        ids : ndarray (q, k')
            int64, or objects that are str. Rows of equal scores come in order of insertion. For one query (p,), both have one
            dimension.
        """
        k = check_integer(k, "k", 1)
        if isinstance(Q, np.ndarray) and Q.ndim == 1:
            scores, ids = self._start_search(where, state, n_jobs, novelty).find_best(Q[None], k, ranking)
            return scores[0], ids[0]
        return self._start_search(where, state, n_jobs, novelty).find_best(Q, k, ranking)

    def search_tables(
        self,
        tables: ArrayLike,
        k: int = 10,
        *,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Sums, NDArray[Any]]:
        """Find the k rows with the lowest sums of table entries.

        Parameters
        ----------
        tables : array (q, M, K), or QueryTables
            Look-up tables, as the codec's `query_tables` makes them.
        k, where, state, n_jobs
            As in `search`.

        Returns
        -------
        sums : ndarray (q, k') float32
            In ascending order. Entries are added in float32, in the order of the codebooks.
        ids : ndarray (q, k')
            As in `search`.
        """
        k = check_integer(k, "k", 1)
        return self._start_search(where, state, n_jobs).find_lowest_sums(tables, k)

    def range_search(
        self,
        Q: ArrayLike,
        radius: float,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Positions, Sums, NDArray[Any]]:
        """Find all rows whose score is as good as `radius` or better.

        Parameters
        ----------
        Q : array (q, p)
            The queries.
        radius : float
            The greatest distance, or the lowest score if greater scores are better. It is compared in float32.
        ranking, novelty, where, state, n_jobs
            As in `search`.

        Returns
        -------
        limits : ndarray (q + 1,) int64
            The answers of query i are those from ``limits[i]`` up to ``limits[i + 1]``, in the order of `search`.
        scores : ndarray (limits[-1],) float32
        ids : ndarray (limits[-1],)
        """
        return self._start_search(where, state, n_jobs, novelty).find_in_range(Q, radius, ranking)

    def rank(
        self,
        Q: ArrayLike,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[Sums, NDArray[Any]]]:
        """Rank all rows for every query.

        All blocks of the answer see the index as it was when `rank` was called.

        Parameters
        ----------
        Q, ranking, novelty, where, state, n_jobs
            As in `search`.

        Returns
        -------
        iterator of (scores, ids)
            Both (b, n), for the next b queries. Memory does not grow with the number of queries.
        """
        return self._start_search(where, state, n_jobs, novelty).rank_rows(Q, ranking)

    def filter(self, ids_or_mask: ArrayLike, *, state: str | None = None) -> Filter:
        """Prepare searches among some of the rows.

        Parameters
        ----------
        ids_or_mask : ids, mask (n,) of bool, or condition
            The rows, as `where` in `search`.
        state : str, default=None
            As in `search`.

        Returns
        -------
        Filter
            An argument `where` of the searches. It stands for the same rows for ever, however the index changes.

        Raises
        ------
        InputError
            If an id is not in the index, a mask was made for other rows, or a condition cannot be evaluated.
        """
        snapshot = self._snapshot
        check_state(snapshot.state, state)
        return Filter(snapshot.origin, choose(snapshot, ids_or_mask))

    def _start_search(
        self, where: object, state: str | None, n_jobs: int | None, novelty: ArrayLike | None = None
    ) -> Search:
        snapshot = self._snapshot
        check_state(snapshot.state, state)
        all_labelled = isinstance(self.codec, SemanticCodec) and not self._any_unlabelled(snapshot)
        if where is None:
            views = snapshot.views
        elif not isinstance(where, Filter):
            views = views_of(snapshot, choose(snapshot, where))
        elif where.belongs_to(snapshot):
            views = where.views(snapshot)
        else:
            raise InputError(
                "the filter was made by another index, or before this one was copied or read anew: make one with the filter "
                "method of this index"
            )
        return Search(self.codec, snapshot, views, resolve_jobs(n_jobs), novelty, all_labelled)

    def _any_unlabelled(self, snapshot: Snapshot) -> bool:
        """Return whether any item was added without labels. A removed item counts until a merge drops it."""
        codec = self.codec
        assert isinstance(codec, SemanticCodec)
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
