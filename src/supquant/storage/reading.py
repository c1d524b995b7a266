"""A file to arrays: mapped at the offsets of a checked header, compared with its checksums when asked."""

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
    """Read what `save_arrays` wrote, and check all of it; the arrays are read-only views of the mapped file.

    Parameters
    ----------
    path : str or path-like
        The file.
    kind : str
        What it must hold.

    Returns
    -------
    arrays : dict of str to ndarray
    settings : dict

    Raises
    ------
    FileFormatError
        If the file is truncated, altered, or not of this kind.
    FileNotFoundError
        If there is no file.

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
    """Map what `save_arrays` wrote, and check its header alone; the arrays are checked by `ArrayFile.verify`.

    The time it takes does not depend on the size of the arrays. Parameters and errors are those of `load_arrays`.

    Examples
    --------
    >>> import tempfile
    >>> from supquant.storage import save_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/small", "demo", {"codes": np.eye(2, dtype=np.uint8)}, {})
    ...     file = open_arrays(f"{folder}/small", "demo")
    >>> file.verify()
    >>> file.arrays["codes"].shape, file.nbytes
    ((2, 2), 4)
    """
    return ArrayFile(path, kind)


def read_kind(path: str | os.PathLike[str]) -> str:
    """Say what a file that `save_arrays` wrote holds; its header alone is checked.

    Examples
    --------
    >>> import tempfile
    >>> from supquant.storage import save_arrays
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/small", "demo", {}, {})
    ...     read_kind(f"{folder}/small")
    'demo'
    """
    with _errors_naming(path):
        return _head(_map(Path(path)))[2]["kind"]


class ArrayFile:
    """A mapped file, made by `open_arrays`.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Read-only views of the mapped file. Whoever looks into them calls `verify` before.
    settings : dict
    digest : str
        That of `PackedArrays`.
    """

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path = path
        self._verified = False
        with _errors_naming(path):
            self._file = _map(Path(path))
            self._start, self._checksums, self.digest, self.arrays, self.settings = _parse(self._file, kind)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return len(self._file) - self._start

    def verify(self) -> None:
        """Compare the arrays with their checksums, which reads all of them; once found right, this costs nothing.

        Any number of threads may call it; those that come at the same time do the same work twice, without a lock that a
        forked child might find held.

        Raises
        ------
        FileFormatError
            If they differ, each time it is called.
        """
        if not self._verified:
            with _errors_naming(self.path):
                _verify_payload(self._file, self._start, self._checksums)
            self._verified = True


@contextmanager
def _errors_naming(path: str | os.PathLike[str]) -> Iterator[None]:
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error.__cause__


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise FileFormatError(f"not a safetensors file, it has only {size} bytes")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _parse(file: mmap.mmap, kind: str) -> tuple[int, str, str, dict[str, NDArray[Any]], dict[str, Any]]:
    """Find where the payload starts, its checksums, the digest, the arrays and the settings."""
    head, header, metadata = _head(file)
    if metadata["kind"] != kind:
        raise FileFormatError(f"holds a {metadata['kind']!r}, expected a {kind!r}")

    payload_size = len(file) - len(head)
    position = 0
    for begin, end, name in sorted(_span(name, entry) for name, entry in header.items()):
        if begin != position:
            raise FileFormatError(f"array {name!r} begins at byte {begin} of the arrays, expected {position}")
        position = end
    if position != payload_size:
        raise FileFormatError(f"truncated or altered: {payload_size} bytes of arrays, expected {position}")
    arrays = {name: _view(file, len(head), name, entry) for name, entry in header.items()}
    settings = _json_object(metadata["settings"], "settings")
    return len(head), metadata["checksums"], metadata["header"], arrays, settings


def _head(file: mmap.mmap) -> tuple[bytes, dict[str, Any], dict[str, str]]:
    """Find all before the payload, what it says of the arrays, and our own fields."""
    length = int.from_bytes(file[:8], "little")
    if length > min(len(file) - 8, layout.LONGEST_HEADER):
        raise FileFormatError(
            f"truncated or not a safetensors file: a header of {length} bytes in a file of {len(file)}"
        )
    head = file[: 8 + length]
    header = _json_object(head[8:], "header")
    metadata = _own_metadata(header.pop("__metadata__", None), head)
    return head, header, metadata


def _json_object(text: bytes | str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its {what} is not JSON") from error
    if not isinstance(value, dict):
        raise FileFormatError(f"its {what} is not a JSON object")
    return value


def _own_metadata(metadata: Any, head: bytes) -> dict[str, str]:
    """Our fields, after the digest over the whole head was found right."""
    if not isinstance(metadata, dict) or layout.PREFIX + "version" not in metadata:
        raise FileFormatError("a safetensors file, but none that supquant wrote")
    if metadata[layout.PREFIX + "version"] != layout.VERSION:
        raise FileFormatError(
            f"format version {metadata[layout.PREFIX + 'version']!r}, this supquant reads version {layout.VERSION!r}"
        )
    own = {field: metadata.get(layout.PREFIX + field) for field in layout.FIELDS}
    if not all(isinstance(value, str) for value in own.values()):
        raise FileFormatError("its metadata is incomplete or altered")
    # The digest is looked for by its bytes, so that no other way of writing the same JSON passes.
    field = f'"{layout.PREFIX}header":"'.encode()
    written = field + str(own["header"]).encode("utf-8", "replace")
    zeroed = head.replace(written, field + layout.ZERO_DIGEST.encode())
    if head.count(written) != 1 or layout.head_digest(zeroed) != own["header"]:
        raise FileFormatError("its header was altered: the checksum differs")
    return {field: str(value) for field, value in own.items()}


def _span(name: str, entry: Any) -> tuple[int, int, str]:
    """Tell where an array lies in the payload, after its description was found to make sense."""
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


def _view(file: mmap.mmap, start: int, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = layout.DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    try:
        flat = np.frombuffer(file, dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        return flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # NumPy has fewer dimensions and smaller ones than JSON
        raise FileFormatError(f"array {name!r} has a shape NumPy cannot hold") from error
