"""Calibration of a fit: curves from scores to the probability that query and item share a label.

One curve is for items that all have labels; its queries are labelled rows that the classifier held out. The others are for items
without labels and depend on how new a query looks. If classes were found among rows without labels, these rows are the items;
held-out rows ask for them, and rows that look new. The model says how probably an item has the label of a held-out row; how
probably it shares the class of a new one was learned from classes that were left out and found again. Otherwise one half of the
held-out rows ask for the other half.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32, Float64
from supquant.codec.probabilities import stack_curves
from supquant.estimators.calibration import (
    CALIBRATION_QUERIES,
    first_answers,
    first_items,
    fit_curve,
    spread_rows,
)
from supquant.inputs.validation import as_float32
from supquant.model.codec import N_CURVES, SupervisedCodec
from supquant.model.features import FittedRows
from supquant.model.item_rows import encode_items
from supquant.parallel import row_blocks

MAX_ITEMS = 1 << 13
"""At most this number of rows without labels are items."""

MIN_CURVE_QUERIES = 40
"""With fewer queries than this, a curve is that of all queries."""

BLOCK_QUERIES = 16
"""Number of queries whose answers are judged at a time."""

Judge = Callable[[NDArray[np.intp], NDArray[np.intp]], Float64]
"""From numbers of queries (b,) and of items (b, k) to the probabilities (b, k) that they share a label."""


@dataclass(frozen=True, eq=False)
class Trial:
    """Queries and items without labels."""

    queries: Float32  # (q, F)  features
    codes: Codes  # (n, M) of the items
    judge: Judge
    n_known: int  # the first so many queries are of known classes, the others look new


def try_unlabelled(
    rows: FittedRows, codec: SupervisedCodec, codes: Codes, rng: np.random.Generator
) -> Trial | None:
    """Let rows ask for items without labels, given the codes (n, M) of all rows; None if no row can ask.

    The generator draws rows.
    """
    if rows.sameness is not None:
        return _ask_unlabelled(rows, codes, rng)
    held, labels = rows.held_features, rows.labels.take(rows.held_rows)
    if len(held) < 2:
        return None
    asking, answering = np.arange(0, len(held), 2), np.arange(1, len(held), 2)
    asking = asking[spread_rows(len(asking), CALIBRATION_QUERIES)]
    unknown = np.zeros(len(answering), dtype=bool)
    items = encode_items(codec, codec.item_vectors(held[answering]), unknown, rows.n_jobs)

    def judge(queries: NDArray[np.intp], items: NDArray[np.intp]) -> Float64:
        theirs = labels.take(answering[items.ravel()])
        return labels.take(asking[queries]).shared_with(theirs).astype(np.float64)

    return Trial(held[asking], items, judge, len(asking))


def _ask_unlabelled(rows: FittedRows, codes: Codes, rng: np.random.Generator) -> Trial:
    """Let held-out rows ask for rows without labels, and rows that look new, as many as there are for so many others."""
    assert rows.sameness is not None
    assert rows.labels.indices is not None
    map_, points = rows.map, rows.sameness
    asking = spread_rows(len(rows.held_rows), CALIBRATION_QUERIES)
    own = rows.labels.indices[rows.held_rows[asking]]
    new = _draw_new(rows, len(asking), rng)
    queries = np.concatenate([rows.held_features[asking], map_(as_float32(rows.X[new]))])
    items = rng.permutation(np.setdiff1d(np.flatnonzero(~rows.labels.known), rows.fresh))[:MAX_ITEMS]
    features = rows.features(items)
    u, likeness = _novelty_of(rows, features)
    # If labels have several words, their probabilities are no features.
    one_word = map_.spelling.length == 1
    p = features[:, : map_.n_columns] if one_word else map_.probabilities(as_float32(rows.X[items]))
    asked = _novelty_of(rows, queries)[1]

    def judge(queries: NDArray[np.intp], items: NDArray[np.intp]) -> Float64:
        relevant = np.empty(items.shape)
        known = queries < len(own)
        theirs = items[known]
        relevant[known] = (1 - u[theirs]) * p[theirs, own[queries[known], None]]
        theirs = items[~known]
        alike = np.einsum("bf,bkf->bk", asked[queries[~known]], likeness[theirs])
        relevant[~known] = np.interp(u[theirs] * alike, *points)
        return relevant

    return Trial(queries, codes[items], judge, len(own))


def _draw_new(rows: FittedRows, n_known: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw fresh rows as probably as they are new, as many as come on `n_known` rows that are not."""
    among = rng.permutation(rows.fresh)
    u = _novelty_of(rows, rows.features(among))[0]
    n_new = min(n_known / max(1 - u.mean(), 1e-6), len(u)) * u.mean()
    # Evenly spaced points of the cumulative sum: drawing without replacement would take too many of the less new.
    points = (np.arange(int(n_new)) + rng.uniform()) * (u.sum() / max(n_new, 1))
    return among[np.unique(np.minimum(np.cumsum(u).searchsorted(points), len(u) - 1))]


def _novelty_of(rows: FittedRows, features: Float32) -> tuple[Float64, Float32]:
    """Return how probably vectors are new (n,), and F (n, f), from their features (n, F)."""
    assert rows.newness is not None
    r = rows.map.n_columns
    return np.interp(features[:, r], *rows.newness), features[:, r + 1 :][:, : rows.map.n_likeness]


def fit_curves(rows: FittedRows, codec: SupervisedCodec, codes: Codes, trial: Trial | None) -> Float32:
    """Return the curves (N_CURVES, 2, k) of a codec, fitted to the held-out rows, the codes (n, M) of all rows and a trial.

    Without held-out rows, they are the curves that it has.
    """
    if trial is None:
        return codec.curves
    known = np.flatnonzero(rows.labels.known)
    asked = spread_rows(len(rows.held_rows), CALIBRATION_QUERIES)  # tables of all would take much memory
    settled = rows.held_features[asked]
    settled[:, rows.map.n_columns] = 0  # if all items have labels, no query is new
    tables = codec.tables_of(codec.prepare(settled, all_labelled=True))
    asking, items = rows.labels.take(rows.held_rows[asked]), rows.labels.take(known)
    curve = fit_curve(*first_answers(tables, asking, codes[known], items, rows.n_jobs))
    return stack_curves([curve, *_curves_of_unlabelled(codec, trial, rows.n_jobs)])


def _curves_of_unlabelled(codec: SupervisedCodec, trial: Trial, n_jobs: int) -> list[Float32]:
    """Return the curves for items without labels."""
    products, items = first_items(codec.tables_of(codec.prepare(trial.queries)), trial.codes, n_jobs)
    numbers = np.arange(len(products))
    relevant = np.concatenate(
        [
            trial.judge(numbers[slice(*block)], items[slice(*block)])
            for block in row_blocks(len(numbers), BLOCK_QUERIES)
        ]
    )
    which = codec.curves_of(trial.queries) - 1
    of_all = fit_curve(products, relevant)
    curves = []
    for each in range(N_CURVES - 1):
        mine = which == each
        enough = mine.sum() >= MIN_CURVE_QUERIES
        curves.append(fit_curve(products[mine], relevant[mine]) if enough else of_all)
    return curves
