"""From scores of answers to probabilities: a curve, fitted to queries that the model has not seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from supquant import kernels
from supquant.arrays import Codes, Flags, Float32, Float64
from supquant.inputs.labels import Labels
from supquant.parallel import ordered_map, row_blocks

CALIBRATION_QUERIES = 1024
"""Maximum number of held-out rows that are queries."""

CALIBRATION_ITEMS = 1 << 16
"""Maximum number of training rows that are items."""

ANSWERS = 100
"""A curve is fitted to this number of first answers per query, and to as many random items. Among the first answers, a product is
right more often than the same product further down, so random pairs alone would make scores too low."""

BLOCK_QUERIES = 16
"""Number of queries ranked at a time."""

CURVE_POINTS = 64
"""Maximum number of points of a curve. One half of them divide the products into equal parts, the other half are dense among the
largest products, where most answers are right."""

TOP_BIN = 64
"""The last point of a curve stands for this number of products."""


def fit_curve(products: Float64, relevant: Flags | Float64) -> Float32:
    """Fit a curve that never falls from products to the probability of relevance (isotonic regression).

    Parameters
    ----------
    products : float64 array
    relevant : bool or float64 array of the same shape
        Whether query and item share a label, or how probably.

    Returns
    -------
    (2, k) float32
        Products and probabilities at the k points of the curve.

    Examples
    --------
    >>> fit_curve(np.array([0.0, 0, 1, 1]), np.array([False, False, True, False]))
    array([[0. , 1. ],
           [0. , 0.5]], dtype=float32)
    """
    order = np.argsort(products, axis=None, kind="stable")
    sums, hits = products.ravel()[order], relevant.ravel()[order].astype(np.float64)
    half, n = CURVE_POINTS // 2, len(sums)
    starts = np.concatenate(
        [np.arange(half) * n // half, n - np.geomspace(min(TOP_BIN, n), n, half).astype(np.intp)]
    )
    edges = np.unique(np.searchsorted(sums, sums[starts], side="left"))  # equal products are in the same bin
    edges = np.concatenate([edges, [len(sums)]])
    counts = np.diff(edges)
    totals = [np.add.reduceat(each, edges[:-1]) for each in (sums, hits)]
    means, rates = (total / counts for total in totals)
    rising = isotonic_regression(rates, sample_weight=counts.astype(np.float64))
    if len(means) == 1:  # all products are equal
        means, rising = np.array([means[0], means[0] + 1]), np.repeat(rising, 2)
    return np.array([means, rising], dtype=np.float32)


def first_answers(
    tables: Float32, query_labels: Labels, codes: Codes, labels: Labels, n_jobs: int = 1
) -> tuple[Float64, Flags]:
    """Return scores of answers to queries: the first answers, and some items from all over.

    Parameters
    ----------
    tables : (m, M, K) float32
        Look-up tables of queries that the model has not seen. At most `CALIBRATION_QUERIES` of them are used, evenly spread.
    query_labels : Labels
        Labels of the queries.
    codes : (n, M) uint8
        Codes of items.
    labels : Labels
        Labels of the items.
    n_jobs : int, default=1
        Number of threads.

    Returns
    -------
    products : (q, k) float64
        Scores of the answers; larger is nearer.
    relevant : (q, k) bool
        Whether query and answer share a label.
    """
    asking = spread_rows(len(tables), CALIBRATION_QUERIES)
    products, rows = first_items(tables[asking], codes, n_jobs)
    queries = query_labels.take(asking)
    relevant = [
        queries.take(np.arange(*block)).shared_with(labels.take(rows[slice(*block)].ravel()))
        for block in row_blocks(len(asking), BLOCK_QUERIES)
    ]
    return products, np.concatenate(relevant)


def first_items(tables: Float32, codes: Codes, n_jobs: int = 1) -> tuple[Float64, NDArray[np.intp]]:
    """Return scores (q, k) and rows (q, k) of the first answers to queries with tables (q, M, K), and of items from all over.

    At most `CALIBRATION_ITEMS` of the items with codes (n, M) are scanned, on `n_jobs` threads.
    """
    asked = spread_rows(len(codes), CALIBRATION_ITEMS)
    anywhere = asked[spread_rows(len(asked), ANSWERS)]
    # A scan returns the first of several rows with equal sums. In random order, they do not all have the same label.
    asked = np.random.default_rng(0).permutation(asked)
    scanned = kernels.Scanned(kernels.blocks_of(codes[asked]), len(asked))
    others = np.ascontiguousarray(codes[anywhere])

    def of_queries(block: tuple[int, int]) -> tuple[Float64, NDArray[np.intp]]:
        mine = tables[slice(*block)]
        sums, first = kernels.active().scan(scanned, mine, ANSWERS)  # (b, k), smaller is nearer
        sums = np.hstack([sums, kernels.active().table_sums(others, mine)])
        rows = np.hstack([asked[first], np.broadcast_to(anywhere, (len(sums), len(anywhere)))])
        return -sums.astype(np.float64), rows

    products, rows = zip(
        *ordered_map(of_queries, row_blocks(len(tables), BLOCK_QUERIES), n_jobs), strict=True
    )
    return np.concatenate(products), np.concatenate(rows)


def spread_rows(n: int, most: int) -> NDArray[np.intp]:
    """Return at most `most` of the numbers below n, evenly spread."""
    return np.arange(0, n, -(-n // most))
