"""Score: the quality of rankings, and forecasts of it."""

from __future__ import annotations

from supquant.evaluation.forecast import Forecast, forecast
from supquant.evaluation.retrieval import RetrievalQuality, evaluate_tables

__all__ = ["Forecast", "RetrievalQuality", "evaluate_tables", "forecast"]


def __dir__() -> list[str]:
    return __all__
