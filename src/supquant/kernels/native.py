"""The compiled kernels. Every function checks its arguments, makes arrays for the results and calls `_native`.

This module implements `Kernels`, which says what each function returns.
"""

# ruff: noqa: D103  (`Kernels` documents these functions)

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# If the extension is missing, the error of this form of import names it. That of `from supquant.kernels import _native` does not.
import supquant.kernels._native as _native  # noqa: PLR0402
from supquant.arrays import Float32, Float64
from supquant.kernels.arguments import (
    check_array,
    check_codes,
    check_sizes,
    check_sweeps,
    check_tables,
    check_threads,
    check_weights,
    codewords_of,
)
from supquant.kernels.hash_native import best_splits, hamming, tree_sums
from supquant.kernels.protocol import Bytes, Real
from supquant.kernels.reference import distinct, group
from supquant.kernels.scan_native import (
    count_bits,
    count_distinct,
    pack_mask,
    scan,
    scan_within,
    set_bits,
    take,
)

__all__ = [
    "assign",
    "available_levels",
    "best_splits",
    "code_sums",
    "count_bits",
    "count_distinct",
    "decode",
    "distinct",
    "force_level",
    "greedy",
    "group",
    "hamming",
    "interaction",
    "level",
    "pack_mask",
    "pair_counts",
    "products",
    "scan",
    "scan_within",
    "set_bits",
    "table_sums",
    "take",
    "tree_sums",
]


def level() -> str:
    """Return the name of the instruction set in use."""
    return _native.active_level()


def available_levels() -> list[str]:
    """Return the names of the compiled instruction sets that this machine can run, slowest first."""
    return _native.available_levels()


def force_level(name: str | None) -> None:
    """Use the instruction set `name`, or the fastest one if it is None. One that cannot run here is a `RuntimeError`."""
    name = name or available_levels()[-1]
    if not _native.select(name):
        known = name in _native.compiled_levels()
        reason = "this machine lacks it" if known else "it is not one of the compiled levels"
        raise RuntimeError(
            f"SUPQUANT_ISA asks for the instruction set {name!r}, but {reason}; "
            f"available here: {', '.join(available_levels())}"
        )


def code_sums(codes: Bytes, X: Float32, K: int, out: Float64 | None = None, n_threads: int = 1) -> Float64:
    n, M = check_codes(codes, K)
    _, d = check_array(X, "X", (n, None), np.float32)
    check_threads(n_threads)
    if out is None:
        out = np.zeros((M * K, d))
    check_array(out, "out", (M * K, d), np.float64)
    _native.code_sums(codes, X, K, out, n_threads)
    return out


def pair_counts(
    codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None = None, n_threads: int = 1
) -> Float64:
    n, M = check_codes(codes, K)
    weights = check_weights(counts, n)
    check_threads(n_threads)
    met = np.empty((M * K, M * K))
    _native.pair_counts(codes, K, weights, met, n_threads)
    return met


def interaction(
    codes: Bytes,
    counts: Float64,
    gram: Float64,
    eps: float,
    sizes: Sequence[int] | None = None,
    n_threads: int = 1,
) -> tuple[float, float, Float64]:
    first = check_sizes(codes, sizes, len(gram))
    check_array(gram, "gram", (len(gram), len(gram)), np.float64)
    check_threads(n_threads)
    derivative = np.empty(gram.shape)
    weights = check_weights(counts, len(codes))
    sum_e, sum_sq = _native.interaction(codes, first, weights, gram, eps, derivative, n_threads)
    return sum_e, sum_sq, derivative


def assign(
    unary: Float32,
    cross: Float32,
    product: Float32,
    mu: float,
    eps: float,
    codes: Bytes,
    max_sweeps: int,
    n_threads: int = 1,
) -> Bytes:
    K = codewords_of(codes, len(cross), "cross")
    n, M = check_codes(codes, K)
    check_array(unary, "unary", (n, M * K), np.float32)
    check_array(cross, "cross", (M * K, M * K), np.float32)
    check_array(product, "product", (M * K, M * K), np.float32)
    check_sweeps(max_sweeps)
    check_threads(n_threads)
    found = np.empty_like(codes)
    _native.assign(unary, cross, product, mu, eps, codes, K, max_sweeps, found, n_threads)
    return found


def greedy(unary: Float32, cross: Float32, K: int, n_threads: int = 1) -> Bytes:
    n, M = check_tables(unary, cross, K)
    check_threads(n_threads)
    codes = np.empty((n, M), dtype=np.uint8)
    _native.greedy(unary, cross, K, codes, n_threads)
    return codes


def table_sums(codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
    q, M, K = check_array(tables, "tables", (None, None, None), np.float32)
    n, _ = check_codes(codes, K, n_codebooks=M)
    check_threads(n_threads)
    sums = np.empty((q, n), dtype=np.float32)
    _native.table_sums(codes, tables, sums, n_threads)
    return sums


def products(x: Float32, y: Float32, n_threads: int = 1) -> Float32:
    q, d = check_array(x, "x", (None, None), np.float32)
    n, _ = check_array(y, "y", (None, d), np.float32)
    check_threads(n_threads)
    sums = np.empty((q, n), dtype=np.float32)
    _native.products(x, y, sums, n_threads)
    return sums


def decode(codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
    M, K, r = check_array(codebooks, "codebooks", (None, None, None), np.float32, np.float64)
    n, _ = check_codes(codes, K, n_codebooks=M)
    check_threads(n_threads)
    decoded = np.empty((n, r), dtype=codebooks.dtype)
    _native.decode(codes, codebooks, decoded, n_threads)
    return decoded
