"""Calibration of a fit: curves from scores to the probability that query and item share a label.

The queries are labelled rows that the classifier held out. One curve is for items that all have labels. The others are for items
without labels and depend on how new a query looks. They are fitted to training rows that stand in for such items: their features
are changed to those of rows that the model has not seen, and some of their classes are treated as new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.codec.probabilities import stack_curves
from supquant.estimators.calibration import CALIBRATION_QUERIES, first_answers, fit_curve, spread_rows
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.model.codec import N_CURVES, SupervisedCodec
from supquant.model.feature_map import unit_rows
from supquant.model.features import FittedRows
from supquant.model.item_rows import encode_items
from supquant.model.unseen_rows import hide_own_classes

UNLABELLED_ROWS = 1 << 12
"""At most this number of training rows stand in for items without labels."""

MIN_CURVE_QUERIES = 40
"""With fewer queries than this, a curve is that of all queries."""


@dataclass(frozen=True)
class UnlabelledTrial:
    """Held-out rows as queries, and training rows that stand in for items without labels."""

    queries: Float32  # (s, F)  features of held-out rows, of which some look new
    asking: Labels  # their labels
    codes: Codes  # (n, M) of the items
    items: Labels  # their labels
    new: NDArray[np.intp]  # (c,)  numbers of the classes that look new


def try_unlabelled(rows: FittedRows, codec: SupervisedCodec, rng: np.random.Generator) -> UnlabelledTrial:
    """Let the held-out rows of a fit, of which there must be at least one, ask for items without labels.

    The generator draws the items and the classes that look new.
    """
    labels = rows.labels
    seen = np.setdiff1d(np.flatnonzero(labels.known), rows.held_rows)
    chosen = np.sort(rng.permutation(seen)[:UNLABELLED_ROWS])
    held, asking, items = rows.held_features, labels.take(rows.held_rows), labels.take(chosen)
    new = np.zeros(0, dtype=np.intp)
    if len(rows.novelty_of_new) and labels.indices is not None:
        n_new = min(max(1, round(rows.new_classes * labels.n_labels)), labels.n_labels - 1)
        new = _neighbouring_classes(rows.map.means, n_new, rng)
        metric = rows.metric_without(new, rng)
        features = _treat_as_new(rows, rows.as_held_out(chosen), chosen, new, metric, rng)
        held = _treat_as_new(rows, held, rows.held_rows, new, metric, rng)
    elif len(held) > 1:  # one half of the held-out rows are queries, the other half items
        answering = np.arange(1, len(held), 2)
        features, items = held[answering], asking.take(answering)
        held, asking = held[::2], asking.take(np.arange(0, len(held), 2))
    else:
        features = rows.as_held_out(chosen)
    unknown = np.zeros(len(features), dtype=bool)
    codes = encode_items(codec, codec.item_vectors(features), unknown, rows.n_jobs)
    return UnlabelledTrial(held, asking, codes, items, new)


def _neighbouring_classes(means: Float32, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the numbers (n,) of a random class and the classes nearest to it, by the means (L, g) of all.

    New classes often resemble each other.
    """
    units = unit_rows(means)
    return np.argsort(-(units @ units[rng.integers(len(units))]), kind="stable")[:n]


def _treat_as_new(
    rows: FittedRows,
    features: Float32,
    numbers: NDArray[np.intp],
    new: NDArray[np.intp],
    metric: Float32 | None,
    rng: np.random.Generator,
) -> Float32:
    """Return features (n, F) of rows with these numbers (n,), in which some classes (c,) look as if they were new.

    Their positions have the given metric (p, k), or stay if it is None.
    """
    assert rows.labels.indices is not None
    map_, own = rows.map, rows.labels.indices[numbers].astype(np.intp)
    hidden = np.flatnonzero(np.isin(own, new))
    left_out = hide_own_classes(
        features[hidden], own[hidden], rows.novelty_of_new, rows.sureness_of_new, map_.spelling, rng
    )
    if metric is not None:
        units = unit_rows(as_float32(rows.X[numbers[hidden]]))
        left_out = map_.with_positions(left_out, np.asarray((units - map_.mean) @ metric, dtype=np.float32))
    changed = features.copy()
    changed[hidden] = left_out
    return changed


def fit_curves(
    rows: FittedRows, codec: SupervisedCodec, codes: Codes, trial: UnlabelledTrial | None
) -> Float32:
    """Return the curves (N_CURVES, 2, k) of a codec, fitted to the held-out rows and the codes (n, M) of all rows.

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


def _curves_of_unlabelled(codec: SupervisedCodec, trial: UnlabelledTrial, n_jobs: int) -> list[Float32]:
    """Return the curves for items without labels."""
    asked = spread_rows(len(trial.queries), CALIBRATION_QUERIES)
    queries = trial.queries[asked]
    tables = codec.tables_of(codec.prepare(queries))
    products, relevant = first_answers(tables, trial.asking.take(asked), trial.codes, trial.items, n_jobs)
    which = codec.curves_of(queries) - 1
    of_all = fit_curve(products, relevant)
    curves = []
    for each in range(N_CURVES - 1):
        mine = which == each
        enough = mine.sum() >= MIN_CURVE_QUERIES
        curves.append(fit_curve(products[mine], relevant[mine]) if enough else of_all)
    return curves
