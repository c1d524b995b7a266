"""From scores to probabilities, fitted on rows that the model did not see.

Two maps, at the two ends of a semantic ranking: the scores of a query's labels become logits, and the product of label
vectors becomes the probability that query and item share a label. Nothing lies in between, so products stay sums over
codebooks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.isotonic import isotonic_regression
from sklearn.linear_model import LogisticRegression

from supquant import kernels
from supquant.arrays import Float32, Float64
from supquant.parallel import ordered_map, row_blocks

if TYPE_CHECKING:
    from supquant.codec import AdditiveCodec
    from supquant.labels import Labels


CALIBRATION_QUERIES = 2048
CALIBRATION_ITEMS = 1 << 17
"""Held-out rows that ask, and training rows that answer, at the most."""

ANSWERS = 100
"""First ones of a query that the curve is fitted to, and as many items from everywhere. A product that is among a query's
highest is right more often than the same product further down: pairs at random alone would make scores too low."""

QUERIES_AT_A_TIME = 16

POINTS = 64
"""Of a curve, at the most."""

_UNSCALED = 4.0
"""Slope of the logits where nothing is known."""


def unscaled(n_labels: int) -> Float32:
    """Give slopes and shifts (2, L) where nothing was measured."""
    return np.repeat(np.array([[_UNSCALED], [0]], dtype=np.float32), n_labels, axis=1)


def fit_scaling(scores: Float32, labels: Labels) -> Float32:
    """Fit slopes and shifts (2, L) that turn scores (n, L) of rows into logits of their labels.

    One label a row: the same slope for all, no shift (a temperature). Several: a logistic regression for each label.
    """
    Y = labels.dense(0, len(labels))
    scaling = unscaled(labels.n_labels)
    if not len(scores):
        return scaling
    if not labels.multilabel:

        def loss(log_slope: float) -> float:
            return -float((log_softmax(np.exp(log_slope) * scores.astype(np.float64), axis=1) * Y).sum())

        scaling[0] = np.exp(minimize_scalar(loss, bounds=(-3, 6), method="bounded").x)
        return scaling
    for label, carried in enumerate(Y.T):
        if carried.any() and not carried.all():
            fitted = LogisticRegression(C=1e3).fit(scores[:, [label]], carried)
            scaling[:, label] = fitted.coef_[0, 0], fitted.intercept_[0]
        else:  # never seen, or always: as rare, or as frequent, as it may be among so many rows
            scaling[:, label] = 0, np.log(len(Y) + 1) * (1 if carried.any() else -1)
    return scaling


def fit_curve(products: Float64, relevant: NDArray[np.bool_]) -> Float32:
    """Fit the points (2, k) of a curve from products to the probability of relevance, never falling (isotonic regression).

    Parameters
    ----------
    products, relevant : arrays of one shape

    Examples
    --------
    >>> fit_curve(np.array([0.0, 0, 1, 1]), np.array([False, False, True, False]))
    array([[0. , 1. ],
           [0. , 0.5]], dtype=float32)
    """
    order = np.argsort(products, axis=None, kind="stable")
    sums, hits = products.ravel()[order], relevant.ravel()[order].astype(np.float64)
    starts = np.arange(POINTS) * len(sums) // POINTS
    edges = np.unique(np.searchsorted(sums, sums[starts], side="left"))  # equal products are in one bin
    edges = np.concatenate([edges, [len(sums)]])
    counts = np.diff(edges)
    totals = [np.add.reduceat(each, edges[:-1]) for each in (sums, hits)]
    means, rates = (total / counts for total in totals)
    rising = isotonic_regression(rates, sample_weight=counts.astype(np.float64))
    if len(means) == 1:  # all products are equal
        means, rising = np.array([means[0], means[0] + 1]), np.repeat(rising, 2)
    return np.array([means, rising], dtype=np.float32)


def calibrate(
    codec: AdditiveCodec, vectors: Float32, query_labels: Labels, codes: NDArray[np.uint8], labels: Labels
) -> AdditiveCodec:
    """Give a codec the curve that held-out queries and training items ask for.

    Parameters
    ----------
    codec : AdditiveCodec
        With a meaning.
    vectors : (q, L) or (q, E) float32
        Scores of the queries' labels or their features, from a model that did not see them.
    query_labels : Labels
    codes : (n, M) uint8
        Of items whose labels are known.
    labels : Labels
        Theirs.
    """
    assert codec.meaning is not None
    if not len(vectors) or not len(codes):
        return codec
    prepared = codec.meaning.query_vectors(vectors, labels.n_labels, multilabel=labels.multilabel)
    curve = fit_curve(*first_answers(codec.tables_of(prepared, "semantic"), query_labels, codes, labels))
    return replace(codec, meaning=replace(codec.meaning, curve=curve))


def first_answers(
    tables: Float32, query_labels: Labels, codes: NDArray[np.uint8], labels: Labels, n_jobs: int = 1
) -> tuple[Float64, NDArray[np.bool_]]:
    """Return scores (q, k) of answers to queries, the first ones and some from everywhere, and whether they share a label.

    The queries are `spread_rows` of those given, at the most `CALIBRATION_QUERIES`.

    Parameters
    ----------
    tables : (q, M, K) float32
        Look-up tables of queries that the model did not see.
    query_labels : Labels
    codes : (n, M) uint8
        Of items whose labels are known.
    labels : Labels
        Theirs.
    """
    asking, asked = spread_rows(len(tables), CALIBRATION_QUERIES), spread_rows(len(codes), CALIBRATION_ITEMS)
    queries, items = query_labels.take(asking), np.ascontiguousarray(codes[asked])
    tables = tables[asking]
    anywhere = spread_rows(len(items), ANSWERS)

    def of_queries(block: tuple[int, int]) -> tuple[Float64, NDArray[np.bool_]]:
        sums = kernels.active().table_sums(items, tables[slice(*block)])  # (b, n), smaller is nearer
        first = np.argpartition(sums, min(ANSWERS, len(items)) - 1, axis=1)[:, :ANSWERS]
        rows = np.hstack([first, np.broadcast_to(anywhere, (len(sums), len(anywhere)))])  # (b, k)
        relevant = queries.take(np.arange(*block)).shared_with(labels.take(asked[rows.ravel()]))
        return -np.take_along_axis(sums, rows, axis=1).astype(np.float64), relevant

    blocks = row_blocks(len(asking), QUERIES_AT_A_TIME)
    products, relevant = zip(*ordered_map(of_queries, blocks, n_jobs), strict=True)
    return np.concatenate(products), np.concatenate(relevant)


def spread_rows(n: int, most: int) -> NDArray[np.intp]:
    """Give at most `most` numbers below n, evenly spread."""
    return np.arange(0, n, -(-n // most))
