"""Items to codes: the changes that every index has, wherever its rows lie.

`CodeIndex`, `ShardedIndex` and `Client` inherit these methods. Each of them says only how the change is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from supquant.arrays import ArrayLike

__all__ = ["ChangeableIndex"]


class ChangeableIndex(ABC):
    """An index that encodes items and keeps their codes."""

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        *,
        metadata: object = None,
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
            Other columns of the rows, which are kept beside the codes: a DataFrame, a `pyarrow.Table`, or lists by their names.
        n_jobs : int, default=None
            The number of threads. None stands for all cores.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If an id is already in the index, comes twice, or is of another kind. Then the index is unchanged.
        """
        return self._add_items(X, y, ids, metadata, n_jobs)

    def update(
        self,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metadata: object = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items anew. Each row keeps its id and its place. A search sees all of the change or nothing.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.
        X : array (n, p)
            The new items.
        metadata : table or dict of columns, default=None
            New values of these columns. Other columns, or all if None, keep their values.
        y, n_jobs
            As in `add`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As in `remove`.
        """
        return self._update_items(ids, X, y, metadata, n_jobs)

    def upsert(
        self,
        ids: ArrayLike,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metadata: object = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items. Those whose ids are in the index are updated, the others are added. A search sees all of it or nothing.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.
        X : array (n, p)
            The items.
        y, metadata, n_jobs
            As in `add` and `update`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If an id comes twice, or is of another kind than those of the index. Then the index is unchanged.

        Examples
        --------
        >>> import numpy as np
        >>> from supquant import AdditiveCodec, CodeIndex
        >>> index = CodeIndex(AdditiveCodec(np.array([[[0.0], [1.0]]], dtype=np.float32)))
        >>> index.upsert(["a", "b"], [[0], [0]]).upsert(["b", "c"], [[1], [1]]).codes(["a", "b", "c"]).tolist()
        [[0], [1], [1]]
        """
        return self._upsert_items(ids, X, y, metadata, n_jobs)

    @abstractmethod
    def _add_items(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self: ...

    @abstractmethod
    def _update_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self: ...

    @abstractmethod
    def _upsert_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self: ...
