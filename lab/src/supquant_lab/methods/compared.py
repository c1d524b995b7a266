"""Report: the compared methods by name.

A `grid` has the values of parameters that a validation search tries: about 40 points for every method.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from supquant.arrays import Array
from supquant.codec.probabilities import label_weights
from supquant.inputs.labels import read_labels
from supquant_lab.methods.codes import SHORTEST_BITS, EstimatorMethod, FittedCodes
from supquant_lab.methods.interface import Fitted, Method, Steps
from supquant_lab.quality import cosine_scores, euclidean_scores
from supquant_lab.tuning import PENALTIES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from supquant.codec.gaussian_map import GaussianMap
    from supquant.published.anchor_kernel import AnchorKernel
    from supquant_lab.methods.interface import Settings
    from supquant_lab.quality import Score

Grid = dict[str, tuple[Any, ...]]


def decades(first: int, last: int) -> tuple[float, ...]:
    """Return the powers of ten between two exponents, both included.

    Examples
    --------
    >>> decades(-1, 1)
    (0.1, 1.0, 10.0)
    """
    return tuple(10.0**exponent for exponent in range(first, last + 1))


RIDGES: Grid = {"ridge": tuple(float(ridge) for ridge in np.geomspace(1e-9, 1e1, 40))}
"""The ridge penalties of a classifier that a validation search tries."""

# quantizers -----------------------------------------------------------------------------------------------------------


class SupervisedQuantization(EstimatorMethod):
    """`sq`: as published, where a longer code starts from the shorter one; or the library's default model.

    Under the label ranking and the position ranking it is the default model, unless a number of anchors was asked for.
    """

    name = "sq"
    rankings: ClassVar[tuple[str, ...]] = ("euclidean", "label", "position")
    kernel = True

    @property
    def plain(self) -> bool:
        """Whether the estimator is the default model of the library."""
        return self.settings.ranking in ("label", "position") and self.settings.anchors is None

    @property
    def estimator_name(self) -> str:
        """The default model, or the published one."""
        return "sq" if self.plain else "published"

    @property
    def grid(self) -> Mapping[str, Sequence[Any]]:  # type: ignore[override]
        """The published penalties; the default model has none."""
        return {} if self.plain else PENALTIES

    @property
    def chained(self) -> bool:  # type: ignore[override]
        """Whether a longer code starts from the shorter one."""
        return not self.plain

    @property
    def takes_unlabelled(self) -> bool:  # type: ignore[override]
        """Whether the fit uses rows without labels: the default model does."""
        return self.plain

    def features(self) -> AnchorKernel | Literal["auto"] | None:
        """Return the published features, or "auto" for those of the default model."""
        return "auto" if self.plain else super().features()

    def encode_settings(self) -> Mapping[str, Any]:
        """Return how items without labels are encoded."""
        return {"missing_labels": self.settings.missing_labels}


class WithoutTransform(SupervisedQuantization):
    """`sq-no-transform`: the projection is the identity, or PCA with ``projection=pca``."""

    name = "sq-no-transform"
    rankings: ClassVar[tuple[str, ...]] = ("euclidean",)
    estimator_name = "sq-no-transform"


class TripletQuantization(EstimatorMethod):
    """`sq-triplet`: the triplet loss in place of the classification loss."""

    name = "sq-triplet"
    kernel = True
    chained = True
    grid = PENALTIES


class CompositeQuantization(EstimatorMethod):
    """`cq`: labels are not used."""

    name = "cq"
    takes_unlabelled = True
    grid: ClassVar[Grid] = {"constraint_weight": tuple(10.0 ** (exponent / 4) for exponent in range(-16, 24))}


class ProductQuantization(EstimatorMethod):
    """`pq`: labels are not used."""

    name = "pq"
    takes_unlabelled = True


class OptimizedProductQuantization(EstimatorMethod):
    """`opq`: labels are not used."""

    name = "opq"
    takes_unlabelled = True


# hashing --------------------------------------------------------------------------------------------------------------


class Hashing(EstimatorMethod):
    """A class of `supquant_lab.hashing`. Each code length is fitted alone, and papers measure codes of vectors alone."""

    rankings = ("hamming",)
    published = "encoded"


class SupervisedDiscreteHashing(Hashing):
    """`sdh`."""

    name = "sdh"
    kernel = True
    grid: ClassVar[Grid] = {"function_weight": decades(-7, 2), "classifier_ridge": decades(-1, 2)}


class LinearDiscreteHashing(SupervisedDiscreteHashing):
    """`sdh-linear`: SDH on the vectors as they are."""

    name = "sdh-linear"
    kernel = False


class KernelSupervisedHashing(Hashing):
    """`ksh`."""

    name = "ksh"
    kernel = True
    grid: ClassVar[Grid] = {"ridge": decades(-8, -1), "max_iter": (0, 100, 300, 500, 1000)}


class TreeHashing(Hashing):
    """`fasthash`."""

    name = "fasthash"
    grid: ClassVar[Grid] = {
        "tree_depth": (2, 4, 6, 8),
        "n_trees": (50, 100, 200, 400),
        "n_pairs": (50, 100, 400),
    }


class CorrelationHashing(Hashing):
    """`cca-itq`."""

    name = "cca-itq"
    grid: ClassVar[Grid] = {"covariance_ridge": tuple(float(ridge) for ridge in np.geomspace(1e-8, 1e1, 40))}


class SemiSupervisedHashing(Hashing):
    """`ssh`."""

    name = "ssh"
    grid: ClassVar[Grid] = {
        "variance_weight": decades(-4, 5),
        "variant": ("orthogonal", "nonorthogonal", "sequential"),
        "correction": (1.0, 0.1),
    }


class MinimalLossHashing(Hashing):
    """`mlh`."""

    name = "mlh"
    grid: ClassVar[Grid] = {
        "dissimilar_weight": (0.1, 0.3, 1.0, 3.0, 10.0),
        "weight_decay": decades(-6, -3),
        "learning_rate": (0.1, 0.3),
    }


class ReconstructiveHashing(Hashing):
    """`bre`."""

    name = "bre"
    grid: ClassVar[Grid] = {
        "n_landmarks": (25, 50, 100, 200),
        "pairs": (0.02, 0.05, 0.1),
        "similar": (0.1, 0.25, 0.5, 0.75),
    }


# classifiers ----------------------------------------------------------------------------------------------------------


class Classifier(EstimatorMethod):
    """`classifier`: items are labels, the same at any code length."""

    name = "classifier"
    kernel = True
    rankings = ("label", "euclidean")  # both rank labels in the same order
    grid = RIDGES

    def fitted(self, bits: int) -> FittedCodes:
        """Return the classifier, which is the same at any length."""
        del bits
        return super().fitted(SHORTEST_BITS)


class ClassifierOfBits(EstimatorMethod):
    """`classifier-bits`: random-projection bits of the class scores."""

    name = "classifier-bits"
    kernel = True
    rankings = ("hamming",)
    grid = RIDGES


# float items ----------------------------------------------------------------------------------------------------------


class FloatMethod(Method):
    """A method that stores floats, the same ones at any code length. No code of its items can be better."""

    def fitted(self, bits: int) -> FloatItems:
        """Return the fit, which is the same at any length."""
        del bits
        return self._fitted

    @property
    @abstractmethod
    def _fitted(self) -> FloatItems:
        """The fit, made once."""


class FloatItems(Fitted):
    """Items are rows (n, d) of float32."""

    def bytes_per_item(self, items: Array) -> float:
        """Return four bytes per number."""
        return float(items.itemsize * items.shape[1])


class FittedScores(FloatItems):
    """Items are class scores (n, L), ranked by their product with the scores of the query."""

    def __init__(self, labels: FittedCodes) -> None:
        super().__init__(labels.parameters, labels.fit_seconds)
        self._classifier = labels.estimator

    def encoded(self, X: Array) -> Array:
        """Return the class scores (n, L) of vectors without labels."""
        scores: Array = self._classifier.decision_function(X)
        return scores

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: the class scores of the query, then the products."""
        del ranking
        codec = self._classifier.codec_
        return {
            "features": codec.features,
            "encode": codec.project,
            "scan": lambda scores: -(scores @ items.T),
        }


