"""Sources that are arrays: in memory, in .npy files and their shards, in .npz and HDF5 files, in .fbin and .fvecs files."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array, RowNumbers
from supquant.errors import InputError
from supquant.inputs.validation import refuse_masked
from supquant.sources.source import Block, VectorSource, Wish, check_finite, laid_out

__all__ = [
    "BINARY_FILES",
    "MatrixSource",
    "binary_matrix",
    "npy_matrix",
    "open_named_arrays",
    "read_named_array",
    "unknown_if_blank",
]

_BIN_TYPES = {".fbin": "<f4", ".u8bin": "u1", ".i8bin": "i1"}
_VECS_TYPES = {".fvecs": "<f4", ".bvecs": "u1"}
BINARY_FILES = (*_BIN_TYPES, *_VECS_TYPES)
"""Endings of the files that `binary_matrix` reads."""

_USUAL = {"vectors": ("X", "vectors", "embeddings"), "labels": ("y", "labels"), "ids": ("ids", "id")}
"""Names of arrays that are taken for vectors, labels and ids if the file has only one of them."""

_NPZ = ".npz file of plain arrays"

MAX_BYTES, MAX_EXPANSION = 1 << 28, 500
"""An array of more than `MAX_BYTES` bytes in an .npz file may take this many times as many bytes as in the file, at most."""


class MatrixSource(VectorSource):
    """Vectors in one array, or in several arrays one after the other.

    Parameters
    ----------
    parts : sequence of (str, array of shape (n_i, p))
        The arrays, each with the name of its file. They may be memory maps or HDF5 datasets: only slices are read.
    name : str or None, default=None
        The name of the whole; None takes that of the first part.
    notes : sequence of str, default=()
        What was guessed.
    """

    def __init__(
        self, parts: Sequence[tuple[str, Any]], name: str | None = None, notes: Sequence[str] = ()
    ) -> None:
        self._parts = [(part, _check_matrix(values, part)) for part, values in parts]
        first_name, first = self._parts[0]
        for part, values in self._parts:
            if values.shape[1] != first.shape[1]:
                raise InputError(
                    f"{part} has vectors of {values.shape[1]} values, and {first_name} of {first.shape[1]}"
                )
        self.parts = laid_out((part, len(values)) for part, values in self._parts)
        self.name = name or first_name
        self.shape = (self.parts[-1][2], first.shape[1])
        self.dtype = np.result_type(*(values.dtype for _, values in self._parts))
        self.notes = tuple(notes)

    @property
    def X(self) -> Array:  # noqa: N802
        """All vectors (n, p): the array itself or its memory map if there is one, otherwise a copy."""
        if len(self._parts) == 1 and isinstance(self._parts[0][1], np.ndarray):
            return self._parts[0][1]
        return super().X

    def take(self, rows: RowNumbers) -> Array:
        """Return the vectors (r, p) of some rows (r,), by their numbers. No other row is read."""
        X = np.empty((len(rows), self.dim), dtype=self.dtype)
        distinct, which = np.unique(rows, return_inverse=True)  # HDF5 takes ascending rows only
        for (_, values), (_, first, last) in zip(self._parts, self.parts, strict=True):
            low, high = np.searchsorted(distinct, [first, last])
            if low < high:
                own = (low <= which) & (which < high)
                X[own] = np.asarray(values[distinct[low:high] - first])[which[own] - low]
        check_finite(X, 0, lambda row: self.where(int(rows[row])))
        return X

    def _column(self, what: str) -> None:
        del what

    def _blocks(self, start: int, stop: int, rows: int) -> Iterator[Block]:
        for (_, values), (_, first, last) in zip(self._parts, self.parts, strict=True):
            for low in range(max(start, first), min(stop, last), rows):
                high = min(low + rows, stop, last)
                X = np.asarray(values[low - first : high - first])
                yield Block(low, X.astype(self.dtype, copy=False))


def _check_matrix(values: Any, name: str) -> Any:
    """Return an array of shape (n, p), or raise an `InputError`. A single vector is one row."""
    refuse_masked(values, name)
    if type(values).__module__.partition(".")[0] == "torch":
        values = _from_torch(values)
    shape = tuple(values.shape)
    if len(shape) != 2:
        raise InputError(f"{name} has shape {shape}; expected one row for each vector, (n, p)")
    if values.dtype.kind not in "fiu":
        raise InputError(f"{name} must hold real numbers, got dtype {values.dtype}")
    if not shape[0]:
        raise InputError(f"{name} has no rows")
    if not shape[1]:
        raise InputError(f"{name} has vectors of no dimensions")
    return values


def _from_torch(tensor: Any) -> Array:
    """Return the values of a torch tensor; NumPy has no bfloat16, so that becomes float32."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def npy_matrix(path: Path, *, mapped: bool = True) -> Array:
    """Return the array of an .npy file, memory-mapped by default."""
    with _naming(path, ".npy file"):
        array = np.load(
            path, mmap_mode="r", allow_pickle=False
        )  # refuses a header that says more than the file holds
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} holds several arrays; expected one, as numpy.save writes it")
    return array if mapped else np.array(array)


def binary_matrix(path: Path) -> Array:
    """Return the memory map of a file of the vector search benchmarks: .fbin, .u8bin, .i8bin, .fvecs or .bvecs.

    A .*bin file begins with the numbers of rows and dimensions, two uint32. Every row of a .*vecs file begins with its number of
    dimensions, one int32.
    """
    ending = path.suffix.lower()
    if ending in _BIN_TYPES:
        return _bin_matrix(path, _BIN_TYPES[ending])
    return _vecs_matrix(path, _VECS_TYPES[ending])


