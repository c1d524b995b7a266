"""Items to codes and queries to answers: the changes and searches of every index, wherever its rows are kept.

`CodeIndex`, `ShardedIndex` and `Client` inherit these methods. Each of them implements only the private ones below them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

from supquant.arrays import Array, ArrayLike, Float32, RowNumbers
from supquant.index.unknown_labels import UnknownMode
from supquant.inputs.parameters import check_integer

__all__ = ["Change", "SearchOptions", "SearchableIndex"]

Change = Literal["add", "update", "upsert"]


@dataclass(eq=False, slots=True)  # not frozen, because that takes longer to make
class SearchOptions:
    """The options of a search. `SearchableIndex.search` describes each of them."""

    ranking: str | None = None
    novelty: ArrayLike | None = None
    where: object = None
    state: str | None = None
    n_jobs: int | None = None
    refine: object = None


class SearchableIndex(ABC):
    """An index of codes: it encodes items, keeps their codes, and searches them."""

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
        refine: object = None,
    ) -> tuple[Float32, Array]:
        """Find the k best rows for every query, exactly.

        Parameters
        ----------
        Q : array (q, p), or one query (p,)
            The queries.
        k : int, default=10
            The number of rows to find.
        ranking : str, default=None
            One of the codec's `rankings`. None selects the first of them.
        novelty : float or array (q,), default=None
            The probability that a query belongs to no known class: 0 compares only labels, 1 compares only positions. None lets
            the codec predict it, or takes 0 if all items of the index have labels.
        where : ids, filter, mask (n,) of bool, or condition, default=None
            Search only among these rows. A filter is what the method `filter` returned. A mask has an entry for every row, in
            the order of `ids`. A condition is text in the SQL of DuckDB, such as ``"price < 10 and brand = 'x'"``, or an
            expression of pyarrow. It uses columns of the index.
        state : str, default=None
            The `state` of the index that a mask was made for. If rows were added or removed since, the search is refused. None
            compares only the length of the mask with the number of rows.
        n_jobs : int, default=None
            The number of threads. None uses all cores. The answer does not depend on it.
        refine : int, source, or (source, int), default=None
            How many of the first rows are ordered again by their vectors; at least k are. The vectors are those that the index
            keeps (`CodeIndex(..., vectors="int8")`), or rows of a source: an array, a memory map, or what
            `supquant.sources.open_vectors` returns, of which 100 rows are read if no number is given. The row of an item is the
            one with its id, or the one that its id numbers if the source has no ids. Scores are computed from the vectors then,
            as those of codes are from codes; of probabilities in the same fifth, the greater cosine comes first, and all of them
            have their mean as score. With ``ranking="position"``, rows are in the order of their cosines.

        Returns
        -------
        scores : ndarray (q, k') float32
            The best score comes first. Distances ascend. Scores for which greater is better descend. k' is k, or the number of
            rows if that is smaller.
        ids : ndarray (q, k')
            int64, or objects that are str. Rows of equal scores come in order of insertion. For one query (p,), both have one
            dimension.
        """
        return self._search(Q, k, SearchOptions(ranking, novelty, where, state, n_jobs, refine))

    def _search(self, Q: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        k = check_integer(k, "k", 1)
        if isinstance(Q, np.ndarray) and Q.ndim == 1:
            scores, ids = self._find_best(Q[None], k, options)
            return scores[0], ids[0]
        return self._find_best(Q, k, options)

    def search_tables(
        self,
        tables: ArrayLike,
        k: int = 10,
        *,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[Float32, Array]:
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
        return self._find_lowest_sums(tables, k, SearchOptions(where=where, state=state, n_jobs=n_jobs))

    def range_search(
        self,
        Q: ArrayLike,
        threshold: float,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> tuple[RowNumbers, Float32, Array]:
        """Find all rows whose score is as good as `threshold` or better.

        Parameters
        ----------
        Q : array (q, p)
            The queries.
        threshold : float
            Under a ranking with calibrated scores, such as those of a `SupervisedQuantizer`, the lowest probability. Under
            ``"euclidean"``, the greatest distance. It is compared in float32.
        ranking, novelty, where, state, n_jobs
            As in `search`.

        Returns
        -------
        limits : ndarray (q + 1,) int64
            The answers of query i are those from ``limits[i]`` up to ``limits[i + 1]``, in the order of `search`.
        scores : ndarray (limits[-1],) float32
        ids : ndarray (limits[-1],)
        """
        return self._find_in_range(Q, threshold, SearchOptions(ranking, novelty, where, state, n_jobs))

    def rank(
        self,
        Q: ArrayLike,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[Float32, Array]]:
        """Rank all rows for every query.

        All blocks of the answer of a `CodeIndex` see it as it was when `rank` was called. A `ShardedIndex` and a service answer
        each block as they are then. A service refuses to rank more rows than its limit on k.

        Parameters
        ----------
        Q, ranking, novelty, where, state, n_jobs
            As in `search`.

        Returns
        -------
        iterator of (scores, ids)
            Both (b, n), for the next b queries. Memory does not grow with the number of queries.
        """
        return self._rank_rows(Q, SearchOptions(ranking, novelty, where, state, n_jobs))

    # changes -------------------------------------------------------------------------------------------------------------

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        *,
        metadata: object = None,
        unknown_labels: UnknownMode = "error",
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items and append them.

        Parameters
        ----------
        X : array (n, p), or VectorSource
            The items. A source is read block by block, and its labels, ids and metadata are taken if none are given. A service
            takes an array.
        y : labels of the items, default=None
            Known labels, if the codec has learned from labels.
        ids : sequence or array (n,) of int or str, default=None
            The ids of the rows. None numbers the rows 0, 1, 2, ..., and never uses a number again. The first rows decide whether
            the index has automatic numbers, integers or strings.
        metadata : table or dict of columns, default=None
            Other columns of the rows, which are kept with the codes: a DataFrame, a `pyarrow.Table`, or lists by their names. New
            rows are null in columns of the index that are not given, and a warning names these columns. None gives no warning.
        unknown_labels : {"error", "ignore", "extend"}, default="error"
            What to do if the model does not know some of the labels. ``"error"`` refuses them. ``"ignore"`` takes their rows as
            rows without a label. ``"extend"`` adds them to the model of the index, as `SupervisedQuantizer.extend` does from
            these rows, so that a search also finds the items by the new labels. Model and rows change together: a search and a
            saved index have both or nothing. It needs a model of `SupervisedQuantizer` with one label per row.
        n_jobs : int, default=None
            The number of threads. None uses all cores.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If an id is already in the index, is given twice, or is of another kind, or if labels are unknown and refused. Then
            the index is unchanged.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import CodeIndex, SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> known = np.flatnonzero(y < 9)[:500]
        >>> sq = SupervisedQuantizer(2, n_codewords=32, random_state=0).fit(X[known], y[known])
        >>> index = CodeIndex(sq).add(X[1000:1010], y[1000:1010], unknown_labels="extend")
        >>> index.codec.classes
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        return self._change_items("add", ids, X, y, metadata, unknown_labels, n_jobs)

    def update(
        self,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metadata: object = None,
        unknown_labels: UnknownMode = "error",
        n_jobs: int | None = None,
    ) -> Self:
        """Encode new items for some rows. Each row keeps its id and its place. A search sees all of the change or nothing.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.
        X : array (n, p)
            The new items.
        metadata : table or dict of columns, default=None
            New values of these columns. Other columns, or all if None, keep their values.
        y, unknown_labels, n_jobs
            As in `add`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As in `remove`, or if labels are unknown and refused.
        """
        return self._change_items("update", ids, X, y, metadata, unknown_labels, n_jobs)

    def upsert(
        self,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metadata: object = None,
        unknown_labels: UnknownMode = "error",
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items. Those whose ids are in the index are updated, the others are added. A search sees all of it or nothing.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.
        X : array (n, p)
            The items.
        y, metadata, unknown_labels, n_jobs
            As in `add` and `update`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If an id is given twice, or is of another kind than those of the index, or if labels are unknown and refused. Then
            the index is unchanged.

        Examples
        --------
        >>> import numpy as np
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.array([[[0.0], [1.0]]], dtype=np.float32)))
        >>> index.upsert(["a", "b"], [[0], [0]]).upsert(["b", "c"], [[1], [1]]).codes(["a", "b", "c"]).tolist()
        [[0], [1], [1]]
        """
        return self._change_items("upsert", ids, X, y, metadata, unknown_labels, n_jobs)

    # what an index implements --------------------------------------------------------------------------------------------

    @abstractmethod
    def _find_best(self, Q: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]: ...

    @abstractmethod
    def _find_lowest_sums(
        self, tables: ArrayLike, k: int, options: SearchOptions
    ) -> tuple[Float32, Array]: ...

    @abstractmethod
    def _find_in_range(
        self, Q: ArrayLike, threshold: float, options: SearchOptions
    ) -> tuple[RowNumbers, Float32, Array]: ...

    @abstractmethod
    def _rank_rows(self, Q: ArrayLike, options: SearchOptions) -> Iterator[tuple[Float32, Array]]: ...

    @abstractmethod
    def _change_items(
        self,
        change: Change,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike,
        metadata: object,
        unknown_labels: UnknownMode,
        n_jobs: int | None,
    ) -> Self: ...
