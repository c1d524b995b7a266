"""Report: the quantizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from supquant.evaluation import PENALTIES
from supquant.experiments.methods.codes import EstimatorMethod
from supquant.quantizers import (
    CompositeQuantizer,
    OptimizedProductQuantizer,
    ProductQuantizer,
    SupervisedQuantizer,
    TripletQuantizer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from supquant.features import AnchorKernel


class SupervisedQuantization(EstimatorMethod):
    """`sq`: as published, a longer code from the shorter one; or, ranked by meaning, as the library does it by itself.

    So it is for the ranking by position as well, which takes the same codes.
    """

    rankings: ClassVar[tuple[str, ...]] = ("euclidean", "semantic", "position")
    kernel = True
    grid = PENALTIES

    @property
    def plain(self) -> bool:
        """Whether the estimator is left to its own defaults."""
        return self.settings.ranking in ("semantic", "position") and self.settings.anchors is None

    @property
    def chained(self) -> bool:  # type: ignore[override]
        """Whether a longer code starts from the shorter one."""
        return not self.plain

    @property
    def takes_unlabelled(self) -> bool:  # type: ignore[override]
        """Whether rows without labels are learned from: by the library's own features, not by the published ones."""
        return self.plain

    def features(self) -> AnchorKernel | Literal["auto"] | None:
        """Give the published features, or leave the choice to the estimator."""
        return "auto" if self.plain else super().features()

    @classmethod
    def make(cls, bits: int) -> SupervisedQuantizer:
        """Give the quantizer of so many bits."""
        return SupervisedQuantizer(bits // 8)

    def encode_settings(self) -> Mapping[str, Any]:
        """Say what to do for labels that are missing."""
        return {"missing_labels": self.settings.missing_labels}


class WithoutTransform(SupervisedQuantization):
    """`sq-no-transform`: the projection is the identity; ``projection=pca`` is the second line."""

    rankings: ClassVar[tuple[str, ...]] = ("euclidean",)

    @classmethod
    def make(cls, bits: int) -> SupervisedQuantizer:
        """Give the quantizer of so many bits."""
        return SupervisedQuantizer(bits // 8, projection="identity")


class TripletQuantization(EstimatorMethod):
    """`sq-triplet`: the triplet loss in the place of the classification loss."""

    kernel = True
    chained = True
    grid = PENALTIES

    @classmethod
    def make(cls, bits: int) -> TripletQuantizer:
        """Give the quantizer of so many bits."""
        return TripletQuantizer(bits // 8)


class CompositeQuantization(EstimatorMethod):
    """`cq`: labels are not used."""

    takes_unlabelled = True
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "constraint_weight": tuple(10.0 ** (exponent / 4) for exponent in range(-16, 24))
    }

    @classmethod
    def make(cls, bits: int) -> CompositeQuantizer:
        """Give the quantizer of so many bits."""
        return CompositeQuantizer(bits // 8)


class ProductQuantization(EstimatorMethod):
    """`pq`: labels are not used."""

    takes_unlabelled = True

    @classmethod
    def make(cls, bits: int) -> ProductQuantizer:
        """Give the quantizer of so many bits."""
        return ProductQuantizer(bits // 8)


class OptimizedProductQuantization(EstimatorMethod):
    """`opq`: labels are not used."""

    takes_unlabelled = True

    @classmethod
    def make(cls, bits: int) -> OptimizedProductQuantizer:
        """Give the quantizer of so many bits."""
        return OptimizedProductQuantizer(bits // 8)
