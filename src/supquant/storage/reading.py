"""A file to arrays: the header is checked, and on request the arrays are compared with their checksums."""

from __future__ import annotations

import json
import math
import os
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import FileFormatError
from supquant.storage import layout
from supquant.storage.content import FileContent, FileState, naming_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ArrayFile", "load_arrays", "open_arrays", "read_kind", "shorten"]


def load_arrays(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of packed arrays into memory, and check all of it. What happens to the file later changes nothing.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : str
        What the file must hold, such as ``"model"``.

    Returns
    -------
    arrays : dict of str to ndarray
        Read-only.
    settings : dict
        The settings.

    Raises
    ------
    FileFormatError
        If the file is truncated, altered, or not of this kind, or `path` is a folder, a pipe or a device.
    FileNotFoundError
        If the file does not exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     load_arrays(file.name, "model")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    supquant.errors.FileFormatError: ...: not a safetensors file, it has only 0 bytes
    """
    file = open_arrays(path, kind, mapped=False)
    file.verify()
    return file.arrays, file.settings


def open_arrays(path: str | os.PathLike[str], kind: str, *, mapped: bool = True) -> ArrayFile:
    """Open a file of packed arrays, and check its header. `ArrayFile.verify` checks the arrays.

    Parameters
    ----------
    path, kind
        As in `load_arrays`, with the same errors.
    mapped : bool, default=True
        Whether a file of a MiB or more is mapped. The time then does not depend on the size of the arrays. Otherwise the file is
        read into memory.

    Returns
    -------
    ArrayFile

    Examples
    --------
    >>> import tempfile
    >>> from supquant.storage import pack_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack_arrays("demo", {"codes": np.eye(2, dtype=np.uint8)}, {}).write(f"{folder}/small")
    ...     file = open_arrays(f"{folder}/small", "demo")
    >>> file.verify()
    >>> file.arrays["codes"].shape, file.nbytes
    ((2, 2), 4)
    """
    return ArrayFile(path, kind, mapped=mapped)


def read_kind(path: str | os.PathLike[str]) -> str:
    """Return what a file of packed arrays holds. Only its header is checked.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    str
        The kind that was given to `pack_arrays`, such as ``"model"``.

    Examples
    --------
    >>> import tempfile
    >>> from supquant.storage import pack_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pack_arrays("demo", {}, {}).write(f"{folder}/small")
    ...     read_kind(f"{folder}/small")
    'demo'
    """
    with naming_file(path):
        return _read_head(FileContent(path, mapped=True).data)[2]["kind"]


class ArrayFile:
    """An open file, made by `open_arrays`.

    Attributes
    ----------
    path : str or path-like
        The file.
    arrays : dict of str to ndarray
        Read-only. Call `verify` before reading them.
    settings : dict
        The settings.
    digest : str
        The digest of the content, as in `PackedArrays`.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str, *, mapped: bool = True) -> None:
        self.path = path
        self._verified = False
        self._last_write: int | None = None
        with naming_file(path):
            self._content = FileContent(path, mapped=mapped)
            self._start, self._checksums, self.digest, self.arrays, self.settings = _parse(
                self._content.data, kind
            )

    @property
    def mapped(self) -> bool:
        """Whether the arrays are views of the mapped file. Otherwise they are in memory."""
        return self._content.mapped

    @property
    def state(self) -> FileState:
        """The state of the file when it was opened."""
        return self._content.state

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return len(self._content.data) - self._start

    def check_size(self) -> None:
        """Raise a `FileFormatError` if a mapped file has another size than when it was opened. It takes a microsecond."""
        self._content.check_size()

    def verify(self) -> None:
        """Compare the arrays with their checksums. The first call reads all of the file.

        A later call only asks the system whether a mapped file was written to since, which takes two microseconds. If it was, the
        arrays are compared again. So a file that was overwritten with the same content does no harm.

        Any number of threads may call it. Threads that call it at the same time all do the work: a lock could stay closed in a
        forked child.

        Raises
        ------
        FileFormatError
            If a checksum differs, or a mapped file has another size than before. Then every call raises it.
        """
        self.check_size()
        last_write = self._content.last_write()
        if self._verified and (last_write is None or last_write == self._last_write):
            return
        with naming_file(self.path):
            _verify_payload(self._content.data, self._start, self._checksums)
        self._last_write = last_write
        self._verified = True


