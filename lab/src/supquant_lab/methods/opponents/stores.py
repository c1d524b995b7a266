"""Report: how opponents store vectors of unit length, and score what is stored by its estimated cosine with queries.

RaBitQ is "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound" (Gao, Long, SIGMOD 2024). Residual
quantization is "Approximate Nearest Neighbor Search by Residual Vector Quantization" (Chen, Guan, Wang, Sensors 2010), and local
search "LSQ++" (Martinez et al., ECCV 2018), both as FAISS has them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.interchange import import_faiss
from supquant.models import make_estimator
from supquant_lab.quality import Score, euclidean_scores

ADDITIVE_ROWS = 4000
"""Maximum number of rows that additive codes of FAISS learn from."""


class Store(ABC):
    """A way to store vectors (n, d) of unit length."""

    def fit(self, X: Array) -> Self:
        """Learn from vectors, if there is anything to learn."""
        del X
        return self

    @abstractmethod
    def encoded(self, X: Array) -> Any:
        """Return the items of vectors."""

    @abstractmethod
    def score(self, items: Any) -> Score:
        """Return the function from queries (q, d) to scores (q, n): minus the cosine, up to a constant for each query."""

    @abstractmethod
    def bytes_per_item(self, items: Any) -> float:
        """Return the number of bytes of an item."""


class Floats(Store):
    """The vectors themselves."""

    def encoded(self, X: Array) -> Array:
        """Return the vectors."""
        return X

    def score(self, items: Array) -> Score:
        """Return the function that multiplies."""
        return lambda queries: -(queries @ items.T)

    def bytes_per_item(self, items: Array) -> float:
        """Return four bytes per number."""
        return float(items.itemsize * items.shape[1])


@dataclass
class ProductCodes(Store):
    """Product quantization, `pq`, or `opq` with a learned rotation. Vectors of fewer dimensions than bytes get zeros."""

    name: str
    bits: int
    seed: int
    n_jobs: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def fit(self, X: Array) -> Self:
        """Learn the codebooks."""
        told = {**self.parameters, "random_state": self.seed, "n_jobs": self.n_jobs}
        self.estimator = make_estimator(self.name, self.bits, told).fit(self._padded(X))
        return self

    def _padded(self, X: Array) -> Array:
        lacking = self.bits // 8 - X.shape[1]
        return np.pad(X, ((0, 0), (0, lacking))) if lacking > 0 else X

    def encoded(self, X: Array) -> Array:
        """Return the codes (n, M) uint8."""
        codes: Array = self.estimator.encode(self._padded(X))
        return codes

    def score(self, items: Array) -> Score:
        """Return the function that looks up half the squared distance of each query to the codewords, and adds."""
        codec = self.estimator.codec_

        def scores(queries: Array) -> Array:
            sums: Array = kernels.active().table_sums(items, codec.tables(self._padded(queries), "euclidean"))
            return sums / 2

        return scores

    def bytes_per_item(self, items: Array) -> float:
        """Return M."""
        return float(items.shape[1])


@dataclass
class AdditiveCodes(Store):
    """The residual or local-search quantizer of FAISS, with one byte per codebook.

    It learns from at most `ADDITIVE_ROWS` rows, and the residual quantizer with a beam of one: all rows would take minutes.
    """

    kind: str  # ResidualQuantizer or LocalSearchQuantizer
    bits: int
    seed: int

    def fit(self, X: Array) -> Self:
        """Learn the codebooks."""
        rows = np.random.default_rng(self.seed).permutation(len(X))[:ADDITIVE_ROWS]
        self._quantizer: Any = getattr(import_faiss(), self.kind)(X.shape[1], self.bits // 8, 8)
        if self.kind == "ResidualQuantizer":
            beam = self._quantizer.max_beam_size
            self._quantizer.cp.min_points_per_centroid = 1  # which only warns
            self._quantizer.max_beam_size = 1
            self._quantizer.train(X[rows])
            self._quantizer.max_beam_size = beam
        else:
            self._quantizer.train(X[rows])
        return self

    def encoded(self, X: Array) -> Array:
        """Return the codes (n, M) uint8."""
        codes: Array = self._quantizer.compute_codes(np.ascontiguousarray(X))
        return codes

    def score(self, items: Array) -> Score:
        """Return the function that takes half the squared distance to decoded vectors."""
        distances = euclidean_scores(self._quantizer.decode(items))
        return lambda queries: distances(queries) / 2

    def bytes_per_item(self, items: Array) -> float:
        """Return M."""
        return float(items.shape[1])


class EightBits(Store):
    """`int8` of sentence-transformers: one of 256 levels in the range of each dimension, queries in floats."""

    def fit(self, X: Array) -> Self:
        """Learn the range of each dimension."""
        self._least = X.min(axis=0)
        widths = X.max(axis=0) - self._least
        self._step = np.where(widths > 0, widths, np.float32(1)) / 255
        return self

    def encoded(self, X: Array) -> Array:
        """Return the levels (n, d) int8."""
        return np.clip(np.rint((X - self._least) / self._step) - 128, -128, 127).astype(np.int8)

    def score(self, items: Array) -> Score:
        """Return the function that multiplies with what the levels mean."""
        return Floats().score((items.astype(np.float32) + 128) * self._step + self._least)

    def bytes_per_item(self, items: Array) -> float:
        """Return one byte per dimension."""
        return float(items.shape[1])


@dataclass
class Signs(Store):
    """A bit per dimension: the sign of a number.

    Attributes
    ----------
    centred : bool
        Whether the mean is subtracted before, so that bits are balanced.
    float_queries : bool
        Whether queries are floats, as in the re-scoring of sentence-transformers. If not, the score is the Hamming distance.
    """

    centred: bool = False
    float_queries: bool = True

    def fit(self, X: Array) -> Self:
        """Learn the mean."""
        self._mean = X.mean(axis=0) if self.centred else np.zeros(X.shape[1], np.float32)
        return self

    def encoded(self, X: Array) -> Array:
        """Return the bits, packed (n, ceil(d / 8)) uint8."""
        return np.packbits(self._mean < X, axis=1)

    def score(self, items: Array) -> Score:
        """Return the function that multiplies with 1 and -1."""
        signs = self._signs(np.unpackbits(items, axis=1, count=len(self._mean)))
        # Many Hamming distances are equal, and rows of a database may be sorted by class: equal ones are ranked at random.
        # Products of signs differ by at least 2.
        first = np.random.default_rng(0).random(len(items), np.float32)

        def scores(queries: Array) -> Array:
            centred = queries - self._mean
            if self.float_queries:
                return -centred @ signs.T
            return first - self._signs(centred > 0) @ signs.T

        return scores

    @staticmethod
    def _signs(bits: Array) -> Array:
        return bits.astype(np.float32) * 2 - 1

    def bytes_per_item(self, items: Array) -> float:
        """Return an eighth of the dimensions, rounded up."""
        return float(items.shape[1])


class RaBitQ(Store):
    """`IndexRaBitQ` of FAISS: signs, and two floats that correct the estimate."""

    def fit(self, X: Array) -> Self:
        """Learn the mean."""
        faiss = import_faiss()
        self._index = faiss.IndexRaBitQ(X.shape[1], faiss.METRIC_L2)
        self._index.train(X)
        return self

    def encoded(self, X: Array) -> Array:
        """Return the codes (n, ceil(d / 8) + 8) uint8."""
        codes: Array = self._index.sa_encode(np.ascontiguousarray(X))
        return codes

    def score(self, items: Array) -> Score:
        """Return the function that takes half the estimated squared distance to every item."""
        faiss = import_faiss()
        filled: Any = faiss.clone_index(self._index)
        filled.qb = 0  # queries stay floats
        faiss.copy_array_to_vector(items.ravel(), filled.codes)
        filled.ntotal = len(items)

        def scores(queries: Array) -> Array:
            distances, rows = filled.search(np.ascontiguousarray(queries), len(items))
            made = np.empty_like(distances)
            np.put_along_axis(made, rows, distances / 2, axis=1)
            return made

        return scores

    def bytes_per_item(self, items: Array) -> float:
        """Return the length of the code with the two floats."""
        return float(items.shape[1])


@dataclass
class Reranked(Store):
    """Codes by which the first items are found, and the vectors, by which these are ranked again.

    Attributes
    ----------
    codes : Store
    width : int
        Dimensions of the vectors that the codes are of; those after them are stored as floats alone.
    first : int
        How many items are ranked again.
    """

    codes: Store
    width: int
    first: int = 100

    def fit(self, X: Array) -> Self:
        """Learn the codes."""
        self.codes.fit(X[:, : self.width])
        return self

    def encoded(self, X: Array) -> tuple[Any, Array]:
        """Return the codes and the vectors."""
        return self.codes.encoded(X[:, : self.width]), X

    def score(self, items: tuple[Any, Array]) -> Score:
        """Return the function that puts the first items, by their cosine, before all others, by their codes."""
        by_code, vectors = self.codes.score(items[0]), items[1]
        first = min(self.first, len(vectors))

        def scores(queries: Array) -> Array:
            found = by_code(queries[:, : self.width])  # (q, n)
            rows = np.argpartition(found, first - 1, axis=1)[:, :first]
            found += 2 - found.min(axis=1, keepdims=True)  # at least 2, and a cosine is at most 1
            cosines = np.einsum("qd,qfd->qf", queries, vectors[rows])
            np.put_along_axis(found, rows, -cosines, axis=1)
            return found

        return scores

    def bytes_per_item(self, items: tuple[Any, Array]) -> float:
        """Return the bytes of codes and vectors."""
        return self.codes.bytes_per_item(items[0]) + Floats().bytes_per_item(items[1])
