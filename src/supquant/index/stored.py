"""Parts of an index that never change, and the files that hold them, which are named by their content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from supquant.errors import FileFormatError
from supquant.storage import ArrayFile, PackedArrays, open_arrays, pack_arrays

__all__ = ["Stored", "StoredArrays", "mapped_array", "open_named"]

_DIGEST_DIGITS = 16


class Stored(ABC):
    """Something that never changes and can be written to a file."""

    KIND: ClassVar[str]
    """The first word of the file's name, and what the file says it holds."""

    def __init__(self, file: ArrayFile | None = None) -> None:
        self._stamps: dict[Path, _Stamp] = {}  # of the files that this wrote or found
        if file is not None:
            self._stamps[Path(file.path)] = _stamp(Path(file.path))

    @abstractmethod
    def _pack(self) -> PackedArrays:
        """Give the content of the file."""

    def write(self, folder: Path) -> str:
        """Write the file into a folder, unless it is there as this wrote or found it before; return its name."""
        for path, stamp in list(self._stamps.items()):
            if path.parent == folder and path.exists() and _stamp(path) == stamp:
                return path.name
        packed = self._pack()
        path = folder / _file_name(self.KIND, packed.digest)
        packed.write(path)
        self._stamps[path] = _stamp(path)
        return path.name


_Stamp = tuple[int, int, int]


def _stamp(path: Path) -> _Stamp:
    """Tell a file from others that come to stand in its place."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


class StoredArrays(Stored):
    """Arrays that never change: made in memory, or mapped from a file and checked when they are first used."""

    def __init__(self, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._unchecked = file

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Give all arrays by their names in a file."""

    @abstractmethod
    def _flaw(self) -> str | None:
        """Say which values make no sense, and would lead a kernel astray."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays().values())

    def touch(self) -> None:
        """Check what came from a file and was not used yet; every method that looks into the arrays begins with it.

        Raises
        ------
        FileFormatError
            If the arrays were altered or make no sense.
        """
        file = self._unchecked
        if file is None:
            return
        file.verify()  # two threads may both come here: the same work, the same end
        if (flaw := self._flaw()) is not None:
            raise FileFormatError(f"{file.path}: {flaw}")
        self._unchecked = None

    def _pack(self) -> PackedArrays:
        self.touch()
        return pack_arrays(self.KIND, self._arrays(), {})


def open_named(path: Path, kind: str) -> ArrayFile:
    """Map a file, and check that its name is that of its content."""
    try:
        file = open_arrays(path, kind)
    except IsADirectoryError as error:
        raise FileFormatError(f"{path}: is a folder, expected a file") from error
    if path.name != _file_name(kind, file.digest):
        raise FileFormatError(f"{path}: holds something else than its name says")
    return file


def _file_name(kind: str, digest: str) -> str:
    return f"{kind}-{digest[:_DIGEST_DIGITS]}.safetensors"


def mapped_array(file: ArrayFile, name: str, dtype: type[np.generic], *shape: int | None) -> NDArray[Any]:
    """Give one array of a file, which must have a dtype and a shape, in which None is any size."""
    array = file.arrays.get(name)
    if array is None:
        raise FileFormatError(f"{file.path}: lacks the array {name!r}")
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise FileFormatError(
            f"{file.path}: array {name!r} is {array.dtype} of shape {array.shape}, "
            f"expected {np.dtype(dtype)} of shape ({expected})"
        )
    return array
