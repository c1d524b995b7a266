"""Kernels that do several steps of a query in one call. Their twins in NumPy are the steps themselves, where they are defined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from supquant.arrays import Float32, RowNumbers
from supquant.kernels.packing import Packed
from supquant.kernels.protocol import Kernels, Numbers

__all__ = ["CompiledKernels", "FeatureKernel", "MeaningParts", "QueryKernel", "QueryRule"]


@dataclass(frozen=True)
class QueryRule:
    """How features ``[s | u | F | z | c]`` (b, r + 1 + f + 2 g) become vectors (b, r + f + g) of queries.

    `supquant.model.vectors` says what they are.

    Parameters
    ----------
    n_columns, n_likeness, n_position : int
        r, f and g.
    length : int
        The number of words of a label.
    by_position : bool
        Whether items are ranked by position alone. Then nothing below counts but `level`.
    multilabel : bool
    least : float
        The probability of a word from which on it counts.
    position, cosine : float
        The weights of positions and of cosines.
    apart : float
        What a query that is surely new takes off the columns of words.
    level : float
        The columns of words by position alone, over the product of the vector's own z and c.
    """

    n_columns: int
    n_likeness: int
    n_position: int
    length: int
    by_position: bool
    multilabel: bool
    least: float
    position: float
    cosine: float
    apart: float
    level: float

    @property
    def width(self) -> int:
        """The width of the vectors, r + f + g."""
        return self.n_columns + self.n_likeness + self.n_position

    @property
    def n_features(self) -> int:
        """The width of the features, r + 1 + f + 2 g."""
        return self.width + 1 + self.n_position


@dataclass(frozen=True, eq=False)
class MeaningParts:
    """What the map to meanings and positions consists of.

    Parameters
    ----------
    matrices : sequence of Packed
        Anchors (h, p), weights (L, d), metric (g, p), cosine (g, p), likeness (f, w) and centres (w, g) of clusterings. Without
        a kernel the anchors are not used; without clusterings the centres are not, and f and w are 0.
    has_kernel : bool
    scale, norms
        As in `Kernels.gaussian`.
    shifts : ndarray (L,) float32
        The intercepts of the weights.
    mean, novelty : ndarray, float32
        Of shapes (p,) and (3,).
    cluster_scale, cluster_norms
        As in `Kernels.gaussian`, of the centres.
    cluster_ratios : ndarray (w,) float32
        What each membership adds to the logarithm of a density ratio.
    cluster_ends : ndarray (R,) int64
        The column after the last one of each clustering; empty without clusterings.
    words : ndarray (L, t) int32
        The columns of the words of every label, below r.
    n_columns : int
        r, the number of columns of words.
    multilabel : bool
    """

    matrices: Sequence[Packed]
    has_kernel: bool
    scale: float
    norms: Float32
    shifts: Float32
    mean: Float32
    novelty: Float32
    cluster_scale: float
    cluster_norms: Float32
    cluster_ratios: Float32
    cluster_ends: RowNumbers
    words: Numbers
    n_columns: int
    multilabel: bool


class FeatureKernel(Protocol):
    """A fitted map from vectors to features, in compiled code. It may be used by several threads."""

    def features(self, x: Float32, of_items: bool, features: Float32, n_threads: int) -> None:
        """Write the features (b, F) of vectors x (b, p): all of them, or those that items need and zeros."""


class QueryKernel(Protocol):
    """A map from vectors to look-up tables, in compiled code. It may be used by several threads."""

    def tables(
        self, x: Float32, given: Float32 | None, tables: Float32, groups: RowNumbers, n_threads: int
    ) -> bool:
        """Write the look-up tables (q, M, K) of vectors x (q, p), and the group (q,) int64 that each belongs to by its novelty.

        `given` (q,) replaces the novelty that is predicted, unless it is None. Return False if x is not finite.
        """


class CompiledKernels(Kernels, Protocol):
    """Kernels that compute in one call what callers can also compute step by step in NumPy."""

    def meaning_map(self, parts: MeaningParts) -> FeatureKernel:
        """Return the map that `supquant.model.feature_map.SupervisedMap` describes."""

    def query_vectors(self, features: Float32, rule: QueryRule) -> Float32:
        """Return the vectors (b, r + f + g) of queries with features (b, r + 1 + f + 2 g)."""

    def query_map(
        self, features: FeatureKernel, rule: QueryRule, codewords: Packed, bins: Float32
    ) -> QueryKernel:
        """Return the map from vectors to look-up tables.

        Parameters
        ----------
        features : FeatureKernel
            What `meaning_map` returned.
        rule : QueryRule
        codewords : Packed
            The negative codewords (M K, r + f + g).
        bins : ndarray (b,) float32
            Ascending bounds between groups of queries by their novelty. A bound belongs to the group above it.
        """
