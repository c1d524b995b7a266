"""The functions of `Kernels` that a GPU does well, for arrays of NumPy, which go there and come back.

They have the arguments, the checks and the bits of the others. What works on a GPU for long keeps its arrays there, and calls the
parts that these functions are made of.
"""

# ruff: noqa: D103  (`Kernels` documents these functions)

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.kernels import arguments
from supquant.kernels.cuda.compiling import THREADS, blocks_for, kernel
from supquant.kernels.cuda.products import Matrix, apply_gaussian, squared_lengths
from supquant.kernels.cuda.searching import Search
from supquant.kernels.packing import Packed
from supquant.kernels.protocol import Real
from supquant.kernels.scanned import Bytes

_ROW_THREADS = 128
"""Threads of a block that has one row."""


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
    search = Search(cross, product, K, mu, eps)
    found: Bytes = cp.asnumpy(search.codes(cp.asarray(unary), start=cp.asarray(codes), max_sweeps=max_sweeps))
    return found


def beam(unary: Float32, cross: Float32, K: int, width: int = 1, n_threads: int = 1) -> Bytes:
    arguments.check_beam(unary, cross, K, width, n_threads)
    search = Search(cross, cross, K, 0.0, 0.0, width)
    found: Bytes = cp.asnumpy(search.codes(cp.asarray(unary), by_beam=True, max_sweeps=0))
    return found


def products(x: Float32, y: Packed, n_threads: int = 1) -> Float32:
    arguments.check_products(x, y, n_threads)
    sums: Float32 = cp.asnumpy(Matrix(y.rows()).products(cp.asarray(x)))
    return sums


def gaussian(x: Float32, anchors: Packed, norms: Float32, scale: float, n_threads: int = 1) -> Float32:
    arguments.check_gaussian(x, anchors, norms, scale, n_threads)
    rows = cp.asarray(x)
    values = Matrix(anchors.rows()).products(rows)
    apply_gaussian(values, squared_lengths(rows), cp.asarray(norms), scale)
    made: Float32 = cp.asnumpy(values)
    return made


def table_sums(codes: Bytes, tables: Float32, n_threads: int = 1) -> Float32:
    q, n, M = arguments.check_table_sums(codes, tables, n_threads)
    sums = cp.empty((q, n), dtype=cp.float32)
    if sums.size:
        numbers = np.int64(n), np.int32(M), np.int32(tables.shape[2])
        given = cp.asarray(codes), cp.asarray(tables), sums, *numbers
        kernel("codes", "table_sums")((blocks_for(n), q), (THREADS,), given)
    added: Float32 = cp.asnumpy(sums)
    return added


def decode(codes: Bytes, codebooks: NDArray[Real], n_threads: int = 1) -> NDArray[Real]:
    n, M, r = arguments.check_decode(codes, codebooks, n_threads)
    sums = cp.empty((n, r), dtype=codebooks.dtype)
    if sums.size:
        name = "decode_float" if codebooks.dtype == np.float32 else "decode_double"
        sizes: tuple[Any, ...] = np.int32(M), np.int32(codebooks.shape[1]), np.int32(r)
        given = cp.asarray(codes), cp.asarray(codebooks), sums, *sizes
        kernel("codes", name)((n,), (_ROW_THREADS,), given)
    decoded: NDArray[Real] = cp.asnumpy(sums)
    return decoded
