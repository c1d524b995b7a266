"""A file to arrays: the header is checked, the arrays are mapped, and on request compared with their checksums."""

from __future__ import annotations

import json
import math
import mmap
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import FileFormatError
from supquant.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["ArrayFile", "load_arrays", "open_arrays", "read_kind"]


def load_arrays(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a file of packed arrays, and check all of it.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : str
        What the file must hold, such as ``"model"``.

    Returns
    -------
    arrays : dict of str to ndarray
        Read-only views of the mapped file.
    settings : dict
        The settings.

    Raises
    ------
    FileFormatError
        If the file is truncated, altered, or not of this kind.
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
    file = open_arrays(path, kind)
    file.verify()
    return file.arrays, file.settings


def open_arrays(path: str | os.PathLike[str], kind: str) -> ArrayFile:
    """Map a file of packed arrays, and check its header. `ArrayFile.verify` checks the arrays.

    The time does not depend on the size of the arrays. Parameters and errors are those of `load_arrays`.

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
    return ArrayFile(path, kind)


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
    with _naming_file(path):
        return _read_head(_map_file(Path(path)))[2]["kind"]


class ArrayFile:
    """A mapped file, made by `open_arrays`.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Read-only views of the mapped file. Call `verify` before reading them.
    settings : dict
        The settings.
    digest : str
        The digest of the content, as in `PackedArrays`.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path = path
        self._verified = False
        with _naming_file(path):
            self._file = _map_file(Path(path))
            self._start, self._checksums, self.digest, self.arrays, self.settings = _parse(self._file, kind)

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        return len(self._file) - self._start

    def verify(self) -> None:
        """Compare the arrays with their checksums. The first call reads all of the file, later ones do nothing.

        Any number of threads may call it. Threads that call it at the same time all do the work: a lock could stay closed in a
        forked child.

        Raises
        ------
        FileFormatError
            If a checksum differs. Then every call raises it.
        """
        if not self._verified:
            with _naming_file(self.path):
                _verify_payload(self._file, self._start, self._checksums)
            self._verified = True


@contextmanager
def _naming_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path in front of the text of a `FileFormatError`."""
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error.__cause__


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise FileFormatError(f"not a safetensors file, it has only {size} bytes")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _parse(file: mmap.mmap, kind: str) -> tuple[int, str, str, dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the payload's first byte, its checksums, the header's digest, the arrays and the settings."""
    head, header, metadata = _read_head(file)
    if metadata["kind"] != kind:
        raise FileFormatError(f"holds a {metadata['kind']!r}, expected a {kind!r}")

    payload_size = len(file) - len(head)
    position = 0
    for begin, end, name in sorted(_check_entry(name, entry) for name, entry in header.items()):
        if begin != position:
            raise FileFormatError(f"array {name!r} begins at byte {begin} of the arrays, expected {position}")
        position = end
    if position != payload_size:
        raise FileFormatError(f"truncated or altered: {payload_size} bytes of arrays, expected {position}")
    arrays = {name: _array_view(file, len(head), name, entry) for name, entry in header.items()}
    settings = _parse_object(metadata["settings"], "settings")
    return len(head), metadata["checksums"], metadata["header"], arrays, settings


def _read_head(file: mmap.mmap) -> tuple[bytes, dict[str, Any], dict[str, str]]:
    """Return all bytes before the payload, the descriptions of the arrays, and our own fields."""
    length = int.from_bytes(file[:8], "little")
    if length > min(len(file) - 8, layout.LONGEST_HEADER):
        raise FileFormatError(
            f"truncated or not a safetensors file: a header of {length} bytes in a file of {len(file)}"
        )
    head = file[: 8 + length]
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
            f"format version {metadata[layout.PREFIX + 'version']!r}, this supquant reads version {layout.VERSION!r}"
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
        raise FileFormatError(f"array {name!r} is not described as in safetensors")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in layout.DTYPES:
        raise FileFormatError(
            f"array {name!r} has dtype {dtype!r}, expected one of {', '.join(layout.DTYPES)}"
        )
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise FileFormatError(f"array {name!r} has shape {shape!r} and offsets {offsets!r}")
    begin, end = offsets
    if end - begin != math.prod(shape) * layout.DTYPES[dtype].itemsize:
        raise FileFormatError(f"array {name!r} of shape {shape} and dtype {dtype} does not fill {offsets}")
    return begin, end, name


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _verify_payload(file: mmap.mmap, start: int, checksums: str) -> None:
    try:
        expected = json.loads(checksums)
    except (ValueError, RecursionError) as error:
        raise FileFormatError("its list of checksums is not JSON") from error
    found = layout.digests_of([memoryview(file)[start:]])
    if found == expected:
        return
    if not isinstance(expected, list) or len(found) != len(expected):
        raise FileFormatError(f"its list of checksums does not fit {len(found)} MiB of arrays")
    first = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    raise FileFormatError(f"its arrays were altered: the checksum of MiB {first} differs")


def _array_view(file: mmap.mmap, start: int, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = layout.DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    try:
        flat = np.frombuffer(file, dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        return flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # JSON allows more and larger dimensions than NumPy
        raise FileFormatError(f"array {name!r} has a shape NumPy cannot hold") from error
