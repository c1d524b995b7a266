"""Codes of bits, ranked by the number of bits that differ: the codec of hashing methods.

    X -> features -> project -> compare with thresholds -> pack eight bits per byte -> codes

A byte is one of 256 codewords. The tables of a query hold the number of bits in which each byte differs from its own, so that a
sum over a code is a Hamming distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import ArrayLike, Codes, Float32
from supquant.codec.base import MAX_CODEBOOKS, ProjectingCodec, check_part
from supquant.codec.interface import FeatureMap, QueryTables
from supquant.errors import InputError
from supquant.inputs.validation import check_vectors

_POPCOUNTS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.float32)
"""Number of set bits (256,) of every byte."""


@dataclass(frozen=True, eq=False, repr=False)
class BinaryCodec(ProjectingCodec):
    """Encodes to bits, decodes to signs, and makes tables of Hamming distances.

    Bit j of a code is ``project(features(x))[j] > thresholds[j]``, packed as `numpy.packbits` does.

    Parameters
    ----------
    projection : ndarray of shape (d, bits), float32, or None
        From features to the numbers that are compared with thresholds; None compares the features themselves.
    thresholds : ndarray of shape (bits,), float32
        One for each bit; the number of bits is a multiple of eight.
    feature_map : FeatureMap or None, default=None
        From vectors to features; None takes vectors as features.

    Examples
    --------
    >>> codec = BinaryCodec(None, np.zeros(8, dtype=np.float32))
    >>> codec.encode_items([[1, 1, 1, 1, -1, -1, -1, -1], [-1, -1, -1, -1, -1, -1, -1, 1]])
    array([[240],
           [  1]], dtype=uint8)
    >>> codec.query_tables([[1, 1, 1, 1, -1, -1, -1, -1]]).tables[0, 0, [240, 1]]
    array([0., 5.], dtype=float32)
    """

    projection: Float32 | None
    thresholds: Float32
    feature_map: FeatureMap | None = None

    TYPE: ClassVar[str] = "binary"
    _ARRAYS: ClassVar[tuple[str, ...]] = ("projection", "thresholds")

    def __post_init__(self) -> None:
        check_part("thresholds", self.thresholds, "bits")
        bits = self.n_components
        if bits % 8 or not 8 <= bits <= 8 * MAX_CODEBOOKS:
            raise InputError(
                f"bits must be a multiple of 8 from 8 to {8 * MAX_CODEBOOKS}, got {bits} thresholds"
            )
        if self.projection is not None:
            check_part("projection", self.projection, "d", bits)
        super().__post_init__()

    @property
    def n_codebooks(self) -> int:
        """M, the bytes of one code."""
        return self.n_components // 8

    @property
    def n_codewords(self) -> int:
        """K, the number of values of a byte."""
        return 256

    @property
    def n_components(self) -> int:
        """Bits of a code."""
        return len(self.thresholds)

    @property
    def rankings(self) -> tuple[str, ...]:
        """The one ranking that `query_tables` takes."""
        return ("hamming",)

    def encode_items(self, X: ArrayLike, y: ArrayLike | None = None, *, n_jobs: int | None = None) -> Codes:
        """Encode vectors X (n, p): codes (n, M) uint8. Labels `y` are refused."""
        if y is not None:
            raise InputError("codes of bits are made from vectors alone: encode items without y")
        return self._by_blocks(
            X, n_jobs, self.n_codebooks, np.uint8, lambda x, _: self.bits_of(self.project(x))
        )

    def query_tables(
        self, Q: ArrayLike, ranking: str | None = None, *, n_jobs: int | None = None
    ) -> QueryTables:
        """Return what a scan needs of queries Q (q, p): tables (q, M, 256) of numbers of bits that differ, and their codes."""
        self._ranking(ranking)
        Q = check_vectors(Q, name="Q", n_features=self.n_inputs, min_rows=0)
        bits = np.empty((len(Q), self.n_codebooks), dtype=np.uint8)
        self._by_queries(Q, n_jobs, (bits,), lambda x: (self.bits_of(self.project(x)),))
        return self.item_tables(bits, ranking)

    def item_tables(self, codes: Codes, ranking: str | None = None) -> QueryTables:
        """Return what a scan needs to find items like those of codes (q, M)."""
        self._ranking(ranking)
        # tables[q, m, byte] = _POPCOUNTS[codes[q, m] ^ byte]
        tables = _POPCOUNTS[codes[:, :, None] ^ np.arange(256, dtype=np.uint8)]
        return QueryTables(tables, np.zeros(len(codes), dtype=np.float32), bits=codes)

    def decode(self, codes: ArrayLike) -> Float32:
        """Return the signs (n, bits) float32 that codes (n, M) stand for: 1 for a bit that is set, else -1."""
        signs = np.unpackbits(self.check_codes(codes), axis=1).astype(np.float32)
        signs *= 2
        signs -= 1
        return signs

    def bits_of(self, projected: Float32) -> Codes:
        """Return the codes (b, M) of projected vectors (b, bits), compared with the thresholds."""
        return np.packbits(projected > self.thresholds, axis=1)

    def _stored_settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]], own: dict[str, Any]) -> Self:
        return cls(arrays.get("projection"), arrays["thresholds"], own["feature_map"])


def hamming_distances(codes: Codes, queries: Codes) -> NDArray[np.uint16]:
    """Return the number of bits (q, n) in which codes (n, M) differ from queries (q, M).

    Examples
    --------
    >>> hamming_distances(np.uint8([[0, 1], [255, 1]]), np.uint8([[0, 0]]))
    array([[1, 9]], dtype=uint16)
    """
    width = next(each for each in (8, 4, 2, 1) if codes.shape[1] % each == 0)
    words, asked = (np.ascontiguousarray(each).view(f"u{width}").T for each in (codes, queries))
    distances = np.zeros((len(queries), len(codes)), dtype=np.uint16)
    for of_items, of_queries in zip(words, asked, strict=True):
        distances += np.bitwise_count(of_queries[:, None] ^ of_items)
    return distances