def shorten(value: object) -> str:
    """Return a value of a file as text for an error. The text is short, however large the value is.

    Examples
    --------
    >>> shorten("U8"), len(shorten("x" * 10**6)), shorten([0] * 10**6)
    ("'U8'", 80, '[0, 0, 0, 0, 0, 0, ...]')
    """
    return _SHORT.repr(value)


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _parse(file: memoryview, kind: str) -> tuple[int, str, str, dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the payload's first byte, its checksums, the header's digest, the arrays and the settings."""
    head, header, metadata = _read_head(file)
    if metadata["kind"] != kind:
        raise FileFormatError(f"holds a {shorten(metadata['kind'])}, expected a {kind!r}")

    payload_size = len(file) - len(head)
    position = 0
    for begin, end, name in sorted(_check_entry(name, entry) for name, entry in header.items()):
        if begin != position:
            raise FileFormatError(
                f"array {shorten(name)} begins at byte {begin} of the arrays, expected {position}"
            )
        position = end
    if position != payload_size:
        raise FileFormatError(f"truncated or altered: {payload_size} bytes of arrays, expected {position}")
    arrays = {name: _array_view(file, len(head), name, entry) for name, entry in header.items()}
    settings = _parse_object(metadata["settings"], "settings")
    return len(head), metadata["checksums"], metadata["header"], arrays, settings


def _read_head(file: memoryview) -> tuple[bytes, dict[str, Any], dict[str, str]]:
    """Return all bytes before the payload, the descriptions of the arrays, and our own fields."""
    size = len(file)
    if size < 8:
        raise FileFormatError(f"not a safetensors file, it has only {size} bytes")
    length = int.from_bytes(file[:8], "little")
    if 8 + length > size or length > layout.longest_header(size - 8 - length):
        raise FileFormatError(
            f"truncated or not a safetensors file: a header of {length} bytes in a file of {size}"
        )
    head = bytes(file[: 8 + length])
    header = _parse_object(head[8:], "header")
    metadata = _check_metadata(header.pop("__metadata__", None), head)
    return head, header, metadata


def _parse_object(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its {what} is not JSON") from error
    if not isinstance(value, dict):
        raise FileFormatError(f"its {what} is not a JSON object")
    return value


def _check_metadata(metadata: Any, head: bytes) -> dict[str, str]:
    """Check the digest of all bytes before the payload, and return our own fields."""
    if not isinstance(metadata, dict) or layout.PREFIX + "version" not in metadata:
        raise FileFormatError("a safetensors file, but none that supquant wrote")
    if metadata[layout.PREFIX + "version"] != layout.VERSION:
        raise FileFormatError(
            f"format version {shorten(metadata[layout.PREFIX + 'version'])}, this supquant reads version {layout.VERSION!r}"
        )
    own = {field: metadata.get(layout.PREFIX + field) for field in layout.FIELDS}
    if not all(isinstance(value, str) for value in own.values()):
        raise FileFormatError("its metadata is incomplete or altered")
    # The digest is found by its bytes. So the same JSON in another notation is refused.
    field = f'"{layout.PREFIX}header":"'.encode()
    written = field + str(own["header"]).encode("utf-8", "replace")
    zeroed = head.replace(written, field + layout.ZERO_DIGEST.encode())
    if head.count(written) != 1 or layout.head_digest(zeroed) != own["header"]:
        raise FileFormatError("its header was altered: the checksum differs")
    return {field: str(value) for field, value in own.items()}


def _check_entry(name: str, entry: Any) -> tuple[int, int, str]:
    """Check the description of an array. Return its first byte in the payload, one past its last byte, and its name."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"array {shorten(name)} is not described as in safetensors")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in layout.DTYPES:
        raise FileFormatError(
            f"array {shorten(name)} has dtype {shorten(dtype)}, expected one of {', '.join(layout.DTYPES)}"
        )
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise FileFormatError(
            f"array {shorten(name)} has shape {shorten(shape)} and offsets {shorten(offsets)}"
        )
    begin, end = offsets
    if end - begin != math.prod(shape) * layout.DTYPES[dtype].itemsize:
        raise FileFormatError(
            f"array {shorten(name)} of shape {shorten(shape)} and dtype {dtype} does not fill {offsets}"
        )
    return begin, end, name


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _verify_payload(file: memoryview, start: int, checksums: str) -> None:
    try:
        expected = json.loads(checksums)
    except (ValueError, RecursionError) as error:
        raise FileFormatError("its list of checksums is not JSON") from error
    found = layout.digests_of([file[start:]])
    if found == expected:
        return
    if not isinstance(expected, list) or len(found) != len(expected):
        raise FileFormatError(f"its list of checksums does not fit {len(found)} MiB of arrays")
    first = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    raise FileFormatError(f"its arrays were altered: the checksum of MiB {first} differs")


def _array_view(file: memoryview, start: int, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = layout.DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    try:
        flat = np.frombuffer(file, dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        return flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # JSON allows more and larger dimensions than NumPy
        raise FileFormatError(f"array {shorten(name)} has a shape NumPy cannot hold") from error
