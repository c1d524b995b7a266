"""The order of the codes of a segment: sorted by the codebooks that weigh most, so that a scan can skip whole cells.

A cell is a run of codes with the same leading codewords. The sums of its codes cannot be below the entries of these codewords and
the lowest entries of all other codebooks. So a scan looks at the most promising cells first, and skips the cells that cannot hold
an answer. The answer is that of a scan of all codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32
from supquant.codec.codebooks import CodebookCodec
from supquant.kernels import BLOCK_ROWS, Cells

__all__ = ["CodeOrder", "find_cells"]

MIN_SORTED = 1 << 16
"""Fewer codes are not sorted: a scan of all of them takes less than a millisecond."""

MIN_IN_CELL = 64
"""The number of codes in a cell, on average, at least. A scan reads blocks of 64 codes."""

MAX_LEVELS = 3
"""The largest number of leading codebooks."""

_SAMPLED_CODES = 4096
"""The number of codes that stand for all codes when it is decided whether they are sorted."""

COUNTED_CODES = 1 << 16
"""The codewords of this number of codes, whole blocks of them, are counted at a time."""

_SAMPLED_QUERIES = 64
"""The number of these codes that stand for queries."""

_SAMPLED_ANSWERS = 4
"""The number of answers of these queries."""

MAX_NEEDED = 0.9
"""Codes are sorted if such a query needs less than this share of the codes, on average."""


@dataclass(frozen=True)
class CodeOrder:
    """Decides whether codes are sorted, and by which codebooks.

    Parameters
    ----------
    codec : AnyCodec or None, default=None
        The codec of the codes. Only codes with codebooks are sorted.
    """

    codec: Any = None

    def leading(self, codes: Codes) -> tuple[int, ...]:
        """Return the codebooks by which codes (n, M) are best sorted, the first one first. There are none if it does not help."""
        if len(codes) < MIN_SORTED or not isinstance(self.codec, CodebookCodec):
            return ()
        sample = codes[:: -(-len(codes) // _SAMPLED_CODES)]
        queries = self.codec.decode(sample[:: -(-len(sample) // _SAMPLED_QUERIES)])
        # The last ranking of a codec compares vectors in the space of the codewords.
        tables = self.codec.tables_of(queries, self.codec.rankings[-1])
        entries = np.take_along_axis(tables, sample.T[None].astype(np.intp), axis=2)  # (q, M, n)
        weights = entries.var(axis=2).sum(axis=0)  # (M,)
        lead = np.argsort(-weights, kind="stable")[:MAX_LEVELS]
        if _needed_fraction(entries, lead[:2]) >= MAX_NEEDED:
            return ()
        return tuple(lead.tolist())


def _needed_fraction(entries: Float32, lead: NDArray[np.intp]) -> float:
    """Return the share of codes whose cells may hold an answer, by the entries (q, M, n) of queries at the codes."""
    sums = entries.sum(axis=1)
    cuts = np.partition(sums, _SAMPLED_ANSWERS, axis=1)[:, _SAMPLED_ANSWERS]  # (q,)
    lowest = entries.min(axis=2)  # (q, M)
    rest = lowest.sum(axis=1) - lowest[:, lead].sum(axis=1)
    return float((entries[:, lead].sum(axis=1) + rest[:, None] <= cuts[:, None]).mean())


def sort_codes(codes: Codes, lead: Sequence[int]) -> NDArray[np.uint32]:
    """Return the rows of codes (n, M) sorted by the leading codebooks. Rows with the same leading codewords ascend."""
    return kernels.active().sort_by(codes, lead)


def find_cells(blocks: Codes, n: int, lead: Sequence[int]) -> Cells | None:
    """Return the cells of sorted codes, or None if their cells would be too small.

    Parameters
    ----------
    blocks : ndarray (b, M, 64) uint8
        The codes. Unsorted codes are no error, but have more cells.
    n : int
        The number of codes.
    lead : sequence of int
        The codebooks by which the codes are sorted.

    Returns
    -------
    Cells or None

    Examples
    --------
    >>> from supquant.kernels import blocks_of
    >>> codes = np.repeat(np.array([[0, 5], [3, 5]], dtype=np.uint8), 100, axis=0)
    >>> find_cells(blocks_of(codes), 200, [0]).starts
    [array([  0, 100, 200], dtype=uint32)]
    """
    firsts: list[NDArray[np.int64]] = []  # for each level, the first codes of its cells
    words = []
    new = np.zeros(n, dtype=bool)  # whether a code has other leading codewords than the one before it
    new[0] = True
    for m in lead:
        column = _column(blocks, m, n)
        new[1:] |= column[1:] != column[:-1]
        first = np.flatnonzero(new)
        if MIN_IN_CELL * len(first) > n:
            break
        firsts.append(first)
        words.append(column[first])
    if not firsts:
        return None
    # Cell i of a level begins at the cell of the next level that has the same first code.
    starts = [
        np.append(np.searchsorted(inner, outer), len(inner)).astype(np.uint32)
        for outer, inner in pairwise(firsts)
    ]
    starts.append(np.append(firsts[-1], n).astype(np.uint32))
    return Cells(lead[: len(firsts)], starts, words, _used_codewords(blocks, n))


def _used_codewords(blocks: Codes, n: int) -> Codes:
    """Return (M, 256) uint8: 1 for each codeword that some of n codes has."""
    used = np.zeros((blocks.shape[1], 256), dtype=np.uint8)
    for m in range(blocks.shape[1]):
        for start in range(0, n, COUNTED_CODES):
            some = blocks[start // BLOCK_ROWS : (start + COUNTED_CODES) // BLOCK_ROWS, m].reshape(-1)
            used[m] |= np.bincount(some[: n - start], minlength=256) > 0
            if used[m].all():
                break
    return used


def _column(blocks: Codes, m: int, n: int) -> NDArray[np.uint8]:
    """Return the codewords (n,) of codebook m."""
    assert blocks.shape[2] == BLOCK_ROWS
    return blocks[:, m].reshape(-1)[:n]
