"""Splits, the quality of rankings, and the choice of penalties."""

from __future__ import annotations

from supquant.evaluation.penalties import GridPoint, PenaltySelection, select_penalties
from supquant.evaluation.retrieval import (
    RetrievalQuality,
    euclidean_scores,
    evaluate_scores,
    evaluate_tables,
    evaluate_vectors,
    label_scores,
)
from supquant.evaluation.splits import PROTOCOLS, Split, default_queries, split_rows

__all__ = [
    "PROTOCOLS",
    "GridPoint",
    "PenaltySelection",
    "RetrievalQuality",
    "Split",
    "default_queries",
    "euclidean_scores",
    "evaluate_scores",
    "evaluate_tables",
    "evaluate_vectors",
    "label_scores",
    "select_penalties",
    "split_rows",
]


def __dir__() -> list[str]:
    return __all__
