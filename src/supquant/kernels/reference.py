"""The kernels in NumPy, to read and to test the compiled ones against.

This module implements `Kernels`, which says what each function returns. It adds in the same order as the compiled
kernels, so both return the same bits. `n_threads` is checked and not used.
"""

# ruff: noqa: D103  (`Kernels` documents these functions)

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Counts, Float32, Float64, RowNumbers
from supquant.kernels import arguments
from supquant.kernels.packing import GROUP, Packed
from supquant.kernels.protocol import Numbers, Real
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Scanned, blocks_of, zero_blocks

PRODUCT_DEPTH = 256
"""Number of columns whose products are added up before their sum is added to that of other columns."""

Index = TypeVar("Index", bound=np.integer[Any])


def code_sums(codes: Bytes, X: Float32, K: int, out: Float64 | None = None, n_threads: int = 1) -> Float64:
    sums = arguments.check_code_sums(codes, X, K, out, n_threads)
    for places in _flat(codes, K).T:
        np.add.at(sums, places, X)
    return sums


def pair_counts(
    codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None = None, n_threads: int = 1
) -> Float64:
    M, weights = arguments.check_pair_counts(codes, K, counts, n_threads)
    met = np.zeros((M * K, M * K))
    flat = _flat(codes, K)  # (n, M)
    for a in range(M):
        for b in range(M):
            np.add.at(met, (flat[:, a], flat[:, b]), weights)
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
    flat = codes + first[:-1].astype(np.intp)  # (u, M)
    pairs = list(combinations(range(codes.shape[1]), 2))
    half = np.zeros(len(codes))
    for a, b in pairs:
        half += gram[flat[:, a], flat[:, b]]
    e = 2.0 * half
    off = e - eps
    derivative = np.zeros(gram.shape)
    for a, b in pairs:
        np.add.at(derivative, (flat[:, a], flat[:, b]), 2.0 * weights * off)
        np.add.at(derivative, (flat[:, b], flat[:, a]), 2.0 * weights * off)
    return _sum_in_order(weights * e), _sum_in_order(weights * (off * off)), derivative


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
    M, K = arguments.check_assign(unary, cross, product, codes, max_sweeps, n_threads)
    search = _Search(unary, cross, product, mu, eps, K)
    if M == 1:
        return search.best_codeword(codes)
    if M == 2:
        return search.best_pair(codes)
    found = codes.copy()
    search.descend(found, max_sweeps)
    # Float32 sums are rounded, so a move may have gained nothing. The costs are compared in float64.
    lower = search.cost(found) < search.cost(codes)  # (n,)
    return np.where(lower[:, None], found, codes)


