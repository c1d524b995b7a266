"""Fingerprints of fitted models: whether two versions of the library give the same codes and scores, bit for bit.

    SUPQUANT_DATA=... python benchmarks/same_fits.py write FILE      with one version
    SUPQUANT_DATA=... python benchmarks/same_fits.py compare FILE    with the other; it exits with 1 if a bit differs

Both estimators are fitted to digits, Banking77 and CIFAR-10 GIST: with all labels, with missing ones, without new classes, with
several labels per row, with other features, projections and solvers, and from a shorter code.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import supquant
from supquant import AnchorKernel, CodeIndex, SupervisedQuantizer

Published = getattr(supquant, "PublishedQuantizer", SupervisedQuantizer)
"""The estimator of the published method; it was a `SupervisedQuantizer` with other features once."""

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # vectors to learn from, their labels, other vectors


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return X[:1400], y[:1400], X[1400:]


def real(name: str, n: int) -> Data:
    with np.load(Path(os.environ["SUPQUANT_DATA"]) / f"{name}.npz") as file:
        rows = np.random.default_rng(0).permutation(len(file["y"]))[: n + 1000]
        X, y = file["X"][rows].astype(np.float32), file["y"][rows]
    return X[:n], y[:n], X[n:]


def with_gaps(y: np.ndarray) -> np.ndarray:
    """Return labels of which a third are missing, and one class entirely."""
    gaps = y.astype(np.float64)
    gaps[::3] = np.nan
    gaps[y == y.max()] = np.nan
    return gaps


def several(y: np.ndarray) -> np.ndarray:
    """Return an indicator matrix with up to two labels per row."""
    Y = np.zeros((len(y), y.max() + 1), dtype=np.uint8)
    Y[np.arange(len(y)), y] = 1
    Y[np.arange(0, len(y), 4), (y[::4] + 1) % Y.shape[1]] = 1
    return Y


def fits() -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield the name of each fit, its fitted model, and vectors that it has not seen."""
    for name, data in (
        ("digits", digits()),
        ("banking77", real("banking77_minilm", 6000)),
        ("cifar10", real("cifar10_gist", 6000)),
    ):
        X, y, Q = data
        short = SupervisedQuantizer(2, random_state=0).fit(X, y)
        yield f"{name} default 2", short, Q
        yield f"{name} default 4 from 2", SupervisedQuantizer(4, init=short, random_state=0).fit(X, y), Q
        yield f"{name} default 8", SupervisedQuantizer(8, random_state=1).fit(X, y), Q
        yield f"{name} default 8 with gaps", SupervisedQuantizer(8, random_state=0).fit(X, with_gaps(y)), Q
        yield f"{name} no new classes", SupervisedQuantizer(4, new_classes=0, random_state=0).fit(X, y), Q
        short = published(2).fit(X, y)
        yield f"{name} published 2", short, Q
        yield f"{name} published 4 from 2", published(4, init=short).fit(X, y), Q
    X, y, Q = digits()
    yield "digits several labels", SupervisedQuantizer(4, random_state=0).fit(X, several(y)), Q
    for settings in (
        {"solver": "alternating", "max_iter": 5},
        {"projection": "identity", "features": None},
        {"projection": "pca", "n_components": 20},
        {"features": AnchorKernel(200), "quantization_weight": 1e-4, "max_turns": 1, "solver": "alternating"},
    ):
        yield f"digits published {settings}", published(4, **settings).fit(X, y), Q
    yield "digits published gaps", published(4).fit(X, with_gaps(y)), Q
    yield "digits published several labels", published(4).fit(X, several(y)), Q


def published(n_codebooks: int, **settings: Any) -> Any:
    """Return an estimator of the published method, with a kernel of 1000 anchors unless the settings name other features."""
    return Published(n_codebooks, random_state=0, **{"features": AnchorKernel(1000), **settings})


def fingerprint(model: Any, Q: np.ndarray) -> dict[str, str]:
    """Return digests of a model's codes, probabilities and scores."""
    found = {"training codes": model.training_codes_, "codes": model.encode(Q)}
    found["probabilities"] = model.predict_proba(Q[:200])
    index = CodeIndex(model).add_codes(model.training_codes_)
    for i, ranking in enumerate(model.codec_.rankings):
        scores, ids = index.search(Q[:100], 50, ranking=ranking)
        found[f"scores {i}"], found[f"ids {i}"] = scores, ids
    return {
        name: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()[:16] for name, a in found.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    given = parser.parse_args()
    found = {}
    before = json.loads(given.file.read_text()) if given.action == "compare" else {}
    for name, model, Q in fits():
        found[name] = fingerprint(model, Q)
        other = {key for key in found[name] if before.get(name, found[name]).get(key) != found[name][key]}
        print(
            f"{name}: {'differs in ' + ', '.join(sorted(other)) if other else 'the same' if before else 'written'}",
            flush=True,
        )
    if given.action == "write":
        given.file.write_text(json.dumps(found, indent=1))
        return 0
    return int(found != before)


if __name__ == "__main__":
    sys.exit(main())
