"""Queries that are items: the look-up tables of what a code stands for, where the vector of the item is not at hand."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from supquant.arrays import Codes
from supquant.codec.additive import AdditiveCodec
from supquant.codec.binary import BinaryCodec
from supquant.codec.interface import AnyCodec, QueryTables
from supquant.codec.labels import LabelCodec
from supquant.codec.semantic import SemanticCodec
from supquant.codec.words import item_novelty
from supquant.errors import InputError

__all__ = ["item_tables"]

_LEAST = np.float32(1e-6)
"""A divisor is at least this great."""


@singledispatch
def item_tables(codec: AnyCodec, codes: Codes, ranking: str | None = None) -> QueryTables:
    """Return what a scan needs to find items like those of codes.

    A code says less than the vector that it was made from. So the answers are those to a query near the item.

    Parameters
    ----------
    codec : AnyCodec
        The codec of the codes.
    codes : ndarray of shape (q, M), uint8
        The codes of the items that are taken as queries.
    ranking : str or None, default=None
        One of the codec's `rankings`. None stands for the first of them.

    Returns
    -------
    QueryTables

    Examples
    --------
    >>> codec = AdditiveCodec(np.array([[[0], [1]]], dtype=np.float32))
    >>> item_tables(codec, np.array([[1]], dtype=np.uint8)).tables
    array([[[ 0., -1.]]], dtype=float32)
    """
    del codes, ranking
    raise InputError(f"a {type(codec).__name__} cannot take its items as queries")


@item_tables.register
def _of_additive(codec: AdditiveCodec, codes: Codes, ranking: str | None = None) -> QueryTables:
    decoded = codec.decode(codes)
    ranking = codec.rankings[0] if ranking is None else ranking
    if ranking == "euclidean":
        return QueryTables(codec.tables_of(decoded, ranking), codec.offsets_of(decoded))
    assert codec.meaning is not None
    assert codec.classifier is not None
    assert codec.classes is not None
    scores = decoded @ codec.classifier  # (q, E)
    if codec.meaning.shares is not None:  # they are label vectors, each column times its share
        scores = scores / np.maximum(codec.meaning.shares, _LEAST)
        np.clip(scores[:, : len(codec.classes)], 0, 1, out=scores[:, : len(codec.classes)])
    vectors = codec.meaning.query_vectors(scores, len(codec.classes), multilabel=codec.multilabel)
    offsets = np.zeros(len(codes), dtype=np.float32)
    return QueryTables(codec.tables_of(vectors, ranking), offsets, descending=True, curve=codec.meaning.curve)


@item_tables.register
def _of_semantic(codec: SemanticCodec, codes: Codes, ranking: str | None = None) -> QueryTables:
    r, g = codec.map.spelling.n_columns, codec.map.n_position
    decoded = codec.decode(codes)  # (q, r + 1 + g): meaning, novelty, position
    ranking = codec.rankings[0] if ranking is None else ranking
    novelty = item_novelty(decoded[:, r : r + 1])
    position = decoded[:, r + 1 :]
    features = np.zeros((len(codes), codec.map.n_columns + 1 + 2 * g), dtype=np.float32)
    features[:, :r] = np.clip(decoded[:, :r] / np.maximum(1 - novelty, _LEAST), 0, 1)
    features[:, codec.map.n_columns] = novelty[:, 0]
    features[:, codec.map.n_columns + 1 :] = np.hstack([position, codec.map.cosines(position)])
    tables = codec.tables_of(codec.prepare(features, ranking), ranking)
    offsets = np.zeros(len(codes), dtype=np.float32)
    if ranking != "semantic":
        return QueryTables(tables, offsets, descending=True)
    return QueryTables(
        tables, offsets, descending=True, curve=codec.curves, curve_of=codec.curves_of(features)
    )


@item_tables.register
def _of_labels(codec: LabelCodec, codes: Codes, ranking: str | None = None) -> QueryTables:
    tables = codec.tables_of(codec.decode(codes), ranking)
    return QueryTables(tables, np.zeros(len(codes), dtype=np.float32), descending=True)


@item_tables.register
def _of_binary(codec: BinaryCodec, codes: Codes, ranking: str | None = None) -> QueryTables:
    return codec.tables_of_bits(codes, ranking)
