"""The compiled kernels. Every function checks its arguments, makes arrays for the results and calls `_native`.

This module implements `Kernels`, which says what each function returns.
"""

# ruff: noqa: D103  (`Kernels` documents these functions)

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# If the extension is missing, the error of this form of import names it. That of `from supquant.kernels import _native` does not.
import supquant.kernels._native as _native  # noqa: PLR0402
from supquant.arrays import Counts, Float32, Float64, RowNumbers
from supquant.kernels import arguments
from supquant.kernels.packing import Packed
from supquant.kernels.protocol import Numbers, Real
from supquant.kernels.queries import FeatureKernel, MeaningParts, QueryKernel, QueryRule
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Scanned, zero_blocks


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
    sums = arguments.check_code_sums(codes, X, K, out, n_threads)
    _native.code_sums(codes, X, K, sums, n_threads)
    return sums


def pair_counts(
    codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None = None, n_threads: int = 1
) -> Float64:
    M, weights = arguments.check_pair_counts(codes, K, counts, n_threads)
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
    first, weights = arguments.check_interaction(codes, counts, gram, sizes, n_threads)
    derivative = np.empty(gram.shape)
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
    _, K = arguments.check_assign(unary, cross, product, codes, max_sweeps, n_threads)
    found = np.empty_like(codes)
    _native.assign(unary, cross, product, mu, eps, codes, K, max_sweeps, found, n_threads)
    return found


def beam(unary: Float32, cross: Float32, K: int, width: int = 1, n_threads: int = 1) -> Bytes:
    n, M = arguments.check_beam(unary, cross, K, width, n_threads)
    codes = np.empty((n, M), dtype=np.uint8)
    _native.beam(unary, cross, K, width, codes, n_threads)
    return codes


