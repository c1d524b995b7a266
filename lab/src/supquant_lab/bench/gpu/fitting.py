"""Fits of the default model on a GPU, against all cores: how long they take, and what answers they give."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from supquant import SupervisedQuantizer, evaluation, use_device
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import resolve_jobs
from supquant_lab.bench.data import GaussianClasses
from supquant_lab.bench.gpu.encoding import Embeddings
from supquant_lab.datasets import load

__all__ = ["fitting_figures"]

DATASETS = "mnist", "tinyimagenet"
"""The data sets of fits. The last `OTHERS` of their shuffled rows are not learned from."""

OTHERS, QUERIES = 10_000, 2_000
"""Rows that are not learned from, and how many of them are queries; the others are items without labels."""

QUICK_ROWS = 30_000
"""Rows of random classes that a quick run takes in place of the data sets."""

TURNS = 3
"""Number of fits on the GPU after the first one, which compiles kernels. Their median counts."""


def fitting_figures(*, quick: bool = False) -> list[dict[str, Any]]:
    """Return the seconds of fits, and their MAP, for every data set that is there; for random classes if none is."""
    if not quick:
        there = [_compared(data) for data in map(_rows_of, DATASETS) if data is not None]
        if there:
            return there
    X, labels = GaussianClasses(100, 128, 0.5).draw(QUICK_ROWS + OTHERS, stream=0, every=True)
    y = np.asarray(labels.indices)
    return [_compared(Embeddings("random classes", X[OTHERS:], y[OTHERS:], X[:OTHERS], y[:OTHERS]))]


def _rows_of(name: str) -> Embeddings | None:
    """Return the rows of a data set; None if its file is missing."""
    try:
        dataset = load(name)
    except InputError:
        return None
    order = np.random.default_rng(0).permutation(len(dataset))
    learned, others = order[:-OTHERS], order[-OTHERS:]
    prepared = dataset.prepare(dataset.X[learned])
    y = dataset.y
    return Embeddings(name, prepared(dataset.X[learned]), y[learned], prepared(dataset.X[others]), y[others])


def _compared(data: Embeddings) -> dict[str, Any]:
    """Return what fits of the same rows on both sides take, and how good they are."""
    cpu, on_cpu = _fitted(data)
    with use_device("cuda"):
        on_gpu = [_fitted(data) for _ in range(TURNS + 1)]
    gpu = median(seconds for seconds, _ in on_gpu[1:])
    return {
        "dataset": data.name,
        "rows": len(data.learned),
        "dimensions": data.learned.shape[1],
        "labels": len(np.unique(data.labels)),
        "bytes": on_cpu.n_codebooks,
        "cores": resolve_jobs(None),
        "cpu_seconds": cpu,
        "first_gpu_seconds": on_gpu[0][0],
        "gpu_seconds": gpu,
        "times_as_fast": cpu / gpu,
        "equal_models": len({_stored(model) for _, model in on_gpu}) == 1,
        "map_cpu": _map(on_cpu, data),
        "map_gpu": _map(on_gpu[0][1], data),
    }


def _fitted(data: Embeddings) -> tuple[float, SupervisedQuantizer]:
    """Return the seconds of a fit, and the model."""
    model = SupervisedQuantizer(8, random_state=0)
    began = time.perf_counter()
    model.fit(data.learned, data.labels)
    return time.perf_counter() - began, model


def _stored(model: SupervisedQuantizer) -> bytes:
    """Return the bytes of the file of a model."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.read_bytes()


def _map(model: SupervisedQuantizer, data: Embeddings) -> float:
    """Return the MAP of some of the other rows as queries over the rest, items without labels."""
    labels, codec = read_labels(data.other_labels), model.codec_
    tables = codec.query_tables(data.others[:QUERIES]).tables
    codes = codec.encode_items(data.others[QUERIES:])
    queries, items = np.arange(QUERIES), np.arange(QUERIES, len(data.others))
    return float(evaluation.evaluate_tables(tables, codes, labels.take(queries), labels.take(items)).map)
