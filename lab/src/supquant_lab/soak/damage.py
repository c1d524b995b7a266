"""Soak: damaged files, and forged ones, whose digests are right and whose content is not."""

from __future__ import annotations

import copy
import json
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import FileFormatError, InputError
from supquant.index.manifest import MANIFEST, manifest_bytes
from supquant.storage import PackedArrays, load_arrays, pack_arrays, read_kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from supquant_lab.soak.samples import Sample

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
"""Values of which most are wrong wherever they stand in a file."""

DTYPES = ("uint8", "int16", "uint32", "int64", "float16", "float32", "float64")
"""The dtypes that forged arrays get."""

LONGEST_ERROR = 1000
"""The most characters of the text of an error, whatever the file holds."""


def read_damaged(sample: Sample, rng: np.random.Generator) -> bool:
    """Damage one file of a sample, read the sample, and mend it. Return whether it was refused.

    Raises
    ------
    AssertionError
        If the reader raised something else than `FileFormatError`, or returned something else than the sound content.
    """
    path = list(sample.files)[int(rng.integers(len(sample.files)))]
    if (
        len(sample.files) > 1 and rng.random() < 0.1
    ):  # a folder that lacks a file, or has another one in its place
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
        If the reader raised something else than `FileFormatError`, or the use of what it returned did. The use may also raise
        `InputError`: numbers of a forged model may be too large for any row, and forged hashes may hide an id.
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
    """Return other bytes than a file's: some changed, cut off, added, zeroed or moved."""
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
    sample: Sample,
    changed: dict[Path, bytes | None],
    what: str,
    rng: np.random.Generator,
    *,
    forged: bool,
) -> list[Any] | None:
    """Read a sample with changed files, of which None stands for a missing one. Return its content, or None if it is refused."""
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
        if len(str(error)) > LONGEST_ERROR:
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
    """Return a JSON object with one part absurd or left out, and which part."""
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
