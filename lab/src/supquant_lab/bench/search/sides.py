"""Report: the sides that are compared, each with an index of the same codes.

Ours is timed from tables and from queries. FAISS makes its tables inside every search, which takes almost no time compared with
the scan; its time from queries includes the features and the projection of the codec. Codebooks of `IndexPQ` and
`IndexPQFastScan` are random, which does not change the time of a scan. `IndexResidualQuantizer` is what `to_faiss` exports; it is
asked for the same sums as ours.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from supquant.index import CodeIndex
from supquant.interchange import binary_index, euclidean_index, put_codes
from supquant_lab.bench.search.codes import DIMENSIONS, QUERIES
from supquant_lab.hashing.binary_codec import BinaryCodec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from supquant_lab.bench.search.codes import SearchData

OURS, OURS_HAMMING = "supquant", "supquant Hamming"
PQ, ADDITIVE, FAST_SCAN, BINARY = "IndexPQ", "IndexResidualQuantizer", "IndexPQFastScan", "IndexBinaryFlat"
TABLES_TO_ANSWERS, QUERY_TO_ANSWERS = "tables_to_answers", "query_to_answers"

Search = Callable[[int, int, int], Any]  # (queries, k, threads): answers


@dataclass(frozen=True)
class Side:
    """One index, and two ways to ask it."""

    name: str
    from_tables: Search
    from_queries: Search

    @property
    def ways(self) -> dict[str, Search]:
        """The two ways, by their names in the record."""
        return {TABLES_TO_ANSWERS: self.from_tables, QUERY_TO_ANSWERS: self.from_queries}


@dataclass(frozen=True)
class OurSide(Side):
    """One of our indexes, and the tables (64, M, K) whose smallest sums are the right answers."""

    index: CodeIndex
    tables: npt.NDArray[np.float32]


def our_sides(data: SearchData) -> list[OurSide]:
    """Return our indexes: one by sums of tables, one by Hamming distances."""
    bits = 8 * data.codes.shape[1]
    binary = BinaryCodec(None, np.zeros(bits, dtype=np.float32))
    return [
        _our_side(OURS, CodeIndex(data.codec).add_codes(data.codes), data.queries),
        _our_side(OURS_HAMMING, CodeIndex(binary).add_codes(data.codes), hamming_queries(bits)),
    ]


def _our_side(name: str, index: CodeIndex, queries: npt.NDArray[np.float32]) -> OurSide:
    made = index.codec.query_tables(queries)
    first = {
        q: replace(made, tables=made.tables[:q], bits=None if made.bits is None else made.bits[:q])
        for q in QUERIES
    }
    return OurSide(
        name,
        lambda q, k, threads: index.search_tables(first[q], k, n_jobs=threads),
        lambda q, k, threads: index.search(queries[:q], k, n_jobs=threads),
        index,
        made.tables,
    )


def their_sides(faiss: Any, data: SearchData) -> list[Side]:
    """Return the indexes of FAISS, which hold the same codes."""
    M = data.codes.shape[1]
    vectors = np.random.default_rng(2).standard_normal((len(data.queries), DIMENSIONS), dtype=np.float32)
    four_bits = product_index(faiss, 2 * M, 4, data.codes)
    product_like = {PQ: product_index(faiss, M, 8, data.codes), FAST_SCAN: faiss.IndexPQFastScan(four_bits)}
    additive = euclidean_index(faiss, data.codec.codebooks, data.codes)
    binary = binary_index(faiss, data.codes)
    signs = hamming_queries(8 * M)
    bits = np.packbits(signs > 0, axis=1)

    def projected(q: int) -> npt.NDArray[np.float32]:
        return np.ascontiguousarray(data.codec.transform(data.queries[:q]))

    ready = projected(len(data.queries))

    def product_side(name: str, index: Any) -> Side:
        def from_queries(q: int, k: int, threads: int) -> Any:
            projected(q)  # only for its time: the random codebooks need vectors of their own width
            return from_vectors(q, k, threads)

        def from_vectors(q: int, k: int, threads: int) -> Any:
            del threads  # set for the whole process, by `thread_limit`
            return index.search(vectors[:q], k)

        return Side(name, from_vectors, from_queries)

    return [
        *(product_side(name, index) for name, index in product_like.items()),
        Side(
            ADDITIVE,
            lambda q, k, _: additive.search(ready[:q], k),
            lambda q, k, _: additive.search(projected(q), k),
        ),
        Side(
            BINARY,
            lambda q, k, _: binary.search(bits[:q], k),
            lambda q, k, _: binary.search(np.packbits(signs[:q] > 0, axis=1), k),
        ),
    ]


def product_index(
    faiss: Any, n_codebooks: int, bits: int, codes: npt.NDArray[np.uint8], dimensions: int = DIMENSIONS
) -> Any:
    """Return an `IndexPQ` with random codebooks that holds codes (n, n_codebooks * bits / 8)."""
    index = faiss.IndexPQ(dimensions, n_codebooks, bits)
    random = np.random.default_rng(3).standard_normal(index.pq.centroids.size(), dtype=np.float32)
    faiss.copy_array_to_vector(random, index.pq.centroids)
    index.is_trained = True
    return put_codes(faiss, index, codes)


def hamming_queries(bits: int) -> npt.NDArray[np.float32]:
    """Return queries (64, bits) whose signs are the bits of their codes."""
    return np.random.default_rng(1).standard_normal((max(QUERIES), bits), dtype=np.float32)


@contextmanager
def thread_limit(faiss: Any, threads: int) -> Iterator[None]:
    """Limit the threads of FAISS and of the BLAS inside a `with` block."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        faiss.omp_set_num_threads(before)
