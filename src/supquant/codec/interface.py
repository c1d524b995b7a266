"""What an index expects of a codec, what a codec expects of a feature map, and the tables of queries."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.probabilities import least_product
from supquant.parallel import BLOCK_ROWS
from supquant.storage import PackedArrays

__all__ = ["AnyCodec", "FeatureMap", "QueryTables", "block_rows"]


@runtime_checkable
class AnyCodec(Protocol):
    """A frozen codec, which encodes items and makes look-up tables of queries.

    A code is M bytes, each the number of one of K codewords. A query ranks codes by the sums of the entries of its table.
    """

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""

    @property
    def n_codewords(self) -> int:
        """K, at most 256."""

    @property
    def n_inputs(self) -> int:
        """p, the width of the vectors."""

    @property
    def rankings(self) -> tuple[str, ...]:
        """The rankings that `query_tables` takes; the first one is the default."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""

    def encode_items(self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None) -> Codes:
        """Encode vectors X (n, p), with their labels `y` if these are known: codes (n, M) uint8."""

    def query_tables(
        self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p); a query gets the same bits alone and in a batch."""

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items like those of codes (q, M).

        A code holds less than the vector it was made from, so the answers are those to a query near the item.
        """

    def check_codes(self, codes: ArrayLike) -> Codes:
        """Return codes (n, M) as uint8; raise an `InputError` unless they are codes of this codec."""

    def decode(self, codes: ArrayLike) -> Float32:
        """Return the vectors (n, r) float32 that codes (n, M) stand for."""

    def pack(self) -> PackedArrays:
        """Return the content of the file that `save` writes."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the codec to a file that `load_codec` reads."""


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


def block_rows(feature_map: object) -> int:
    """Return the number of rows of a block: the map's attribute `block_rows` if it has one, else `BLOCK_ROWS`."""
    return int(getattr(feature_map, "block_rows", BLOCK_ROWS))


@dataclass(eq=False, slots=True)  # not frozen, because that takes longer to make
class QueryTables:
    """What a scan needs of queries: look-up tables, and how their sums become scores.

    Parameters
    ----------
    tables : ndarray of shape (q, M, K), float32
        Look-up tables. The smaller the sum over a code, the nearer the item, whatever the ranking.
    offsets : ndarray of shape (q,), float32
        A score is ``offset + sum``, or ``offset - sum`` if `descending`.
    descending : bool, default=False
        Whether items with larger scores are nearer.
    bits : ndarray of shape (q, M), uint8, or None, default=None
        The codes of the queries, if sums are Hamming distances.
    curve : ndarray of shape (2, k) or (c, 2, k), float32, or None, default=None
        One or several curves from scores to probabilities; see `supquant.codec.probabilities`. None leaves scores as they are.
    curve_of : ndarray of shape (q,), int64, or None, default=None
        The number of the curve of each query, if there are several.

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
    curve_of: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.tables)

    def take(self, which: NDArray[np.intp]) -> QueryTables:
        """Return the offsets and curves of the queries `which`, in this order; tables stay as they are."""
        of = None if self.curve_of is None else self.curve_of[which]
        return replace(self, offsets=self.offsets[which], curve_of=of)

    def scores(self, sums: Float32) -> Float32:
        """Return the scores (q, k) of sums (q, k) float32; with a curve, they are probabilities."""
        curves = self.curve if self.curve is None or self.curve.ndim == 3 else self.curve[None]
        return kernels.active().scores(sums, self.offsets, self.descending, curves, self.curve_of)

    def least_products(self, probability: float) -> NDArray[np.float64]:
        """Return, for each query (q,) or once for all (1,), a product below which its curve stays below a probability."""
        assert self.curve is not None
        if self.curve_of is None:
            return np.array([least_product(self.curve, probability)])
        return np.array([least_product(each, probability) for each in self.curve])[self.curve_of]
