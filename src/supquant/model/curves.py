"""Calibration of a fit by meaning: curves from scores to the probability that query and item share a label.

The queries are labelled rows that the classifier held out. One curve is for items that all have labels. The others are for items
without labels and depend on how new a query looks. They are fitted to training rows that stand in for such items: their features
are changed to those of rows that the model has not seen, and some of their classes are treated as new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.codec.probabilities import stack_curves
from supquant.estimators.calibration import CALIBRATION_QUERIES, first_answers, fit_curve, spread_rows
from supquant.inputs.validation import as_float32
from supquant.model.codec import SupervisedCodec
from supquant.model.feature_map import unit_rows
from supquant.model.query_tables import N_CURVES
from supquant.model.unseen_rows import hide_own_classes

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels
    from supquant.model.fit import Fit

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


def try_unlabelled(fit: Fit, codec: SupervisedCodec, rng: np.random.Generator) -> UnlabelledTrial:
    """Let the held-out rows of a fit, of which there must be at least one, ask for items without labels.

    Parameters
    ----------
    fit : Fit
        The rows of the fit.
    codec : SupervisedCodec
    rng : Generator
        Draws the items and the classes that look new.
    """
    fitted, known = fit.fitted, np.flatnonzero(fit.labels.known)
    labels = fit.labels.take(known)
    seen = np.setdiff1d(np.arange(len(known)), fitted.held_rows)
    chosen = np.sort(rng.permutation(seen)[:UNLABELLED_ROWS])
    held, asking, items = fitted.held_features, labels.take(fitted.held_rows), labels.take(chosen)
    new = np.zeros(0, dtype=np.intp)
    if len(fitted.novelty_of_new) and labels.indices is not None:
        rows, held, new = treat_classes_as_new(fit, known[chosen], rng)
    elif len(held) > 1:  # one half of the held-out rows are queries, the other half items
        answering = np.arange(1, len(held), 2)
        rows, items = held[answering], asking.take(answering)
        held, asking = held[::2], asking.take(np.arange(0, len(held), 2))
    else:
        rows = fit.as_held_out(known[chosen])
    codes = fit.encode_items(codec, codec.item_vectors(rows), np.zeros(len(rows), dtype=bool))
    return UnlabelledTrial(held, asking, codes, items, new)


def fit_curves(fit: Fit, codec: SupervisedCodec, codes: Codes, trial: UnlabelledTrial) -> Float32:
    """Fit all curves of a codec to the held-out rows, of which there must be at least one.

    Parameters
    ----------
    fit : Fit
        The rows of the fit.
    codec : SupervisedCodec
    codes : (n, M) uint8
        Codes of the training rows.
    trial : UnlabelledTrial

    Returns
    -------
    (N_CURVES, 2, k) float32
        Curves as `SupervisedCodec` holds them.
    """
    known = np.flatnonzero(fit.labels.known)
    labels = fit.labels.take(known)
    asking = labels.take(fit.fitted.held_rows)
    asked = spread_rows(len(asking), CALIBRATION_QUERIES)  # tables of all would take much memory
    settled = fit.fitted.held_features[asked]
    settled[:, fit.fitted.map.n_columns] = 0  # if all items have labels, no query is new
    tables = codec.tables_of(codec.prepare(settled, all_labelled=True))
    curve = fit_curve(*first_answers(tables, asking.take(asked), codes[known], labels, fit.n_jobs))
    return stack_curves([curve, *_curves_of_unlabelled(codec, trial, fit.n_jobs)])


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


def treat_classes_as_new(
    fit: Fit, numbers: NDArray[np.intp], rng: np.random.Generator
) -> tuple[Float32, Float32, NDArray[np.intp]]:
    """Let rows and held-out rows look as if some of their classes were new.

    Parameters
    ----------
    fit : Fit
        The rows of the fit.
        Its rows have one label each.
    numbers : (n,) int
        Numbers of labelled rows.
    rng : Generator
        Draws the classes.

    Returns
    -------
    rows : (n, F) float32
        Features of the rows as a model would make them that has not seen them.
    held : (s, F) float32
        Features of the held-out rows.
    new : (c,) int
        Numbers of the classes that look new.
    """
    fitted, L = fit.fitted, fit.labels.n_labels
    held_numbers = np.flatnonzero(fit.labels.known)[fitted.held_rows]
    new = _neighbouring_classes(fit, min(max(1, round(fitted.new_classes * L)), L - 1), rng)
    placed = fitted.placed_without(fit.X, fit.labels, new, rng)
    rows = _treat_as_new(fit, fit.as_held_out(numbers), numbers, new, placed, rng)
    return rows, _treat_as_new(fit, fitted.held_features, held_numbers, new, placed, rng), new


def _neighbouring_classes(fit: Fit, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the numbers (n,) of a random class and the classes nearest to it; new classes often resemble each other."""
    means = unit_rows(fit.fitted.map.means)
    return np.argsort(-(means @ means[rng.integers(len(means))]), kind="stable")[:n]


def _treat_as_new(
    fit: Fit,
    features: Float32,
    numbers: NDArray[np.intp],
    new: NDArray[np.intp],
    placed: Callable[[Float32], Float32] | None,
    rng: np.random.Generator,
) -> Float32:
    """Return features of rows in which the rows of some classes look as if their classes were new.

    Parameters
    ----------
    fit : Fit
        The rows of the fit.
    features : (n, F) float32
    numbers : (n,) int
        Numbers of the rows.
    new : (c,) int
        Numbers of the classes.
    placed : callable or None
        Returns the positions of vectors (b, p) if the classes are new; None if their positions do not change.
    rng : Generator

    Returns
    -------
    (n, F) float32
    """
    assert fit.labels.indices is not None
    own = fit.labels.indices[numbers].astype(np.intp)
    rows = np.flatnonzero(np.isin(own, new))
    fitted, map_ = fit.fitted, fit.fitted.map
    left_out = hide_own_classes(
        features[rows], own[rows], fitted.novelty_of_new, fitted.sureness_of_new, map_.spelling, rng
    )
    if placed is not None:
        first, k = map_.n_columns + 1, map_.metric.shape[1]
        left_out[:, first : first + k] = placed(as_float32(fit.X[numbers[rows]]))
    changed = features.copy()
    changed[rows] = map_.with_opinions(left_out)
    return changed
