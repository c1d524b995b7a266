"""Codes and tables to scan, and the comparison of scans with their NumPy twins."""

import pickle
from dataclasses import replace

import numpy as np
import xxhash

from supquant.kernels import BLOCK_ROWS, Cells, Scanned, native, reference

LIST = 16 * BLOCK_ROWS
PIECE = 1024 * BLOCK_ROWS  # threads share the rows of a query in pieces of at least so many
LARGEST = float(np.finfo(np.float32).max)
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
KINDS = [
    "normal",
    "whole",
    "equal",
    "huge",
    "tiny",
    "negative",
    "absorbed",
    "cancelling",
    "first",
    "last",
    "zeros",
]


def draw_codes(n, M, K, rng):
    return rng.integers(0, K, size=(n, M), dtype=np.uint8)


def draw_tables(kind, q, M, K, rng):
    """Tables (q, M, K) of one kind; see KINDS."""
    tables = rng.normal(size=(q, M, K))
    if kind == "whole":
        tables = rng.integers(-2, 3, size=(q, M, K))  # ties everywhere
    elif kind == "equal":
        tables[:] = 1.5
    elif kind == "huge":
        tables *= (
            0.9899 * LARGEST / np.abs(tables).max(axis=2).sum(axis=1)[:, None, None]
        )  # just below overflow
    elif kind == "tiny":
        tables = rng.integers(-3, 4, size=(q, M, K)) * SMALLEST
    elif kind == "negative":
        tables = -1e5 - 1e3 * np.abs(tables)
    elif kind in {"absorbed", "cancelling"}:
        tables = rng.uniform(6.0, 8.5, size=(q, M, K))  # next to 2^27, less than 8 is nothing and more is 16
        tables[:, 0] = 2.0**27
        if kind == "cancelling" and M > 1:
            tables[:, -1] = 16.0 * rng.integers(0, 4, size=(q, K)) - 2.0**27
    elif kind in {"first", "last"}:
        tables[:, 0 if kind == "first" else -1] *= 1e6  # one codebook decides
    elif kind == "zeros":
        tables = rng.choice([0.0, -0.0, -0.0], size=(q, M, K))
    return tables.astype(np.float32)


def in_order(codes, table, order):
    """Sort codes so that their sums of a table (M, K) descend, the worst order for a search, or ascend."""
    sums = reference.table_sums(codes, table[None])[0]
    return codes[{"random": slice(None), "ascending": sums.argsort(), "descending": (-sums).argsort()}[order]]


def blocks_of(codes):
    blocks = np.zeros((-(-len(codes) // BLOCK_ROWS), codes.shape[1], BLOCK_ROWS), dtype=np.uint8)
    row = np.arange(len(codes))
    blocks[row // BLOCK_ROWS, :, row % BLOCK_ROWS] = codes
    return blocks


def plain(codes, mask=None):
    return Scanned(blocks_of(codes), len(codes), eligible=None if mask is None else reference.pack_mask(mask))


def grouped(codes, rng, n_rows, density=None):
    """Deal rows out to the codes; every third code gets none."""
    holders = np.flatnonzero(np.arange(len(codes)) % 3 != 1)
    holder = rng.choice(holders, size=n_rows) if n_rows else np.empty(0, dtype=int)
    members = holder.argsort(kind="stable").astype(np.uint32)
    starts = holder[members].searchsorted(np.arange(len(codes) + 1)).astype(np.uint32)
    eligible = None if density is None else reference.pack_mask(rng.random(n_rows) < density)
    return Scanned(blocks_of(codes), len(codes), starts, members, eligible)


def by_cells(codes, lead, space=None):
    """Sort codes by leading codebooks, of which every one makes a level of cells; `space` holds the codes in another order."""
    order = np.lexsort([codes[:, m] for m in reversed(lead)])
    arranged = codes[order]
    cells = cells_of(arranged, lead)
    if space is None or space.starts is None:
        eligible = None if space is None else space.eligible
        return Scanned(blocks_of(arranged), len(codes), None, order.astype(np.uint32), eligible, cells)
    members = [space.members[space.starts[code] : space.starts[code + 1]] for code in order]
    starts = np.cumsum([0, *map(len, members)]).astype(np.uint32)
    return replace(
        space, blocks=blocks_of(arranged), starts=starts, members=np.concatenate(members), cells=cells
    )


def cells_of(codes, lead):
    """Find cells one code at a time."""
    rows = codes[:, lead].tolist()
    firsts = [
        [i for i in range(len(rows)) if i == 0 or rows[i][:depth] != rows[i - 1][:depth]]
        for depth in range(1, len(lead) + 1)
    ]
    inner = [*firsts[1:], list(range(len(codes)))]
    starts = []
    for outer, below in zip(firsts, inner, strict=True):
        place = {first: number for number, first in enumerate(below)}
        starts.append(np.array([*(place[first] for first in outer), len(below)], dtype=np.uint32))
    words = [codes[first, m] for first, m in zip(firsts, lead, strict=True)]
    used = np.zeros((codes.shape[1], 256), dtype=np.uint8)
    for m, column in enumerate(codes.T):
        used[m, column] = 1
    return Cells(list(lead), starts, words, used)


class Answers:
    """What the NumPy twins answer, worked out once for all instruction sets that are asked the same."""

    MOST_BYTES = 1 << 28
    """When more bytes are held, the oldest answers go."""

    def __init__(self):
        self.held = {}  # by a digest of the question, the oldest first
        self.n_bytes = 0

    def of(self, function, *arguments):
        key = xxhash.xxh3_128_digest(pickle.dumps((function.__name__, arguments)))
        if key in self.held:
            return self.held[key]
        answer = self.held[key] = function(*arguments)
        self.n_bytes += self.size(answer)
        while self.n_bytes > self.MOST_BYTES:
            self.n_bytes -= self.size(self.held.pop(next(iter(self.held))))
        return answer

    @staticmethod
    def size(answer):
        return sum(array.nbytes for array in answer)


twins = Answers()


def assert_same_bits(got, want):
    for have, wanted in zip(got, want, strict=True):
        assert have.dtype == wanted.dtype
        assert have.shape == wanted.shape
        assert have.tobytes() == wanted.tobytes()


def assert_scans_like_the_twin(space, tables, *ks, bits=None, n_threads=(1,), prune=(True, False)):
    want = twins.of(reference.scan, space, tables, max(ks))
    for k in ks:
        first = [array[:, :k] for array in want]
        for threads in n_threads:
            for pruned in prune:
                assert_same_bits(native.scan(space, tables, k, bits, pruned, threads), first)


def assert_finds_what_the_twin_finds_within(space, tables, limits, bits=None, n_threads=(1,)):
    want = twins.of(reference.scan_within, space, tables, limits)
    for threads in n_threads:
        assert_same_bits(native.scan_within(space, tables, limits, bits, threads), want)


def kth_sums(space, tables, k):
    """Limits that some k rows are within: the sums of the k-th ones."""
    sums = twins.of(reference.scan, space, tables, k)[0]
    return sums[:, -1].copy() if sums.size else np.zeros(len(tables), dtype=np.float32)
