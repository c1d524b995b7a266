"""Score: whether scores that read as probabilities come true."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.index import CodeIndex

if TYPE_CHECKING:
    from supquant.codec import AnyCodec
    from supquant.labels import Labels


BINS = 15
FIRST_ANSWERS = 100


@dataclass(frozen=True)
class Calibration:
    """How far probabilities are from what happens.

    Attributes
    ----------
    error : float
        The expected calibration error: the mean over bins of equal mass of the difference between the mean probability and
        the share that came true.
    brier : float
        The mean squared difference between a probability and what came.
    base_brier : float
        The same for the rate of all, said of each: what a useful score must beat.
    """

    error: float
    brier: float
    base_brier: float


@dataclass(frozen=True)
class OpenCalibration(Calibration):
    """The same where known and new classes are mixed.

    Attributes
    ----------
    error_known, error_new : float
        The expected calibration error over the queries of each kind alone, in bins of their own.
    """

    error_known: float
    error_new: float


def judge_probabilities(probabilities: Array, came: Array, *, bins: int = BINS) -> Calibration:
    """Compare probabilities with what came, arrays of one shape.

    Examples
    --------
    >>> judge_probabilities(np.array([0.0, 0.0, 1.0, 0.5]), np.array([False, False, True, True]), bins=2)
    Calibration(error=0.125, brier=0.0625, base_brier=0.25)
    """
    said, true = probabilities.ravel().astype(np.float64), came.ravel().astype(np.float64)
    parts = np.array_split(np.argsort(said, kind="stable"), bins)
    error = sum(abs(float((said[part] - true[part]).sum())) for part in parts) / len(said)
    rate = float(true.mean())
    return Calibration(error, float(np.square(said - true).mean()), rate * (1 - rate))


def judge_first_answers(
    codec: AnyCodec,
    codes: Array,
    queries: Array,
    query_labels: Labels,
    database_labels: Labels,
    *,
    new_queries: Array | None = None,
    k: int = FIRST_ANSWERS,
) -> Calibration:
    """Compare the scores of every query's first k answers with whether they share a label with it.

    Parameters
    ----------
    codec : AnyCodec
        Whose default ranking gives probabilities.
    codes : ndarray of shape (n, M), uint8
    queries : ndarray of shape (q, p)
    query_labels, database_labels : Labels
        Of the q queries and the n items, over the same classes.
    new_queries : ndarray of shape (q,), bool, optional
        Which queries are of new classes: with it, an `OpenCalibration` is returned.
    k : int
    """
    scores, ids = CodeIndex(codec).add_codes(codes).search(queries, k)
    came = query_labels.shared_with(database_labels.take(ids.ravel()))
    every = judge_probabilities(scores, came)
    if new_queries is None:
        return every
    known, new = (judge_probabilities(scores[asked], came[asked]) for asked in (~new_queries, new_queries))
    return OpenCalibration(**asdict(every), error_known=known.error, error_new=new.error)
