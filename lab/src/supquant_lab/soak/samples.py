"""Soak: small sound files of every kind, and what each must hold when it is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import CodeIndex, load_model
from supquant.codec.registry import load_codec
from supquant.models import make_estimator, method_names
from supquant_lab.hashing.binary_codec import BinaryCodec
from supquant_lab.soak.plain import K, make_codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from supquant.codec.interface import AnyCodec

METHODS = method_names()
"""The methods of which there is a model."""

QUICK = {"n_codewords": 4, "max_iter": 1, "n_epochs": 1, "n_trees": 2, "n_landmarks": 5, "n_components": 4}
"""Parameters that make a fit short, for the methods that have them."""


MOST_FEATURES = 100_000
"""Vectors wider than this are not encoded: a forged file may name any width."""


@dataclass(frozen=True)
class Sample:
    """A sound file, or a folder of such files.

    Attributes
    ----------
    path : Path
        The file or the folder.
    files : dict of Path to bytes
        The file, or all files of the folder, with their content.
    load : callable
        Reads `path` and returns a model, a codec or an index.
    use : callable
        Returns what that holds and answers, as a list of arrays and other values.
    content : list
        What `use` returns for the sound files.
    """

    path: Path
    files: dict[Path, bytes]
    load: Callable[[np.random.Generator], Any]
    use: Callable[[Any], list[Any]]
    content: list[Any]


@cache
def make_samples(folder: Path) -> tuple[Sample, ...]:
    """Write models of all methods, a codec, and indexes with all kinds of ids to a new folder. They are always the same."""
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    samples = []
    for method in METHODS:
        _fit(method, rng).save(folder / method)
        samples.append(_sample(folder / method, lambda path, _: load_model(path), _use_model))
    make_codec().save(folder / "codec")
    samples.append(_sample(folder / "codec", lambda path, _: load_codec(path), _use_codec))
    binary = BinaryCodec(np.eye(8, dtype=np.float32), np.zeros(8, dtype=np.float32))
    indexes: dict[str, tuple[AnyCodec, int, Callable[[int], Any]]] = {
        "numbers": (make_codec(), K, lambda _: None),
        "integers": (make_codec(), K, lambda i: 7 * i % 1000),
        "strings": (make_codec(), K, lambda i: f"row {i}"),
        "few codes": (make_codec(), 2, lambda i: 7 * i % 1000),  # so few that equal codes are kept once
        "columns": (make_codec(), K, lambda i: f"row {i}"),
        "bits": (binary, 256, lambda _: None),
    }
    for name, (codec, n_values, row_id) in indexes.items():
        index = CodeIndex(codec)
        for start in (0, 150):
            codes = rng.integers(0, n_values, size=(150, codec.n_codebooks)).astype(np.uint8)
            ids = [row_id(i) for i in range(start, start + 150)]
            columns = {"price": rng.integers(0, 100, 150), "name": [f"name {i}" for i in ids]}
            index.add_codes(
                codes, ids=None if ids[0] is None else ids, metadata=columns if name == "columns" else None
            )
        index.remove(index.ids[::7])
        index.update_codes(index.ids[::5], index.codes(index.ids[1::5][: len(index.ids[::5])]))
        index.save(folder / name)
        samples.append(_sample(folder / name, _load_index, _use_index))
    return tuple(samples)


def _fit(method: str, rng: np.random.Generator) -> Any:
    """Return a model of a method that has learned from a few rows of three classes."""
    known = make_estimator(method, 16).get_params(deep=False)
    quick = {"max_rows": 100, "random_state": 0, "n_jobs": 1, **QUICK}
    estimator = make_estimator(method, 16, {name: quick[name] for name in quick if name in known})
    y = np.arange(120) % 3
    return estimator.fit(rng.normal(size=(3, 6))[y] + rng.normal(scale=0.3, size=(120, 6)), y)


def _sample(
    path: Path, load: Callable[[Path, np.random.Generator], Any], use: Callable[[Any], list[Any]]
) -> Sample:
    paths = sorted(each for each in path.iterdir() if each.stat().st_size) if path.is_dir() else [path]
    content = use(load(path, np.random.default_rng(0)))
    return Sample(path, {each: each.read_bytes() for each in paths}, partial(load, path), use, content)


def _use_model(model: Any) -> list[Any]:
    """Return the class and the parameters of a model as text, and what it makes of two rows."""
    if model.n_features_in_ > MOST_FEATURES:
        return [repr(model)]
    X = np.stack([np.ones(model.n_features_in_), np.arange(model.n_features_in_)])
    codes = model.encode(X)
    return [repr(model), codes, model.decode(codes), model.codec_.tables(X)]


def _use_codec(codec: Any) -> list[Any]:
    """Return what a codec makes of two rows."""
    codes = np.zeros((2, codec.n_codebooks), dtype=np.uint8)
    X = np.ones((2, codec.n_inputs))
    return [type(codec), codec.decode(codes), codec.encode_items(X), codec.query_tables(X).tables]


def _load_index(path: Path, rng: np.random.Generator) -> CodeIndex:
    """Open an index in any of the ways in which it can be opened."""
    return CodeIndex.load(path, verify=rng.choice(["full", "lazy"]), mapped=bool(rng.random() < 0.5))


def _use_index(index: CodeIndex) -> list[Any]:
    """Return the ids, codes and columns of an index, and its answers to some queries."""
    M, K = index.codec.n_codebooks, index.codec.n_codewords
    tables = np.arange(4 * M * K, dtype=np.float32).reshape(4, M, K) * 37 % 11
    columns = index.get(index.ids).to_pylist()
    return [index.ids, index.codes(index.ids), columns, *index.search_tables(tables, 10)]
