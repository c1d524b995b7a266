"""Exact scores: what the vectors of items say, where codes only approximate them.

    item   [ x^ | m, E ]        its unit vector, and its meaning as `model/vectors.py` has it: 0 in E if its label is known
    query  [ w  | (1 - u) s, u F ]

The score of an item is the product of the two, less a constant of the query: what the score of its code would be if its code said
all of the item. If no classes were found, the unit vector counts more if the item looks new. Of items whose probabilities of a
shared label lie in the same fifth, the one with the greater cosine comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.interface import QueryTables
from supquant.codec.queries import row_products
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import resolve_jobs
from supquant.inputs.validation import as_float32
from supquant.model.codec import SupervisedCodec
from supquant.model.feature_map import unit_rows
from supquant.model.vectors import checked_novelty

__all__ = ["ExactQueries", "exact_queries", "order_exact", "read_items", "width_of_meaning"]

N_LEVELS = 5
"""Probabilities are tied if they lie in the same of so many equal parts of 0 to 1. With more of them, the order within a class is
less that of cosines, and with fewer the order of classes is worse: `docs/ranking.md` has the measurement."""


@dataclass(frozen=True, eq=False)
class ExactQueries:
    """What orders items by their vectors, for q queries.

    Parameters
    ----------
    units : ndarray of shape (q, p), float32
        Queries of unit length: the product with an item's unit vector is the cosine.
    weights : ndarray of shape (q, p), float32
        Factors of an item's unit vector in its score.
    meaning : ndarray of shape (q, w), float32
        Factors of its meaning in its score.
    shifts : ndarray of shape (q,), float32
        Are subtracted from the products of unit vectors.
    known : ndarray of shape (w,), float32
        1 in the columns of labels: the product with a meaning is the probability of a known class.
    stretch : float
        How much more the unit vector of an item counts that is surely new.
    """

    units: Float32
    weights: Float32
    meaning: Float32
    shifts: Float32
    known: Float32
    stretch: float

    def take(self, which: NDArray[np.intp]) -> ExactQueries:
        """Return the queries `which`, in this order."""
        return replace(
            self,
            units=self.units[which],
            weights=self.weights[which],
            meaning=self.meaning[which],
            shifts=self.shifts[which],
        )

    def scores(
        self, of_meaning: Float32, known: Float32, of_units: Float32, asking: NDArray[Any] | int
    ) -> Float32:
        """Return the scores (r,) of items for the queries that ask for them (r,), or for one query.

        Parameters
        ----------
        of_meaning, known, of_units : ndarray of shape (r,), float32
            Products of an item with `meaning`, `known` and `weights`.
        asking : ndarray of shape (r,), or int
            Numbers of the queries.
        """
        factors = np.float32(1) + np.float32(self.stretch) * (1 - np.clip(known, 0, 1))
        return np.asarray(of_meaning + factors * (of_units - self.shifts[asking]), dtype=np.float32)


def width_of_meaning(codec: SupervisedCodec) -> int:
    """Return w, the width of m and E together."""
    return codec.map.spelling.n_columns + codec.map.n_likeness


def read_items(
    codec: SupervisedCodec, X: ArrayLike, labels: Labels | None = None, codes: Codes | None = None
) -> tuple[Float32, Float32]:
    """Return the unit vectors (b, p) and the meaning (b, w) of a block of items X (b, p).

    Parameters
    ----------
    codec : SupervisedCodec
    X : array-like of shape (b, p)
    labels : Labels or None, default=None
        The labels of the items. The meaning of items without is predicted from their vectors.
    codes : ndarray of shape (b, M), uint8, or None, default=None
        The codes of the items, in place of `labels`: the meaning of an item with a label is that of its code.
    """
    x = as_float32(codec._vectors(X)[:])
    w, map_ = width_of_meaning(codec), codec.map
    if codes is not None:
        meaning = codec.decode(codes)[:, :w]
        unknown = ~codec.are_labelled(codes)
        if unknown.any():
            meaning[unknown] = codec.item_vectors(map_.of_items(x[unknown]))[:, :w]
        return unit_rows(x), meaning
    given = None if labels is None else map_.spelling.of_labels(labels, 0, len(x))
    spelled = (
        given is not None
        and not np.isnan(given[:, 0]).any()
        and not given[:, map_.spelling.n_columns :].any()
    )
    return unit_rows(x), codec.item_vectors(map_.of_labelled(x) if spelled else map_.of_items(x), given)[
        :, :w
    ]


def exact_queries(
    codec: SupervisedCodec,
    Q: ArrayLike,
    ranking: str | None,
    *,
    novelty: ArrayLike | None = None,
    all_labelled: bool = False,
    n_jobs: int | None = None,
) -> tuple[QueryTables, ExactQueries]:
    """Return what a scan needs of queries Q (q, p), as `SupervisedCodec.query_tables` does, and what orders what it finds."""
    ranking = codec._ranking(ranking)
    x = as_float32(codec._vectors(Q, "Q")[:])
    n_threads = resolve_jobs(n_jobs)
    if all_labelled and novelty is None:
        novelty = 0.0
    given = None if novelty is None else checked_novelty(novelty, len(x))
    features = codec._features_of(x, given, n_threads)
    vectors = codec.prepare(features, ranking, all_labelled=all_labelled)
    tables = codec.tables_of(vectors, ranking, n_threads=n_threads)
    queries = codec._finished(tables, ranking, codec.curves_of(features, all_labelled=all_labelled))
    w, units = width_of_meaning(codec), unit_rows(x)
    meaning, place = np.split(vectors, [w], axis=1)
    if ranking == "position":
        meaning, weights = np.zeros_like(meaning), units
    else:
        weights = row_products(place, codec.from_position)
    shifts = np.einsum("ij,j->i", weights, codec.map.mean)
    known = (np.arange(w) < codec.map.spelling.n_columns).astype(np.float32)
    stretch = 0.0 if ranking == "position" else codec.map.stretch
    return queries, ExactQueries(units, weights, np.ascontiguousarray(meaning), shifts, known, stretch)


def order_exact(queries: QueryTables, scores: Float32, cosines: Float32) -> tuple[Float32, NDArray[np.intp]]:
    """Return the order (q, n) of items by their exact scores and cosines (q, n), and the scores that they then have.

    Scores descend. If they are probabilities, those of a level are replaced by their mean, and cosines order its items.
    """
    if queries.curve is None:
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(scores, order, axis=1), order
    probabilities = queries.scores(-scores)
    levels = np.minimum(probabilities * N_LEVELS, N_LEVELS - 1).astype(np.intp)
    order = np.lexsort((-cosines, -levels))
    places = levels + N_LEVELS * np.arange(len(levels))[:, None]
    size = N_LEVELS * len(levels)
    totals = np.bincount(places.ravel(), probabilities.ravel(), size)
    means = totals / np.maximum(np.bincount(places.ravel(), minlength=size), 1)
    return np.take_along_axis(means.astype(np.float32)[places], order, axis=1), order