class _Search:
    """The searches of `assign`. They compute in float32, except for e, which is kept in float64."""

    def __init__(
        self, unary: Float32, cross: Float32, product: Float32, mu: float, eps: float, K: int
    ) -> None:
        self.unary = unary  # (n, M*K)
        self.cross = cross  # (M*K, M*K)
        self.product = product  # (M*K, M*K)
        self.mu = np.float32(mu)
        self.eps = np.float32(eps)
        self.K = K
        self.M = len(cross) // K
        # For every codebook m, row i and codeword k: the sums of cross and of product at m k over the codewords of the
        # other codebooks, and the codes for which they were summed, -1 before the first visit.
        self.sums = np.zeros((2, self.M, len(unary), K), dtype=np.float32)
        self.seen = np.full((self.M, len(unary), self.M), -1, dtype=np.intp)

    def columns(self, m: int) -> slice:
        return slice(m * self.K, (m + 1) * self.K)

    def cost(self, codes: Bytes) -> Float64:
        """Return the costs (n,) of codes in float64."""
        flat = _flat(codes, self.K)
        unary = np.zeros(len(codes))
        for m in range(self.M):
            unary += self.unary[np.arange(len(codes)), flat[:, m]]
        off = 2.0 * _sum_of_pairs(self.product, codes, self.K) - float(self.eps)
        return unary + 2.0 * _sum_of_pairs(self.cross, codes, self.K) + float(self.mu) * off * off

    def best_codeword(self, codes: Bytes) -> Bytes:
        return _lowest(self.unary, codes[:, 0])[:, None]

    def best_pair(self, codes: Bytes) -> Bytes:
        K = self.K
        c, p = self.cross[:K, K:], self.product[:K, K:]  # (K, K)
        q = (p + p) - self.eps
        table = (c + c) + (self.mu * q) * q
        found = codes.copy()
        for i, unary in enumerate(self.unary):
            costs = (unary[K:] + table) + unary[:K, None]  # (K, K)
            current = int(codes[i, 0]) * K + int(codes[i, 1])
            found[i] = divmod(int(_lowest(costs.reshape(1, -1), np.array([current]))[0]), K)
        return found

    def descend(self, codes: Bytes, max_sweeps: int) -> None:
        """Visit the codebooks in turn until, in every row, each codeword is the best one given the others."""
        e = 2.0 * _sum_of_pairs(self.product, codes, self.K)  # (n,)
        quiet = np.zeros(len(codes), dtype=int)
        rows = np.arange(len(codes))
        for step in range(max_sweeps * self.M):
            rows = rows[quiet[rows] < self.M]
            if not len(rows):
                return
            changed = self.improve(step % self.M, codes, rows, e)
            quiet[rows] = np.where(changed, 1, quiet[rows] + 1)

    def improve(self, m: int, codes: Bytes, rows: NDArray[np.intp], e: Float64) -> NDArray[np.bool_]:
        """Take the best codeword of codebook m given the others, and return which rows changed."""
        self.refresh(m, codes, rows)
        s, p = self.sums[0, m, rows], self.sums[1, m, rows]  # (rows, K)
        each, current = np.arange(len(rows)), codes[rows, m]
        shift = (e[rows] - 2.0 * p[each, current].astype(np.float64) - float(self.eps)).astype(np.float32)
        q = (p + p) + shift[:, None]
        costs = (self.unary[rows, self.columns(m)] + (s + s)) + (self.mu * q) * q
        best = _lowest(costs, current)
        e[rows] += 2.0 * (p[each, best].astype(np.float64) - p[each, current].astype(np.float64))
        codes[rows, m] = best
        changed: NDArray[np.bool_] = best != current
        return changed

    def refresh(self, m: int, codes: Bytes, rows: NDArray[np.intp]) -> None:
        """Bring the sums of codebook m up to date. If less than half of the other codewords changed, exchange only these."""
        others = [b for b in range(self.M) if b != m]
        before, after = self.seen[m, rows], codes[rows].astype(np.intp)  # (rows, M)
        changed = before != after
        changed[:, m] = False
        anew = (before[:, 0] < 0) | (2 * changed.sum(axis=1) >= self.M - 1)
        exchanged = changed & ~anew[:, None]
        flat = _flat(codes[rows[anew]], self.K)
        for sums, table in zip(self.sums, (self.cross, self.product), strict=True):
            sums[m, rows[anew]] = _added(table[flat[:, b], self.columns(m)] for b in others)
            for b in np.flatnonzero(exchanged.any(axis=0)):
                some = exchanged[:, b]
                old, new = (table[b * self.K + k[some, b], self.columns(m)] for k in (before, after))
                sums[m, rows[some]] += new - old
        self.seen[m, rows] = after


def _lowest(costs: Float32, current: NDArray[Index]) -> NDArray[Index]:
    """Return the place (n,) of the lowest cost in each row of (n, k): the current one if it has that cost, else the first."""
    each = np.arange(len(costs))
    first = costs.argmin(axis=1)
    keep = costs[each, current] == costs[each, first]
    return np.where(keep, current, first).astype(current.dtype)


def _flat(codes: Bytes, K: int) -> NDArray[np.intp]:
    """Return the flat indices ``m * K + codes[i, m]``, (n, M)."""
    return codes.astype(np.intp) + K * np.arange(codes.shape[1])


