"""Codes that are labels, ranked by the scores that a query's classifier gives them.

    X -> features -> class scores;   an item is its label, or its set of labels

A class number is one byte where there are at most 256 classes; a set of labels is a bit a label. A query's tables hold its
class scores, so that the sum over a code is the score of the item's labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.codec.base import (
    MOST_CODEBOOKS,
    ProjectingCodec,
    check_part,
    classes_from_plain,
    plain_classes,
)
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.codec.queries import row_products
from supquant.errors import InputError
from supquant.labels import Labels, read_labels
from supquant.validation import check_vectors

_CLASSES_A_BYTE = 255
"""Where one byte is not enough for a class number: each byte knows so many classes, and 0 for none of them."""


def check_label_count(n_labels: int, *, multilabel: bool) -> None:
    """Refuse more labels than codes can tell apart."""
    a_byte = 8 if multilabel else _CLASSES_A_BYTE
    if n_labels > MOST_CODEBOOKS * a_byte:
        raise InputError(
            f"codes hold at most {MOST_CODEBOOKS * a_byte} labels, {a_byte} a byte; got {n_labels}"
        )


@dataclass(frozen=True, eq=False)
class LabelCodec(ProjectingCodec):
    """Encodes to labels, decodes to label vectors, and makes tables of class scores.

    Parameters
    ----------
    projection : (d, L) float32
        The classifier: class scores are ``features(x) @ projection``.
    classes : (L,) array
    multilabel : bool
        Whether an item is a set of labels.
    feature_map : FeatureMap or None

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
        check_label_count(len(self.classes), multilabel=self.multilabel)
        super().__post_init__()

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        if self.multilabel:
            return -(-self.n_components // 8)
        return 1 if self.n_components <= 256 else -(-self.n_components // _CLASSES_A_BYTE)

    @property
    def n_codewords(self) -> int:
        """K, the values of a byte."""
        return self.n_components if self.n_components <= 256 and not self.multilabel else 256

    @property
    def n_components(self) -> int:
        """L, the number of labels."""
        return len(self.classes)

    @property
    def rankings(self) -> tuple[str, ...]:
        """The one ranking that `query_tables` knows."""
        return ("semantic",)

    @cached_property
    def codebooks(self) -> Float32:
        """The labels (M, K, L) that each value of each byte stands for, as 0 and 1."""
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

    def tables_of(self, projected: Float32, ranking: str | None = None) -> Float32:
        """Make look-up tables (q, M, K) from class scores (q, L): less the score of the labels of a byte."""
        self._ranking(ranking)
        tables = row_products(projected, self.codebooks.reshape(-1, self.n_components))
        np.negative(tables, out=tables)
        return tables.reshape(len(projected), self.n_codebooks, self.n_codewords)

    def query_tables(
        self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Make the tables of queries Q (q, p); a code's score is the sum of the scores of its labels."""
        self._ranking(ranking)
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        tables = np.empty((len(Q), self.n_codebooks, self.n_codewords), dtype=np.float32)
        self._by_queries(Q, n_jobs, (tables,), lambda x: (self.tables_of(self.project(x)),))
        return QueryTables(tables, np.zeros(len(Q), dtype=np.float32), descending=True)

    def decision_function(self, X: object, *, n_jobs: int | None = None) -> Float32:
        """Score every label for vectors X (n, p): (n, L) float32."""
        return self._by_blocks(X, n_jobs, self.n_components, np.float32, lambda x, _: self.project(x))

    def encode_items(self, X: object, y: object = None, *, n_jobs: int | None = None) -> Codes:
        """Give vectors X (n, p) the codes (n, M) of their labels `y`, or of the labels that their scores say.

        These are the class of the greatest score or, where there can be several, the labels that score above one half and
        in any case the greatest.
        """
        X = check_vectors(X, n_features=self.n_inputs, min_rows=0)
        if y is not None:
            labels = read_labels(y, n_rows=len(X), classes=self.classes, multilabel=self.multilabel)
            return self.codes_of(labels)
        return self._by_blocks(
            X, n_jobs, self.n_codebooks, np.uint8, lambda x, _: self._predicted(self.project(x))
        )

    def codes_of(self, labels: Labels) -> Codes:
        """Give labels that were read already their codes (n, M)."""
        if labels.indices is None:
            return np.packbits(labels.dense(0, len(labels)) > 0, axis=1)
        return self._numbered(labels.indices)

    def decode(self, codes: object) -> Float32:
        """Give the label vectors (n, L) float32, 0 and 1, that codes (n, M) stand for."""
        return kernels.active().decode(self.check_codes(codes), self.codebooks)

    def _predicted(self, scores: Float32) -> Codes:
        best = scores.argmax(axis=1)
        if not self.multilabel:
            return self._numbered(best)
        chosen = scores > 0.5
        chosen[np.arange(len(scores)), best] = True
        return np.packbits(chosen, axis=1)

    def _numbered(self, classes: NDArray[np.integer[Any]]) -> Codes:
        codes = np.zeros((len(classes), self.n_codebooks), dtype=np.uint8)
        book, word = self._place(classes)
        codes[np.arange(len(classes)), book] = word
        return codes

    def _place(self, classes: NDArray[np.integer[Any]]) -> tuple[Any, Any]:
        """Give the byte of each class number and its value there."""
        if self.n_codebooks == 1:
            return np.zeros_like(classes), classes
        return classes // _CLASSES_A_BYTE, classes % _CLASSES_A_BYTE + 1

    def _stored_settings(self) -> dict[str, Any]:
        return {"type": self.TYPE, "classes": plain_classes(self.classes), "multilabel": self.multilabel}

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        return cls(
            arrays["projection"], classes_from_plain(own["classes"]), own["multilabel"], own["feature_map"]
        )
