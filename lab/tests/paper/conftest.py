"""A folder of result files with made-up numbers, and with the odd names and gaps of real ones."""

import base64
import json
import math
import struct
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

from supquant_lab.methods import METHODS

MACHINE = {
    "system": "Linux aarch64",
    "processor": "implementer 0x41 part 0xd0c",
    "cores": 2,
    "instruction_set": "neon",
    "blas": ["openblas 0.3.30", "openmp None"],
    "python": "3.11.7",
    "numpy": "2.4.6",
    "scipy": "1.17.1",
    "scikit-learn": "1.9.1",
    "supquant": "0.1.0",
}
OTHER_MACHINE = MACHINE | {
    "system": "Linux x86_64",
    "processor": "Xeon",
    "cores": 16,
    "instruction_set": "avx512",
}
STRENGTH = {name: 0.9 - 0.035 * place for place, name in enumerate(METHODS)} | {
    "classifier": 0.86,
    "sdh": 0.82,
}
NO_CODES = ("euclidean", "cosine", "classifier-scores")
"""Methods whose items are floats; they have no learned codes."""

LEVELS = [f"{level / 20:.2f}" for level in range(1, 21)]


def make_cell(dataset="mnist", method="sq", bits=16, *, seed=0, protocol="paper", ranking=None, **changes):
    """Return the name and the content of a cell; `changes` replace fields, `parameters` adds to them."""
    kind = METHODS[method]
    ranking = ranking or kind.rankings[0]
    told_apart = f"{dataset} {method} {bits} {seed} {protocol} {ranking} {changes.get('parameters')}"
    rng = np.random.default_rng(zlib.crc32(told_apart.encode()))
    quality = STRENGTH[method] + 0.01 * math.log2(bits / 16) + rng.uniform(-0.004, 0.004)
    encoded = 0.8 * quality + 0.1 * (ranking == "label") + rng.uniform(-0.03, 0.03)
    learned = quality if protocol == "paper" and method not in NO_CODES else None
    published = learned if learned is not None and kind.published == "learned" else encoded
    parts = {
        "features": 0.12 if kind.__dict__.get("kernel") else 0.0,
        "projection": 0.0 if ranking == "hamming" else 0.02,
        "tables": 0.0 if ranking == "hamming" else 0.03,
        "encode": 0.01 if ranking == "hamming" else 0.0,
        "scan": 0.02 + 0.001 * bits,
    }
    parameters = {"n_training": 69000, "n_database": 69000, "n_queries": 1000, "tuning": {"points": 0}}
    if method.startswith("sq"):
        parameters |= {"solver": "joint", "anchors": 1000, "features": "kernel", "missing_labels": "predict"}
    if method == "sq-no-transform":
        parameters["projection"] = "identity"
    parameters |= changes.pop("parameters", {})
    name = f"{dataset}-{method}-{parameters.get('solver', '')}-{protocol}-{ranking}-{bits}bits-seed{seed}"
    command = f"supquant experiment --dataset '{dataset}' --method {method} --bits {bits} --seed {seed}"
    cell = {
        "dataset": dataset,
        "method": method,
        "bits": bits,
        "protocol": protocol,
        "ranking": ranking,
        "seed": seed,
        "map": published,
        "map_learned": learned,
        "map_encoded": encoded,
        "precision_at": {str(k): published - 0.02 * place for place, k in enumerate((1, 10, 100, 1000))},
        "precision_at_recall": {level: published * (1.05 - 0.5 * float(level) ** 3) for level in LEVELS},
        "distinct_codes": None if method in NO_CODES else 10 + 50 * bits,
        "quantization_error": 0.3,
        "fit_seconds": rng.uniform(5, 60),
        "query_ms": parts | {"total": sum(parts.values())},
        "index_bytes_per_item": bits / 8,
        "peak_memory_mb": 700.5,
        "cut": None,
        "convergence": [],
        "truncated": False,
        "cell_seconds": rng.uniform(20, 90),
        "command": command,
        "parameters": parameters,
        "machine": MACHINE,
    }
    return name.replace("/", "-"), cell | changes


def make_curve(start, rate, step):
    """Return a curve that falls from a start towards 1,000, one point an iteration."""
    return [[step * (place + 1), 1000 + start * math.exp(-rate * place)] for place in range(25)]


def make_sweep(dataset):
    """Return a sweep over ten powers of ten of gamma and four of mu; the best point is gamma 1e-3, mu 1."""
    points = [
        {
            "parameters": {"quantization_weight": 10.0**gamma, "constraint_weight": 10.0**mu},
            "map": 0.7 - 0.03 * abs(gamma + 3) - 0.01 * abs(mu),
            "fit_seconds": 4.0,
        }
        for gamma in range(-7, 3)
        for mu in range(-1, 3)
    ]
    return {
        "dataset": dataset,
        "method": "sq",
        "bits": 16,
        "seed": 0,
        "n_training": 20000,
        "n_validation": 1000,
        "command": f"supquant paper --only penalties --dataset {dataset}",
        "machine": MACHINE,
        "points": points,
    }


