"""Score: the quality of rankings, and forecasts of it."""

from __future__ import annotations

from supquant.evaluation.forecast import Forecast, forecast
from supquant.evaluation.retrieval import (
    KindQuality,
    OpenQuality,
    RetrievalQuality,
    cosine_scores,
    euclidean_scores,
    evaluate_scores,
    evaluate_tables,
    neighbour_recalls,
)

__all__ = [
    "Forecast",
    "KindQuality",
    "OpenQuality",
    "RetrievalQuality",
    "cosine_scores",
    "euclidean_scores",
    "evaluate_scores",
    "evaluate_tables",
    "forecast",
    "neighbour_recalls",
]


def __dir__() -> list[str]:
    return __all__
