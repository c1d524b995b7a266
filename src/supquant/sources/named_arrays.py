"""Sources that are files of named arrays: .npz and HDF5."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.sources.matrices import MatrixSource
from supquant.sources.source import VectorSource, Wish

__all__ = ["array_names", "open_named_arrays", "read_named_array", "unknown_if_blank"]

_USUAL = {"vectors": ("X", "vectors", "embeddings"), "labels": ("y", "labels"), "ids": ("ids", "id")}
"""Names of arrays that are taken for vectors, labels and ids, if the file has only one of them."""


def open_named_arrays(path: Path, kind: str, wish: Wish) -> VectorSource:
    """Open an .npz or HDF5 file, whose arrays have names. Arrays of an HDF5 file are read in slices."""
    if wish.metadata:
        raise InputError(
            f"{path} has arrays and no columns of metadata: name a Parquet, CSV or JSON lines file"
        )
    if wish.vectors is not None and not isinstance(wish.vectors, str):
        raise InputError(
            f"{path} holds named arrays: name the one with the vectors, got {list(wish.vectors)}"
        )
    arrays = _opened(path, kind)
    notes: list[str] = []
    name = _choose(arrays, wish.vectors or True, "vectors", path, notes)
    source = MatrixSource([(f"{name} of {path}", arrays[name])], str(path), notes)
    beside = {}
    for what, wanted in (("labels", wish.labels), ("ids", wish.ids)):
        if wanted or (what == "ids" and wanted is None and "ids" in arrays):
            values = _read(arrays, _choose(arrays, wanted or True, what, path, notes), path)
            beside[what] = unknown_if_blank(values) if what == "labels" else values
    source.notes = tuple(notes)
    return source.with_values(**beside)


def read_named_array(path: Path, kind: str, what: str) -> Array:
    """Read the labels or ids from an .npz or HDF5 file: the array that is called so, or the only one."""
    arrays = _opened(path, kind)
    names = list(arrays)
    return _read(arrays, names[0] if len(names) == 1 else _choose(arrays, True, what, path, []), path)


def unknown_if_blank(labels: Array) -> Array:
    """Return labels of a file; a string of blanks becomes None, and other strings lose the blanks around them.

    Examples
    --------
    >>> unknown_if_blank(np.array(["card", " ", "rate "]))
    array(['card', None, 'rate'], dtype=object)
    """
    if labels.ndim != 1 or labels.dtype.kind not in "UO":
        return labels
    trimmed = [label.strip() or None if isinstance(label, str) else label for label in labels]
    if labels.dtype.kind == "U" and all(trimmed):
        return np.array(trimmed, dtype=labels.dtype)
    values = np.empty(len(labels), dtype=object)
    values[:] = trimmed
    return values


def _opened(path: Path, kind: str) -> Mapping[str, Any]:
    if kind == "npz":
        return _Archive(path)
    try:
        import h5py  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InputError(
            f"{path} is an HDF5 file: pip install 'supquant[hdf5]' brings h5py, which reads it"
        ) from None
    found: dict[str, Any] = {}
    try:
        h5py.File(path, "r").visititems(
            lambda name, item: found.update({name: item}) if isinstance(item, h5py.Dataset) else None
        )
    except OSError as error:
        raise InputError(f"{path} is not a readable HDF5 file: {error}") from error
    return found


class _Archive(Mapping[str, Array]):
    """The arrays of an .npz file. Pickled objects are refused."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with _naming(path):
            archive = np.load(path, allow_pickle=False)
            self._names = () if isinstance(archive, np.ndarray) else tuple(archive.files)
            archive.close()

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Array:
        with _naming(self._path), np.load(self._path, allow_pickle=False) as archive:
            return archive[name]


class _naming:  # noqa: N801  # a context, as those of contextlib
    """A context in which errors of reading an .npz file become an `InputError` that names it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ValueError | EOFError | zipfile.BadZipFile | zlib.error):
            raise InputError(f"{self._path} is not a readable .npz file of plain arrays: {error}") from error


def array_names(arrays: Mapping[str, Any]) -> str:
    """Return the names of arrays for an error."""
    return f"it holds {', '.join(arrays) or 'no array'}"


def _choose(arrays: Mapping[str, Any], wanted: str | bool, what: str, path: Path, notes: list[str]) -> str:
    """Return the name of the array that was asked for, or the one that is usually called so."""
    if isinstance(wanted, str):
        if wanted not in arrays:
            raise InputError(f"{path} has no array {wanted!r}: {array_names(arrays)}")
        return wanted
    found = [name for name in arrays if name in _USUAL[what]]
    if not found and what == "vectors":
        found = [name for name in arrays if len(arrays[name].shape) == 2]
    if len(found) == 1:
        if found[0] not in ("X", "y", "ids"):
            notes.append(f"{path}: the {what} are read from the array {found[0]!r}")
        return found[0]
    problem = f"both {found[0]!r} and {found[1]!r} could be" if found else "no array is known to be"
    raise InputError(f"{path}: {problem} the {what}; name it with {what}= (--{what}): {array_names(arrays)}")


def _read(arrays: Mapping[str, Any], name: str, path: Path) -> Array:
    values = np.asarray(arrays[name])
    if values.dtype.kind == "O":  # strings of an HDF5 file
        return np.array([v.decode() if isinstance(v, bytes) else v for v in values], dtype=object)
    if values.dtype.kind == "S":
        return values.astype(str)
    if not values.ndim:
        raise InputError(f"the array {name!r} of {path} is one value")
    return values
