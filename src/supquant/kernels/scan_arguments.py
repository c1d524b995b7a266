"""Checks of the arguments of scans, as in `arguments`."""

from typing import NoReturn

import numpy as np

from supquant.arrays import Float32, RowNumbers
from supquant.kernels.arguments import MAX_CODEBOOKS, MAX_CODEWORDS, check_array, check_threads
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Cells, Scanned

__all__ = [
    "LARGEST_SUM",
    "check_k",
    "check_limits",
    "check_scan_queries",
    "check_scanned",
    "check_scores",
    "refuse_curves",
    "refuse_unbounded",
]

MAX_LEVELS = 4
"""Largest number of levels of cells."""

LARGEST_SUM = 0.99 * float(np.finfo(np.float32).max)
"""Sums of one entry of each codebook do not overflow in float32 if the largest magnitudes of all codebooks add up to less."""


def check_scanned(scanned: Scanned) -> tuple[int, int]:
    """Refuse arrays whose shapes do not fit together; return the numbers of codebooks and of rows.

    The codes are not checked. The maker of the blocks keeps them below K.
    """
    n_blocks = -(-scanned.n // BLOCK_ROWS)
    _, M, _ = check_array(scanned.blocks, "blocks", (n_blocks, None, BLOCK_ROWS), np.uint8)
    n_rows = scanned.n
    if scanned.starts is not None:
        check_array(scanned.starts, "starts", (scanned.n + 1,), np.uint32)
        n_rows = check_array(scanned.members, "members", (None,), np.uint32)[0]
    elif scanned.members is not None:
        check_array(scanned.members, "members", (scanned.n,), np.uint32)
    if scanned.cells is not None:
        _check_cells(scanned.cells, M)
    if n_rows >= 2**32:
        raise ValueError(f"rows must be fewer than 2**32, got {n_rows}")
    if scanned.eligible is not None:
        check_array(scanned.eligible, "eligible", (-(-n_rows // BLOCK_ROWS),), np.uint64)
    return M, n_rows


def _check_cells(cells: Cells, M: int) -> None:
    """Refuse cells of codebooks that do not exist, and arrays that do not fit together. Their values are not checked."""
    check_array(cells.used, "used", (M, MAX_CODEWORDS), np.uint8)
    depth = len(cells.lead)
    if not 1 <= depth <= MAX_LEVELS or not depth == len(cells.starts) == len(cells.words):
        raise ValueError(f"cells must have 1 to {MAX_LEVELS} levels with starts and words, got {depth}")
    for m, starts, words in zip(cells.lead, cells.starts, cells.words, strict=True):
        if not 0 <= m < M:
            raise ValueError(f"lead must be codebooks below {M}, got {m}")
        (n_cells,) = check_array(words, "words", (None,), np.uint8)
        check_array(starts, "starts", (n_cells + 1,), np.uint32)


def check_scan_queries(tables: Float32, M: int, query_bits: Bytes | None, n_threads: int) -> int:
    """Refuse tables that are not (q, M, K), and codes of queries that are not (q, M); return q."""
    q, _, K = check_array(tables, "tables", (None, M, None), np.float32)
    if not 1 <= M <= MAX_CODEBOOKS or not 1 <= K <= MAX_CODEWORDS:
        raise ValueError(
            f"tables must be of 1 to {MAX_CODEBOOKS} codebooks of 1 to {MAX_CODEWORDS}, got {M} of {K}"
        )
    if query_bits is not None:
        check_array(query_bits, "query_bits", (q, M), np.uint8)
    check_threads(n_threads)
    return q


def refuse_unbounded(query: int) -> NoReturn:
    """Raise the error for a table whose sums may not be finite in float32."""
    raise ValueError(
        f"the sums of table {query} must be finite in float32, got entries that are no numbers or add up to too much"
    )


def check_k(k: int) -> None:
    """Refuse a number of answers below one."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")


def check_limits(limits: Float32, n_queries: int) -> None:
    """Refuse limits that are not one float32 for each query, and NaN."""
    check_array(limits, "limits", (n_queries,), np.float32)
    if np.isnan(limits).any():
        raise ValueError(f"limits must be numbers, got NaN for query {int(np.isnan(limits).argmax())}")


def check_scores(
    sums: Float32, offsets: Float32, curves: Float32 | None, curve_of: RowNumbers | None
) -> None:
    """Refuse arrays that are not sums (q, k), offsets (q,), curves (c, 2, p) and numbers of curves (q,)."""
    shape = sums.shape[:1]
    if offsets.shape != shape or (curve_of is not None and curve_of.shape != shape):
        raise ValueError(f"offsets and curve_of must have one entry for each of {shape[0]} queries")
    if curves is not None and (curves.ndim != 3 or curves.shape[1] != 2 or 0 in curves.shape):
        raise ValueError(f"curves must have shape (any, 2, any), got {curves.shape}")


def refuse_curves() -> NoReturn:
    """Raise the error for the number of a curve that is not there."""
    raise ValueError("curve_of must hold numbers of curves")
