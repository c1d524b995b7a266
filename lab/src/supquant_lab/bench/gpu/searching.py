"""Searches of many codes on a GPU: one query and many, against one core and against torch."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from supquant import kernels
from supquant.arrays import Array, Codes
from supquant.kernels import Scanned, blocks_of
from supquant_lab.bench.gpu.clock import gpu_seconds
from supquant_lab.bench.gpu.torch_side import search_by_products, search_by_tables

__all__ = ["searching_figures"]

CORE_ROWS = 10_000_000
"""Rows that one core scans: far more than its caches hold."""

NEIGHBOURS = 100
"""k of all sides."""


def searching_figures(
    codebooks: Array, n_rows: int, batches: tuple[int, ...] = (1, 2, 3, 8, 64)
) -> dict[str, Any]:
    """Return the seconds of searches among random codes, with the tables of random queries.

    Parameters
    ----------
    codebooks : ndarray (M, K, D) float32
    n_rows : int
    batches : tuple of int
        Numbers of queries.
    """
    import cupy as cp  # noqa: PLC0415  # an extra

    rng = np.random.default_rng(2)
    M, K, D = codebooks.shape
    queries = rng.normal(size=(max(batches), D)).astype(np.float32)
    tables = -np.einsum("qd,mkd->qmk", queries, codebooks).astype(np.float32)
    codes = rng.integers(0, K, size=(min(CORE_ROWS, n_rows), M), dtype=np.uint8)
    space = Scanned(blocks_of(codes), len(codes))
    scan, on_gpu = kernels.active().scan, kernels.device.cuda().scan
    _check(space, tables)
    began = time.perf_counter()
    scan(space, tables[:1], NEIGHBOURS)
    core_seconds = time.perf_counter() - began
    space = _repeated(codes, n_rows)
    cp.get_default_memory_pool().free_all_blocks()
    before = cp.cuda.runtime.memGetInfo()[0]
    on_gpu(space, tables[:1], NEIGHBOURS)
    cp.get_default_memory_pool().free_all_blocks()
    held = before - cp.cuda.runtime.memGetInfo()[0]
    sides = []
    for q in batches:
        seconds = gpu_seconds(partial(on_gpu, space, tables[:q], NEIGHBOURS))
        sides.append(_side("supquant", q, n_rows, M, seconds))
    kernels.device.cuda().forget_codes()
    sides += _torch_sides(codes, codebooks, queries, tables, n_rows, batches)
    return {
        "rows": n_rows,
        "bytes": M,
        "k": NEIGHBOURS,
        "dimensions_decoded": D,
        "one_core_rows": len(codes),
        "one_core_bytes_per_second": codes.size / core_seconds,
        "gpu_bytes_per_byte_of_codes": held / (n_rows * M),
        "answers_equal_on": len(codes),
        "sides": sides,
    }


def _check(space: Scanned, tables: Array) -> None:
    """Check that answers are those of the CPU, for one query and for many."""
    for some in (tables[:1], tables):
        for k in (10, 2048):
            want = kernels.active().scan(space, some, k, n_threads=8)
            got = kernels.device.cuda().scan(space, some, k)
            for have, wanted in zip(got, want, strict=True):
                np.testing.assert_array_equal(have, wanted)


def _repeated(codes: Codes, n_rows: int) -> Scanned:
    """Return codes repeated up to a number of rows, each time with other codewords in place of the same ones."""
    blocks = blocks_of(codes)
    copies = -(-n_rows // len(codes))
    many = np.empty((copies * len(blocks), *blocks.shape[1:]), dtype=np.uint8)
    for copy in range(copies):
        np.bitwise_xor(blocks, np.uint8(copy), out=many[copy * len(blocks) : (copy + 1) * len(blocks)])
    return Scanned(many[: -(-n_rows // 64)], n_rows)


def _torch_sides(
    codes: Codes, codebooks: Array, queries: Array, tables: Array, n_rows: int, batches: tuple[int, ...]
) -> list[dict[str, Any]]:
    """Return the same searches in torch; none without torch."""
    try:
        import torch  # noqa: PLC0415  # not needed by this package
    except ImportError:
        return []
    some = torch.from_numpy(codes).cuda()
    copies = -(-n_rows // len(codes))
    many = torch.cat([some ^ copy for copy in range(copies)])[:n_rows]
    on_gpu, half = torch.from_numpy(tables).cuda(), torch.from_numpy(codebooks).cuda().half()
    vectors = torch.from_numpy(queries).cuda().half()
    sides = []
    with torch.no_grad():
        gathered = partial(search_by_tables, many, on_gpu[:1], NEIGHBOURS)
        sides.append(_side("torch, gathered entries", 1, n_rows, codes.shape[1], gpu_seconds(gathered, 1)))
        q = max(batches)
        decoded = partial(search_by_products, many, half, vectors[:q], NEIGHBOURS)
        sides.append(_side("torch, in half precision", q, n_rows, codes.shape[1], gpu_seconds(decoded, 1)))
    return sides


def _side(name: str, q: int, n_rows: int, M: int, seconds: float) -> dict[str, Any]:
    return {
        "name": name,
        "queries": q,
        "seconds": seconds,
        "code_bytes_per_second": q * n_rows * M / seconds,
        "pairs_per_second": q * n_rows / seconds,
    }
