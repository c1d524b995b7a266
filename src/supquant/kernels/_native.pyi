# Types of the compiled module, whose source is native/bindings.cpp. Its functions write into arrays that the caller made.
# They do not check shapes or codes; the modules that call them do.

from typing import final, overload

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64, RowNumbers
from supquant.kernels.protocol import Numbers
from supquant.kernels.scanned import Bytes

def compiled_levels() -> list[str]: ...
def available_levels() -> list[str]: ...
def active_level() -> str: ...
def select(name: str) -> bool: ...
def code_sums(codes: Bytes, X: Float32, K: int, sums: Float64, n_threads: int) -> None: ...
def pair_counts(codes: Bytes, K: int, weights: Float64, counts: Float64, n_threads: int) -> None: ...
def interaction(
    codes: Bytes,
    first: NDArray[np.uint64],
    weights: Float64,
    gram: Float64,
    eps: float,
    derivative: Float64,
    n_threads: int,
) -> tuple[float, float]: ...
def assign(
    unary: Float32,
    cross: Float32,
    product: Float32,
    mu: float,
    eps: float,
    start: Bytes,
    K: int,
    max_sweeps: int,
    codes: Bytes,
    n_threads: int,
) -> None: ...
def beam(unary: Float32, cross: Float32, K: int, width: int, codes: Bytes, n_threads: int) -> None: ...
def table_sums(codes: Bytes, tables: Float32, sums: Float32, n_threads: int) -> None: ...
def counted_exponentials(exponents: Float32, counts: NDArray[np.uint16]) -> None: ...
def byte_dots(
    x: NDArray[np.uint8],
    rows: RowNumbers,
    asking: RowNumbers,
    factors: Float32,
    sums: Float32,
    n_threads: int,
) -> None: ...
def half_dots(
    x: NDArray[np.uint16],
    rows: RowNumbers,
    asking: RowNumbers,
    factors: Float32,
    sums: Float32,
    n_threads: int,
) -> None: ...
def count_products(x: NDArray[np.uint16], weights: Float32, scores: Float32) -> None: ...
def count_slopes(
    x: NDArray[np.uint16], weights: Float32, targets: Float32, several: bool, sums: Float32
) -> None: ...
def products(
    x: Float32, floats: Float32, halves: NDArray[np.uint16], n: int, sums: Float32, n_threads: int
) -> None: ...
def gaussian(
    x: Float32,
    floats: Float32,
    halves: NDArray[np.uint16],
    n: int,
    norms: Float32,
    scale: float,
    values: Float32,
    n_threads: int,
) -> None: ...

@final
class MeaningMap:
    def __init__(
        self,
        floats: list[Float32],
        halves: list[NDArray[np.uint16]],
        shapes: list[tuple[int, int]],
        has_kernel: bool,
        scale: float,
        norms: Float32,
        shifts: Float32,
        mean: Float32,
        novelty: Float32,
        cluster_scale: float,
        cluster_norms: Float32,
        cluster_ratios: Float32,
        cluster_ends: RowNumbers,
        words: Numbers,
        n_columns: int,
        multilabel: bool,
    ) -> None: ...
    def features(self, x: Float32, of_items: bool, features: Float32, n_threads: int) -> None: ...

@final
class QueryRule:
    def __init__(
        self,
        n_columns: int,
        n_likeness: int,
        n_position: int,
        length: int,
        by_position: bool,
        multilabel: bool,
        least: float,
        position: float,
        cosine: float,
        apart: float,
        level: float,
    ) -> None: ...

def query_vectors(features: Float32, rule: QueryRule, vectors: Float32) -> None: ...

@final
class QueryMap:
    def __init__(
        self,
        features: MeaningMap,
        rule: QueryRule,
        floats: Float32,
        halves: NDArray[np.uint16],
        n: int,
        bins: Float32,
    ) -> None: ...
    def tables(
        self, x: Float32, given: Float32 | None, tables: Float32, groups: RowNumbers, n_threads: int
    ) -> bool: ...

def tree_sums(
    x: Float32,
    features: Numbers,
    thresholds: Float32,
    leaves: Float32,
    depth: int,
    sums: Float32,
    n_threads: int,
) -> None: ...
def best_splits(
    bins: Bytes,
    rows: NDArray[np.uint32],
    weights: Float64,
    starts: NDArray[np.uint64],
    features: Numbers,
    chosen: Numbers,
    last: Bytes,
    n_threads: int,
) -> None: ...
@overload
def decode(codes: Bytes, codebooks: Float32, out: Float32, n_threads: int) -> None: ...
@overload
def decode(codes: Bytes, codebooks: Float64, out: Float64, n_threads: int) -> None: ...
def first_unbounded(tables: Float32, limit: float) -> int: ...

@final
class Space: ...

def space(
    blocks: Bytes,
    n: int,
    starts: NDArray[np.uint32] | None,
    members: NDArray[np.uint32] | None,
    eligible: NDArray[np.uint64] | None,
    used: Bytes | None,
    lead: list[int],
    cell_starts: list[NDArray[np.uint32]],
    cell_words: list[Bytes],
) -> Space: ...
def scan(
    space: Space,
    tables: Float32,
    bits: Bytes | None,
    prune: bool,
    limit: float,
    sums: Float32,
    rows: RowNumbers,
    n_threads: int,
) -> int: ...
def scan_within(
    space: Space, tables: Float32, bits: Bytes | None, limits: Float32, n_threads: int
) -> FoundWithin: ...
def scores(
    sums: Float32,
    offsets: Float32,
    descending: bool,
    curves: Float32 | None,
    curve_of: RowNumbers | None,
    scores: Float32,
) -> bool: ...

@final
class FoundWithin:
    def counts(self) -> list[int]: ...
    def write(self, sums: Float32, rows: RowNumbers) -> None: ...

def take(blocks: Bytes, rows: NDArray[np.uint32], taken: Bytes) -> None: ...
def group(
    codes: NDArray[np.uint8],
    distinct: NDArray[np.uint8],
    starts: NDArray[np.uint32],
    members: NDArray[np.uint32],
) -> bool: ...
def sort_by(codes: NDArray[np.uint8], lead: NDArray[np.uint8], rows: NDArray[np.uint32]) -> None: ...
def arrange(
    codes: NDArray[np.uint8], rows: NDArray[np.uint32], blocks: NDArray[np.uint8], n_threads: int
) -> None: ...
def pack_mask(mask: NDArray[np.bool_], words: NDArray[np.uint64]) -> None: ...
def count_bits(words: NDArray[np.uint64]) -> int: ...
def set_bits(words: NDArray[np.uint64], rows: NDArray[np.uint32]) -> None: ...
def count_distinct(codes: Bytes, limit: int) -> int: ...