def _sum_of_pairs(table: NDArray[Real], codes: Bytes, K: int) -> Float64:
    """Return the sums (n,) of ``table[a c_a, b c_b]`` over a < b in float64."""
    flat = _flat(codes, K)
    total = np.zeros(len(codes))
    for a in range(codes.shape[1]):
        for b in range(a + 1, codes.shape[1]):
            total += table[flat[:, a], flat[:, b]]
    return total


def _added(arrays: Iterable[NDArray[Real]]) -> NDArray[Real]:
    """Return the sum of arrays, added in the given order. It does not start from zero, so a sum of -0 stays -0."""
    rest: Iterator[NDArray[Real]] = iter(arrays)
    total = next(rest).copy()
    for array in rest:
        total += array
    return total


def beam(unary: Float32, cross: Float32, K: int, width: int = 1, n_threads: int = 1) -> Bytes:
    n, M = arguments.check_beam(unary, cross, K, width, n_threads)
    each = np.arange(n)[:, None]
    codes = np.zeros((n, 1, M), dtype=np.intp)  # the beginnings of codes, best first
    costs = np.zeros((n, 1), dtype=np.float32)
    for m in range(M):
        columns = slice(m * K, (m + 1) * K)
        sums = np.zeros((*costs.shape, K), dtype=np.float32)
        for b in range(m):
            sums += cross[b * K + codes[:, :, b], columns]
        grown = costs[:, :, None] + (unary[:, None, columns] + (sums + sums))  # (n, beginnings, K)
        grown = grown.reshape(n, costs.shape[1] * K)
        places = grown.argsort(axis=1, kind="stable")[:, :width]
        costs = np.take_along_axis(grown, places, axis=1)
        codes = codes[each, places // K]
        codes[:, :, m] = places % K
    return codes[:, 0].astype(np.uint8)


def table_sums(codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
    _, _, M = arguments.check_table_sums(codes, tables, n_threads)
    return _added(tables[:, m, codes[:, m]] for m in range(M))


def products(x: Float32, y: Packed, n_threads: int = 1) -> Float32:
    arguments.check_products(x, y, n_threads)
    rows = y.rows()
    sums = np.zeros((len(x), y.n), dtype=np.float32)
    for first in range(0, y.d, PRODUCT_DEPTH):
        part = np.zeros_like(sums)
        for k in range(first, min(first + PRODUCT_DEPTH, y.d)):
            part = _fused(x[:, None, k], rows[None, :, k], part)
        sums = part if first == 0 else sums + part
    return sums


def row_dots(
    x: NDArray[np.int8] | NDArray[np.float16],
    rows: RowNumbers,
    asking: RowNumbers,
    factors: Float32,
    n_threads: int = 1,
) -> Float32:
    _, d, _, t = arguments.check_row_dots(x, rows, asking, factors, n_threads)
    width = -(-d // GROUP) * GROUP
    values = np.zeros((len(rows), 1, width), dtype=np.float32)
    values[:, 0, :d] = x[rows]
    own = np.zeros((len(rows), t, width), dtype=np.float32)
    own[:, :, :d] = factors[asking]
    sums = np.zeros((len(rows), t, GROUP), dtype=np.float32)
    for first in range(0, width, GROUP):
        part = slice(first, first + GROUP)
        sums = _fused(values[:, :, part], own[:, :, part], sums)
    return _added_by_halves(sums)


def counted_exponentials(exponents: Float32, counts: Counts) -> None:
    arguments.check_counted_exponentials(exponents, counts)
    values = _exponential(np.where(exponents < 0, exponents, np.float32(0)))
    counts[:] = values * np.float32(2**15) + np.float32(0.5)


def count_products(x: Counts, weights: Float32) -> Float32:
    arguments.check_count_products(x, weights)
    sums = np.zeros((len(x), len(weights), GROUP), dtype=np.float32)
    for first in range(0, x.shape[1], GROUP):
        own = slice(first, first + GROUP)
        sums = _fused(x[:, None, own].astype(np.float32), weights[None, :, own], sums)
    return _added_by_halves(sums)


def _added_by_halves(sums: Float32) -> Float32:
    """Add up sums (n, t, GROUP), the second half of them to the first, until one is left: (n, t)."""
    while sums.shape[2] > 1:
        lower, upper = np.split(sums, 2, axis=2)
        sums = lower + upper
    return sums[:, :, 0]


def count_slopes(x: Counts, weights: Float32, targets: Float32, out: Float32, *, several: bool) -> None:
    arguments.check_count_slopes(x, weights, targets, out)
    scores = count_products(x, weights)
    if several:
        powers = _exponential(-np.abs(scores))
        probabilities = np.where(scores > 0, np.float32(1), powers) / (np.float32(1) + powers)
    else:
        powers = _exponential(scores - scores.max(axis=1, initial=-np.inf, keepdims=True))
        probabilities = powers / _added(iter(powers.T))[:, None]
    for own, row in zip(probabilities - targets, x.astype(np.float32), strict=True):
        out[:] = _fused(own[:, None], row, out)


def gaussian(x: Float32, anchors: Packed, norms: Float32, scale: float, n_threads: int = 1) -> Float32:
    arguments.check_gaussian(x, anchors, norms, scale, n_threads)
    total = np.zeros((len(x), 1))
    for k in range(anchors.d):
        total += np.square(x[:, k : k + 1], dtype=np.float64)
    with np.errstate(over="ignore"):
        lengths = total.astype(np.float32)
        squares = (products(x, anchors) * np.float32(-2) + lengths) + norms[: anchors.n]
        values = _exponential(np.maximum(squares, 0) * np.float32(scale))
    values[np.isinf(lengths[:, 0])] = 0  # infinitely far from all anchors
    return values


def _exponential(x: Float32) -> Float32:
    """Return ``exp(x)`` of numbers up to 0 in float32, by the operations of native/level/exponential.h; 0 below -87."""
    kept = x
    x = np.maximum(x, np.float32(-88))
    shifted = x * np.float32(1.44269504) + np.float32(1.5 * 2**23)
    n = shifted - np.float32(1.5 * 2**23)
    r = (x - n * np.float32(0.693359375)) - n * np.float32(-2.12194440e-4)
    p = np.full_like(x, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        p = p * r + np.float32(coefficient)
    p = p * (r * r) + r + np.float32(1)
    power = ((shifted.view(np.int32) << 23) + np.int32(0x3F800000)).view(np.float32)
    return np.where(kept < np.float32(-87), np.float32(0), p * power)


def _fused(a: Float32, b: Float32, c: Float32) -> Float32:
    """Return ``a b + c``, rounded once.

    The product is exact in float64. The sum is rounded to odd in float64: if it is not exact, its last bit is made 1. Then
    rounding to float32 has the same result as rounding the exact sum.
    """
    product, added = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + added
    rest = total - product
    error = (product - (total - rest)) + (added - rest)
    even = total.view(np.int64) % 2 == 0
    to_odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where((error != 0) & even, to_odd, total).astype(np.float32)


def decode(codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
    _, M, _ = arguments.check_decode(codes, codebooks, n_threads)
    return _added(codebooks[m, codes[:, m]] for m in range(M))


def distinct(codes: Bytes) -> tuple[Bytes, NDArray[np.int64]]:
    found, starts, _ = group(codes)
    return found, (starts[1:] - starts[:-1]).astype(np.int64)


def group(
    codes: Bytes, n_distinct: int | None = None
) -> tuple[Bytes, NDArray[np.uint32], NDArray[np.uint32]]:
    n, M = arguments.check_codes(codes, 256)
    # A big-endian word of eight bytes compares as the bytes do, and sorts much faster.
    padded = np.zeros((n, -(-M // 8) * 8), dtype=np.uint8)
    padded[:, :M] = codes
    words = padded.view(">u8").astype(np.uint64)  # (n, ceil(M / 8))
    members = np.lexsort(words.T[::-1])  # stable, so rows of equal codes ascend
    words = words[members]
    new = np.ones(n, dtype=bool)
    new[1:] = (words[1:] != words[:-1]).any(axis=1)
    firsts = np.flatnonzero(new)
    if n_distinct not in (None, len(firsts)):
        arguments.refuse_distinct(n_distinct or 0)
    return codes[members[firsts]], np.append(firsts, n).astype(np.uint32), members.astype(np.uint32)


def tree_sums(
    x: Float32, features: Numbers, thresholds: Float32, leaves: Float32, n_threads: int = 1
) -> Float32:
    n, groups, size, depth = arguments.check_ensemble(x, features, thresholds, leaves, n_threads)
    rows, sums = np.arange(n), np.zeros((n, groups), dtype=np.float32)
    for group in range(groups):
        for tree in range(size):
            node = np.zeros(n, dtype=np.intp)
            for _ in range(depth):
                above = x[rows, features[group, tree, node]] > thresholds[group, tree, node]
                node = 2 * node + 1 + above
            sums[:, group] += leaves[group, tree, node - (2**depth - 1)]
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
    chosen = features[:, 0].copy()
    last = np.full(n_nodes, 255, dtype=np.uint8)
    for node in range(n_nodes):
        part = slice(int(starts[node]), int(starts[node + 1]))
        signed = np.zeros(256)
        mass = np.zeros(256)
        total, whole = (_sum_in_order(values) for values in (weights[part], np.abs(weights[part])))
        best = -1.0
        for feature in features[node]:
            column = bins[feature, rows[part]]
            signed[:] = mass[:] = 0
            np.add.at(signed, column, weights[part])
            np.add.at(mass, column, np.abs(weights[part]))
            left, left_mass = np.add.accumulate(signed), np.add.accumulate(mass)
            right, right_mass = total - left, whole - left_mass
            split = (left_mass > 0) & (right_mass > 0)
            split[255] = False
            scores = np.full(256, -1.0)
            scores[split] = (left * left)[split] / left_mass[split] + (right * right)[split] / right_mass[
                split
            ]
            if (highest := scores.max()) > best:
                best, chosen[node], last[node] = highest, feature, scores.argmax()
    return chosen, last


def _sum_in_order(values: Float64) -> float:
    """Return the sum of values, added one after the other as the compiled loop does; np.sum adds in pairs."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


# scans -------------------------------------------------------------------------------------------------------------------


def scan(
    scanned: Scanned,
    tables: Float32,
    k: int,
    query_bits: Bytes | None = None,
    prune: bool = True,
    n_threads: int = 1,
) -> tuple[Float32, RowNumbers]:
    M, n_rows = arguments.check_scanned(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_k(k)
    if q == 0:  # no query finds out how many rows are eligible
        return np.empty((0, min(k, n_rows)), dtype=np.float32), np.empty((0, min(k, n_rows)), dtype=np.int64)
    bounded = np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64) < arguments.MAX_SUM  # False for NaN
    if not bounded.all():
        arguments.refuse_unbounded(int(np.argmin(bounded)))
    del prune
    sums, rows = _eligible_sums(scanned, tables)
    order = sums.argsort(axis=1, kind="stable")[:, :k]  # (q, k); stable, so rows of equal sums ascend
    return np.take_along_axis(sums, order, axis=1), rows[order]


def scan_within(
    scanned: Scanned,
    tables: Float32,
    limits: Float32,
    query_bits: Bytes | None = None,
    n_threads: int = 1,
) -> tuple[RowNumbers, Float32, RowNumbers]:
    M, n_rows = arguments.check_scanned(scanned)
    q = arguments.check_scan_queries(tables, M, query_bits, n_threads)
    arguments.check_limits(limits, q)
    all_sums, all_rows = scan(scanned, tables, max(1, n_rows), query_bits, n_threads=n_threads)
    within = all_sums <= limits[:, None]  # (q, N), true up to a place in each line, since sums ascend
    return np.concatenate([[0], within.sum(axis=1).cumsum()]), all_sums[within], all_rows[within]


def scores(
    sums: Float32,
    offsets: Float32,
    descending: bool = False,
    curves: Float32 | None = None,
    curve_of: RowNumbers | None = None,
) -> Float32:
    arguments.check_scores(sums, offsets, curves, curve_of)
    made = offsets[:, None] - sums if descending else offsets[:, None] + sums
    if curves is None:
        return made
    which = np.zeros(len(sums), dtype=np.int64) if curve_of is None else curve_of
    if not ((which >= 0) & (which < len(curves))).all():
        arguments.refuse_curves()
    for each in np.unique(which):
        rows = which == each
        made[rows] = np.interp(made[rows], *curves[each])
    return made


def count_distinct(codes: Bytes, limit: int) -> int:
    arguments.check_codes(codes, 256)
    arguments.check_limit(limit)
    return min(len(np.unique(codes, axis=0)), limit + 1)


def take(blocks: Bytes, rows: NDArray[np.uint32]) -> Bytes:
    n, M = arguments.check_taken(blocks, rows)
    taken = zero_blocks(n, M)
    place = np.arange(n)
    taken[place // BLOCK_ROWS, :, place % BLOCK_ROWS] = blocks[rows // BLOCK_ROWS, :, rows % BLOCK_ROWS]
    return taken


def sort_by(codes: Bytes, lead: Sequence[int]) -> NDArray[np.uint32]:
    order = np.arange(arguments.check_sorted(codes, lead), dtype=np.uint32)
    for m in reversed(lead):  # a stable sort by the last key first; of bytes, NumPy sorts by counting
        order = order[codes[order, m].argsort(kind="stable")]
    return order


def arrange(codes: Bytes, rows: NDArray[np.uint32], n_threads: int = 1) -> Bytes:
    arguments.check_arranged(codes, rows, n_threads)
    return blocks_of(codes[rows])


def pack_mask(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    (n,) = arguments.check_array(mask, "mask", (None,), np.bool_)
    words = np.zeros(-(-n // BLOCK_ROWS), dtype=np.uint64)
    words.view(np.uint8)[: -(-n // 8)] = np.packbits(mask, bitorder="little")
    return words


def count_bits(words: NDArray[np.uint64]) -> int:
    return len(set_bits(words))


def set_bits(words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    arguments.check_array(words, "words", (None,), np.uint64)
    return np.flatnonzero(_bits(words, len(words) * BLOCK_ROWS)).astype(np.uint32)


def _eligible_sums(scanned: Scanned, tables: Float32) -> tuple[Float32, RowNumbers]:
    """Return the sums (q, N) of all eligible rows and the numbers (N,) of these rows, ascending."""
    codes = scanned.blocks.transpose(0, 2, 1).reshape(-1, tables.shape[1])[: scanned.n]  # (n, M)
    sums = np.zeros((len(tables), scanned.n), dtype=np.float32)
    for m in range(tables.shape[1]):
        part = tables[:, m, codes[:, m]]
        sums = part if m == 0 else sums + part
    if scanned.members is not None:
        counts = 1 if scanned.starts is None else scanned.starts[1:] - scanned.starts[:-1]
        code_of_row = np.empty(len(scanned.members), dtype=np.intp)
        code_of_row[scanned.members] = np.repeat(np.arange(scanned.n), counts)
        sums = sums[:, code_of_row]
    rows = np.arange(sums.shape[1], dtype=np.int64)
    if scanned.eligible is not None:
        rows = rows[_bits(scanned.eligible, len(rows))]
    return sums[:, rows] + np.float32(0), rows  # adding 0 turns -0 into 0


def _bits(words: NDArray[np.uint64], n: int) -> NDArray[np.bool_]:
    """Return the first n bits of words (w,), the lowest bit of each word first."""
    assert len(words) * BLOCK_ROWS >= n
    return np.unpackbits(words.view(np.uint8), bitorder="little", count=n).astype(bool)