class ClassifierOfScores(FloatMethod):
    """`classifier-scores`: nothing is quantized, so this is the best that codes of items without labels can reach."""

    name = "classifier-scores"
    rankings = ("label",)
    published = "encoded"

    @cached_property
    def _fitted(self) -> FittedScores:
        classifier = Classifier(self.training, self.settings, self.callback, self.kept)
        return FittedScores(classifier.fitted(SHORTEST_BITS))


class FittedProbabilities(FloatItems):
    """Items are the probabilities of all labels (n, L), or 0 and 1 where labels are known.

    They are ranked as codes are by the label ranking: by their product with weights from the probabilities of the query.
    """

    def __init__(self, codes: FittedCodes, y: Array) -> None:
        super().__init__(
            codes.parameters,
            codes.fit_seconds,
            chain_seconds=codes.chain_seconds,
            truncated=codes.truncated,
            convergence=codes.convergence,
        )
        self._quantizer = codes.estimator
        self._labels = read_labels(y, classes=self._quantizer.classes_)

    def learned(self) -> Array:
        """Return the labels of the training rows as an indicator (n, L)."""
        return self._labels.dense(0, len(self._labels)).astype(np.float32)

    def encoded(self, X: Array) -> Array:
        """Return the probability of every label for vectors without labels."""
        return np.asarray(self._quantizer.predict_proba(X), dtype=np.float32)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: the label probabilities of the query, the weights of labels, and the products."""
        del ranking
        return {
            "features": self.encoded,
            "projection": lambda p: label_weights(p, multilabel=self._labels.multilabel),
            "scan": lambda weights: -(weights @ items.T),
        }


class LabelProbabilities(FloatMethod):
    """`probabilities`: those of the classifier inside `sq`. The difference to this is what codes of `sq` lose.

    The classifier is that of `sq` at 16 bits with the label ranking and the library's own features; a number of anchors that
    was asked for is ignored. Both share kept fits.
    """

    name = "probabilities"
    rankings: ClassVar[tuple[str, ...]] = ("label",)

    @cached_property
    def _fitted(self) -> FittedProbabilities:
        settings: Settings = replace(self.settings, ranking="label", anchors=None)
        quantization = SupervisedQuantization(self.training, settings, self.callback, self.kept)
        return FittedProbabilities(quantization.fitted(SHORTEST_BITS), self.training.y)


class FittedVectors(FloatItems):
    """Nothing is learned. Items are vectors (n, d), or their kernel features if all methods have these."""

    def __init__(self, kernel: GaussianMap | None) -> None:
        super().__init__(
            {} if kernel is None else {"anchors": len(kernel.anchors), "features": "kernel, ours"}
        )
        self._kernel = kernel

    def encoded(self, X: Array) -> Array:
        """Return the vectors as they are, or their features."""
        return X if self._kernel is None else self._kernel(X)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: the features, if there are any, and the scan."""
        scores: Mapping[str, Callable[[Array], Score]] = {
            "euclidean": euclidean_scores,
            "cosine": cosine_scores,
        }
        scan = {"scan": scores[ranking](items)}
        return scan if self._kernel is None else {"features": self._kernel, **scan}


class EuclideanVectors(FloatMethod):
    """`euclidean`: the vectors themselves, by their distance to the query."""

    name = "euclidean"

    @cached_property
    def _fitted(self) -> FittedVectors:
        for_all = self.settings.kernel_for_all
        return FittedVectors(self.settings.fitted_features(self.training.X) if for_all else None)


class CosineVectors(EuclideanVectors):
    """`cosine`: the vectors themselves, by the angle to the query."""

    name = "cosine"
    rankings: ClassVar[tuple[str, ...]] = ("cosine",)


METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
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
}
"""The methods of the paper and of the library, by name. `opponents` has what users take in their place."""
