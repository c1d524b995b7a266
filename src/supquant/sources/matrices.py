"""Sources that are arrays: in memory, in .npy files and their shards, in .npz and HDF5 files, in .fbin and .fvecs files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.inputs.validation import refuse_masked
from supquant.sources.source import Block, VectorSource

__all__ = ["BINARY_FILES", "MatrixSource", "binary_matrix", "npy_matrix"]


class MatrixSource(VectorSource):
    """Vectors in one array, or in several one after the other.

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
        self._starts = np.cumsum([0, *(len(values) for _, values in self._parts)])
        self.name = name or self._parts[0][0]
        self.shape = (int(self._starts[-1]), self._parts[0][1].shape[1])
        self.dtype = np.result_type(*(values.dtype for _, values in self._parts))
        self.notes = tuple(notes)

    @property
    def X(self) -> Array:  # noqa: N802
        """All vectors (n, p): the array itself or its memory map if there is one, otherwise a copy."""
        if len(self._parts) == 1 and isinstance(self._parts[0][1], np.ndarray):
            return self._parts[0][1]
        return super().X

    def _column(self, what: str) -> None:
        del what

    @property
    def parts(self) -> list[tuple[str, int, int]]:
        """The files, with their first row and one past their last row."""
        edges = pairwise(self._starts.tolist())
        return [(name, *edge) for (name, _), edge in zip(self._parts, edges, strict=True)]

    def where(self, row: int) -> str:
        """Return the file and the row within it."""
        part = int(np.searchsorted(self._starts, row, side="right")) - 1
        return f"{self._parts[part][0]}, row {row - self._starts[part]}"

    def _blocks(self, start: int, stop: int, rows: int) -> Iterator[Block]:
        for (_, values), first in zip(self._parts, self._starts[:-1].tolist(), strict=True):
            for low in range(max(start, first), min(stop, first + len(values)), rows):
                high = min(low + rows, stop, first + len(values))
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
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not a readable .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} holds several arrays; expected one, as numpy.save writes it")
    return array


def binary_matrix(path: Path) -> Array:
    """Return the memory map of a file of the vector search benchmarks: .fbin, .u8bin, .i8bin, .fvecs or .bvecs.

    A .*bin file begins with the number of rows and of dimensions, two uint32. Every row of a .*vecs file begins with the number
    of its dimensions, one int32.
    """
    return _READERS[path.suffix.lower()](path)


def _read_bin(dtype: str) -> Callable[[Path], Array]:
    def read(path: Path) -> Array:
        size = path.stat().st_size
        if size < 8:
            raise InputError(f"{path} is too short to be a {path.suffix} file: {size} bytes")
        n, p = np.fromfile(path, dtype="<u4", count=2).tolist()
        expected = 8 + n * p * np.dtype(dtype).itemsize
        if size != expected:
            raise InputError(
                f"{path} has {size} bytes, and its header says {n} rows of {p}: {expected} bytes"
            )
        if not n * p:
            raise InputError(f"{path} has no rows")
        return np.memmap(path, dtype=dtype, mode="r", offset=8, shape=(n, p))

    return read


def _read_vecs(dtype: str) -> Callable[[Path], Array]:
    def read(path: Path) -> Array:
        size = path.stat().st_size
        if size < 4:
            raise InputError(f"{path} is too short to be a {path.suffix} file: {size} bytes")
        p = int(np.fromfile(path, dtype="<i4", count=1)[0])
        row = np.dtype([("dim", "<i4"), ("vector", dtype, (max(p, 0),))])
        if p < 1 or size % row.itemsize:
            raise InputError(f"{path} is no {path.suffix} file: {size} bytes are no rows of {p} dimensions")
        rows = np.memmap(path, dtype=row, mode="r")
        other = np.flatnonzero(rows["dim"] != p)
        if len(other):
            raise InputError(
                f"{path}, row {other[0]} has {rows['dim'][other[0]]} dimensions where row 0 has {p}"
            )
        return rows["vector"]

    return read


_READERS = {
    ".fbin": _read_bin("<f4"),
    ".u8bin": _read_bin("u1"),
    ".i8bin": _read_bin("i1"),
    ".fvecs": _read_vecs("<f4"),
    ".bvecs": _read_vecs("u1"),
}

BINARY_FILES = tuple(_READERS)
"""Endings of the files that `binary_matrix` reads."""
