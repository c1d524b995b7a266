"""Label scores become probabilities: scaling and curve of the codec, fitted to leave-one-out scores of training rows.

The scaling turns the scores of a query's labels into logits. The curve turns the product of two label vectors into the
probability that query and item share a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression

from supquant.arrays import Codes, Flags, Float32
from supquant.codec.additive import AdditiveCodec
from supquant.estimators.calibration import first_answers, fit_curve, spread_rows
from supquant.inputs.labels import Labels
from supquant.inputs.validation import as_float32
from supquant.published.projections import Projection

CALIBRATION_ROWS = 4096
"""Leave-one-out scores are computed for at most this number of rows."""

MAX_LEVERAGE = 0.9
"""Rows with a larger leverage are left out of the calibration. They are anchors of the kernel, and their scores say nothing about
other rows."""

DEFAULT_SLOPE = 4.0
"""Slope of the logits if there are no rows to measure it on."""


def calibrated(
    codec: AdditiveCodec, projection: Projection, X: Any, codes: Codes, labels: Labels
) -> AdditiveCodec:
    """Return the codec with a scaling and a curve that are fitted to training rows.

    Parameters
    ----------
    codec : AdditiveCodec
        With a classifier.
    projection : Projection
        What the solver knew about P.
    X : (n, p) array or Rows
        Vectors of the training rows. Some of them are the queries.
    codes : (n, M) uint8
        Codes of the training rows.
    labels : Labels
        Labels of the training rows.

    Returns
    -------
    AdditiveCodec
    """
    sample = spread_rows(len(X), CALIBRATION_ROWS)
    scores, kept = left_out_scores(codec, projection, X[sample], codes[sample])
    asking = labels.take(sample[kept])
    scaled = replace(codec, scaling=fit_scaling(scores, asking))
    if not len(scores):
        return scaled
    tables = scaled.tables_of(scaled.query_vectors(scores), "label")
    return replace(scaled, curve=fit_curve(*first_answers(tables, asking, codes, labels)))


def left_out_scores(
    codec: AdditiveCodec, projection: Projection, x: NDArray[Any], codes: Codes
) -> tuple[Float32, Flags]:
    """Score the labels of training rows with a projection learned without the row.

    The projection is least squares, so leaving out a row has a closed form. With the row's leverage
    ``h = x'(X'X + delta I)^-1 x`` and its decoded vector s, the score is ``(W'P'x - h W's) / (1 - h)``. If the projection is
    fixed, the leverage is zero.

    Parameters
    ----------
    codec : AdditiveCodec
        With a classifier.
    projection : Projection
        What the solver knew about P.
    x : (s, p) array
        Vectors of the rows.
    codes : (s, M) uint8
        Codes of the rows.

    Returns
    -------
    scores : (k, L) float32
        Scores of the kept rows.
    kept : (s,) bool
        Rows of at most `MAX_LEVERAGE`.
    """
    assert codec.classifier is not None
    W = codec.classifier.astype(np.float64)
    features = codec.features(as_float32(x)).astype(np.float64)  # (s, d)
    scores = codec.project(features.astype(np.float32)).astype(np.float64) @ W
    leverage = projection.leverage(features)
    kept = leverage < MAX_LEVERAGE
    own = codec.decode(codes) @ W
    h = leverage[kept, None]
    return ((scores[kept] - h * own[kept]) / (1 - h)).astype(np.float32), kept


def default_scaling(n_labels: int) -> Float32:
    """Return slopes and shifts (2, L) for scores that were not measured."""
    return np.repeat(np.array([[DEFAULT_SLOPE], [0]], dtype=np.float32), n_labels, axis=1)


def fit_scaling(scores: Float32, labels: Labels) -> Float32:
    """Fit the lines that turn scores of rows into logits of their labels.

    If each row has one label, all labels have the same slope and no shift (a temperature). If rows have several labels, each
    label has a logistic regression.

    Parameters
    ----------
    scores : (n, L) float32
    labels : Labels
        Labels of the n rows.

    Returns
    -------
    (2, L) float32
        Slopes and shifts.
    """
    Y = labels.dense(0, len(labels))
    scaling = default_scaling(labels.n_labels)
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
        else:  # all rows or none have the label: the logit is as extreme as this number of rows allows
            scaling[:, label] = 0, np.log(len(Y) + 1) * (1 if carried.any() else -1)
    return scaling
