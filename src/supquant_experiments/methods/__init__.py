"""The methods that can be compared, by name."""

from __future__ import annotations

from supquant_experiments.methods.classifier import Classifier, ClassifierOfBits, ClassifierOfScores
from supquant_experiments.methods.codes import EstimatorMethod
from supquant_experiments.methods.hashing import (
    CorrelationHashing,
    KernelSupervisedHashing,
    LinearDiscreteHashing,
    MinimalLossHashing,
    ReconstructiveHashing,
    SemiSupervisedHashing,
    SupervisedDiscreteHashing,
    TreeHashing,
)
from supquant_experiments.methods.interface import (
    STEP_NAMES,
    Fitted,
    Method,
    Settings,
    Steps,
    Training,
    apply_steps,
)
from supquant_experiments.methods.kept import KeptFits
from supquant_experiments.methods.probabilities import LabelProbabilities
from supquant_experiments.methods.quantization import (
    CompositeQuantization,
    OptimizedProductQuantization,
    ProductQuantization,
    SupervisedQuantization,
    TripletQuantization,
    WithoutTransform,
)
from supquant_experiments.methods.vectors import CosineVectors, EuclideanVectors

__all__ = [
    "METHODS",
    "STEP_NAMES",
    "EstimatorMethod",
    "Fitted",
    "KeptFits",
    "Method",
    "Settings",
    "Steps",
    "Training",
    "apply_steps",
]

_KINDS: tuple[type[Method], ...] = (
    SupervisedQuantization,
    TripletQuantization,
    WithoutTransform,
    CompositeQuantization,
    ProductQuantization,
    OptimizedProductQuantization,
    SupervisedDiscreteHashing,
    LinearDiscreteHashing,
    KernelSupervisedHashing,
    TreeHashing,
    CorrelationHashing,
    SemiSupervisedHashing,
    MinimalLossHashing,
    ReconstructiveHashing,
    EuclideanVectors,
    CosineVectors,
    Classifier,
    ClassifierOfBits,
    ClassifierOfScores,
    LabelProbabilities,
)

METHODS = {kind.name: kind for kind in _KINDS}
"""The class of every method, by its name."""


def __dir__() -> list[str]:
    return __all__