def _bin_matrix(path: Path, dtype: str) -> Array:
    size = path.stat().st_size
    if size < 8:
        raise InputError(f"{path} is too short to be a {path.suffix} file: {size} bytes")
    n, p = np.fromfile(path, dtype="<u4", count=2).tolist()
    expected = 8 + n * p * np.dtype(dtype).itemsize
    if size != expected:
        raise InputError(f"{path} has {size} bytes, but its header says {n} rows of {p}: {expected} bytes")
    if not n * p:
        raise InputError(f"{path} has no rows")
    return np.memmap(path, dtype=dtype, mode="r", offset=8, shape=(n, p))


def _vecs_matrix(path: Path, dtype: str) -> Array:
    size = path.stat().st_size
    if size < 4:
        raise InputError(f"{path} is too short to be a {path.suffix} file: {size} bytes")
    p = int(np.fromfile(path, dtype="<i4", count=1)[0])
    width = 4 + p * np.dtype(dtype).itemsize  # bytes of a row
    if p < 1 or size % width or width > np.iinfo(np.int32).max:  # NumPy knows no wider rows
        raise InputError(
            f"{path} is not a {path.suffix} file: {size} bytes are not a whole number of rows of {p} dimensions"
        )
    rows = np.memmap(path, dtype=[("dim", "<i4"), ("vector", dtype, (p,))], mode="r")
    other = np.flatnonzero(rows["dim"] != p)
    if len(other):
        raise InputError(f"{path}, row {other[0]} has {rows['dim'][other[0]]} dimensions, but row 0 has {p}")
    return rows["vector"]


def open_named_arrays(path: Path, kind: str, wish: Wish) -> VectorSource:
    """Open an .npz or HDF5 file, whose arrays have names. Arrays of an HDF5 file are read in slices."""
    if wish.metadata:
        raise InputError(
            f"{path} has arrays, not columns of metadata: name a Parquet, CSV or JSON lines file"
        )
    if wish.vectors is not None and not isinstance(wish.vectors, str):
        raise InputError(
            f"{path} holds named arrays: name the one with the vectors, got {list(wish.vectors)}"
        )
    arrays = _opened(path, kind)
    notes: list[str] = []
    name = _choose(arrays, wish.vectors or True, "vectors", path, notes)
    source = MatrixSource([(f"{name} of {path}", arrays[name])], str(path), notes)
    given = {}
    for what, wanted in (("labels", wish.labels), ("ids", wish.ids)):
        if wanted or (what == "ids" and wanted is None and "ids" in arrays):
            values = _read(arrays, _choose(arrays, wanted or True, what, path, notes), path)
            given[what] = unknown_if_blank(values) if what == "labels" else values
    source.notes = tuple(notes)
    return source.with_values(**given)


def read_named_array(path: Path, kind: str, what: str) -> Array:
    """Read the labels or ids from an .npz or HDF5 file: the array with a usual name, or the only one."""
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
            f"{path} is an HDF5 file: pip install 'supquant[hdf5]' installs h5py, which reads it"
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
        with _naming(path, _NPZ), path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            self._names = () if isinstance(archive, np.ndarray) else tuple(archive.files)
            archive.close()

    def __iter__(self) -> Any:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> Array:
        with (
            _naming(self._path, _NPZ),
            self._path.open("rb") as file,
            np.load(file, allow_pickle=False) as archive,
        ):
            for member in archive.zip.infolist():
                size, stored = member.file_size, min(member.compress_size, self._path.stat().st_size)
                if member.filename.removesuffix(".npy") == name and size > max(
                    MAX_BYTES, MAX_EXPANSION * stored
                ):
                    raise InputError(
                        f"{self._path}: the array {name!r} of {size:,} bytes takes {stored:,} in the file; expected at least "
                        f"1 in {MAX_EXPANSION}: save it with numpy.save if it is real"
                    )
            return archive[name]


@contextmanager
def _naming(path: Path, kind: str) -> Iterator[None]:
    """Turn errors about the content of a file of a kind into an `InputError` that names it.

    NumPy parses a header as a program, and unpacking has errors of its own, so these may be of any type.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        # EINVAL is a damaged offset; other errors of the system are not about the content.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise InputError(f"{path} is not a readable {kind}: {error}") from error


def _choose(arrays: Mapping[str, Any], wanted: str | bool, what: str, path: Path, notes: list[str]) -> str:
    """Return the name of the array that was asked for, or the usual name."""
    listed = f"it holds {', '.join(arrays) or 'no array'}"
    if isinstance(wanted, str):
        if wanted not in arrays:
            raise InputError(f"{path} has no array {wanted!r}: {listed}")
        return wanted
    found = [name for name in arrays if name in _USUAL[what]]
    if not found and what == "vectors":
        found = [name for name in arrays if len(arrays[name].shape) == 2]
    if len(found) == 1:
        if found[0] not in ("X", "y", "ids"):
            notes.append(f"{path}: the {what} are read from the array {found[0]!r}")
        return found[0]
    problem = f"both {found[0]!r} and {found[1]!r} could be" if found else "no array is known to be"
    raise InputError(f"{path}: {problem} the {what}; name it with {what}= (--{what}): {listed}")


def _read(arrays: Mapping[str, Any], name: str, path: Path) -> Array:
    values = np.asarray(arrays[name])
    if values.dtype.kind == "O":  # strings of an HDF5 file
        return np.array([v.decode() if isinstance(v, bytes) else v for v in values], dtype=object)
    if values.dtype.kind == "S":
        return values.astype(str)
    if not values.ndim:
        raise InputError(f"the array {name!r} of {path} is one value")
    return values
