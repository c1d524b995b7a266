"""The methods that can be compared, by name."""

from __future__ import annotations

from supquant.experiments.methods.classifier import Classifier
from supquant.experiments.methods.interface import (
    STEP_NAMES,
    Fitted,
    Method,
    Settings,
    Steps,
    Training,
    apply_steps,
)
from supquant.experiments.methods.quantization import ProductQuantization, SupervisedQuantization
from supquant.experiments.methods.vectors import EuclideanVectors

__all__ = ["METHODS", "STEP_NAMES", "Fitted", "Method", "Settings", "Steps", "Training", "apply_steps"]

METHODS: dict[str, type[Method]] = {
    "sq": SupervisedQuantization,
    "pq": ProductQuantization,
    "euclidean": EuclideanVectors,
    "classifier": Classifier,
}


def __dir__() -> list[str]:
    return __all__
