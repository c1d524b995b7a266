"""Score: what a ranking is worth, from codes and tables, from float vectors, or from any scores.

Scores are made, ranked and judged in blocks of queries, so that memory does not grow with their number. In
every score smaller is nearer; equal scores stay in the order in which items were inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from supquant import kernels
from supquant.arrays import Array
from supquant.errors import InputError
from supquant.evaluation.neighbours import neighbour_recalls
from supquant.evaluation.ordering import ranked
from supquant.metrics import (
    average_precision,
    precision_at,
    precision_at_recall,
    relevance,
    tie_aware_average_precision,
)
from supquant.parallel import ordered_map, row_blocks
from supquant.validation import check_integer, resolve_jobs

if TYPE_CHECKING:
    from supquant.labels import Labels

Score = Callable[[Array], Array]
"""From a block of b queries, in whatever form they come, to the scores (b, n) of all items."""

PRECISION_CUTS = (1, 10, 100, 1000)
RECALL_LEVELS = tuple(step / 20 for step in range(1, 21))  # 0.05, 0.10, ..., 1.00
MOST_NEIGHBOUR_QUERIES = 2500
"""Recalls of nearest vectors are means over so many queries at the most, the first ones. More are asked on ImageNet alone:
50,000, where a pass over the vectors of all items takes seconds."""

_BLOCK_BYTES = 16 << 20  # of scores in one block of queries


@dataclass(frozen=True)
class KindQuality:
    """How good the rankings are for queries of one kind: of known classes, or of new ones.

    Attributes
    ----------
    map : float
        Mean average precision over the whole database.
    map_tie_aware : float
        The mean over all orders of items whose scores are equal.
    map_only : float
        Mean average precision over the items of that kind alone.
    """

    map: float
    map_tie_aware: float
    map_only: float


@dataclass(frozen=True)
class OpenQuality:
    """How good the rankings are where known and new classes are mixed.

    Examples
    --------
    >>> OpenQuality(KindQuality(0.75, 0.75, 0.9), KindQuality(0.25, 0.25, 0.5)).map
    0.375
    """

    known: KindQuality
    new: KindQuality

    @property
    def map(self) -> float:
        """The harmonic mean of both: a method that gives up one kind has little of it."""
        return harmonic_mean([self.known.map, self.new.map])

    @property
    def map_tie_aware(self) -> float:
        """The same of the tie-aware ones."""
        return harmonic_mean([self.known.map_tie_aware, self.new.map_tie_aware])


@dataclass(frozen=True)
class RetrievalQuality:
    """How well rankings put items that share a label with the query first.

    Attributes
    ----------
    map : float
        Mean average precision, ties in order of insertion.
    map_tie_aware : float
        The mean over all orders of items whose scores are equal.
    precision_at : mapping of int to float
        The share of true neighbours among the first k.
    precision_at_recall : mapping of float to float
        The precision at the first rank where recall reaches 0.05, 0.10, ..., 1.00 of all true neighbours, not
        interpolated, ties in order of insertion, whatever the cut: the mean over queries that have a true
        neighbour, 0 if none has.
    recall_at_10 : float or None
        The share of the ten vectors of greatest cosine to the query that is among the first ten items, the mean over
        queries; None where no vectors were given.
    recall_within_class : float or None
        The same among the true neighbours of a query alone, the mean over queries that have one, 0 if none has. A
        query with ten true neighbours or fewer has 1.
    open : OpenQuality or None
        By the kind of query, where it was said which classes are new.
    """

    map: float
    map_tie_aware: float
    precision_at: Mapping[int, float]
    precision_at_recall: Mapping[float, float]
    recall_at_10: float | None = None
    recall_within_class: float | None = None
    open: OpenQuality | None = None


def evaluate_tables(
    tables: Array,
    codes: Array,
    query_labels: Labels,
    database_labels: Labels,
    *,
    cut: int | None = None,
    precision_cuts: Sequence[int] = PRECISION_CUTS,
    n_jobs: int | None = None,
) -> RetrievalQuality:
    """Judge the rankings that look-up tables give to codes.

    Parameters
    ----------
    tables : ndarray of shape (q, M, K), float32
        As an estimator's `tables` gives them: smaller is nearer.
    codes : ndarray of shape (n, M), uint8
    query_labels, database_labels : Labels
        Of the q queries and the n items, over the same classes.
    cut : int, optional
        Only the first `cut` of a ranking count (R of the paper); the whole ranking if None.
    precision_cuts : sequence of int
        Those beyond the number of items are left out.
    n_jobs : int, optional
        Threads; all cores if None.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> tables = np.array([[[0, 1]], [[1, 0]]], dtype=np.float32)  # 2 queries, 1 codebook of 2 codewords
    >>> codes = np.array([[0], [0], [1]], dtype=np.uint8)
    >>> queries, items = read_labels(["a", "b"]), read_labels(["a", "b", "b"])
    >>> evaluate_tables(tables, codes, queries, items).map
    0.9166666666666666
    """
    scan = kernels.active().table_sums
    return evaluate_scores(
        lambda block: scan(codes, block),
        tables,
        query_labels,
        database_labels,
        cut=cut,
        precision_cuts=precision_cuts,
        n_jobs=n_jobs,
    )


def evaluate_vectors(
    queries: Array,
    items: Array,
    query_labels: Labels,
    database_labels: Labels,
    *,
    cut: int | None = None,
    precision_cuts: Sequence[int] = PRECISION_CUTS,
    n_jobs: int | None = None,
) -> RetrievalQuality:
    """Judge the rankings of float vectors (n, d) by their Euclidean distance to queries (q, d).

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> X = np.array([[0.0], [1.0], [5.0], [6.0]], dtype=np.float32)
    >>> y = read_labels([0, 0, 1, 1])
    >>> evaluate_vectors(X, X, y, y).map
    1.0
    """
    return evaluate_scores(
        euclidean_scores(items),
        queries,
        query_labels,
        database_labels,
        cut=cut,
        precision_cuts=precision_cuts,
        n_jobs=n_jobs,
    )


def euclidean_scores(items: Array) -> Score:
    """Score vectors (n, d) by squared distance, less the square of the query, which changes no ranking.

    Examples
    --------
    >>> euclidean_scores(np.array([[0.0], [3.0]], dtype=np.float32))(np.array([[2.0]], dtype=np.float32))
    array([[ 0., -3.]], dtype=float32)
    """
    squares = np.einsum("ij,ij->i", items, items)  # (n,)
    return lambda queries: squares - 2 * (queries @ items.T)


def cosine_scores(items: Array) -> Score:
    """Score vectors (n, d) by minus their cosine to the query; that of a vector of zeros is 0.

    Examples
    --------
    >>> cosine_scores(np.array([[0.0, 3.0], [4.0, 3.0]]))(np.array([[0.0, 2.0]]))
    array([[-1. , -0.6]])
    """
    by = -1 / _lengths(items)  # (n,)

    def score(queries: Array) -> Array:
        scores: Array = (queries / _lengths(queries)[:, None]) @ items.T
        scores *= by
        return scores

    return score


def _lengths(vectors: Array) -> Array:
    """Lengths (n,) of vectors (n, d); 1 for a vector of zeros, so that one can divide by it."""
    lengths: Array = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    lengths[lengths == 0] = 1
    return lengths


def evaluate_scores(
    score: Score,
    queries: Array,
    query_labels: Labels,
    database_labels: Labels,
    *,
    cut: int | None = None,
    precision_cuts: Sequence[int] = PRECISION_CUTS,
    vectors: tuple[Array, Array] | None = None,
    new: tuple[Array, Array] | None = None,
    n_jobs: int | None = None,
) -> RetrievalQuality:
    """Judge the rankings of any scores; `evaluate_tables` says what the other parameters are.

    Parameters
    ----------
    score : callable
        From a block of queries to the scores (b, n) of all items.
    queries : ndarray of shape (q, ...)
        What `score` takes, a row a query.
    vectors : pair of ndarray, (q, d) and (n, d), optional
        Of queries and items: with them, the recalls of nearest vectors are found too.
    new : pair of ndarray, (q,) and (n,), bool, optional
        Which queries and which items are of new classes: with them, `open` is found too. There must be queries of both
        kinds, and items that share a label are of one kind.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> y = read_labels([0, 1])
    >>> evaluate_scores(lambda block: 1 - block, np.eye(2), y, y).map
    1.0
    """
    n_queries, n_items = len(query_labels), len(database_labels)
    if n_queries == 0 or n_items == 0:
        raise InputError(
            f"expected at least one query and one item, got {n_queries} queries and {n_items} items"
        )
    if cut is not None:
        check_integer(cut, "cut", 1)
    cuts = [k for k in precision_cuts if k <= n_items]
    block = max(1, _BLOCK_BYTES // (4 * n_items))
    kinds = None if new is None else _Kinds(*new)
    near = None if vectors is None else _NearVectors(vectors[0], cosine_scores(vectors[1]))

    def judge(bounds: tuple[int, int]) -> tuple[Array, ...]:
        start, stop = bounds
        found = score(queries[start:stop])  # (b, n)
        shares_label = relevance(query_labels, database_labels, start, stop)  # (b, n)
        if kinds is None:
            keys, relevant = ranked(found, shares_label)
            of_kind = np.empty(0)
        else:
            keys, relevant, is_new = kinds.ranked(found, shares_label)
            of_kind = kinds.average_precision(start, relevant, is_new, cut)
        return (
            average_precision(relevant, cut),
            tie_aware_average_precision(relevant, keys, cut),
            precision_at(relevant, cuts),
            precision_at_recall(relevant, RECALL_LEVELS),
            np.empty((0, 2)) if near is None else near.recalls(start, found, shares_label),
            of_kind,
        )

    judged = list(ordered_map(judge, row_blocks(n_queries, block), resolve_jobs(n_jobs)))
    plain, tie_aware, precision, curve, recalls, of_kind = (
        np.concatenate(parts) for parts in zip(*judged, strict=True)
    )
    curve = curve[~np.isnan(curve[:, 0])]  # of the queries that have a true neighbour
    of_all, within_class = np.nansum(recalls, axis=0) / np.maximum((~np.isnan(recalls)).sum(axis=0), 1)
    return RetrievalQuality(
        map=float(plain.mean()),
        map_tie_aware=float(tie_aware.mean()),
        precision_at={k: float(mean) for k, mean in zip(cuts, precision.mean(axis=0), strict=True)},
        precision_at_recall={
            level: float(mean)
            for level, mean in zip(RECALL_LEVELS, curve.sum(axis=0) / max(len(curve), 1), strict=True)
        },
        recall_at_10=None if near is None else float(of_all),
        recall_within_class=None if near is None else float(within_class),
        open=None if kinds is None else kinds.quality(plain, tie_aware, of_kind),
    )


@dataclass(frozen=True)
class _Kinds:
    """Which queries (q,) and which items (n,) are of new classes."""

    new_queries: Array
    new_items: Array

    def __post_init__(self) -> None:
        n_new = int(np.sum(self.new_queries))
        if not 0 < n_new < len(self.new_queries):
            raise InputError(
                f"expected queries of known and of new classes, got {n_new} new ones of {len(self.new_queries)}"
            )

    def ranked(self, scores: Array, relevant: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Keys, true neighbours and items of new classes, each (b, n), in rank order."""
        both = relevant.view(np.uint8) | (self.new_items.astype(np.uint8) << 1)  # one byte is sorted along
        keys, both = ranked(scores, both)
        return keys, (both & 1).view(np.bool_), (both >> 1).view(np.bool_)

    def average_precision(
        self, start: int, relevant: Array, is_new: Array, cut: int | None
    ) -> npt.NDArray[np.float64]:
        """Average precision (b,) of each query of a block over the items of its own kind alone."""
        asked = self.new_queries[start : start + len(relevant)]
        rows = [
            average_precision(row[kind == own][None], cut)
            for row, kind, own in zip(relevant, is_new, asked, strict=True)
        ]
        return np.concatenate(rows)

    def quality(self, plain: Array, tie_aware: Array, of_kind: Array) -> OpenQuality:
        """Means over the queries of each kind, from figures (q,) of all queries."""
        known, new = (
            KindQuality(*(float(values[asked].mean()) for values in (plain, tie_aware, of_kind)))
            for asked in (~self.new_queries, self.new_queries)
        )
        return OpenQuality(known, new)


@dataclass(frozen=True)
class _NearVectors:
    """The vectors (q, d) of the queries, and what tells how far items are from them."""

    queries: Array
    distance: Score

    def recalls(self, start: int, scores: Array, relevant: npt.NDArray[np.bool_]) -> Array:
        """Recalls (a, 2) of those a queries of a block, whose scores are (b, n), that are asked for nearest vectors."""
        asked = max(0, min(len(scores), MOST_NEIGHBOUR_QUERIES - start))
        distances = self.distance(self.queries[start : start + asked])  # (a, n)
        return neighbour_recalls(scores[:asked], distances, relevant[:asked])
