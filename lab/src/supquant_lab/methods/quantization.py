"""Report: the quantization methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from supquant_lab.methods.codes import EstimatorMethod
from supquant_lab.tuning import PENALTIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from supquant.published.anchor_kernel import AnchorKernel


class SupervisedQuantization(EstimatorMethod):
    """`sq`: as published, where a longer code starts from the shorter one; or with the defaults of the library.

    The label ranking and the position ranking have these defaults.
    """

    name = "sq"
    rankings: ClassVar[tuple[str, ...]] = ("euclidean", "label", "position")
    kernel = True
    grid = PENALTIES

    @property
    def plain(self) -> bool:
        """Whether the estimator has the defaults of the library."""
        return self.settings.ranking in ("label", "position") and self.settings.anchors is None

    @property
    def estimator_name(self) -> str:
        """The default model, or the published one for kernel features and the Euclidean ranking."""
        return "sq" if self.plain else "published"

    @property
    def chained(self) -> bool:  # type: ignore[override]
        """Whether a longer code starts from the shorter one."""
        return not self.plain

    @property
    def takes_unlabelled(self) -> bool:  # type: ignore[override]
        """Whether the fit uses rows without labels: the library's own features do, the published ones do not."""
        return self.plain

    def features(self) -> AnchorKernel | Literal["auto"] | None:
        """Return the published features, or "auto" for those of the library."""
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
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {
        "constraint_weight": tuple(10.0 ** (exponent / 4) for exponent in range(-16, 24))
    }


class ProductQuantization(EstimatorMethod):
    """`pq`: labels are not used."""

    name = "pq"
    takes_unlabelled = True


class OptimizedProductQuantization(EstimatorMethod):
    """`opq`: labels are not used."""

    name = "opq"
    takes_unlabelled = True
