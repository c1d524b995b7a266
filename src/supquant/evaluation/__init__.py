"""Score: splits of rows, the quality of rankings and of probabilities, and forecasts."""

from __future__ import annotations

from supquant.evaluation.forecast import Forecast, forecast
from supquant.evaluation.neighbours import neighbour_recalls
from supquant.evaluation.probabilities import (
    Calibration,
    OpenCalibration,
    judge_first_answers,
    judge_probabilities,
)
from supquant.evaluation.retrieval import (
    KindQuality,
    OpenQuality,
    RetrievalQuality,
    cosine_scores,
    euclidean_scores,
    evaluate_scores,
    evaluate_tables,
)
from supquant.evaluation.splits import (
    FIT_ROWS,
    PROTOCOLS,
    Split,
    default_queries,
    resolve_fit_rows,
    split_rows,
)

__all__ = [
    "FIT_ROWS",
    "PROTOCOLS",
    "Calibration",
    "Forecast",
    "KindQuality",
    "OpenCalibration",
    "OpenQuality",
    "RetrievalQuality",
    "Split",
    "cosine_scores",
    "default_queries",
    "euclidean_scores",
    "evaluate_scores",
    "evaluate_tables",
    "forecast",
    "judge_first_answers",
    "judge_probabilities",
    "neighbour_recalls",
    "resolve_fit_rows",
    "split_rows",
]


def __dir__() -> list[str]:
    return __all__
