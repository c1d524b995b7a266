"""The methods that can be compared, by name."""

from __future__ import annotations

from supquant.experiments.methods.classifier import Classifier, ClassifierOfBits, ClassifierOfScores
from supquant.experiments.methods.codes import EstimatorMethod, with_parameters
from supquant.experiments.methods.hashing import (
    CorrelationHashing,
    KernelSupervisedHashing,
    LinearDiscreteHashing,
    MinimalLossHashing,
    ReconstructiveHashing,
    SemiSupervisedHashing,
    SupervisedDiscreteHashing,
    TreeHashing,
)
from supquant.experiments.methods.interface import (
    STEP_NAMES,
    Fitted,
    Method,
    Settings,
    Steps,
    Training,
    apply_steps,
)
from supquant.experiments.methods.kept import KeptFits
from supquant.experiments.methods.probabilities import LabelProbabilities
from supquant.experiments.methods.quantization import (
    CompositeQuantization,
    OptimizedProductQuantization,
    ProductQuantization,
    SupervisedQuantization,
    TripletQuantization,
    WithoutTransform,
)
from supquant.experiments.methods.vectors import CosineVectors, EuclideanVectors

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
    "with_parameters",
]

METHODS: dict[str, type[Method]] = {
    "sq": SupervisedQuantization,
    "sq-triplet": TripletQuantization,
    "sq-no-transform": WithoutTransform,
    "cq": CompositeQuantization,
    "pq": ProductQuantization,
    "opq": OptimizedProductQuantization,
    "sdh": SupervisedDiscreteHashing,
    "sdh-linear": LinearDiscreteHashing,
    "ksh": KernelSupervisedHashing,
    "fasthash": TreeHashing,
    "cca-itq": CorrelationHashing,
    "ssh": SemiSupervisedHashing,
    "mlh": MinimalLossHashing,
    "bre": ReconstructiveHashing,
    "euclidean": EuclideanVectors,
    "cosine": CosineVectors,
    "classifier": Classifier,
    "classifier-bits": ClassifierOfBits,
    "classifier-scores": ClassifierOfScores,
    "probabilities": LabelProbabilities,
}


def __dir__() -> list[str]:
    return __all__
