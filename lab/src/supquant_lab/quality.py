"""The quality of rankings by any scores.

`supquant.evaluation` measures rankings by codes and tables. Experiments also rank by distances of float vectors and of bits, and
measure more: precision by recall, the order within a class, and known and new classes apart.

Queries are processed in blocks, so that memory does not grow with their number. A smaller score is nearer, and equal scores
stay in the order in which the items were inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array, ArrayLike, Flags, Float64, RowNumbers
from supquant.errors import InputError
from supquant.evaluation.retrieval import PRECISION_CUTS, RetrievalQuality
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant.metrics import as_ranking, average_precision, tie_aware_average_precision
from supquant.parallel import ordered_map, row_blocks

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

Score = Callable[[Array], Array]
"""A function from a block of b queries, in any form, to the scores (b, n) of all items."""

RECALL_LEVELS = tuple(step / 20 for step in range(1, 21))
"""Fractions of the true neighbours at which the precision is measured: 0.05, 0.10, ..., 1.00."""

MAX_NEIGHBOUR_QUERIES = 2500
"""Recalls of nearest vectors are means over the first queries, at most this number of them. Only ImageNet has more queries,
50,000, and there a pass over the vectors of all items takes seconds."""

N_NEIGHBOURS = 10
"""Number of first items of a ranking that are compared with the same number of nearest vectors."""

_BLOCK_BYTES = 16 << 20
"""Size of the float32 scores of one block of queries, in bytes."""


@dataclass(frozen=True)
class KindQuality:
    """The quality of the rankings for queries of one kind: of known classes, or of new classes.

    Attributes
    ----------
    map : float
        Mean average precision over the whole database.
    map_tie_aware : float
        The mean of `map` over all orders of items with equal scores.
    map_only : float
        Mean average precision over the items of the same kind.
    """

    map: float
    map_tie_aware: float
    map_only: float


@dataclass(frozen=True)
class OpenQuality:
    """The quality of the rankings of items of known and of new classes, mixed.

    Attributes
    ----------
    known : KindQuality
        The quality for queries of known classes.
    new : KindQuality
        The quality for queries of new classes.

    Examples
    --------
    >>> OpenQuality(KindQuality(0.75, 0.75, 0.9), KindQuality(0.25, 0.25, 0.5)).map
    0.375
    """

    known: KindQuality
    new: KindQuality

    @property
    def map(self) -> float:
        """The harmonic mean of `map` for known and for new classes; it is low if one of them is low."""
        return harmonic_mean([self.known.map, self.new.map])

    @property
    def map_tie_aware(self) -> float:
        """The harmonic mean of `map_tie_aware` for known and for new classes."""
        return harmonic_mean([self.known.map_tie_aware, self.new.map_tie_aware])


@dataclass(frozen=True)
class RankingQuality(RetrievalQuality):
    """The quality of rankings, with all that experiments measure.

    Attributes
    ----------
    precision_at_recall : mapping of float to float
        The precision at the first rank where recall reaches 0.05, 0.10, ..., 1.00, by recall. It is not interpolated, equal
        scores are in order of insertion, and it does not depend on the cut. It is the mean over queries that have a true
        neighbour, 0 if there is none.
    recall_at_10 : float or None
        The fraction of the ten vectors with the largest cosine to the query that are among the first ten items, as the mean
        over queries; None if no vectors were given.
    recall_within_class : float or None
        The same among the true neighbours of a query, as the mean over queries that have one, 0 if there is none. It is 1
        for a query with at most ten true neighbours.
    open : OpenQuality or None
        The quality by kind of query; None if it was not given which classes are new.
    """

    precision_at_recall: Mapping[float, float]
    recall_at_10: float | None = None
    recall_within_class: float | None = None
    open: OpenQuality | None = None


def euclidean_scores(items: Array) -> Score:
    """Return a function that scores items (n, d) by their squared Euclidean distance to queries.

    The squared norm of the query is left out. It does not change the ranking.

    Parameters
    ----------
    items : ndarray of shape (n, d)

    Returns
    -------
    callable
        From queries (b, d) to scores (b, n).

    Examples
    --------
    >>> euclidean_scores(np.array([[0.0], [3.0]], dtype=np.float32))(np.array([[2.0]], dtype=np.float32))
    array([[ 0., -3.]], dtype=float32)
    """
    squares = np.einsum("ij,ij->i", items, items)  # (n,)
    return lambda queries: squares - 2 * (queries @ items.T)


def cosine_scores(items: Array) -> Score:
    """Return a function that scores items (n, d) by their negative cosine to queries; the cosine of a zero vector is 0.

    Parameters
    ----------
    items : ndarray of shape (n, d)

    Returns
    -------
    callable
        From queries (b, d) to scores (b, n).

    Examples
    --------
    >>> cosine_scores(np.array([[0.0, 3.0], [4.0, 3.0]]))(np.array([[0.0, 2.0]]))
    array([[-1. , -0.6]])
    """
    factors = -1 / _lengths(items)  # (n,)

    def score(queries: Array) -> Array:
        scores: Array = (queries / _lengths(queries)[:, None]) @ items.T
        scores *= factors
        return scores

    return score


def _lengths(vectors: Array) -> Array:
    """Return the lengths (n,) of vectors (n, d), or 1 for a zero vector, so that they can be divisors."""
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
) -> RankingQuality:
    """Measure the quality of rankings by any scores.

    The parameters `query_labels`, `database_labels`, `cut`, `precision_cuts` and `n_jobs` are those of
    `supquant.evaluation.evaluate_tables`.

    Parameters
    ----------
    score : callable
        From a block of queries to the scores (b, n) of all items.
    queries : ndarray of shape (q, ...)
        One row for each query, as `score` takes them.
    vectors : pair of ndarray of shapes (q, d) and (n, d), or None, default=None
        Vectors of the queries and the items. If given, the recalls of nearest vectors are measured.
    new : pair of ndarray of shapes (q,) and (n,), bool, or None, default=None
        True for queries and items of new classes. If given, `open` is measured. There must be queries of both kinds, and a
        label must not be both known and new.

    Returns
    -------
    RankingQuality

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
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
    block_rows = max(1, _BLOCK_BYTES // (4 * n_items))
    kinds = None if new is None else _ClassKinds(*new)
    nearest = None if vectors is None else _NearestVectors(vectors[0], cosine_scores(vectors[1]))

    def evaluate_block(block: tuple[int, int]) -> tuple[Array, ...]:
        start, stop = block
        scores = score(queries[start:stop])  # (b, n)
        shares_label = relevance(query_labels, database_labels, start, stop)  # (b, n)
        if kinds is None:
            keys, relevant = ranked(scores, shares_label)
            within_kind = np.empty(0)
        else:
            keys, relevant, is_new = kinds.ranked(scores, shares_label)
            within_kind = kinds.average_precision(start, relevant, is_new, cut)
        return (
            average_precision(relevant, cut),
            tie_aware_average_precision(relevant, keys, cut),
            precision_at(relevant, cuts),
            precision_at_recall(relevant, RECALL_LEVELS),
            np.empty((0, 2)) if nearest is None else nearest.recalls(start, scores, shares_label),
            within_kind,
        )

    evaluated = list(ordered_map(evaluate_block, row_blocks(n_queries, block_rows), resolve_jobs(n_jobs)))
    plain, tie_aware, precision, curve, recalls, within_kind = (
        np.concatenate(parts) for parts in zip(*evaluated, strict=True)
    )
    curve = curve[~np.isnan(curve[:, 0])]  # queries that have a true neighbour
    recall, within_class = np.nansum(recalls, axis=0) / np.maximum((~np.isnan(recalls)).sum(axis=0), 1)
    return RankingQuality(
        map=float(plain.mean()),
        map_tie_aware=float(tie_aware.mean()),
        precision_at={k: float(mean) for k, mean in zip(cuts, precision.mean(axis=0), strict=True)},
        precision_at_recall={
            level: float(mean)
            for level, mean in zip(RECALL_LEVELS, curve.sum(axis=0) / max(len(curve), 1), strict=True)
        },
        recall_at_10=None if nearest is None else float(recall),
        recall_within_class=None if nearest is None else float(within_class),
        open=None if kinds is None else kinds.quality(plain, tie_aware, within_kind),
    )


@dataclass(frozen=True)
class _ClassKinds:
    """Queries and items of known and of new classes."""

    new_queries: Flags  # (q,)
    new_items: Flags  # (n,)

    def __post_init__(self) -> None:
        n_new = int(np.sum(self.new_queries))
        if not 0 < n_new < len(self.new_queries):
            raise InputError(
                f"expected queries of known and of new classes, got {n_new} new ones of {len(self.new_queries)}"
            )

    def ranked(self, scores: Array, relevant: Flags) -> tuple[Array, Flags, Flags]:
        """Return keys, true neighbours, and items of new classes, each (b, n), in rank order; see `ranked`."""
        both = relevant.view(np.uint8) | (
            self.new_items.astype(np.uint8) << 1
        )  # bit 0 and bit 1 of one value
        keys, both = ranked(scores, both)
        return keys, (both & 1).view(np.bool_), (both >> 1).view(np.bool_)

    def average_precision(self, start: int, relevant: Flags, is_new: Flags, cut: int | None) -> Float64:
        """Return the average precision (b,) of each query of a block over the items of its own kind."""
        new_queries = self.new_queries[start : start + len(relevant)]
        rows = [
            average_precision(row[item_is_new == query_is_new][None], cut)
            for row, item_is_new, query_is_new in zip(relevant, is_new, new_queries, strict=True)
        ]
        return np.concatenate(rows)

    def quality(self, plain: Float64, tie_aware: Float64, within_kind: Float64) -> OpenQuality:
        """Return the means over the queries of each kind, given the average precisions (q,) of all queries."""
        known, new = (
            KindQuality(*(float(values[of_kind].mean()) for values in (plain, tie_aware, within_kind)))
            for of_kind in (~self.new_queries, self.new_queries)
        )
        return OpenQuality(known, new)


@dataclass(frozen=True)
class _NearestVectors:
    """The vectors of the queries, and a function of the distances of the items to them."""

    queries: Array  # (q, d)
    distance: Score

    def recalls(self, start: int, scores: Array, relevant: Flags) -> Float64:
        """Return the recalls (a, 2) of a block of queries with scores (b, n); a is below b past `MAX_NEIGHBOUR_QUERIES`."""
        a = max(0, min(len(scores), MAX_NEIGHBOUR_QUERIES - start))
        distances = self.distance(self.queries[start : start + a])  # (a, n)
        return neighbour_recalls(scores[:a], distances, relevant[:a])


# measures ---------------------------------------------------------------------------------------------------------------
#
# A ranking is a matrix with one row for each query. Entry r is true if the item at rank r is a true neighbour.


def relevance(query: Labels, database: Labels, start: int, stop: int) -> Flags:
    """Return which items share at least one label with each query.

    Parameters
    ----------
    query : Labels
        Labels of the queries.
    database : Labels
        Labels of the n items, over the same classes.
    start, stop : int
        The queries to compare, as in a slice.

    Returns
    -------
    ndarray of shape (stop - start, n), bool

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> labels = read_labels(["cat", "dog", "cat"])
    >>> relevance(labels, labels, 0, 1)
    array([[ True, False,  True]])
    """
    if query.multilabel != database.multilabel or not np.array_equal(query.classes, database.classes):
        raise InputError("the labels of queries and database must be of the same classes and form")
    if query.indices is not None and database.indices is not None:
        return np.asarray(query.indices[start:stop, None] == database.indices)
    assert query.indicator is not None
    assert database.indicator is not None
    # a product of boolean matrices is boolean: true where at least one label is shared
    return np.asarray((query.indicator[start:stop] @ database.indicator.T).toarray(), dtype=np.bool_)


def precision_at(relevant: ArrayLike, ks: Sequence[int]) -> Float64:
    """Return the fraction of true neighbours among the first k items, for several k.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        True neighbours, in rank order.
    ks : sequence of int
        Each at least 1. Ranks after the n-th count as no true neighbours.

    Returns
    -------
    ndarray of shape (q, len(ks)), float64

    Examples
    --------
    >>> precision_at([[True, False, True, False]], [1, 2, 4])
    array([[1. , 0.5, 0.5]])
    """
    ranking = as_ranking(relevant, None)
    columns = [ranking[:, : check_integer(k, "k", 1)].sum(axis=1) / k for k in ks]
    return np.stack(columns, axis=1) if columns else np.zeros((len(ranking), 0))


def precision_at_recall(relevant: ArrayLike, levels: Sequence[float]) -> Float64:
    """Return the precision at the first rank where recall reaches each level, without interpolation.

    Recall at a rank is the fraction of all L true neighbours of the query that are found up to it.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        True neighbours, in rank order.
    levels : sequence of float
        Each above 0 and at most 1.

    Returns
    -------
    ndarray of shape (q, len(levels)), float64
        NaN for a query without true neighbours.

    Examples
    --------
    >>> precision_at_recall([[True, False, True, False]], [0.25, 0.5, 1.0])
    array([[1.        , 1.        , 0.66666667]])
    """
    ranking = as_ranking(relevant, None)
    wanted = np.asarray(levels, dtype=np.float64)
    if not np.all((wanted > 0) & (wanted <= 1)):
        raise InputError(f"levels of recall are above 0 and at most 1, got {list(levels)}")
    result = np.full((len(ranking), len(wanted)), np.nan)
    for i, row in enumerate(ranking):
        ranks = np.flatnonzero(row) + 1  # (L,)
        if len(ranks):
            recall = np.arange(1, len(ranks) + 1) / len(ranks)
            reached = np.searchsorted(recall, wanted)
            result[i] = (reached + 1) / ranks[reached]
    return result


# nearest vectors --------------------------------------------------------------------------------------------------------
#
# MAP measures whether items with the label of the query come first, but not in which order these come. A code that only holds the
# label of its item has a perfect MAP and no order within a class.


def neighbour_recalls(scores: Array, distances: Array, relevant: Flags, *, k: int = N_NEIGHBOURS) -> Float64:
    """Return the fraction of the k nearest vectors that are among the first k items, for every query.

    Parameters
    ----------
    scores : ndarray of shape (q, n)
        Scores that rank the items; smaller is nearer.
    distances : ndarray of shape (q, n)
        Distances between the vectors, such as negative cosines; smaller is nearer.
    relevant : ndarray of shape (q, n), bool
        True where an item shares a label with the query.
    k : int, default=10
        If there are fewer items, all of them are compared.

    Returns
    -------
    ndarray of shape (q, 2), float64
        The fraction among all items, and the fraction among the relevant items, which is NaN for a query without any. Items of
        equal scores or equal distances are in order of insertion.

    Examples
    --------
    Among all items, the nearest one is found. Among the relevant items, 1 and 2, the farther one is ranked first.

    >>> scores, distances = np.array([[0, 2, 1]]), np.array([[0, 1, 2]])
    >>> neighbour_recalls(scores, distances, np.array([[False, True, True]]), k=1)
    array([[1., 0.]])
    """
    result = np.full((len(scores), 2), np.nan)
    for i in range(len(scores)):
        result[i, 0] = _overlap(scores[i], distances[i], k)
        of_label = np.flatnonzero(relevant[i])
        if len(of_label):
            result[i, 1] = _overlap(scores[i, of_label], distances[i, of_label], k)
    return result


def first_items(scores: Array, k: int) -> RowNumbers:
    """Return the numbers of the k items with the smallest scores (n,), in any order; of equal scores, the first items.

    Examples
    --------
    >>> sorted(first_items(np.array([3, 1, 3, 2, 3]), 3).tolist())
    [0, 1, 3]
    """
    if k >= len(scores):
        return np.arange(len(scores))
    last = np.partition(scores, k - 1)[k - 1]  # the k-th smallest score
    below = np.flatnonzero(scores < last)
    return np.concatenate([below, np.flatnonzero(scores == last)[: k - len(below)]])


def _overlap(scores: Array, distances: Array, k: int) -> float:
    """Return the fraction of the k smallest distances (n,) whose items are among the k smallest scores (n,)."""
    found, nearest = (set(first_items(each, k).tolist()) for each in (scores, distances))
    return len(found & nearest) / len(nearest)


# order ------------------------------------------------------------------------------------------------------------------
#
# This is a radix sort: stable sorts by one digit after another, from the lowest to the highest. A digit has 16 bits, since NumPy
# sorts 16-bit integers by counting. 69,000 float32 scores take two sorts, and a quarter of the time of a stable argsort.


def ranked(scores: Array, values: Array) -> tuple[Array, Array]:
    """Sort the items of every query: smallest score first, equal scores in order of insertion.

    Parameters
    ----------
    scores : ndarray of shape (q, n), float or integer of at most 64 bits
        It holds no NaN.
    values : ndarray of shape (q, n)
        A value of each item, such as whether it is a true neighbour.

    Returns
    -------
    keys : ndarray of shape (q, n), unsigned integer
        Keys in rank order; two keys are equal if the scores are.
    values : ndarray of shape (q, n)
        The values in rank order.

    Examples
    --------
    >>> keys, hits = ranked(np.array([[2.5, -1.0, 2.5]]), np.array([[True, False, False]]))
    >>> hits, keys[:, 1:] == keys[:, :-1]
    (array([[False,  True, False]]), array([[False,  True]]))
    """
    if scores.shape != values.shape:
        raise InputError(f"scores have shape {scores.shape}, expected {values.shape}: a column per item")
    if scores.dtype.kind not in "uif" or scores.dtype.itemsize > 8:
        raise InputError(f"scores must be integers or floats of at most 64 bits, got {scores.dtype}")
    keys = np.empty(scores.shape, dtype=f"u{scores.dtype.itemsize}")
    sorted_values = np.empty_like(values)
    for i, row in enumerate(scores):  # the data of one query fits into the cache
        keys[i], sorted_values[i] = _sort_together(ordered_keys(row), values[i])
    return keys, sorted_values


def ordered_keys(scores: Array) -> Array:
    """Return unsigned integers of the same size that compare as the scores do.

    Parameters
    ----------
    scores : ndarray of shape (n,), float or integer of at most 64 bits

    Returns
    -------
    ndarray of shape (n,), unsigned integer

    Examples
    --------
    >>> ordered_keys(np.array([-3, 0, 127], dtype=np.int8))
    array([125, 128, 255], dtype=uint8)
    >>> ordered_keys(np.array([-0.0, 0.0, 1e-45], dtype=np.float32)) - np.uint32(1 << 31)
    array([0, 0, 1], dtype=uint32)
    """
    kind, size = scores.dtype.kind, scores.dtype.itemsize
    if kind == "u":
        return scores
    lowest = np.iinfo(f"i{size}").min  # the sign bit alone
    bits = (scores + 0).view(f"i{size}")  # -0.0 + 0 is 0.0
    if kind == "i":
        bits ^= lowest
    elif np.isnan(np.min(scores, initial=np.inf)):
        raise InputError("scores must be numbers, got NaN")
    else:
        # As integers, the bits of positive floats are in their order, those of negative floats in reverse. So the sign bit
        # of a positive float is flipped, and all bits of a negative one.
        bits ^= (bits >> (8 * size - 1)) | lowest
    return bits.view(f"u{size}")


def _sort_together(keys: Array, values: Array) -> tuple[Array, Array]:
    """Return unsigned integers (n,) in ascending order, and values (n,) in the order of their keys; the sort is stable."""
    size = keys.dtype.itemsize
    keys = np.ascontiguousarray(keys, dtype=f"<u{size}")  # little-endian: the lowest digit is the first
    digit_size = min(size, 2)
    n_digits = size // digit_size
    for j in range(n_digits):
        digit = np.ascontiguousarray(keys.view(f"<u{digit_size}")[j::n_digits])
        # equal digits need no sort: small integers kept as floats, such as Hamming distances, differ in the highest only
        if len(digit) and digit.min() < digit.max():
            order = digit.argsort(kind="stable")
            keys, values = keys.take(order), values.take(order)
    return keys, values
