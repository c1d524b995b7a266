"""The searches of this benchmark in torch, as somebody writes them who knows torch well and writes no CUDA.

Codes are kept as they are, 8 bytes a row. For one query, the entries of a table are gathered column by column, chunk by chunk,
and the best rows of each chunk are merged. For many queries, chunks of codes are decoded to half precision by look-ups of whole
codewords, and multiplied with the vectors of the queries on the tensor cores. That needs vectors, not tables alone, and its sums
are those of half precision: the answers are not exact.
"""

from __future__ import annotations

from typing import Any

__all__ = ["search_by_products", "search_by_tables"]

CHUNK = 1 << 24
"""Rows whose sums are in memory at a time: large enough that launches take no time, and small next to the memory."""

PRODUCT_CHUNK = 1 << 21
"""The same where rows are decoded to vectors."""


def search_by_tables(codes: Any, tables: Any, k: int) -> tuple[Any, Any]:
    """Return the k lowest sums (q, k) of tables (q, M, K) at codes (n, M), and their rows (q, k), all on the GPU."""
    import torch  # noqa: PLC0415  # not needed by this package

    found = []
    for table in tables:
        best: tuple[Any, Any] | None = None
        for start in range(0, len(codes), CHUNK):
            chunk = codes[start : start + CHUNK]
            sums = table[0][chunk[:, 0].int()]
            for m in range(1, codes.shape[1]):
                sums += table[m][chunk[:, m].int()]
            lowest, rows = torch.topk(sums, min(k, len(sums)), largest=False)
            best = _merged(best, lowest, rows + start, k)
        found.append(best)
    return _stacked(found)


def search_by_products(codes: Any, codebooks: Any, queries: Any, k: int) -> tuple[Any, Any]:
    """Return the k greatest products (q, k) of queries (q, D) and decoded codes (n, M), and their rows (q, k), all on the GPU.

    Codebooks are (M, K, D), in the half precision of the queries.
    """
    import torch  # noqa: PLC0415  # not needed by this package

    best: tuple[Any, Any] | None = None
    for start in range(0, len(codes), PRODUCT_CHUNK):
        chunk = codes[start : start + PRODUCT_CHUNK]
        vectors = codebooks[0][chunk[:, 0].int()]
        for m in range(1, codes.shape[1]):
            vectors += codebooks[m][chunk[:, m].int()]
        scores = queries @ vectors.T
        lowest, rows = torch.topk(-scores.float(), min(k, len(chunk)), largest=False)
        best = _merged(best, lowest, rows + start, k)
    assert best is not None
    return best


def _merged(best: tuple[Any, Any] | None, sums: Any, rows: Any, k: int) -> tuple[Any, Any]:
    import torch  # noqa: PLC0415  # not needed by this package

    if best is None:
        return sums, rows
    both, all_rows = torch.cat([best[0], sums], dim=-1), torch.cat([best[1], rows], dim=-1)
    lowest, places = torch.topk(both, min(k, both.shape[-1]), largest=False)
    return lowest, all_rows.gather(-1, places)


def _stacked(found: list[Any]) -> tuple[Any, Any]:
    import torch  # noqa: PLC0415  # not needed by this package

    sums, rows = (torch.stack(each) for each in zip(*found, strict=True))
    return sums, rows
