"""What a codec is to an index, and what it is made of: the protocol, the tables of queries, feature maps."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.parallel import BLOCK_ROWS
from supquant.storage import PackedArrays

__all__ = [
    "AnyCodec",
    "FeatureMap",
    "QueryTables",
    "least_product",
    "load_feature_map",
    "read_curve",
]


@runtime_checkable
class AnyCodec(Protocol):
    """Encodes items and makes look-up tables of queries; frozen, whatever was learned and how.

    A code is M bytes, each the number of one of K codewords. A query ranks codes by the sums of its table's entries.
    """

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""

    @property
    def n_codewords(self) -> int:
        """K, at most 256."""

    @property
    def n_inputs(self) -> int:
        """Width of the vectors that come in."""

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` knows; the first one is the default."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    def encode_items(self, X: object, y: object = None, *, n_jobs: int | None = None) -> Codes:
        """Give vectors X (n, p), with their labels where they are known, codes (n, M) uint8."""

    def query_tables(
        self, Q: object, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Make the tables of queries Q (q, p); they are the same bits for a query alone and in a batch."""

    def check_codes(self, codes: object) -> Codes:
        """Check codes (n, M) that come from outside."""

    def decode(self, codes: object) -> Float32:
        """Give the vectors (n, r) float32 that codes (n, M) stand for."""

    def pack(self) -> PackedArrays:
        """Give the file that `load_codec` reads, before it is written."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `load_codec` reads."""


@dataclass(frozen=True, eq=False)
class QueryTables:
    """What a scan needs of queries: look-up tables, and how to turn their sums into scores.

    Parameters
    ----------
    tables : (q, M, K) float32
        Smaller sums are nearer, whatever the ranking.
    offsets : (q,) float32
        What the sums lack to be scores.
    descending : bool
        Whether greater scores are nearer.
    bits : (q, M) uint8, optional
        Where sums are Hamming distances: the queries' own codes.
    curve : (2, k) or (c, 2, k) float32, optional
        Where scores are probabilities: what the sums stand for; see `supquant.codec.meaning`.
    curve_of : (q,) intp, optional
        Which of several curves is that of a query.

    Examples
    --------
    >>> made = QueryTables(np.zeros((1, 2, 4), np.float32), np.array([5], np.float32))
    >>> made.scores(np.array([[-3, 1]], np.float32))
    array([[2., 6.]], dtype=float32)
    """

    tables: Float32
    offsets: Float32
    descending: bool = False
    bits: Codes | None = None
    curve: Float32 | None = None
    curve_of: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.tables)

    def take(self, which: NDArray[np.intp]) -> QueryTables:
        """Return what turns sums into scores, of queries that may come more than once; tables stay as they are."""
        of = None if self.curve_of is None else self.curve_of[which]
        return replace(self, offsets=self.offsets[which], curve_of=of)

    def scores(self, sums: Float32) -> Float32:
        """Turn sums (q, k) float32 into scores: ``offsets + sums``, or ``offsets - sums`` where they descend, along the curve."""
        offsets = self.offsets[:, None]
        scores = offsets - sums if self.descending else offsets + sums
        if self.curve is None:
            return scores
        if self.curve_of is None:
            return read_curve(self.curve, scores)
        for each in np.unique(self.curve_of):
            rows = self.curve_of == each
            scores[rows] = read_curve(self.curve[each], scores[rows])
        return scores

    def least_products(self, probability: float) -> NDArray[np.float64]:
        """Return products (q,), or one (1,) for all, below which the curves of queries stay under a probability."""
        assert self.curve is not None
        if self.curve_of is None:
            return np.array([least_product(self.curve, probability)])
        return np.array([least_product(each, probability) for each in self.curve])[self.curve_of]


def read_curve(curve: Float32, products: NDArray[np.floating]) -> Float32:
    """Give the probabilities that products of any shape stand for, by straight lines between the points of a curve.

    Examples
    --------
    >>> read_curve(np.float32([[0, 2], [0.1, 0.9]]), np.float32([-1, 1, 3]))
    array([0.1, 0.5, 0.9], dtype=float32)
    """
    return np.interp(products, *curve).astype(np.float32)


def least_product(curve: Float32, probability: float) -> float:
    """Give a product below which a curve stays under a probability; minus infinity if it never does.

    It is the point of the curve before the line that reaches the probability, and infinity if none does.

    Examples
    --------
    >>> curve = np.float32([[0, 1, 2], [0.1, 0.5, 0.9]])
    >>> [least_product(curve, p) for p in (0.05, 0.5, 0.6, 0.95)]
    [-inf, 0.0, 1.0, inf]
    """
    products, probabilities = curve
    reached = int(np.searchsorted(probabilities, np.float32(probability)))
    if reached == 0:
        return -np.inf
    return float(products[reached - 1]) if reached < len(products) else np.inf


class FeatureMap(Protocol):
    """A fitted, frozen map from vectors to features."""

    kind: ClassVar[str]

    @property
    def n_inputs(self) -> int:
        """Width of what comes in."""

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to its features (b, d)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""


FEATURE_MAPS = {
    "anchor-kernel": ("supquant.features.gaussian_map", "GaussianMap"),
    "label-kernel": ("supquant.features.label_map", "LabelMap"),
    "meaning": ("supquant.features.meaning_map", "MeaningMap"),
    "boosted-trees": ("supquant.hashing.boosted_trees", "BoostedTrees"),
}
"""Module and name of every kind of feature map that a file may hold. Codecs know nothing else of them, and a module is imported
when a file asks for its map."""


def block_rows(feature_map: object) -> int:
    """Give the number of rows that go through a feature map at a time: the map's own, if it has one."""
    return int(getattr(feature_map, "block_rows", BLOCK_ROWS))


def load_feature_map(kind: str, arrays: dict[str, NDArray[Any]]) -> FeatureMap:
    """Make a map of a known kind from its arrays; a KeyError where there is none of that kind."""
    module, name = FEATURE_MAPS[kind]
    made: FeatureMap = getattr(import_module(module), name).from_arrays(arrays)
    return made
