"""Score: rankings of codes, and their average precision.

A ranking is a matrix with one row for each query. Entry r is true if the item at rank r is a true neighbour, that is, if it
shares a label with the query. Average precision is that of "Supervised Quantization for Similarity Search" (CVPR 2016). Ties
follow McSherry and Najork, "Computing information retrieval performance measures efficiently in the presence of tied scores"
(ECIR 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betaln

from supquant import kernels
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from supquant.arrays import Array, Codes, Flags, Float32, Float64, RowNumbers
    from supquant.inputs.labels import Labels

__all__ = ["as_ranking", "average_precision", "rank_codes", "tie_aware_average_precision"]


def rank_codes(table: Float32, codes: Codes, asking: Labels, labels: Labels) -> tuple[Float32, Flags]:
    """Rank all items for one query: smallest sum of table entries first, equal sums in order of insertion.

    Parameters
    ----------
    table : ndarray of shape (M, K), float32
        The table of the query.
    codes : ndarray of shape (n, M), uint8
        Codes of the items.
    asking : Labels
        Labels of the query, one row.
    labels : Labels
        Labels of the n items, over the same classes.

    Returns
    -------
    scores : ndarray of shape (n,), float32
        The sums, in rank order.
    relevant : ndarray of shape (n,), bool
        True neighbours, in rank order.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> table, codes = np.array([[2, 1]], dtype=np.float32), np.array([[0], [1], [0]], dtype=np.uint8)
    >>> labels = read_labels(["cat", "dog", "cat"])
    >>> rank_codes(table, codes, labels.take([0]), labels)
    (array([1., 2., 2.], dtype=float32), array([False,  True,  True]))
    """
    scores = kernels.active().table_sums(codes, table[None])[0]
    order = _stable_order(scores)
    return scores[order], asking.shared_with(labels)[0, order]


def _stable_order(values: Float32) -> RowNumbers:
    """Return the indices that sort values (n,) in ascending order; equal values keep their order.

    NumPy's stable sort takes six times as long as sorting numbers that hold both value and index.

    Examples
    --------
    >>> _stable_order(np.array([2.5, -1.0, 0.0, 2.5, -0.0], dtype=np.float32))
    array([1, 2, 4, 0, 3])
    """
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # the sum has no negative zero
    keys = (bits ^ (bits >> 31 & 0x7FFFFFFF)) << 32 | np.arange(len(values))
    keys.sort()
    return keys & 0xFFFFFFFF


def average_precision(relevant: ArrayLike, cut: int | None = None) -> Float64:
    """Return the mean of the precision at the ranks of true neighbours, for each query.

    ``AP = 1/L sum_{r <= R} P(r) delta(r)``, where delta(r) is 1 if rank r holds a true neighbour, else 0; P(r) is the fraction of
    true neighbours among the first r items; L is the number of true neighbours among the first R items. If L = 0, AP = 0.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        True neighbours, in rank order.
    cut : int or None, default=None
        R; None for the whole ranking.

    Returns
    -------
    ndarray of shape (q,), float64

    Examples
    --------
    >>> average_precision([[True, False, True], [False, False, False]])
    array([0.83333333, 0.        ])
    """
    ranking = as_ranking(relevant, cut)
    result = np.zeros(len(ranking))
    for i, row in enumerate(ranking):
        ranks = np.flatnonzero(row) + 1  # (L,)
        if len(ranks):
            result[i] = np.mean(np.arange(1, len(ranks) + 1) / ranks)
    return result


def tie_aware_average_precision(relevant: ArrayLike, scores: ArrayLike, cut: int | None = None) -> Float64:
    """Return the expected average precision if items of equal score were in random order, for each query.

    Parameters
    ----------
    relevant : array-like of shape (q, n), bool
        True neighbours, in rank order.
    scores : array-like of shape (q, n)
        Scores in rank order, ascending or descending. Neighbouring items with equal scores are ties.
    cut : int or None, default=None
        R; None for the whole ranking. It may divide a group of ties.

    Returns
    -------
    ndarray of shape (q,), float64

    Examples
    --------
    The true neighbour is first or second with equal probability. The average precision is 1 or 1/2.

    >>> tie_aware_average_precision([[True, False]], [[7, 7]])
    array([0.75])
    """
    ranking = as_ranking(relevant, None)
    values = np.asarray(scores)
    if values.shape != ranking.shape:
        raise InputError(f"scores have shape {values.shape}, the ranking {ranking.shape}")
    n = ranking.shape[1]
    reach = n if cut is None else min(check_integer(cut, "cut", 1), n)
    inverse_ranks = np.append(
        1.0 / np.arange(1, reach + 1), 0.0
    )  # (reach + 1,): a sum may end after the last rank
    expected = [_expected_ap(row, ties, inverse_ranks) for row, ties in zip(ranking, values, strict=True)]
    return np.array(expected, dtype=np.float64)


def _expected_ap(row: Flags, scores: Array, inverse_ranks: Float64) -> float:
    """Return the expected average precision of one query, given ranks (n,) and 1 / rank up to the cut, then a 0."""
    reach = len(inverse_ranks) - 1
    starts, sizes, hits = _groups_with_hits(row, scores)
    within = int(np.searchsorted(starts, reach))  # number of groups that start before the cut
    if within == 0:
        return 0.0
    starts, sizes, hits = starts[:within], sizes[:within], hits[:within]
    before = np.cumsum(hits) - hits  # true neighbours in earlier groups
    slots = np.minimum(
        sizes, reach - starts
    )  # ranks before the cut; only the last group can have fewer than its size
    sums = (before + 1) / (starts + 1)  # the precision at a true neighbour that is tied with no other item
    ties = np.flatnonzero(sizes > 1)
    # for group in ties: harmonic = sum(inverse_ranks[start : start + slots]); reduceat also sums what lies between groups
    bounds = np.column_stack((starts, starts + slots))[ties].ravel()
    harmonic = np.add.reduceat(inverse_ranks, bounds)[::2]
    sums[ties] = _expected_sum(hits[ties], slots[ties], starts[ties], before[ties], harmonic)
    if slots[-1] == sizes[-1]:
        return float(sums.sum() / (before[-1] + hits[-1]))
    # the cut divides the last group: the number of its true neighbours before the cut is random, and so is L
    last = np.arange(max(0, hits[-1] - (sizes[-1] - slots[-1])), min(hits[-1], slots[-1]) + 1)
    probability = _hypergeometric(last, int(sizes[-1]), int(hits[-1]), int(slots[-1]))
    total = sums[:-1].sum() + _expected_sum(last, slots[-1], starts[-1], before[-1], harmonic[-1])
    return float(np.sum(probability * total / np.maximum(before[-1] + last, 1)))


def _groups_with_hits(row: Flags, scores: Array) -> tuple[RowNumbers, ...]:
    """Return the groups of ties that hold true neighbours: their starts, their sizes, and their numbers of true neighbours.

    With long codes most groups are a single item. So only the true neighbours that are tied are searched for.
    """
    is_bound = np.ones(len(row) + 1, dtype=np.bool_)  # is_bound[r]: a group starts at r, or ends before it
    np.not_equal(scores[1:], scores[:-1], out=is_bound[1:-1])
    starts = np.flatnonzero(row)  # (L,): at first, each true neighbour is a group of one item
    stops = starts + 1
    tied = np.flatnonzero(~(is_bound[starts] & is_bound[stops]))
    bounds = np.flatnonzero(is_bound)
    group = np.searchsorted(bounds, stops[tied])
    starts[tied], stops[tied] = bounds[group - 1], bounds[group]
    first = np.flatnonzero(np.diff(starts, prepend=-1))
    return starts[first], stops[first] - starts[first], np.diff(first, append=len(starts))


def _expected_sum(hits: Any, slots: Any, start: Any, before: Any, harmonic: Any) -> Float64:
    """Return the expected sum of P(r) delta(r) over a group: `hits` true neighbours in the `slots` ranks after `start`.

    Rank start + j holds a true neighbour with probability hits / slots. If it does, the expected number of true neighbours up
    to this rank is before + 1 + (j - 1) (hits - 1) / (slots - 1). `harmonic` is the sum of 1 / (start + j) over the group, and
    the sum of (j - 1) / (start + j) is slots - (start + 1) harmonic.
    """
    others = (hits - 1) / np.maximum(slots - 1, 1)
    expected = (before + 1) * harmonic + others * (slots - (start + 1) * harmonic)
    return np.asarray(hits / slots * expected)


def _hypergeometric(k: RowNumbers, total: int, marked: int, drawn: int) -> Float64:
    """Return the probability of k marked items among `drawn` of `total` items; k holds all possible numbers."""

    def log_choose(n: Any, r: Any) -> Any:
        return -np.log1p(n) - betaln(n - r + 1, r + 1)

    weight = log_choose(marked, k) + log_choose(total - marked, drawn - k)
    probability = np.exp(weight - weight.max())
    return np.asarray(probability / probability.sum())


def as_ranking(relevant: ArrayLike, cut: int | None) -> Flags:
    """Return the first `cut` columns of a ranking (q, n), checked."""
    ranking = np.asarray(relevant, dtype=np.bool_)
    if ranking.ndim != 2:
        raise InputError(f"a ranking has a row per query and a column per rank, got shape {ranking.shape}")
    return ranking if cut is None else ranking[:, : check_integer(cut, "cut", 1)]
