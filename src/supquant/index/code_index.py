"""Codes to answers: the index that people search."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes
from supquant.codec import AnyCodec, SemanticCodec
from supquant.errors import InputError
from supquant.index.files import StoredCodec, load_index, save_index
from supquant.index.filters import Filter, choose, views_of
from supquant.index.ids import Ids, read_ids
from supquant.index.searching import Search
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.topk import Positions, Sums
from supquant.validation import check_choice, check_integer, resolve_jobs

__all__ = ["CodeIndex"]

_indexes: weakref.WeakSet[CodeIndex] = weakref.WeakSet()


class CodeIndex:
    """An exact index of compact codes.

    A row is a code with an id. A search adds up a query's look-up tables over every code and gives the best rows, of
    equal ones the one that was inserted first. Any number of threads may search while others add, remove or save: a search
    sees the index as it was when the search began.

    Parameters
    ----------
    codec : codec or fitted estimator
        What encodes items and makes the tables of queries. Of an estimator its `codec_` is taken; fitting it again does
        not change the index.

    Examples
    --------
    >>> from supquant import ProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    >>> quantizer = ProductQuantizer(n_codebooks=2, n_codewords=16, random_state=0).fit(X)
    >>> index = CodeIndex(quantizer).add(X)
    >>> index
    CodeIndex(1000 rows of 2 bytes)
    >>> scores, ids = index.search(X[:3], k=5)
    >>> scores.shape, ids.shape
    ((3, 5), (3, 5))
    >>> even = index.filter(np.arange(0, 1000, 2))
    >>> index.search(X[:3], k=5, where=even)[1] % 2
    array([[0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0]])
    """

    def __init__(self, codec: object) -> None:
        self._begin(StoredCodec(_codec_of(codec)), Snapshot())

    def _begin(self, codec: StoredCodec, snapshot: Snapshot) -> None:
        self._codec = codec
        self._snapshot = snapshot  # readers take it once; writers put another in its place
        self._unlabelled: weakref.WeakKeyDictionary[Segment, bool] = weakref.WeakKeyDictionary()
        self._identity = object()  # by which a filter knows its index, without keeping it alive
        self._renew_lock()
        _indexes.add(self)

    def _renew_lock(self) -> None:
        self._writing = threading.Lock()

    # what it holds -------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> AnyCodec:
        """What encodes items and makes the tables of queries."""
        return self._codec.codec

    def __len__(self) -> int:
        return self._snapshot.n_live

    def __repr__(self) -> str:
        return f"CodeIndex({len(self)} rows of {self.codec.n_codebooks} bytes)"

    @property
    def ids(self) -> NDArray[Any]:
        """The ids of all rows, in order of insertion: int64, or objects that are str."""
        return self._snapshot.live_ids()

    @property
    def nbytes(self) -> int:
        """Bytes of codes, ids and removals, whether in memory or mapped from files; the codec has its own."""
        return sum(part.nbytes for part in self._snapshot.parts)

    def info(self) -> dict[str, Any]:
        """Describe the index.

        Returns
        -------
        dict
            ``rows``; ``removed``, rows that still take memory; ``bytes_per_code``; ``id_kind``, which is ``"automatic"``,
            ``"int64"``, ``"str"``, or None before the first rows; ``bytes`` of ``codes``, ``ids``, ``removals`` and
            ``codec``; ``instruction_set``; and ``segments``, of each its ``rows``, how many of them are ``removed``, whether
            equal codes are ``grouped``, and the number of ``distinct_codes`` if they are.

        Examples
        --------
        >>> from supquant import AdditiveCodec
        >>> index = CodeIndex(AdditiveCodec(np.zeros((1, 2, 1), dtype=np.float32))).add_codes(np.zeros((100, 1), int))
        >>> index.info()["segments"]
        [{'rows': 100, 'removed': 0, 'grouped': True, 'distinct_codes': 1}]
        """
        snapshot = self._snapshot
        segments = [
            {
                "rows": part.n_rows,
                "removed": part.n_rows - part.n_live,
                "grouped": part.segment.grouped,
                "distinct_codes": part.segment.n_distinct,
            }
            for part in snapshot.parts
        ]
        return {
            "rows": snapshot.n_live,
            "removed": snapshot.firsts[-1] - snapshot.n_live,
            "bytes_per_code": self.codec.n_codebooks,
            "id_kind": snapshot.id_kind,
            "bytes": {
                "codes": sum(part.segment.nbytes for part in snapshot.parts),
                "ids": sum(part.ids.nbytes for part in snapshot.parts),
                "removals": sum(part.live.nbytes for part in snapshot.parts if part.live is not None),
                "codec": self.codec.nbytes,
            },
            "instruction_set": kernels.isa(),
            "segments": segments,
        }

    def codes(self, ids: object) -> Codes:
        """Give the codes (n, M) uint8 of rows by their ids.

        Raises
        ------
        InputError
            If an id is not in the index.
        """
        snapshot = self._snapshot
        return snapshot.codes_at(snapshot.locate(read_ids(ids)), self.codec.n_codebooks)

    def reconstruct(self, ids: object) -> NDArray[np.float32]:
        """Give the vectors (n, r) float32 that the codes of rows stand for, by the rows' ids."""
        return self.codec.decode(self.codes(ids))

    # writing -------------------------------------------------------------------------------------------------------------

    def add(self, X: object, y: object = None, ids: object = None, *, n_jobs: int | None = None) -> Self:
        """Encode items and append them.

        Parameters
        ----------
        X : array (n, p)
        y : labels of the items, optional
            Where they are known, and the codec has learned from labels.
        ids : (n,) integers or strings, optional
            None: rows are numbered 0, 1, 2, ..., and no number is ever used again. The first rows decide whether an index
            has numbers, integers or strings.
        n_jobs : int, optional
            Threads; all cores by default.

        Returns
        -------
        CodeIndex
            Itself.

        Raises
        ------
        InputError
            If an id is in the index already, comes twice, or is of another kind. The index is then as it was.
        """
        named = _read_new(ids)
        self._snapshot.check_new(named)  # before the work of encoding
        return self._append(self.codec.encode_items(X, y, n_jobs=n_jobs), named)

    def add_codes(self, codes: object, ids: object = None) -> Self:
        """Append rows that are encoded already: codes (n, M); `ids` and errors are those of `add`."""
        return self._append(self.codec.check_codes(codes), _read_new(ids))

    def _append(self, codes: Codes, ids: Ids | None) -> Self:
        if ids is not None:
            _check_length(ids, codes)
        if len(codes):
            segment = Segment.of_codes(codes)
            with self._writing:
                self._snapshot = self._snapshot.plus(segment, ids)
        return self

    def remove(self, ids: object) -> Self:
        """Remove rows by their ids.

        Raises
        ------
        InputError
            If an id is not in the index or comes twice. The index is then as it was.
        """
        gone = read_ids(ids, distinct=True)
        with self._writing:
            self._snapshot = self._snapshot.minus(gone)
        return self

    def update(self, ids: object, X: object, y: object = None, *, n_jobs: int | None = None) -> Self:
        """Replace rows: remove them, and append the items X (n, p) under the same ids. No search sees half of it.

        Raises
        ------
        InputError
            If an id is not in the index or comes twice. The index is then as it was.
        """
        named = read_ids(ids, distinct=True)
        self._snapshot.locate(named)  # before the work of encoding
        return self._replace(named, self.codec.encode_items(X, y, n_jobs=n_jobs))

    def update_codes(self, ids: object, codes: object) -> Self:
        """Replace rows by others that are encoded already: codes (n, M); all else is as in `update`."""
        return self._replace(read_ids(ids, distinct=True), self.codec.check_codes(codes))

    def _replace(self, ids: Ids, codes: Codes) -> Self:
        _check_length(ids, codes)
        if len(codes):
            segment = Segment.of_codes(codes)
            with self._writing:
                self._snapshot = self._snapshot.replaced(ids, segment)
        return self

    def compact(self) -> Self:
        """Bring all rows into one segment and let go of removed ones: the smallest form, and the fastest."""
        with self._writing:
            self._snapshot = self._snapshot.compacted()
        return self

    # searching -----------------------------------------------------------------------------------------------------------

    def search(
        self,
        Q: object,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: object = None,
        where: object = None,
        n_jobs: int | None = None,
    ) -> tuple[Sums, NDArray[Any]]:
        """Find the k best rows for every query, exactly.

        Parameters
        ----------
        Q : array (q, p)
        k : int
        ranking : str, optional
            One of the codec's `rankings`, by default the first.
        novelty : float or (q,) array, optional
            The probability that a query is of no known class, in the place of what the model says: 0 compares by labels alone,
            1 by position alone. Where all items of the index have labels it is 0, since none of them is new.
        where : Filter, mask or ids, optional
            Search among these rows only. A mask (n,) has an entry for every row, in order of insertion.
        n_jobs : int, optional
            Threads; all cores by default. The answer does not depend on it.

        Returns
        -------
        scores : ndarray (q, k') float32
            Best first: distances ascend, scores of which the greater is better descend. k' is k, or the number of rows
            if that is smaller.
        ids : ndarray (q, k')
            int64, or objects that are str. Rows of equal scores come in order of insertion.
        """
        k = check_integer(k, "k", 1)
        return self._search(where, n_jobs, novelty).best(Q, k, ranking)

    def search_tables(
        self, tables: object, k: int = 10, *, where: object = None, n_jobs: int | None = None
    ) -> tuple[Sums, NDArray[Any]]:
        """Find the k rows with the lowest sums of table entries.

        Parameters
        ----------
        tables : array (q, M, K), or QueryTables
            As the codec's `query_tables` makes them.
        k, where, n_jobs
            As in `search`.

        Returns
        -------
        sums : ndarray (q, k') float32
            Ascending; entries are added in float32, in codebook order.
        ids : ndarray (q, k')
        """
        k = check_integer(k, "k", 1)
        return self._search(where, n_jobs).lowest(tables, k)

    def range_search(
        self,
        Q: object,
        radius: float,
        *,
        ranking: str | None = None,
        novelty: object = None,
        where: object = None,
        n_jobs: int | None = None,
    ) -> tuple[Positions, Sums, NDArray[Any]]:
        """Find all rows whose score is as good as `radius` or better.

        Parameters
        ----------
        Q : array (q, p)
        radius : float
            The greatest distance, or the least of scores of which the greater is better. Compared in float32.
        ranking, novelty, where, n_jobs
            As in `search`.

        Returns
        -------
        limits : ndarray (q + 1,) int64
            Query i has the answers ``limits[i]`` up to ``limits[i + 1]``, ordered as by `search`.
        scores : ndarray (limits[-1],) float32
        ids : ndarray (limits[-1],)
        """
        return self._search(where, n_jobs, novelty).within(Q, radius, ranking)

    def rank(
        self,
        Q: object,
        *,
        ranking: str | None = None,
        novelty: object = None,
        where: object = None,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[Sums, NDArray[Any]]]:
        """Rank all rows for every query, a block of queries at a time.

        Parameters are those of `search`. All blocks see the index as it was when `rank` was called.

        Returns
        -------
        iterator of (scores, ids)
            Both (b, n), for the next b queries. Blocks are small enough that memory does not grow with the queries.
        """
        return self._search(where, n_jobs, novelty).rankings(Q, ranking)

    def filter(self, ids_or_mask: object) -> Filter:
        """Prepare searches among some rows.

        Parameters
        ----------
        ids_or_mask : ids, or mask (n,) of bool
            A mask has an entry for every row, in order of insertion.

        Returns
        -------
        Filter
            To be given as `where`.
        """
        return Filter(self._identity, choose(self._snapshot, ids_or_mask))

    def _search(self, where: object, n_jobs: int | None, novelty: object = None) -> Search:
        snapshot = self._snapshot
        all_labelled = isinstance(self.codec, SemanticCodec) and not self._any_unlabelled(snapshot)
        if where is None:
            views = snapshot.views()
        elif not isinstance(where, Filter):
            views = views_of(snapshot, choose(snapshot, where))
        elif where.belongs_to(self._identity):
            views = where.views(snapshot)
        else:
            raise InputError(
                "the filter was made by another index: make one with the filter method of this one"
            )
        return Search(self._codec.codec, snapshot, views, resolve_jobs(n_jobs), novelty, all_labelled)

    def _any_unlabelled(self, snapshot: Snapshot) -> bool:
        """Tell whether any item came without labels; removed ones count until they are merged away."""
        codec = self.codec
        assert isinstance(codec, SemanticCodec)
        for part in snapshot.parts:
            if part.segment not in self._unlabelled:
                self._unlabelled[part.segment] = codec.any_unlabelled(part.segment.codes())
            if self._unlabelled[part.segment]:
                return True
        return False

    def with_codec(self, codec: object) -> CodeIndex:
        """Return an index of the same rows under another codec, as `SupervisedQuantizer.extend` makes it; this one stays.

        Codes are shared, not copied: what is added to or removed from one of the two does not change the other.

        Parameters
        ----------
        codec : codec or fitted estimator
            With the codebooks of this index's codec, so that codes mean the same; others are refused.
        """
        other = _codec_of(codec)
        if not isinstance(other, SemanticCodec) or not other.reads_codes_of(self.codec):
            raise InputError(
                "the codec has other codebooks than that of the index: its codes would mean something else"
            )
        index = CodeIndex(other)
        index._snapshot = self._snapshot
        return index

    # files ---------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a folder, which may hold another one.

        Only what this index did not write or read there before is written. Whatever goes wrong, the folder holds the old
        index or the new one, whole. Other threads may search and change the index meanwhile; it is saved as it was when
        `save` was called.

        Parameters
        ----------
        path : str or path-like
            A folder: a new one, an empty one, or one that holds an index.

        Raises
        ------
        InputError
            If there is a file, or a folder that holds something else.
        OSError
            If a file cannot be written, as when the disk is full.
        """
        save_index(Path(path), self._codec, self._snapshot)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, verify: Literal["lazy", "full"] = "lazy") -> Self:
        """Open the index in a folder. Its files are mapped, not read.

        Parameters
        ----------
        path : str or path-like
        verify : {"lazy", "full"}
            Compare each file with its checksums when it is first used, or all of them now.

        Raises
        ------
        FileFormatError
            If the folder holds no index, or a file is missing, damaged or foreign; with ``"lazy"``, methods that use a
            damaged file raise it later.
        FileNotFoundError
            If there is no such folder.
        """
        check_choice(verify, "verify", ("lazy", "full"))
        codec, snapshot = load_index(Path(path))
        if verify == "full":
            for part in snapshot.parts:
                part.touch()
        index = cls.__new__(cls)
        index._begin(codec, snapshot)
        return index


def _renew_locks() -> None:
    """Let a forked child write: the thread that held a lock in the parent is not there to let go of it."""
    for index in _indexes:
        index._renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


def _codec_of(given: object) -> AnyCodec:
    if not isinstance(given, AnyCodec) and hasattr(given, "fit"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415  # takes seconds; files do without

        check_is_fitted(given, "codec_")
    codec = getattr(given, "codec_", given)
    if not isinstance(codec, AnyCodec):
        raise InputError(f"expected a codec or a fitted quantizer, got a {type(given).__name__}")
    return codec


def _read_new(ids: object) -> Ids | None:
    return None if ids is None else read_ids(ids, distinct=True)


def _check_length(ids: Ids, codes: Codes) -> None:
    if len(ids) != len(codes):
        raise InputError(f"expected one id for every row, got {len(ids)} ids for {len(codes)} rows")
