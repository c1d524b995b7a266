"""Parts of an index that never change, and their files, which are named by their content."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.errors import FileFormatError
from supquant.storage import ArrayFile, PackedArrays, open_arrays, pack_arrays

__all__ = ["Stored", "StoredArrays", "array_of_file", "open_stored"]

_DIGEST_DIGITS = 16
"""The number of hexadecimal digits of the digest in a file's name."""


class Stored(ABC):
    """An object that never changes and can be written to a file.

    Parameters
    ----------
    file : ArrayFile, default=None
        The file that the object was read from. None if it was made in memory.
    """

    KIND: ClassVar[str]
    """The kind that the file states. The file's name begins with it."""

    def __init__(self, file: ArrayFile | None = None) -> None:
        self._known_files: dict[Path, _FileState] = {}  # files that hold this object
        if file is not None:
            self._known_files[Path(file.path)] = _file_state(Path(file.path))

    def __copy__(self) -> Self:
        """Return an object with the same attributes."""
        copied = self.__class__.__new__(self.__class__)
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled. Files are not, because they may be others by then."""
        state = {name: None if isinstance(each, ArrayFile) else each for name, each in self.__dict__.items()}
        return state | {"_known_files": {}}

    @abstractmethod
    def _pack(self) -> PackedArrays:
        """Return the content of the file."""

    def write(self, folder: Path) -> str:
        """Write the file into a folder, unless this object wrote or read it there and it is unchanged.

        Parameters
        ----------
        folder : Path
            The folder.

        Returns
        -------
        str
            The file's name.
        """
        for path, state in list(self._known_files.items()):
            if path.parent == folder and path.exists() and _file_state(path) == state:
                return path.name
        packed = self._pack()
        path = folder / _file_name(self.KIND, packed.digest)
        packed.write(path)
        self._known_files[path] = _file_state(path)
        return path.name


_FileState = tuple[int, int, int]


def _file_state(path: Path) -> _FileState:
    """Return numbers that change when another file takes the place of this one: inode, size in bytes, time of the last write."""
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


class StoredArrays(Stored):
    """Arrays that never change. They are made in memory, or mapped from a file and checked at their first use.

    Parameters
    ----------
    file : ArrayFile, default=None
        The file that the arrays are mapped from. None if they were made in memory.
    """

    def __init__(self, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._unchecked_file = file

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: arrays that were checked."""
        self.check_once()
        return super().__getstate__()

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by their names in a file."""

    @abstractmethod
    def _find_flaw(self) -> str | None:
        """Return what is wrong with the values, or None. Wrong values could make a kernel read outside an array."""

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays().values())

    def check_once(self) -> None:
        """Check arrays that came from a file and were not used yet. Every method that reads the arrays calls this first.

        Raises
        ------
        FileFormatError
            If the arrays were altered or hold wrong values.
        """
        file = self._unchecked_file
        if file is None:
            return
        file.verify()  # two threads may both do this, with the same result
        if (flaw := self._find_flaw()) is not None:
            raise FileFormatError(f"{file.path}: {flaw}")
        self._unchecked_file = None

    def _pack(self) -> PackedArrays:
        self.check_once()
        return pack_arrays(self.KIND, self._arrays(), {})


def open_stored(path: Path, kind: str) -> ArrayFile:
    """Map a file, and check that its name fits its content.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        The kind that the file must state.

    Returns
    -------
    ArrayFile

    Raises
    ------
    FileFormatError
        If the name does not fit, or the file's header was altered.
    """
    try:
        file = open_arrays(path, kind)
    except IsADirectoryError as error:
        raise FileFormatError(f"{path}: is a folder, expected a file") from error
    if path.name != _file_name(kind, file.digest):
        raise FileFormatError(f"{path}: holds something else than its name says")
    return file


def _file_name(kind: str, digest: str) -> str:
    return f"{kind}-{digest[:_DIGEST_DIGITS]}.safetensors"


def array_of_file(file: ArrayFile, name: str, dtype: type[np.generic], *shape: int | None) -> NDArray[Any]:
    """Return one array of a file, and check its dtype and shape.

    Parameters
    ----------
    file : ArrayFile
        The file.
    name : str
        The array's name in the file.
    dtype : type
        The dtype that the array must have.
    *shape : int or None
        The sizes that the array must have. None stands for any size.

    Returns
    -------
    ndarray
        A read-only view of the file.

    Raises
    ------
    FileFormatError
        If there is no such array, or it has another dtype or shape.
    """
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
