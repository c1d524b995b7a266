"""Items to codes on a GPU, against one core: how fast, how many codes are equal, and what answers they give."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from supquant import SupervisedQuantizer, evaluation, use_device
from supquant.arrays import Array
from supquant.inputs.labels import read_labels
from supquant_lab.bench.data import GaussianClasses
from supquant_lab.bench.gpu.clock import gpu_seconds
from supquant_lab.datasets import data_folder
from supquant_lab.datasets.npz import read_arrays

__all__ = ["Embeddings", "embeddings", "encoding_figures"]

CORE_ROWS = 20_000
"""Rows that one core encodes."""

NOISE = 0.01
"""Standard deviation of the noise by which copies of vectors differ."""


@dataclass(frozen=True)
class Embeddings:
    """Vectors of 384 dimensions with 77 labels: rows to learn from, and others."""

    name: str
    learned: Array
    labels: Array
    others: Array
    other_labels: Array


def embeddings() -> Embeddings:
    """Return those of banking77_minilm.npz, if it is in the data folder, or random classes of the same size."""
    path = data_folder() / "banking77_minilm.npz"
    rng = np.random.default_rng(0)
    if path.is_file():
        X, y = read_arrays(path, ("X", "y"))
        order = rng.permutation(len(X))
        name, X, y = "banking77_minilm", X[order].astype(np.float32), y[order]
    else:
        X, labels = GaussianClasses(77, 384, 0.25).draw(13_083, stream=0, every=True)
        name, y = "random classes", np.asarray(labels.indices)
    return Embeddings(name, X[:10_000], y[:10_000], X[10_000:], y[10_000:])


def encoding_figures(model: SupervisedQuantizer, data: Embeddings, n_rows: int) -> dict[str, Any]:
    """Return rows per second of one core and of the GPU, and how its codes differ from those of the CPU."""
    import cupy as cp  # noqa: PLC0415  # an extra

    codec = model.codec_
    rng = np.random.default_rng(1)
    host = np.empty((n_rows, data.others.shape[1]), dtype=np.float16)
    noise = rng.normal(scale=NOISE, size=data.others.shape).astype(np.float32)
    for copy, start in enumerate(range(0, n_rows, len(noise))):
        part = host[start : start + len(noise)]
        part[:] = (data.others + np.roll(noise, copy, axis=0))[: len(part)]
    there = cp.asarray(host)
    some = host[:CORE_ROWS].astype(np.float32)
    began = time.perf_counter()
    on_core = codec.encode_items(some, n_jobs=1)
    core_seconds = time.perf_counter() - began
    on_gpu = cp.asnumpy(codec.encode_items(cp.asarray(some)))
    labels = np.tile(data.other_labels, -(-n_rows // len(data.others)))[:n_rows]
    with use_device("cuda"):
        from_host = gpu_seconds(lambda: codec.encode_items(host), 3)
        labelled = gpu_seconds(lambda: codec.encode_items(host, labels), 3)
    return {
        "dataset": data.name,
        "dimensions": host.shape[1],
        "labels": len(codec.classes),
        "bytes": codec.n_codebooks,
        "rows": n_rows,
        "one_core_rows_per_second": len(some) / core_seconds,
        "gpu_memory_rows_per_second": n_rows / gpu_seconds(lambda: codec.encode_items(there), 3),
        "host_float16_rows_per_second": n_rows / from_host,
        "host_float16_labelled_rows_per_second": n_rows / labelled,
        "equal_codes": float((on_core == on_gpu).all(axis=1).mean()),
        "map_cpu": _map(model, data, codec.encode_items(data.others)),
        "map_gpu": _map(model, data, cp.asnumpy(codec.encode_items(cp.asarray(data.others)))),
    }


def _map(model: SupervisedQuantizer, data: Embeddings, codes: Array) -> float:
    """Return the MAP of the first 500 other rows as queries over codes of the rest."""
    n_queries = 500
    tables = model.codec_.query_tables(data.others[:n_queries]).tables
    labels = read_labels(data.other_labels)
    queries, items = np.arange(n_queries), np.arange(n_queries, len(codes))
    quality = evaluation.evaluate_tables(tables, codes[n_queries:], labels.take(queries), labels.take(items))
    return float(quality.map)