def make_samples(dataset):
    """Return samples: two queries, two methods, ten small pictures each, some of them wrong."""
    rng = np.random.default_rng(0)

    def picture():
        rows = b"".join(b"\0" + rng.integers(0, 255, 8, dtype=np.uint8).tobytes() for _ in range(8))

        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        head = struct.pack(">IIBBBBB", 8, 8, 8, 0, 0, 0, 0)
        png = (
            b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", head)
            + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b"")
        )
        return "data:image/png;base64," + base64.b64encode(png).decode()

    def result(place):
        return {"label": str(7 if place % 4 else 1), "right": bool(place % 4), "picture": picture()}

    answers = [{"method": name, "results": [result(place) for place in range(10)]} for name in ("sq", "pq")]
    queries = [{"label": label, "picture": picture(), "answers": answers} for label in ("7", "cat & <dog>")]
    return {
        "dataset": dataset,
        "seed": 0,
        "protocol": "unlabelled",
        "bits": 16,
        "note": "The first query of each class.",
        "command": f"supquant paper --only samples --dataset {dataset}",
        "queries": queries,
    }


def write_folder(folder, cells, *, sweeps=(), samples=(), failures=()):
    """Write records to the folders where the report looks for them."""
    records = {
        "cells": dict(cells),
        "sweeps": {str(place): sweep for place, sweep in enumerate(sweeps)},
        "samples": {str(place): sample for place, sample in enumerate(samples)},
        "failed": {failure["name"]: failure for failure in failures},
    }
    for kind, named in records.items():
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for name, record in named.items():
            (folder / kind / f"{name}.json").write_text(json.dumps(record))
    return folder


def make_grid(datasets, *, bits=(16, 64), seeds=(0, 1), protocols=("paper", "unlabelled")):
    """Return cells of every method; `sq` also under its other ranking and with its other solver."""
    cells = {}
    for dataset in datasets:
        for protocol in protocols:
            for method in METHODS:
                for length in bits:
                    for seed in seeds if method in ("sq", "sdh", "pq", "classifier") else seeds[:1]:
                        cells |= [make_cell(dataset, method, length, seed=seed, protocol=protocol)]
                        if method == "sq":
                            cells |= [
                                make_cell(
                                    dataset, method, length, seed=seed, protocol=protocol, ranking="label"
                                )
                            ]
        for length in bits:
            cells |= [
                make_cell(
                    dataset,
                    "sq",
                    length,
                    parameters={"solver": "alternating", "tol": 0.001},
                    convergence=make_curve(4000, 0.2, 1.5),
                )
            ]
    return cells


ODD = "a & b <c>.npz"
"""The name of a data set that would break a page without escaping."""


@pytest.fixture(scope="session")
def made():
    """Return the functions that make result files."""
    return SimpleNamespace(
        cell=make_cell,
        curve=make_curve,
        folder=write_folder,
        grid=make_grid,
        samples=make_samples,
        sweep=make_sweep,
    )


@pytest.fixture(scope="session")
def results_folder(tmp_path_factory):
    """Two data sets in full, one with an odd name and holes, a failed cell, truncated ones, two machines."""
    cells = make_grid(["mnist"]) | make_grid(["coco30k"], protocols=("paper",))
    joint = next(name for name in cells if name.startswith("coco30k-sq-joint-paper-euclidean-16bits-seed0"))
    cells[joint]["convergence"] = make_curve(4000, 0.5, 0.7)
    cells[joint]["parameters"] = {**cells[joint]["parameters"], "tol": 0.3}
    cells |= [make_cell("mnist", "bre", 16, truncated=True)]
    cells |= [make_cell("mnist", "sdh", 32, machine=OTHER_MACHINE)]
    cells |= [make_cell(ODD, "sq", 16), make_cell(ODD, "pq", 16, seed=1), make_cell(ODD, "classifier", 16)]
    failure = {
        "name": "mnist-ksh",
        "command": "supquant experiment --method ksh",
        "error": "no <rows> & no labels",
    }
    return write_folder(
        tmp_path_factory.mktemp("results"),
        cells,
        sweeps=[make_sweep("mnist"), make_sweep("coco30k")],
        samples=[make_samples("mnist")],
        failures=[failure],
    )


@pytest.fixture(scope="session")
def rendered(results_folder, tmp_path_factory):
    """Return the report on that folder."""
    from supquant_lab.paper import render_report

    return render_report(results_folder, tmp_path_factory.mktemp("out"))
