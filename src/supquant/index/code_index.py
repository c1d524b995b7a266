"""Codes to answers: the index for users, which searches, adds, updates and removes rows."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Array, ArrayLike, Codes
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.change_keys import ChangeKeys
from supquant.index.columns import read_columns, warn_of_nulls
from supquant.index.files import StoredCodec, save_index
from supquant.index.filters import Filter, choose, chosen_positions, views_of
from supquant.index.folders import Folders
from supquant.index.ids import Ids, read_ids
from supquant.index.local import CodecStep, LocalIndex, answer_table, check_state
from supquant.index.ordering import CodeOrder
from supquant.index.refining import check_refinable
from supquant.index.searchable import Change, SearchOptions
from supquant.index.searching import Search
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.index.unknown_labels import check_extensible, read_codes_of
from supquant.index.vectors import VECTOR_KINDS, CodedRows, VectorKind
from supquant.inputs.parameters import check_choice, check_integer, resolve_jobs
from supquant.model.codec import SupervisedCodec
from supquant.system import at_fork

__all__ = ["CodeIndex"]


class Content(NamedTuple):
    """What an index is at one moment."""

    codec: StoredCodec
    snapshot: Snapshot


class CodeIndex(LocalIndex):
    """An exact index of compact codes.

    A row is a code with an id. A search adds up a query's look-up tables over every code, and returns the best rows. Of equal
    rows, the one that was inserted first comes first. An updated row keeps its place. Any number of threads may
    search while others add, remove or save: a search sees the index as it was when the search began.

    Parameters
    ----------
    codec : codec or fitted estimator
        Encodes items and makes the tables of queries. From an estimator, `codec_` is taken. To fit the estimator again does not
        change the index.
    vectors : {"int8", "float16"}, default=None
        The type of the vectors that are kept next to the codes, for searches with `refine`: p numbers for each item of a
        model of `SupervisedQuantizer`, and its predicted meaning if it has no label. None keeps no vectors.

    Examples
    --------
    >>> import numpy as np
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

    def __init__(self, codec: object, *, vectors: VectorKind | None = None) -> None:
        read = _read_codec(codec)
        if vectors is not None:
            check_choice(vectors, "vectors", VECTOR_KINDS)
            check_refinable(read)
        self._initialize(Content(StoredCodec(read), Snapshot(order=CodeOrder(read), vectors=vectors)))

    def _initialize(self, content: Content) -> None:
        self._content = content  # every method that reads takes it once, without a lock; a writer replaces it
        self._has_unlabelled: weakref.WeakKeyDictionary[Segment, bool] = weakref.WeakKeyDictionary()
        self._write_lock = threading.Lock()
        # A reload replaces it, so a save that began before knows nothing of the reload.
        self._folders = Folders()
        _indexes.add(self)

    def __repr__(self) -> str:
        return f"CodeIndex({len(self)} rows of {self.codec.n_codebooks} bytes)"

    # rows ----------------------------------------------------------------------------------------------------------------

    @property
    def codec(self) -> AnyCodec:
        """The codec, which encodes items and makes the tables of queries. A change with new labels replaces it."""
        return self._content.codec.codec

    @property
    def vectors(self) -> VectorKind | None:
        """The type of the vectors that are kept with the codes; None if there are none."""
        return self._snapshot.vectors

    @property
    def _snapshot(self) -> Snapshot:
        return self._content.snapshot

    def _replace(self, snapshot: Snapshot) -> None:
        """Replace the rows; the caller holds the lock."""
        self._content = self._content._replace(snapshot=snapshot)

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
        """The number of bytes of codes, vectors, ids and removals, in memory or mapped from files, without the codec."""
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
            - ``vectors``: the type of the vectors next to the codes, if the index keeps any
            - ``bytes``: the number of bytes of ``codes``, ``ids``, ``removals`` and ``codec``, and of ``vectors`` if it keeps any
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
        return self._snapshot.described(self.codec) | {"instruction_set": kernels.isa()}

    def codes(self, ids: ArrayLike) -> Codes:  # noqa: D102  # `LocalIndex` documents it
        snapshot = self._snapshot
        return snapshot.codes_at(snapshot.locate(read_ids(ids)), self.codec.n_codebooks)

    @property
    def columns(self) -> list[str]:
        """The names of the columns that are kept with the codes."""
        return list(self._snapshot.column_types())

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
            `ranking`, `novelty`, `where`, `state`, `n_jobs` and `refine`, as in `search`.

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
        content, options = self._content, SearchOptions(**search)
        queries = Q[None] if isinstance(Q, np.ndarray) and Q.ndim == 1 else Q
        k = check_integer(k, "k", 1)
        search_ = self._start_search(options, content)
        scores, ids = search_.find_best(queries, k, options.ranking, options.refine)
        return answer_table(content.snapshot, scores, ids, columns)

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

    def _start_search(self, options: SearchOptions, content: Content | None = None) -> Search:
        stored, snapshot = content or self._content
        codec, where = stored.codec, options.where
        if options.state is not None:
            check_state(snapshot.state, options.state)
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
                    has = self._has_unlabelled[segment] = any(
                        codec.any_unlabelled(codes) for codes in segment.distinct_codes()
                    )
                if has:
                    return True
        return False

    def _table(self) -> Snapshot:
        return self._snapshot

    # changes -------------------------------------------------------------------------------------------------------------

    def _check_change(self, change: Change, ids: Ids | None) -> None:
        if change == "add":
            self._snapshot.check_new(ids)
        elif ids is not None:
            (self._snapshot.locate if change == "update" else self._snapshot.find)(ids)

    def _check_room(self, n: int) -> None:
        self._snapshot.check_room(n)

    def _change_rows(
        self,
        change: Change,
        ids: Ids | None,
        codes: CodedRows,
        metadata: object,
        step: CodecStep | None,
        **place: int,
    ) -> bool:
        del place  # all rows are in one place
        is_add = change == "add" and len(codes) > 0
        segment = Segment.of_codes(codes, order=self._snapshot.order) if is_add else None
        with self._write_lock:
            codec, snapshot = self._content
            if step is not None and codec.codec is not step.before:
                return False
            columns, n_before = read_columns(metadata, len(codes), snapshot), snapshot.n_live
            if segment is not None:
                snapshot = snapshot.with_rows(segment, ids, columns)
            elif ids is not None and change == "update" and len(codes):
                snapshot = snapshot.with_codes(ids, codes, columns)
            elif ids is not None and change == "upsert":
                snapshot = snapshot.with_upserted(ids, codes, columns)
            if snapshot.n_live > n_before:
                warn_of_nulls(columns, snapshot)
            if step is not None and step.after is not step.before:
                codec, snapshot = StoredCodec(step.after), snapshot.reordered(CodeOrder(step.after))
            self._content = Content(codec, snapshot)
        return True

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If an id is not in the index or comes twice. Then the index is unchanged.
        """
        removed = read_ids(ids, distinct=True)
        with self._write_lock:
            self._replace(self._snapshot.without_rows(removed))
        return self

    def compact(self) -> Self:
        """Copy all rows into one segment, without removed ones. The index is then smallest and fastest.

        Returns
        -------
        self
        """
        with self._write_lock:
            self._replace(self._snapshot.compacted())
        return self

    def extend(self, ids: ArrayLike, y: ArrayLike) -> Self:
        """Add new classes to the codec, from items of the index.

        This needs no vectors: codes say where items lie. No code changes. It is how a class that was found among items without
        labels gets a name. If there are vectors, `SupervisedQuantizer.extend` and `with_codec` learn a little more from them.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of some items of each class.
        y : (n,) labels
            One label per item, which the codec must not know yet. Items without a label are left out.

        Returns
        -------
        self

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from supquant import CodeIndex, SupervisedQuantizer
        >>> X, y = load_digits(return_X_y=True)
        >>> labels = [label if label < 9 and row % 2 else None for row, label in enumerate(y)]
        >>> sq = SupervisedQuantizer(8, random_state=0).fit(X, labels)
        >>> index = CodeIndex(sq).add(X)
        >>> index.extend(sq.found_.typical[0], [9] * 10).codec.classes
        array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
        """
        while True:
            before = self.codec
            check_extensible(before)
            assert isinstance(before, SupervisedCodec)
            codes = self.codes(ids)
            step = CodecStep(before, before.extended_by_codes(codes, y))
            if self._change_rows("update", None, CodedRows(codes[:0]), None, step):
                return self  # otherwise another thread has extended the codec meanwhile

    def with_codec(self, codec: object) -> CodeIndex:
        """Return an index of the same rows under another codec, as `SupervisedQuantizer.extend` makes it.

        This index does not change. The two share their codes, but a later change of one does not change the other.

        Parameters
        ----------
        codec : codec or fitted estimator
            A codec with the same codebooks, so that codes mean the same.

        Returns
        -------
        CodeIndex

        Raises
        ------
        InputError
            If the codec has other codebooks.
        """
        other = _read_codec(codec)
        if not isinstance(other, SupervisedCodec) or not read_codes_of(other, self.codec):
            raise InputError(
                "the codec has other codebooks than that of the index: its codes would mean something else"
            )
        index = CodeIndex(other, vectors=self.vectors)
        with self._write_lock:
            index._replace(self._snapshot.detached().reordered(CodeOrder(index.codec)))
            index._folders.known = self._folders.known.copy()
        return index

    # copies --------------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        """Return an index of the same rows. Arrays never change, so the two share them, but a later change of one is its own."""
        content = self._content
        return self._copied(content, content.snapshot.detached())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy, as `copy.copy` does. Filters that are copied with it belong to the copy."""
        content = self._content
        return self._copied(content, content.snapshot.detached(copy.deepcopy(content.snapshot.origin, memo)))

    def _copied(self, content: Content, detached: Snapshot) -> Self:
        index = self.__class__.__new__(self.__class__)
        folders = self._folders.copied(content.snapshot, detached)
        state = {"_content": Content(content.codec, detached), "_folders": folders}
        index.__setstate__(self.__getstate__() | state)
        index._has_unlabelled = self._has_unlabelled  # both have the codec and the segments that it is about
        return index

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the lock and what is computed again. A snapshot says how its rows are pickled."""
        state = self.__dict__.copy()
        del state["_write_lock"], state["_has_unlabelled"]
        snapshot = state["_content"].snapshot
        state["_folders"] = state["_folders"].copied(snapshot, snapshot)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._initialize(state["_content"])
        self.__dict__.update(state)

    # files ---------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to a folder.

        An index in the folder is replaced if this index was loaded from it or saved to it, and nobody has changed it since.
        Files that this index wrote or read there before are not written again. After any failure, the folder holds the whole old
        index or the whole new one. Other threads may search, change and save the index meanwhile: it is saved as it was when
        `save` was called.

        Parameters
        ----------
        path : str or path-like
            A new folder, an empty one, or one that holds an index.
        overwrite : bool, default=False
            Whether any other index in the folder is replaced, too.

        Raises
        ------
        SaveConflictError
            If the folder holds another index, and `overwrite` is false. The error says who saved it and when.
        InputError
            If `path` is a file, or a folder that holds something else.
        OSError
            If a file cannot be written, for example because the disk is full.
        """
        self._save(path, overwrite=overwrite)

    def _save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, keys: ChangeKeys | None = None
    ) -> None:
        """Do as `save`, and keep the keys of changes."""
        with self._write_lock:
            (codec, snapshot), folders = self._content, self._folders
        save_index(Path(path), codec, snapshot, folders.known, overwrite=overwrite, keys=keys)
        with self._write_lock:
            if folders is self._folders:
                folders.last = Path(path).resolve(), snapshot

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, verify: Literal["lazy", "full"] = "lazy", mapped: bool = True
    ) -> Self:
        """Open the index in a folder.

        Files of a MiB or more are mapped, not read. `save` never writes to a file that is in use: it makes new files, and deletes
        old ones. So any process may save to the folder, or delete it, while the index is in use. Programs that write to the
        files in place, such as ``cp new/* folder/``, are another matter. At every search, the index checks that
        no file has another size or was written to. If one was, the file is compared with its checksums again, and an error is
        raised if it differs. But a file that is cut while a search reads it ends the process. If files may be changed in place,
        load the index with ``mapped=False``.

        Parameters
        ----------
        path : str or path-like
            The folder.
        verify : {"lazy", "full"}, default="lazy"
            Whether each file is compared with its checksums at its first use, or all files at once. Of vectors next to codes, a
            search reads and compares what is near its rows, not the whole file.
        mapped : bool, default=True
            Whether large files are mapped. Otherwise all files are read into memory and compared with their checksums. Then the
            folder may be changed in any way after `load` returns.

        Returns
        -------
        CodeIndex

        Raises
        ------
        FileFormatError
            If the folder holds no index, or a file is missing, damaged or foreign. With ``"lazy"``, methods that use a damaged
            file raise it later. Methods that use a mapped file raise it if the file was changed in place.
        FileNotFoundError
            If the folder does not exist.
        """
        check_choice(verify, "verify", ("lazy", "full"))
        codec, snapshot, folders = Folders(mapped=mapped).load(Path(path))
        if verify == "full":
            snapshot.check_files()
        index = cls.__new__(cls)
        index._initialize(Content(codec, snapshot))
        index._folders = folders
        return index

    def reload(self, *, discard: bool = False) -> Self:
        """Bring the index to the present state of its folder: the one that it was last loaded from or saved to.

        The index also gets labels that others have added to its model. If the folder has not changed, nothing happens. Otherwise
        filters of this index become invalid. Searches that have begun see the old rows.

        Parameters
        ----------
        discard : bool, default=False
            Whether changes of this index since the last load or save are given up. A `compact` counts as a change.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the index has no folder, if it has changes and `discard` is false, or if the folder holds an index with other
            codebooks, which only `load` can open. Then the index is unchanged.
        FileFormatError, FileNotFoundError
            As in `load`.
        """
        with self._write_lock:
            found = self._folders.load_again(self._snapshot, discard=discard)
            if found is None:
                return self
            codec, snapshot, folders = found
            if codec.codec.pack().digest == self.codec.pack().digest:
                codec = self._content.codec
            elif not read_codes_of(codec.codec, self.codec):
                raise InputError(
                    f"{folders.path} holds an index with another codec: open it with CodeIndex.load"
                )
            self._content = Content(codec, snapshot)  # of another origin: filters of the old rows are refused
            self._folders = folders
        return self


def _read_codec(given: object) -> AnyCodec:
    if not isinstance(given, AnyCodec) and hasattr(given, "fit"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415  # slow to import, rarely needed

        check_is_fitted(given, "codec_")
    codec = getattr(given, "codec_", given)
    if not isinstance(codec, AnyCodec):
        raise InputError(f"expected a codec or a fitted quantizer, got a {type(given).__name__}")
    return codec


_indexes: weakref.WeakSet[CodeIndex] = weakref.WeakSet()
"""All indexes of the process."""


def _renew_write_locks() -> None:
    """Renew the lock of every index in a forked child, where the thread that held it does not exist."""
    for index in _indexes:
        index._write_lock = threading.Lock()


at_fork(after_in_child=_renew_write_locks)
