"""How good a ranking is: average precision and its kin, from rankings.

A ranking arrives as a matrix with a row per query: entry r tells whether the item at rank r is a true
neighbour, that is, shares a label with the query. Average precision is that of "Supervised Quantization for
Similarity Search" (CVPR 2016); ties follow McSherry and Najork, "Computing information retrieval performance
measures efficiently in the presence of tied scores" (ECIR 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln

from supquant.errors import InputError
from supquant.validation import check_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from supquant.labels import Labels

__all__ = [
    "average_precision",
    "precision_at",
    "precision_at_recall",
    "relevance",
    "tie_aware_average_precision",
]


def relevance(query: Labels, database: Labels, start: int, stop: int) -> NDArray[np.bool_]:
    """Tell which items share at least one label with each of some queries.

    Parameters
    ----------
    query : Labels
        Of the queries.
    database : Labels
        Of the n items, with the same classes.
    start, stop : int
        Which queries, as in a slice.

    Returns
    -------
    ndarray of shape (stop - start, n), bool

    Examples
    --------
    >>> from supquant.labels import read_labels
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
    # Sums of a product of boolean matrices saturate: true where at least one label is shared.
    return np.asarray((query.indicator[start:stop] @ database.indicator.T).toarray(), dtype=np.bool_)


def average_precision(relevant: ArrayLike, cut: int | None = None) -> NDArray[np.float64]:
    """Average, over the true neighbours a query meets, the precision at their ranks.

    ``AP = 1/L sum_{r <= R} P(r) delta(r)``, where delta(r) tells whether rank r holds a true neighbour, P(r)
    is the share of true neighbours among the first r, and L counts those among the first R; without any,
    AP = 0.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        In rank order.
    cut : int or None
        R; None takes the whole ranking.

    Returns
    -------
    ndarray of shape (q,), float64

    Examples
    --------
    >>> average_precision([[True, False, True], [False, False, False]])
    array([0.83333333, 0.        ])
    """
    ranking = _as_ranking(relevant, cut)
    result = np.zeros(len(ranking))
    for i, row in enumerate(ranking):
        ranks = np.flatnonzero(row) + 1  # (L,)
        if len(ranks):
            result[i] = np.mean(np.arange(1, len(ranks) + 1) / ranks)
    return result


def tie_aware_average_precision(
    relevant: ArrayLike, scores: ArrayLike, cut: int | None = None
) -> NDArray[np.float64]:
    """Give the average precision to expect if items of equal score came in random order.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        In rank order.
    scores : array-like of shape (q, n)
        In rank order, whether rising or falling; equal scores, which stand side by side, are ties.
    cut : int or None
        R; None takes the whole ranking. It may fall among ties.

    Returns
    -------
    ndarray of shape (q,), float64

    Examples
    --------
    The true neighbour comes first or second, with precision 1 or 1/2.

    >>> tie_aware_average_precision([[True, False]], [[7, 7]])
    array([0.75])
    """
    ranking = _as_ranking(relevant, None)
    values = np.asarray(scores)
    if values.shape != ranking.shape:
        raise InputError(f"scores have shape {values.shape}, the ranking {ranking.shape}")
    n = ranking.shape[1]
    reach = n if cut is None else min(check_integer(cut, "cut", 1), n)
    inverse_ranks = np.append(1.0 / np.arange(1, reach + 1), 0.0)  # (reach + 1,): sums may end past the last
    expected = [_expected_ap(row, ties, inverse_ranks) for row, ties in zip(ranking, values, strict=True)]
    return np.array(expected, dtype=np.float64)


def _expected_ap(row: NDArray[np.bool_], scores: NDArray[Any], inverse_ranks: NDArray[np.float64]) -> float:
    """Of one query; the cut is one less than the length of `inverse_ranks`."""
    reach = len(inverse_ranks) - 1
    starts, sizes, hits = _groups_with_hits(row, scores)
    within = int(np.searchsorted(starts, reach))  # groups that begin before the cut
    if within == 0:
        return 0.0
    starts, sizes, hits = starts[:within], sizes[:within], hits[:within]
    before = np.cumsum(hits) - hits
    slots = np.minimum(sizes, reach - starts)  # sizes, but for a last group that the cut divides
    sums = (before + 1) / (starts + 1)  # of true neighbours that are tied with nothing
    ties = np.flatnonzero(sizes > 1)
    bounds = np.column_stack((starts, starts + slots))[ties].ravel()
    harmonic = np.add.reduceat(inverse_ranks, bounds)[::2]  # every other sum goes from a group to the next
    sums[ties] = _expected_sum(hits[ties], slots[ties], starts[ties], before[ties], harmonic)
    if slots[-1] == sizes[-1]:
        return float(sums.sum() / (before[-1] + hits[-1]))
    # The number of true neighbours that come before the cut is itself random, and so is L.
    last = np.arange(max(0, hits[-1] - (sizes[-1] - slots[-1])), min(hits[-1], slots[-1]) + 1)
    probability = _hypergeometric(last, int(sizes[-1]), int(hits[-1]), int(slots[-1]))
    total = sums[:-1].sum() + _expected_sum(last, slots[-1], starts[-1], before[-1], harmonic[-1])
    return float(np.sum(probability * total / np.maximum(before[-1] + last, 1)))


