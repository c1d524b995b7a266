"""Parts of an index that never change, and their files, which are named by their content."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import RowNumbers
from supquant.errors import FileFormatError
from supquant.storage import ArrayFile, FileState, PackedArrays, open_arrays, pack_arrays, state_of

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
        self._known_files: dict[Path, FileState] = {}  # files that hold this object
        if file is not None:
            self._known_files[Path(file.path)] = file.state

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
            if path.parent == folder and path.exists() and state_of(path.stat()) == state:
                return path.name
        packed = self._pack()
        path = folder / _file_name(self.KIND, packed.digest)
        packed.write(path)
        self._known_files[path] = state_of(path.stat())
        return path.name


class StoredArrays(Stored):
    """Arrays that never change. They are made in memory, or come from a file and are checked at their first use.

    An array is kept in an attribute with the name of the array in the file, after an underscore.

    Parameters
    ----------
    file : ArrayFile, default=None
        The file that the arrays come from. None if they were made in memory.
    """

    ARRAYS: ClassVar[tuple[str, ...]]
    """The names of the arrays in a file. One that is None is not written."""

    FOLLOWED: ClassVar[tuple[str, ...]]
    """The names of arrays that say where to read in other arrays. They are copied from a mapped file.

    A later change of the file then cannot make a kernel read outside an array.
    """

    def __init__(self, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._file = file  # None once nothing depends on the file any more
        self._checked = file is None

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: arrays that were checked."""
        self.check_once()
        return super().__getstate__()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by their names in a file."""
        found = {name: getattr(self, f"_{name}") for name in self.ARRAYS}
        return {name: array for name, array in found.items() if array is not None}

    @abstractmethod
    def _find_flaw(self) -> str | None:
        """Return what is wrong with the values, or None. Wrong values could make a kernel read outside an array."""

    def _followed(self) -> set[str]:
        """Return the names of the arrays that are copied from a mapped file."""
        return set(self.FOLLOWED)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return sum(array.nbytes for array in self._arrays().values())

    def check_once(self) -> None:
        """Check arrays that came from a file. Every method that reads the arrays calls this first.

        The first call checks all values. Later calls only check that a mapped file was not changed meanwhile.

        Raises
        ------
        FileFormatError
            If the arrays were altered or hold wrong values.
        """
        file = self._file
        if file is None:
            return
        file.verify()  # two threads may both do this and the rest, with the same result
        if self._checked:
            return
        copied = self._followed() if file.mapped else set()
        candidate = copy.copy(self)  # what is checked is what is used: the copies, not the file
        for name, array in self._arrays().items():
            if name in copied:
                setattr(candidate, f"_{name}", array.copy())
        if (flaw := candidate._find_flaw()) is not None:
            raise FileFormatError(f"{file.path}: {flaw}")
        if not file.mapped or not candidate._arrays().keys() - copied:
            candidate._file = None  # everything is in memory: the file may change, and its mapping is closed
        candidate._checked = True
        self.__dict__.update(candidate.__dict__)

    @contextmanager
    def checked_rows(self, **rows: RowNumbers | None) -> Iterator[None]:
        """Check some rows of some arrays, by their names, before and after they are read. Others of a mapped file are not read.

        This compares checksums, and says nothing of the values: who reads them checks them.

        Parameters
        ----------
        **rows : ndarray (r,) int64, or None
            Row numbers for each array. None stands for the whole array.

        Raises
        ------
        FileFormatError
            If these rows were altered, before or meanwhile.
        """
        if (file := self._file) is None or not file.mapped:
            self.check_once()
            yield
            return
        chunks = file.chunks_of(rows)
        file.verify(chunks)
        yield
        file.verify(chunks)

    def check_before_scan(self) -> None:
        """Check arrays as `check_once` does, but later only that a mapped file has its size. Then a scan can read all of it.

        After the scan, `check_unchanged` says whether the values were still those that were checked. So a search asks the system
        once about each file, and no change during the scan goes unnoticed.
        """
        if not self._checked:
            self.check_once()
        elif self._file is not None:
            self._file.check_size()

    def check_unchanged(self) -> None:
        """Check that a mapped file was not changed since its arrays were checked. Arrays that were not used yet are not checked.

        Raises
        ------
        FileFormatError
            If the file was changed.
        """
        if self._checked and self._file is not None:
            self._file.verify()

    def _pack(self) -> PackedArrays:
        self.check_once()
        return pack_arrays(self.KIND, self._arrays(), {})


def open_stored(path: Path, kind: str, *, mapped: bool) -> ArrayFile:
    """Open a file, and check that its name fits its content.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        The kind that the file must state.
    mapped : bool
        Whether a large file is mapped. Otherwise it is read into memory.

    Returns
    -------
    ArrayFile

    Raises
    ------
    FileFormatError
        If the name does not fit, or the file's header was altered.
    """
    file = open_arrays(path, kind, mapped=mapped)
    if path.name != _file_name(kind, file.digest):
        raise FileFormatError(f"{path}: holds something else than its name says")
    return file


def _file_name(kind: str, digest: str) -> str:
    return f"{kind}-{digest[:_DIGEST_DIGITS]}.safetensors"


def array_of_file(
    file: ArrayFile, name: str, dtype: type[np.generic] | tuple[type[np.generic], ...], *shape: int | None
) -> NDArray[Any]:
    """Return one array of a file, and check its dtype and shape.

    Parameters
    ----------
    file : ArrayFile
        The file.
    name : str
        The array's name in the file.
    dtype : type or tuple of types
        The dtype that the array must have, or those that it may have.
    *shape : int or None
        The sizes that the array must have. None stands for any size.

    Returns
    -------
    ndarray
        Read-only.

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
    allowed = [np.dtype(each) for each in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in allowed or not fits:
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise FileFormatError(
            f"{file.path}: array {name!r} is {array.dtype} of shape {array.shape}, "
            f"expected {' or '.join(map(str, allowed))} of shape ({expected})"
        )
    return array
