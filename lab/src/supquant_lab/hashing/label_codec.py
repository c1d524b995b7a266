"""Codes that are labels: the codec of a classifier. Queries rank items by the scores of their labels.

    X -> features -> class scores         an item is its label, or its set of labels

A class number takes one byte where there are at most 256 classes, else one byte for each 255 classes. A set of labels takes a bit
for each label. The tables of a query hold its class scores, so that the sum over a code is the score of the item's labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.base import (
    MAX_CODEBOOKS,
    ProjectingCodec,
    check_flag,
    check_part,
    classes_from_plain,
    plain_classes,
)
from supquant.codec.codebooks import pack_codebooks
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.validation import check_vectors
from supquant.kernels import Packed

_CLASSES_A_BYTE = 255
"""Classes of each byte, where one byte is too little for a class number; the value 0 means none of them."""


def check_label_count(n_labels: int, *, multilabel: bool) -> None:
    """Raise an `InputError` for more labels than a code can hold."""
    a_byte = 8 if multilabel else _CLASSES_A_BYTE
    if n_labels > MAX_CODEBOOKS * a_byte:
        raise InputError(
            f"codes hold at most {MAX_CODEBOOKS * a_byte} labels, {a_byte} per byte; got {n_labels}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class LabelCodec(ProjectingCodec):
    """Encodes to labels, decodes to label vectors, and makes tables of class scores.

    Parameters
    ----------
    projection : ndarray of shape (d, L), float32
        The classifier: class scores are ``features(x) @ projection``.
    classes : ndarray of shape (L,)
        The labels.
    multilabel : bool, default=False
        Whether an item is a set of labels.
    feature_map : FeatureMap or None, default=None
        From vectors to features; None takes vectors as features.

    Examples
    --------
    >>> codec = LabelCodec(np.eye(2, dtype=np.float32), np.array(["cat", "dog"]))
    >>> codec.encode_items([[0.9, 0.2], [0.1, 0.7]])
    array([[0],
           [1]], dtype=uint8)
    >>> codec.query_tables([[0.9, 0.2]]).scores(np.float32([[-0.9, -0.2]]))
    array([[0.9, 0.2]], dtype=float32)
    """

    projection: Float32
    classes: NDArray[Any]
    multilabel: bool = False
    feature_map: FeatureMap | None = None

    TYPE: ClassVar[str] = "labels"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("projection",)

    def __post_init__(self) -> None:
        check_part("projection", self.projection, "d", len(self.classes))
        check_label_count(len(self.classes), multilabel=check_flag(self.multilabel, "multilabel"))
        if len(self.classes) == 0:
            raise InputError("a codec of labels must have one class or more")
        super().__post_init__()

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        if self.multilabel:
            return -(-self.n_components // 8)
        return 1 if self.n_components <= 256 else -(-self.n_components // _CLASSES_A_BYTE)

    @property
    def n_codewords(self) -> int:
        """K, the number of values that a byte may have."""
        return self.n_components if self.n_components <= 256 and not self.multilabel else 256

    @property
    def n_components(self) -> int:
        """L, the number of labels."""
        return len(self.classes)

    @property
    def rankings(self) -> tuple[str, ...]:
        """The one ranking that `query_tables` takes."""
        return ("label",)

    @cached_property
    def codebooks(self) -> Float32:
        """The label vectors (M, K, L), 0 and 1, of each value of each byte."""
        M, K, L = self.n_codebooks, self.n_codewords, self.n_components
        if self.multilabel:
            bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # (256, 8)
            books = np.zeros((M, K, 8 * M), dtype=np.float32)
            for m in range(M):
                books[m, :, 8 * m : 8 * m + 8] = bits
            return np.ascontiguousarray(books[:, :, :L])
        books = np.zeros((M, K, L), dtype=np.float32)
        every = np.arange(L)
        book, word = self._place(every)
        books[book, word, every] = 1
        return books

    @cached_property
    def _packed_codebooks(self) -> Packed:
        """The negative label vectors (M K, L)."""
        return pack_codebooks(self.codebooks)

    def prepare(self, features: Float32, ranking: str | None = None) -> Float32:
        """Return the class scores (q, L) of queries with features (q, d)."""
        self._ranking(ranking)
        return self.project(features)

    def tables_of(self, prepared: Float32, ranking: str | None = None) -> Float32:
        """Return look-up tables (q, M, K) from class scores (q, L): minus the sum of the scores of the labels of a byte."""
        self._ranking(ranking)
        tables = row_products(prepared, self._packed_codebooks)
        return tables.reshape(len(prepared), self.n_codebooks, self.n_codewords)

    def query_tables(
        self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p); the score of a code is the sum of the scores of its labels."""
        self._ranking(ranking)
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        tables = np.empty((len(Q), self.n_codebooks, self.n_codewords), dtype=np.float32)
        self._by_queries(Q, n_jobs, (tables,), lambda x: (self.tables_of(self.project(x)),))
        return QueryTables(tables, np.zeros(len(Q), dtype=np.float32), descending=True)

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items with labels like those of codes (q, M)."""
        tables = self.tables_of(self.decode(codes), ranking)
        return QueryTables(tables, np.zeros(len(codes), dtype=np.float32), descending=True)

    def decision_function(self, X: ArrayLike, *, n_jobs: int | None = None) -> Float32:
        """Return the score of every label for vectors X (n, p): (n, L) float32."""
        return self._by_blocks(X, n_jobs, self.n_components, np.float32, lambda x, _: self.project(x))

    def encode_items(self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None) -> Codes:
        """Encode vectors X (n, p): codes (n, M) uint8 of their labels.

        Parameters
        ----------
        X : array-like of shape (n, p)
            Vectors of items.
        y : array-like or None, default=None
            Their labels. None predicts them: the label with the greatest score and, where there may be several, all labels that
            score above one half.
        n_jobs : int or None, default=None
            Number of threads; None takes all cores.

        Returns
        -------
        ndarray of shape (n, M), uint8
        """
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        if y is not None:
            labels = read_labels(y, n_rows=len(X), classes=self.classes, multilabel=self.multilabel)
            return self.codes_of(labels)
        return self._by_blocks(
            X, n_jobs, self.n_codebooks, np.uint8, lambda x, _: self._predicted(self.project(x))
        )

    def codes_of(self, labels: Labels) -> Codes:
        """Return the codes (n, M) of labels that were read already."""
        if labels.indices is None:
            return np.packbits(labels.dense(0, len(labels)) > 0, axis=1)
        return self._codes_of_classes(labels.indices)

    def decode(self, codes: ArrayLike) -> Float32:
        """Return the label vectors (n, L) float32, 0 and 1, that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

    def _predicted(self, scores: Float32) -> Codes:
        """Return the codes (b, M) of the labels that scores (b, L) predict."""
        best = scores.argmax(axis=1)
        if not self.multilabel:
            return self._codes_of_classes(best)
        chosen = scores > 0.5
        chosen[np.arange(len(scores)), best] = True
        return np.packbits(chosen, axis=1)

    def _codes_of_classes(self, classes: NDArray[np.integer[Any]]) -> Codes:
        """Return the codes (b, M) of class numbers (b,)."""
        codes = np.zeros((len(classes), self.n_codebooks), dtype=np.uint8)
        book, word = self._place(classes)
        codes[np.arange(len(classes)), book] = word
        return codes

    def _place(self, classes: NDArray[np.integer[Any]]) -> tuple[Any, Any]:
        """Return the byte (b,) that holds each class number (b,), and the value (b,) of this byte."""
        if self.n_codebooks == 1:
            return np.zeros_like(classes), classes
        return classes // _CLASSES_A_BYTE, classes % _CLASSES_A_BYTE + 1

    def _stored_settings(self) -> dict[str, Any]:
        return {"classes": plain_classes(self.classes), "multilabel": self.multilabel}

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        return cls(
            arrays["projection"], classes_from_plain(own["classes"]), own["multilabel"], own["feature_map"]
        )
