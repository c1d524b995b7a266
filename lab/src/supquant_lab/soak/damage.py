"""Soak: sound files, the same files damaged, and forged ones, whose digests are right and whose content is not."""

from __future__ import annotations

import copy
import json
import warnings
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import CodeIndex, load_model
from supquant.codec.registry import load_codec
from supquant.errors import FileFormatError, InputError
from supquant.index.manifest import MANIFEST, manifest_bytes
from supquant.models import make_estimator, method_names
from supquant.storage import PackedArrays, load_arrays, pack_arrays, read_kind
from supquant_lab.hashing.binary_codec import BinaryCodec
from supquant_lab.soak.history import K, kept_units, make_codec, make_exact_codec, with_vectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from supquant.codec.interface import AnyCodec

ABSURD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    10**400,
    1.5,
    "",
    "x",
    "<U80000000",
    "../x",
    "\0",
    [],
    {},
    [[]],
    [None],
)
"""Values of which most are wrong anywhere in a file."""

DTYPES = ("uint8", "int16", "uint32", "int64", "float16", "float32", "float64")
"""The dtypes that forged arrays get."""

MAX_ERROR = 1000
"""Maximum length of an error message in characters, whatever the file holds."""

METHODS = method_names()
"""The methods of which there is a model."""

QUICK = {"n_codewords": 4, "max_iter": 1, "n_epochs": 1, "n_trees": 2, "n_landmarks": 5, "n_components": 4}
"""Parameters that make a fit short, for the methods that have them."""


MAX_FEATURES = 100_000
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
        "vectors": (make_exact_codec(), K, lambda i: 7 * i % 1000),
    }
    for name, (codec, n_values, row_id) in indexes.items():
        index = CodeIndex(codec, vectors="int8" if name == "vectors" else None)
        for start in (0, 150):
            codes = rng.integers(0, n_values, size=(150, codec.n_codebooks)).astype(np.uint8)
            ids = [row_id(i) for i in range(start, start + 150)]
            columns = {"price": rng.integers(0, 100, 150), "name": [f"name {i}" for i in ids]}
            index.add_codes(
                codes,
                ids=None if ids[0] is None else ids,
                metadata=columns if name == "columns" else None,
                **with_vectors(index, codes),
            )
        index.remove(index.ids[::7])
        codes = index.codes(index.ids[1::5][: len(index.ids[::5])])
        index.update_codes(index.ids[::5], codes, **with_vectors(index, codes))
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
    if model.n_features_in_ > MAX_FEATURES:
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
    """Return the ids, codes, columns and vectors of an index, and its answers to some queries."""
    M, K = index.codec.n_codebooks, index.codec.n_codewords
    tables = np.arange(4 * M * K, dtype=np.float32).reshape(4, M, K) * 37 % 11
    columns = index.get(index.ids).to_pylist()
    kept: list[Any] = []
    if index.vectors is not None:
        Q = np.ones((2, index.codec.n_inputs), dtype=np.float32)
        kept = [kept_units(index, index.ids), *index.search(Q, 5, refine=20)]
    return [index.ids, index.codes(index.ids), columns, *index.search_tables(tables, 10), *kept]


def read_damaged(sample: Sample, rng: np.random.Generator) -> bool:
    """Damage one file of a sample, read the sample, and mend it. Return whether it was refused.

    Raises
    ------
    AssertionError
        If the reader raised anything but `FileFormatError`, or returned anything but the sound content.
    """
    path = list(sample.files)[int(rng.integers(len(sample.files)))]
    if len(sample.files) > 1 and rng.random() < 0.1:
        # a folder that lacks a file, or has another one in its place
        other = list(sample.files)[int(rng.integers(len(sample.files)))]
        content = None if other == path else sample.files[other]
    else:
        content = damaged(sample.files[path], rng)
    found = _read_changed(sample, {path: content}, f"a damaged {path}", rng, forged=False)
    if found is not None:
        for one, expected in zip(found, sample.content, strict=True):
            np.testing.assert_array_equal(one, expected, f"a damaged {path}")
    return found is None


