"""What codecs know of feature maps: their protocols, and the modules of those that a file may hold."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, Protocol, Self

from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec.spelling import Spelling
from supquant.kernels import FeatureKernel
from supquant.labels import Labels
from supquant.parallel import BLOCK_ROWS

__all__ = ["FEATURE_MAPS", "FeatureMap", "MeaningFeatures", "block_rows", "load_feature_map"]


class FeatureMap(Protocol):
    """A fitted, frozen map from vectors to features."""

    kind: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, d)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""


FEATURE_MAPS = {
    "anchor-kernel": ("supquant.features.gaussian_map", "GaussianMap"),
    "label-kernel": ("supquant.features.label_map", "LabelMap"),
    "meaning": ("supquant.features.meaning_map", "MeaningMap"),
    "boosted-trees": ("supquant.hashing.boosted_trees", "BoostedTrees"),
}
"""Module and class of every kind of feature map that a file may hold. A module is imported when a file holds its map."""


def block_rows(feature_map: object) -> int:
    """Return the number of rows of a block: the map's attribute `block_rows` if it has one, else `BLOCK_ROWS`."""
    return int(getattr(feature_map, "block_rows", BLOCK_ROWS))


def load_feature_map(kind: str, arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Return the map of a kind with the arrays of a file; raise a KeyError for an unknown kind."""
    module, name = FEATURE_MAPS[kind]
    feature_map: FeatureMap = getattr(import_module(module), name).from_arrays(arrays)
    return feature_map


class MeaningFeatures(Protocol):
    """A map from vectors (b, p) to features ``[s | u | z | c]`` of a `SemanticCodec`; see `MeaningMap` for what they are."""

    kind: ClassVar[str]
    multilabel: bool

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""

    @property
    def n_trained(self) -> int:
        """Number of labels that were trained on. They are the first ones."""

    @property
    def spelling(self) -> Spelling:
        """The words of trained labels."""

    @property
    def n_columns(self) -> int:
        """Columns of s: those of trained labels, then one for each added label."""

    @property
    def means(self) -> Float32:
        """Mean positions (L, g) of trained labels, then of added ones."""

    @property
    def added_directions(self) -> Float32:
        """Directions (a, g) of the added labels: their product with a position is 1 at the mean of the label."""

    @property
    def n_labels(self) -> int:
        """L, the number of labels: trained ones, then added ones."""

    @property
    def n_position(self) -> int:
        """g, the width of z and of c."""

    @property
    def compiled(self) -> FeatureKernel | None:
        """The map in compiled code; None where there is none, or where classes were added after the fit."""

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, r + 1 + 2 g)."""

    def positions(self, x: Float32) -> Float32:
        """Return z (b, g) of a block (b, p)."""

    def of_items(self, x: Float32) -> Float32:
        """Map a block (b, p) of items: all features that they need."""

    def of_labelled(self, x: Float32) -> Float32:
        """Map a block (b, p) of items with known labels: s, u and c may be zero."""

    def cosines(self, z: Float32) -> Float32:
        """Return c (b, g) of vectors that lie at positions z (b, g)."""

    def probabilities(self, x: Float32) -> Float32:
        """Return the probability of every label (b, L) for a block (b, p)."""

    def with_classes(self, x: Float32, labels: Labels) -> Self:
        """Return a map that also knows the classes of rows x (n, p) with labels."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays that a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the map with the arrays of a file."""