def table_sums(codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
    q, n, _ = arguments.check_table_sums(codes, tables, n_threads)
    sums = np.empty((q, n), dtype=np.float32)
    _native.table_sums(codes, tables, sums, n_threads)
    return sums


def products(x: Float32, y: Packed, n_threads: int = 1) -> Float32:
    q = arguments.check_products(x, y, n_threads)
    sums = np.empty((q, y.n), dtype=np.float32)
    _native.products(x, y.floats, y.halves, y.n, sums, n_threads)
    return sums


def row_dots(
    x: NDArray[np.int8] | NDArray[np.float16],
    rows: RowNumbers,
    asking: RowNumbers,
    factors: Float32,
    n_threads: int = 1,
) -> Float32:
    *_, t = arguments.check_row_dots(x, rows, asking, factors, n_threads)
    sums = np.empty((len(rows), t), dtype=np.float32)
    if x.dtype == np.float16:
        _native.half_dots(x.view(np.uint16), rows, asking, factors, sums, n_threads)
    else:
        _native.byte_dots(x.view(np.uint8), rows, asking, factors, sums, n_threads)
    return sums


def counted_exponentials(exponents: Float32, counts: Counts) -> None:
    arguments.check_counted_exponentials(exponents, counts)
    _native.counted_exponentials(exponents, counts)


def count_products(x: Counts, weights: Float32) -> Float32:
    n, n_labels = arguments.check_count_products(x, weights)
    scores = np.empty((n, n_labels), dtype=np.float32)
    _native.count_products(x, weights, scores)
    return scores


def count_slopes(x: Counts, weights: Float32, targets: Float32, out: Float32, *, several: bool) -> None:
    arguments.check_count_slopes(x, weights, targets, out)
    _native.count_slopes(x, weights, targets, several, out)


def gaussian(x: Float32, anchors: Packed, norms: Float32, scale: float, n_threads: int = 1) -> Float32:
    q = arguments.check_gaussian(x, anchors, norms, scale, n_threads)
    values = np.empty((q, anchors.n), dtype=np.float32)
    _native.gaussian(x, anchors.floats, anchors.halves, anchors.n, norms, scale, values, n_threads)
    return values


def meaning_map(parts: MeaningParts) -> FeatureKernel:
    arguments.check_meaning(parts)
    others = dict(vars(parts))
    matrices: Sequence[Packed] = others.pop("matrices")
    floats, halves = [each.floats for each in matrices], [each.halves for each in matrices]
    return _native.MeaningMap(floats, halves, [(each.n, each.d) for each in matrices], **others)


def query_vectors(features: Float32, rule: QueryRule) -> Float32:
    n, _ = arguments.check_array(features, "features", (None, rule.n_features), np.float32)
    vectors = np.empty((n, rule.width), dtype=np.float32)
    _native.query_vectors(features, _native.QueryRule(**vars(rule)), vectors)
    return vectors


def query_map(features: FeatureKernel, rule: QueryRule, codewords: Packed, bins: Float32) -> QueryKernel:
    assert isinstance(features, _native.MeaningMap)
    arguments.check_packed(codewords)
    if codewords.d != rule.width:
        raise ValueError(f"codewords must have {rule.width} columns, got {codewords.d}")
    native_rule = _native.QueryRule(**vars(rule))
    return _native.QueryMap(features, native_rule, codewords.floats, codewords.halves, codewords.n, bins)


def decode(codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
    n, _, r = arguments.check_decode(codes, codebooks, n_threads)
    decoded = np.empty((n, r), dtype=codebooks.dtype)
    _native.decode(codes, codebooks, decoded, n_threads)
    return decoded


def scan(
    scanned: Scanned,
    tables: Float32,
    k: int,
    query_bits: Bytes | None = None,
    prune: bool = True,
    n_threads: int = 1,
) -> tuple[Float32, RowNumbers]:
    space, M, n_rows = _prepared(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_k(k)
    shape = (q, min(k, n_rows))
    sums, rows = np.empty(shape, dtype=np.float32), np.empty(shape, dtype=np.int64)
    found = _native.scan(space, tables, query_bits, prune, arguments.MAX_SUM, sums, rows, n_threads)
    if found == shape[1]:
        return sums, rows
    if found < 0:
        arguments.refuse_unbounded(-1 - found)
    return sums[:, :found].copy(), rows[:, :found].copy()


def scan_within(
    scanned: Scanned,
    tables: Float32,
    limits: Float32,
    query_bits: Bytes | None = None,
    n_threads: int = 1,
) -> tuple[RowNumbers, Float32, RowNumbers]:
    space, M, _ = _prepared(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_limits(limits, q)
    if (unbounded := _native.first_unbounded(tables, arguments.MAX_SUM)) < q:
        arguments.refuse_unbounded(unbounded)
    found = _native.scan_within(space, tables, query_bits, limits, n_threads)
    starts = np.zeros(q + 1, dtype=np.int64)
    np.cumsum(found.counts(), out=starts[1:])
    sums, rows = np.empty(starts[-1], dtype=np.float32), np.empty(starts[-1], dtype=np.int64)
    found.write(sums, rows)
    return starts, sums, rows


def _prepared(scanned: Scanned) -> tuple[_native.Space, int, int]:
    """Return the codes as compiled code reads them, M, and the number of rows. They are checked at the first scan only."""
    known: tuple[_native.Space, int, int] | None = scanned.prepared.get("native")
    if known is None:
        M, n_rows = arguments.check_scanned(scanned)
        arrays = scanned.blocks, scanned.n, scanned.starts, scanned.members, scanned.eligible
        cells = scanned.cells
        lead, starts, words = ([], [], []) if cells is None else (cells.lead, cells.starts, cells.words)
        used = None if cells is None else cells.used
        space = _native.space(*arrays, used, list(lead), list(starts), list(words))
        known = scanned.prepared["native"] = space, M, n_rows
    return known


def scores(
    sums: Float32,
    offsets: Float32,
    descending: bool = False,
    curves: Float32 | None = None,
    curve_of: RowNumbers | None = None,
) -> Float32:
    arguments.check_scores(sums, offsets, curves, curve_of)
    made = np.empty(sums.shape, dtype=np.float32)
    if not _native.scores(np.ascontiguousarray(sums), offsets, descending, curves, curve_of, made):
        arguments.refuse_curves()
    return made


def count_distinct(codes: Bytes, limit: int) -> int:
    arguments.check_codes(codes, 256)
    arguments.check_limit(limit)
    return _native.count_distinct(codes, limit)


def take(blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
    n, M = arguments.check_taken(blocks, rows)
    taken = zero_blocks(n, M)
    _native.take(blocks, rows, taken)
    return taken


def distinct(codes: Bytes) -> tuple[Bytes, NDArray[np.int64]]:
    found, starts, _ = group(codes)
    return found, np.diff(starts).astype(np.int64)


def group(
    codes: Bytes, n_distinct: int | None = None
) -> tuple[Bytes, NDArray[np.uint32], NDArray[np.uint32]]:
    n, M = arguments.check_codes(codes, 256)
    n_distinct = _native.count_distinct(codes, n) if n_distinct is None else n_distinct
    found = np.empty((n_distinct, M), dtype=np.uint8)
    starts, members = np.empty(n_distinct + 1, dtype=np.uint32), np.empty(n, dtype=np.uint32)
    if not _native.group(codes, found, starts, members):
        arguments.refuse_distinct(n_distinct)
    return found, starts, members


def sort_by(codes: Bytes, lead: Sequence[int]) -> NDArray[np.uint32]:
    n = arguments.check_sorted(codes, lead)
    rows = np.empty(n, dtype=np.uint32)
    _native.sort_by(codes, np.array(lead, dtype=np.uint8), rows)
    return rows


def arrange(codes: Bytes, rows: NDArray[np.uint32], n_threads: int = 1) -> Bytes:
    n, M = arguments.check_arranged(codes, rows, n_threads)
    blocks = zero_blocks(n, M)
    _native.arrange(codes, rows, blocks, n_threads)
    return blocks


def pack_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    (n,) = arguments.check_array(mask, "mask", (None,), np.bool_)
    words = np.empty(-(-n // BLOCK_ROWS), dtype=np.uint64)
    _native.pack_mask(mask, words)
    return words


def count_bits(words: NDArray[np.uint64]) -> int:
    arguments.check_array(words, "words", (None,), np.uint64)
    return _native.count_bits(words)


def set_bits(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    rows = np.empty(count_bits(words), dtype=np.uint32)
    _native.set_bits(words, rows)
    return rows


def tree_sums(
    x: Float32, features: Numbers, thresholds: Float32, leaves: Float32, n_threads: int = 1
) -> Float32:
    n, groups, _, depth = arguments.check_ensemble(x, features, thresholds, leaves, n_threads)
    sums = np.empty((n, groups), dtype=np.float32)
    _native.tree_sums(x, features, thresholds, leaves, depth, sums, n_threads)
    return sums


def best_splits(
    bins: Bytes,
    rows: NDArray[np.uint32],
    weights: Float64,
    starts: NDArray[np.uint64],
    features: Numbers,
    n_threads: int = 1,
) -> tuple[Numbers, Bytes]:
    n_nodes = arguments.check_level(bins, rows, weights, starts, features, n_threads)
    chosen, last = np.empty(n_nodes, dtype=np.int32), np.empty(n_nodes, dtype=np.uint8)
    _native.best_splits(bins, rows, weights, starts, features, chosen, last, n_threads)
    return chosen, last
