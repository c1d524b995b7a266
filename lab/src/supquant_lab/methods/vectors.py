"""Report: `euclidean` and `cosine`: the vectors themselves, ranked by their distance or cosine to the query."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from supquant.arrays import Array
from supquant.codec.gaussian_map import GaussianMap
from supquant.evaluation import cosine_scores, euclidean_scores
from supquant_lab.methods.interface import Fitted, Method, Steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from supquant.evaluation.retrieval import Score

SCORES: Mapping[str, Callable[[Array], Score]] = {"euclidean": euclidean_scores, "cosine": cosine_scores}
"""The function from items to their scores, by ranking."""


class FittedVectors(Fitted):
    """Nothing is learned. Items are vectors (n, d) float32, or their kernel features if all methods have these."""

    def __init__(self, kernel: GaussianMap | None = None) -> None:
        self._kernel = kernel
        self.parameters = (
            {} if kernel is None else {"anchors": len(kernel.anchors), "features": "kernel, ours"}
        )

    def encoded(self, X: Array) -> Array:
        """Return the vectors as they are, or their features."""
        return X if self._kernel is None else self._kernel(X)

    def steps(self, items: Array, ranking: str) -> Steps:
        """Return the steps: the features, if there are any, and the scan."""
        scan = {"scan": SCORES[ranking](items)}
        return scan if self._kernel is None else {"features": self._kernel, **scan}

    def bytes_per_item(self, items: Array) -> float:
        """Return four bytes for each dimension."""
        return float(items.itemsize * items.shape[1])


class EuclideanVectors(Method):
    """`euclidean`: the same at any code length."""

    name = "euclidean"

    def fitted(self, bits: int) -> FittedVectors:
        """Return the vectors, which are the same at any length."""
        del bits
        return self._fitted

    @cached_property
    def _fitted(self) -> FittedVectors:
        for_all = self.settings.kernel_for_all
        return FittedVectors(self.settings.fitted_features(self.training.X) if for_all else None)


class CosineVectors(EuclideanVectors):
    """`cosine`: the same vectors, by the angle to the query."""

    name = "cosine"
    rankings: ClassVar[tuple[str, ...]] = ("cosine",)
