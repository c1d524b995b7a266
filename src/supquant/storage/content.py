"""The bytes of a file: read into memory, or mapped and watched for changes."""

from __future__ import annotations

import io
import mmap
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant import system
from supquant.errors import FileFormatError
from supquant.storage.layout import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FileContent", "FileState", "naming_file", "read_regular_file", "state_of"]

MIN_MAPPED = 1 << 20
"""A file of fewer bytes is read, not mapped. To read it takes a fraction of a millisecond, and a mapping keeps a descriptor."""

FileState = tuple[int, int, int]
"""Numbers that change when a file is changed or replaced: its inode, its size in bytes, and the time of its last write in ns."""


def state_of(found: os.stat_result) -> FileState:
    """Return the state of a file from what the system says about it."""
    return found.st_ino, found.st_size, found.st_mtime_ns


def read_regular_file(path: str | os.PathLike[str]) -> bytes:
    """Return all bytes of a file.

    Raises
    ------
    FileFormatError
        If `path` is a folder, a pipe or a device. A pipe does not block.
    FileNotFoundError
        If there is no file.
    """
    with naming_file(path), _open_regular(path) as (descriptor, found):
        return bytes(_read_all(descriptor, found.st_size))


@contextmanager
def naming_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path in front of the text of a `FileFormatError`."""
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error.__cause__


class FileContent:
    """The bytes of a regular file.

    Parameters
    ----------
    path : str or path-like
        The file.
    mapped : bool
        Whether the file is mapped if it has `MIN_MAPPED` bytes or more. Otherwise it is read into memory.

    Attributes
    ----------
    data : memoryview
        The bytes, read-only.
    state : FileState
        The state of the file when it was opened.
    mapped : bool
        Whether the file is mapped.

    Raises
    ------
    FileFormatError
        If `path` is a folder, a pipe or a device, or is changed while it is read.
    """

    def __init__(self, path: str | os.PathLike[str], *, mapped: bool) -> None:
        self._path = str(Path(path).absolute())
        self._map: mmap.mmap | None = None
        with _open_regular(path) as (descriptor, found):
            self._device = found.st_dev
            self.state = state_of(found)
            if mapped and found.st_size >= MIN_MAPPED:
                self._map = _map(descriptor, found.st_size)
                self.data = memoryview(self._map)
            else:
                self.data = _read_all(descriptor, found.st_size)

    @property
    def mapped(self) -> bool:
        """Whether the file is mapped."""
        return self._map is not None

    def check_size(self) -> None:
        """Check that a mapped file has the size that it had when it was opened.

        To read a mapping beyond the end of its file would end the process.

        Raises
        ------
        FileFormatError
            If the size differs.
        """
        if self._map is None:
            return
        if (size := self._map.size()) != len(self.data):  # of the mapped file, whatever its name is now
            raise FileFormatError(
                f"{self._path}: was changed in place while it was in use: it has {size} bytes, and had {len(self.data)}"
            )

    def read_ahead(self, start: int, size: int) -> None:
        """Let the system read some bytes of a mapped file, without waiting for them."""
        if self._map is not None:
            system.read_ahead(self._map, start, min(size, len(self.data) - start))

    def last_write(self) -> int | None:
        """Return the time in ns of the last write to the mapped file.

        None says that nobody can reach these bytes by the file's name: they were read into memory, or the file was deleted or
        replaced by another one.
        """
        if self._map is None:
            return None
        try:
            found = os.stat(self._path)  # noqa: PTH116  # every search does this: a Path takes twice as long
        except OSError:
            return None
        return found.st_mtime_ns if (found.st_dev, found.st_ino) == (self._device, self.state[0]) else None


@contextmanager
def _open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[int, os.stat_result]]:
    """Open a regular file to read. A pipe does not block: it is opened without waiting for a writer, and refused."""
    with system.open_descriptor(path, system.READ_FLAGS) as descriptor:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
            raise FileFormatError(f"is {what}, expected a file")
        yield descriptor, found


def _map(descriptor: int, size: int) -> mmap.mmap:
    try:
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    except ValueError as error:  # the file has fewer bytes than a moment ago
        raise FileFormatError("was cut while it was opened") from error


def _read_all(descriptor: int, size: int) -> memoryview:
    """Return the first `size` bytes of a file, read-only, from an address that is a multiple of `ALIGNMENT`."""
    room = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    content = room[start : start + size]
    done = 0
    with io.FileIO(descriptor, closefd=False) as file:
        while done < size:
            if not (count := file.readinto(content[done:].data)):
                raise FileFormatError(f"was cut while it was read: {done} bytes, expected {size}")
            done += count
    content.flags.writeable = False
    return content.data
