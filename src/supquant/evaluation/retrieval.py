"""Score: the quality of retrieval by codes and tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant.metrics import average_precision, rank_codes, tie_aware_average_precision
from supquant.parallel import ordered_map

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels

PRECISION_CUTS = (1, 10, 100, 1000)
"""Numbers of first items at which the precision is measured."""


@dataclass(frozen=True)
class RetrievalQuality:
    """The quality of rankings; the true neighbours of a query are the items that share a label with it.

    Attributes
    ----------
    map : float
        Mean average precision, with equal scores in order of insertion.
    map_tie_aware : float
        The mean of `map` over all orders of items with equal scores.
    precision_at : mapping of int to float
        The fraction of true neighbours among the first k items, by k.
    n_without_answer : int, default=0
        Number of queries that share no label with any item. They count as 0 in the figures above.
    """

    map: float
    map_tie_aware: float
    precision_at: Mapping[int, float]
    n_without_answer: int = field(default=0, kw_only=True)


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
    """Measure the quality of rankings of codes by look-up tables.

    Parameters
    ----------
    tables : ndarray of shape (q, M, K), float32
        Tables of the q queries, as the `tables` of an estimator returns them.
    codes : ndarray of shape (n, M), uint8
        Codes of the n items.
    query_labels : Labels
        Labels of the queries.
    database_labels : Labels
        Labels of the items, over the same classes. An unknown label is shared with no row.
    cut : int or None, default=None
        Only the first `cut` items of a ranking count (R of the paper); None for all items.
    precision_cuts : sequence of int, default=(1, 10, 100, 1000)
        The k of `precision_at`. Those above the number of items are left out.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores.

    Returns
    -------
    RetrievalQuality

    Warns
    -----
    UserWarning
        If queries share no label with any item.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> tables = np.array([[[0, 1]], [[1, 0]]], dtype=np.float32)  # 2 queries, 1 codebook of 2 codewords
    >>> codes = np.array([[0], [0], [1]], dtype=np.uint8)
    >>> queries, items = read_labels(["a", "b"]), read_labels(["a", "b", "b"])
    >>> evaluate_tables(tables, codes, queries, items).map
    0.9166666666666666
    """
    q, n = len(query_labels), len(database_labels)
    if q == 0 or n == 0:
        raise InputError(f"expected at least one query and one item, got {q} queries and {n} items")
    if query_labels.multilabel != database_labels.multilabel or not np.array_equal(
        query_labels.classes, database_labels.classes
    ):
        raise InputError("the labels of queries and database must be of the same classes and form")
    if cut is not None:
        check_integer(cut, "cut", 1)
    cuts = [k for k in precision_cuts if check_integer(k, "k", 1) <= n]
    codes = np.ascontiguousarray(codes)

    def measure(query: int) -> list[float]:
        scores, relevant = rank_codes(tables[query], codes, query_labels.take([query]), database_labels)
        ranking = relevant[None]
        return [
            average_precision(ranking, cut)[0],
            tie_aware_average_precision(ranking, scores[None], cut)[0],
            *(relevant[:k].sum() / k for k in cuts),
            not relevant.any(),
        ]

    measured = ordered_map(measure, range(q), resolve_jobs(n_jobs))
    figures = np.array(list(measured))  # (q, 3 + number of cuts)
    means, n_without = figures.mean(axis=0).tolist(), int(figures[:, -1].sum())
    precisions = dict(zip(cuts, means[2:-1], strict=True))
    if n_without:
        warnings.warn(
            f"{n_without} of {q} queries share no label with any of {n} items and count as 0: leave them out, or add their items",
            stacklevel=2,
        )
    return RetrievalQuality(means[0], means[1], precisions, n_without_answer=n_without)
