"""Score: how well scores that are probabilities agree with what happens."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array, Flags
from supquant.index import CodeIndex

if TYPE_CHECKING:
    from supquant.codec.interface import AnyCodec
    from supquant.inputs.labels import Labels

CALIBRATION_BINS = 15
"""Number of bins of the expected calibration error."""

N_ANSWERS = 100
"""Number of first answers to a query whose probabilities are judged."""


@dataclass(frozen=True)
class Calibration:
    """How far probabilities are from what happens.

    Attributes
    ----------
    error : float
        The expected calibration error. Probabilities are sorted into bins of equal size; the error is the mean over the bins
        of the absolute difference between the mean probability and the share of true outcomes.
    brier : float
        The mean squared difference between a probability and its outcome, which is 0 or 1.
    base_brier : float
        The same if every probability were the share of true outcomes. A useful score has a lower `brier`.
    """

    error: float
    brier: float
    base_brier: float


@dataclass(frozen=True)
class OpenCalibration(Calibration):
    """The calibration for queries of known and of new classes.

    Attributes
    ----------
    error_known : float
        The expected calibration error over the queries of known classes.
    error_new : float
        The expected calibration error over the queries of new classes.
    """

    error_known: float
    error_new: float


def judge_probabilities(
    probabilities: Array, outcomes: Array, *, bins: int = CALIBRATION_BINS
) -> Calibration:
    """Compare probabilities with outcomes.

    Parameters
    ----------
    probabilities : ndarray of any shape
    outcomes : ndarray of the same shape, bool
    bins : int, default=15
        Number of bins of the expected calibration error.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> judge_probabilities(np.array([0.0, 0.0, 1.0, 0.5]), np.array([False, False, True, True]), bins=2)
    Calibration(error=0.125, brier=0.0625, base_brier=0.25)
    """
    expected, happened = probabilities.ravel().astype(np.float64), outcomes.ravel().astype(np.float64)
    parts = np.array_split(np.argsort(expected, kind="stable"), bins)
    error = sum(abs(float((expected[part] - happened[part]).sum())) for part in parts) / len(expected)
    rate = float(happened.mean())
    return Calibration(error, float(np.square(expected - happened).mean()), rate * (1 - rate))


def judge_first_answers(
    codec: AnyCodec,
    codes: Array,
    queries: Array,
    query_labels: Labels,
    database_labels: Labels,
    *,
    new_queries: Flags | None = None,
    k: int = N_ANSWERS,
) -> Calibration:
    """Compare the scores of the first k answers to every query with whether they share a label with it.

    Parameters
    ----------
    codec : AnyCodec
        Its default ranking must return probabilities.
    codes : ndarray of shape (n, M), uint8
        Codes of the n items.
    queries : ndarray of shape (q, p)
        Vectors of the q queries.
    query_labels : Labels
        Labels of the queries.
    database_labels : Labels
        Labels of the items, over the same classes.
    new_queries : ndarray of shape (q,), bool, or None, default=None
        True for queries of new classes.
    k : int, default=100
        Number of answers to each query.

    Returns
    -------
    Calibration
        An `OpenCalibration` if `new_queries` was given.
    """
    scores, ids = CodeIndex(codec).add_codes(codes).search(queries, k)
    outcomes = query_labels.shared_with(database_labels.take(ids.ravel()))
    overall = judge_probabilities(scores, outcomes)
    if new_queries is None:
        return overall
    known, new = (judge_probabilities(scores[of], outcomes[of]) for of in (~new_queries, new_queries))
    return OpenCalibration(**asdict(overall), error_known=known.error, error_new=new.error)