def _groups_with_hits(row: NDArray[np.bool_], scores: NDArray[Any]) -> tuple[NDArray[np.int64], ...]:
    """Find the groups of ties that hold true neighbours: where they start, their sizes, and how many they hold.

    Where codes are long most groups are one item, so only true neighbours that are tied are looked up.
    """
    is_bound = np.ones(len(row) + 1, dtype=np.bool_)  # between groups, and at both ends
    np.not_equal(scores[1:], scores[:-1], out=is_bound[1:-1])
    starts = np.flatnonzero(row)  # (L,): a group each, to begin with
    stops = starts + 1
    tied = np.flatnonzero(~(is_bound[starts] & is_bound[stops]))
    bounds = np.flatnonzero(is_bound)
    group = np.searchsorted(bounds, stops[tied])
    starts[tied], stops[tied] = bounds[group - 1], bounds[group]
    first = np.flatnonzero(np.diff(starts, prepend=-1))
    return starts[first], stops[first] - starts[first], np.diff(first, append=len(starts))


def _expected_sum(hits: Any, slots: Any, start: Any, before: Any, harmonic: Any) -> NDArray[np.float64]:
    """Expect a sum of P(r) delta(r) over ties: `hits` true neighbours in the `slots` ranks after `start`.

    Its j-th rank, start + j, holds one with probability hits / slots. If it does, then up to there
    before + 1 + (j - 1) (hits - 1) / (slots - 1) are expected. `harmonic` is the sum of 1 / (start + j) over
    the group; that of (j - 1) / (start + j) is slots - (start + 1) harmonic.
    """
    others = (hits - 1) / np.maximum(slots - 1, 1)
    expected = (before + 1) * harmonic + others * (slots - (start + 1) * harmonic)
    return np.asarray(hits / slots * expected)


def _hypergeometric(k: NDArray[np.int64], total: int, marked: int, drawn: int) -> NDArray[np.float64]:
    """Probability of k marked items among `drawn` of `total`, for all possible k."""

    def log_choose(n: Any, r: Any) -> Any:
        return -np.log1p(n) - betaln(n - r + 1, r + 1)

    weight = log_choose(marked, k) + log_choose(total - marked, drawn - k)
    probability = np.exp(weight - weight.max())
    return np.asarray(probability / probability.sum())


def precision_at(relevant: ArrayLike, ks: Sequence[int]) -> NDArray[np.float64]:
    """Give the share of true neighbours among the first k, for several k.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        In rank order.
    ks : sequence of int
        Each at least 1. Ranks past the n-th count as no neighbours.

    Returns
    -------
    ndarray of shape (q, len(ks)), float64

    Examples
    --------
    >>> precision_at([[True, False, True, False]], [1, 2, 4])
    array([[1. , 0.5, 0.5]])
    """
    ranking = _as_ranking(relevant, None)
    columns = [ranking[:, : check_integer(k, "k", 1)].sum(axis=1) / k for k in ks]
    return np.stack(columns, axis=1) if columns else np.zeros((len(ranking), 0))


def precision_at_recall(relevant: ArrayLike, levels: Sequence[float]) -> NDArray[np.float64]:
    """Give the precision at the first rank where recall reaches each level, without interpolation.

    That rank holds a true neighbour: the first for which ``found / L >= level``, L counting all true
    neighbours of the query.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        In rank order.
    levels : sequence of float
        Each above 0 and at most 1.

    Returns
    -------
    ndarray of shape (q, len(levels)), float64
        NaN for a query without any true neighbour, which has no recall.

    Examples
    --------
    >>> precision_at_recall([[True, False, True, False]], [0.25, 0.5, 1.0])
    array([[1.        , 1.        , 0.66666667]])
    """
    ranking = _as_ranking(relevant, None)
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


def _as_ranking(relevant: ArrayLike, cut: int | None) -> NDArray[np.bool_]:
    ranking = np.asarray(relevant, dtype=np.bool_)
    if ranking.ndim != 2:
        raise InputError(f"a ranking has a row per query and a column per rank, got shape {ranking.shape}")
    return ranking if cut is None else ranking[:, : check_integer(cut, "cut", 1)]
