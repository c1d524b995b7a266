"""Codes to answers: the index for users, which adds, updates and removes rows."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Self

import numpy as np

from supquant.arrays import ArrayLike, Codes
from supquant.codec.interface import AnyCodec
from supquant.errors import InputError
from supquant.index.changeable import ChangeableIndex
from supquant.index.columns import read_columns
from supquant.index.files import StoredCodec
from supquant.index.ids import join_ids, read_ids
from supquant.index.ordering import CodeOrder
from supquant.index.row_ids import Ids
from supquant.index.saved import SavedIndex
from supquant.index.segments import Segment
from supquant.index.snapshot import Snapshot
from supquant.model.codec import SupervisedCodec
from supquant.sources import VectorSource

__all__ = ["CodeIndex", "beside_items", "check_length", "encode_rows"]


class CodeIndex(SavedIndex, ChangeableIndex):
    """An exact index of compact codes.

    A row is a code with an id. A search adds up a query's look-up tables over every code, and returns the best rows. Of equal
    rows, the one that was inserted first comes first. An updated row keeps its place. Any number of threads may
    search while others add, remove or save: a search sees the index as it was when the search began.

    Parameters
    ----------
    codec : codec or fitted estimator
        Encodes items and makes the tables of queries. From an estimator, `codec_` is taken. To fit the estimator again does not
        change the index.

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

    def __init__(self, codec: object) -> None:
        read = _read_codec(codec)
        self._initialize(StoredCodec(read), Snapshot(order=CodeOrder(read)))

    def __repr__(self) -> str:
        return f"CodeIndex({len(self)} rows of {self.codec.n_codebooks} bytes)"

    # changes -------------------------------------------------------------------------------------------------------------

    def _add_items(
        self, X: ArrayLike, y: ArrayLike, ids: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self:
        y, ids, metadata = beside_items(X, y, ids, metadata)
        read = _read_new_ids(ids)
        self._snapshot.check_new(read)  # before the long work of encoding
        return self._append(encode_rows(self.codec, X, y, n_jobs), read, metadata)

    def _check_new(self, ids: ArrayLike | None = None) -> None:
        """Check that rows with these ids can be added, before the work of encoding them.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str, default=None
            As in `add`, which raises the same errors.
        """
        self._snapshot.check_new(_read_new_ids(ids))

    def add_codes(self, codes: ArrayLike, ids: ArrayLike | None = None, *, metadata: object = None) -> Self:
        """Append rows that are already encoded.

        Parameters
        ----------
        codes : array (n, M) of int
            The codes.
        ids, metadata
            As in `add`, which has the same result and raises the same errors.
        """
        return self._append(self.codec.check_codes(codes), _read_new_ids(ids), metadata)

    def _append(self, codes: Codes, ids: Ids | None, metadata: object) -> Self:
        if ids is not None:
            check_length(ids, codes)
        segment = Segment.of_codes(codes, order=self._snapshot.order) if len(codes) else None
        with self._write_lock:
            columns = read_columns(metadata, len(codes), self._snapshot)
            if segment is not None:
                self._snapshot = self._snapshot.with_rows(segment, ids, columns)
        return self

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
            self._snapshot = self._snapshot.without_rows(removed)
        return self

    def _update_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self:
        read = read_ids(ids, distinct=True)
        self._snapshot.locate(read)  # before the long work of encoding
        return self._replace(read, self.codec.encode_items(X, y, n_jobs=n_jobs), metadata)

    def update_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Replace the codes of rows. Each row keeps its id and its place.

        Parameters
        ----------
        codes : array (n, M) of int
            The new codes.
        ids, metadata
            As in `update`, which has the same result and raises the same errors.
        """
        return self._replace(read_ids(ids, distinct=True), self.codec.check_codes(codes), metadata)

    def _upsert_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self:
        read = read_ids(ids, distinct=True)
        self._snapshot.find(read)  # before the long work of encoding
        return self._put(read, self.codec.encode_items(X, y, n_jobs=n_jobs), metadata)

    def upsert_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Update the codes of rows whose ids are in the index, and append the others.

        Parameters
        ----------
        codes : array (n, M) of int
            The codes.
        ids, metadata
            As in `upsert`, which has the same result and raises the same errors.
        """
        return self._put(read_ids(ids, distinct=True), self.codec.check_codes(codes), metadata)

    def _put(self, ids: Ids, codes: Codes, metadata: object) -> Self:
        check_length(ids, codes)
        with self._write_lock:
            snapshot = self._snapshot
            columns = read_columns(metadata, len(codes), snapshot)
            there = snapshot.find(ids) >= 0
            old, new = (None if columns is None else columns.kept(mask) for mask in (there, ~there))
            if there.any():
                snapshot = snapshot.with_codes(join_ids([(ids, there)]), codes[there], old)
            if not there.all():
                segment = Segment.of_codes(codes[~there], order=snapshot.order)
                snapshot = snapshot.with_rows(segment, join_ids([(ids, ~there)]), new)
            self._snapshot = snapshot
        return self

    def _replace(self, ids: Ids, codes: Codes, metadata: object) -> Self:
        check_length(ids, codes)
        with self._write_lock:
            columns = read_columns(metadata, len(codes), self._snapshot)
            if len(codes):
                self._snapshot = self._snapshot.with_codes(ids, codes, columns)
        return self

    def compact(self) -> Self:
        """Copy all rows into one segment, without removed ones. The index is then smallest and fastest.

        Returns
        -------
        self
        """
        with self._write_lock:
            self._snapshot = self._snapshot.compacted()
        return self

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
        if not isinstance(other, SupervisedCodec) or not other.reads_codes_of(self.codec):
            raise InputError(
                "the codec has other codebooks than that of the index: its codes would mean something else"
            )
        index = CodeIndex(other)
        with self._write_lock:
            index._snapshot = self._snapshot.detached().ordered_by(CodeOrder(index.codec))
            index._known_folders = self._known_folders.copy()
        return index


def beside_items(X: ArrayLike, y: Any, ids: Any, metadata: object) -> tuple[Any, Any, Any]:
    """Return labels, ids and metadata of items X. Those that are None are taken from X, if it is a `VectorSource`."""
    if not isinstance(X, VectorSource):
        return y, ids, metadata
    return (
        X.labels if y is None else y,
        X.ids if ids is None else ids,
        X.metadata if metadata is None else metadata,
    )


def encode_rows(codec: AnyCodec, X: ArrayLike, y: Any, n_jobs: int | None) -> Codes:
    """Return the codes (n, M) of items X (n, p), an array or a `VectorSource`, with their labels y or None."""
    if not isinstance(X, VectorSource):
        return codec.encode_items(X, y, n_jobs=n_jobs)
    codes = np.empty((len(X), codec.n_codebooks), dtype=np.uint8)
    for block in X.blocks():
        rows = slice(block.start, block.start + len(block))
        codes[rows] = codec.encode_items(block.X, None if y is None else y[rows], n_jobs=n_jobs)
    return codes


def _read_codec(given: object) -> AnyCodec:
    if not isinstance(given, AnyCodec) and hasattr(given, "fit"):
        from sklearn.utils.validation import check_is_fitted  # noqa: PLC0415  # slow to import, rarely needed

        check_is_fitted(given, "codec_")
    codec = getattr(given, "codec_", given)
    if not isinstance(codec, AnyCodec):
        raise InputError(f"expected a codec or a fitted quantizer, got a {type(given).__name__}")
    return codec


def _read_new_ids(ids: ArrayLike) -> Ids | None:
    return None if ids is None else read_ids(ids, distinct=True)


def check_length(ids: Sized, codes: Codes) -> None:
    """Raise an `InputError` if there is not one id for each of the codes (n, M)."""
    if len(ids) != len(codes):
        raise InputError(f"expected one id for every row, got {len(ids)} ids for {len(codes)} rows")