def read_forged(sample: Sample, rng: np.random.Generator) -> bool:
    """Forge one file of a sample, with right digests, read the sample, and mend it. Return whether it was refused.

    Raises
    ------
    AssertionError
        If the reader, or the use of what it returned, raised anything but `FileFormatError`. The use may also raise `InputError`:
        numbers of a forged model may be too large for any row, and forged hashes may hide an id.
    """
    path = list(sample.files)[int(rng.integers(len(sample.files)))]
    if path.name == MANIFEST:
        manifest = json.loads(sample.files[path])
        del manifest["digest"]
        forged, what = _with_absurd_part(manifest, rng)
        return (
            _read_changed(sample, {path: manifest_bytes(forged)}, f"{path}: {what}", rng, forged=True) is None
        )
    packed, what = _forge_arrays(path, rng)
    packed.write(path)
    changed: dict[Path, bytes | None] = {path: path.read_bytes()}
    if sample.path.is_dir():  # files of a folder are named by their digests, and the manifest names them
        kind, _, _ = path.name.partition("-")
        named = path.with_name(f"{kind}-{packed.digest[:16]}.safetensors")
        names = sample.files[sample.path / MANIFEST].replace(path.name.encode(), named.name.encode())
        manifest = json.loads(names)
        del manifest["digest"]
        changed = {path: None, named: changed[path], sample.path / MANIFEST: manifest_bytes(manifest)}
    return _read_changed(sample, changed, f"{path}: {what}", rng, forged=True) is None


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the bytes of a file with some of them changed, cut off, added, zeroed or moved."""
    changed = bytearray(content)
    place = int(rng.integers(len(changed)))
    way = int(rng.integers(6))
    if way == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif way == 1:
        del changed[place:]
    elif way == 2:
        changed[place:place] = rng.bytes(int(rng.integers(1, 64)))
    elif way == 3:
        end = min(len(changed), place + int(rng.integers(1, 512)))
        changed[place:end] = bytes(end - place)
    elif way == 4:
        del changed[place : place + int(rng.integers(1, 64))]
    else:
        changed[place] = int(rng.integers(256))
    return bytes(changed)


def _read_changed(
    sample: Sample, changed: dict[Path, bytes | None], what: str, rng: np.random.Generator, *, forged: bool
) -> list[Any] | None:
    """Read a sample with changed files, where None stands for a missing one. Return its content, or None if it is refused."""
    for path, content in changed.items():
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
    try:
        loaded = sample.load(rng)
        try:
            with warnings.catch_warnings(action="ignore" if forged else None):  # of overflows
                return sample.use(loaded)
        except InputError:
            if not forged:
                raise
            return []
    except FileFormatError as error:
        if len(str(error)) > MAX_ERROR:
            raise AssertionError(f"{what}: an error of {len(str(error))} characters") from error
        return None
    except Exception as error:
        raise AssertionError(f"{what}: {error!r}") from error
    finally:
        for path in changed:
            path.unlink(missing_ok=True)
            if path in sample.files:
                path.write_bytes(sample.files[path])


def _forge_arrays(path: Path, rng: np.random.Generator) -> tuple[PackedArrays, str]:
    """Return a file of arrays with one setting or one array changed, and what was changed."""
    kind = read_kind(path)
    arrays, settings = load_arrays(path, kind)
    if settings and rng.random() < 0.5:
        settings, what = _with_absurd_part(settings, rng)
    else:
        name = str(rng.choice(list(arrays)))
        arrays[name], how = _changed_array(arrays[name], rng)
        what = f"array {name!r} {how}"
    return pack_arrays(kind, arrays, settings), what


def _with_absurd_part(value: dict[str, Any], rng: np.random.Generator) -> tuple[dict[str, Any], str]:
    """Return a JSON object with one part replaced by an absurd value or left out, and a description of the change."""
    places = list(_places(value))
    place = places[int(rng.integers(len(places)))]
    forged = copy.deepcopy(value)
    inner: Any = forged
    for key in place[:-1]:
        inner = inner[key]
    choice = int(rng.integers(-1, len(ABSURD)))
    if choice < 0:
        del inner[place[-1]]
        return forged, f"without {place}"
    inner[place[-1]] = copy.deepcopy(ABSURD[choice])
    return forged, f"{place} is {str(ABSURD[choice])[:20]!r}"


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the paths to all parts of a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from _places(part, (*path, key))


def _changed_array(array: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], str]:
    """Return an array of another dtype or shape or with other values, and how it was changed."""
    how = str(rng.choice(["dtype", "shorter", "longer", "turned", "flat", "constant", "bytes"]))
    axis = int(rng.integers(array.ndim)) if array.ndim else 0
    if how == "dtype":
        with np.errstate(all="ignore"):
            return array.astype(str(rng.choice(DTYPES))), how
    if how == "flat" or not array.size or not array.ndim:
        return array.reshape(-1), "flat"
    if how == "shorter":
        return array.take(range(int(rng.integers(array.shape[axis]))), axis=axis), how
    if how == "longer":
        return array.take(
            sorted([*range(array.shape[axis]), int(rng.integers(array.shape[axis]))]), axis=axis
        ), how
    if how == "turned":
        return np.flip(array, axis=axis), how
    if how == "constant":
        return np.full_like(array, array.flat[int(rng.integers(array.size))]), how
    changed = bytearray(array.tobytes())
    for place in rng.integers(len(changed), size=int(rng.integers(1, 9))):
        changed[place] = int(rng.choice([0, 1, 127, 128, 255]))
    return np.frombuffer(bytes(changed), dtype=array.dtype).reshape(array.shape), how
