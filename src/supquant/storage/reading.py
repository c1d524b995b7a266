"""A file to arrays: the header is checked, and on request the arrays are compared with their checksums."""

from __future__ import annotations

import json
import math
import os
import reprlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import FileFormatError
from supquant.storage import layout
from supquant.storage.content import FileContent, FileState, naming_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from supquant.arrays import RowNumbers

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


_AHEAD = 256
"""The number of chunks that are read ahead of their comparison."""


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
        with naming_file(path):
            self._content = FileContent(path, mapped=mapped)
            self._start, self._checksums, self.digest, self._begins, self.arrays, self.settings = _parse(
                self._content.data, kind
            )
        self._chunk = layout.chunk_bytes(self.nbytes)
        self._verified = _Verified(None, -(-self.nbytes // self._chunk))

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

    def verify(self, chunks: RowNumbers | None = None) -> None:
        """Compare the arrays with their checksums, or only some chunks of them. What was compared is not read again.

        A later call only asks the system whether a mapped file was written to since, which takes two microseconds. If it was, the
        arrays or chunks are compared again. So a file that was overwritten with the same content does no harm.

        Any number of threads may call it. Threads that call it at the same time all do the work: a lock could stay closed in a
        forked child.

        Parameters
        ----------
        chunks : ndarray (c,) int64, default=None
            The numbers of chunks from `chunks_of`. None stands for all.

        Raises
        ------
        FileFormatError
            If a checksum differs, or a mapped file has another size than before. Then every call raises it.
        """
        self.check_size()
        last_write = self._content.last_write()
        verified = self._verified
        if last_write is not None and last_write != verified.last_write:
            verified = self._verified = _Verified(last_write, len(verified.chunks))
        if verified.whole or (chunks is not None and verified.chunks[chunks].all()):
            return
        missing = np.flatnonzero(~verified.chunks)
        if chunks is not None:
            missing = np.intersect1d(chunks, missing)
        with naming_file(self.path):
            self._compare(missing.tolist())
        verified.chunks[missing] = True
        verified.whole = chunks is None

    def chunks_of(self, rows: Mapping[str, RowNumbers | None]) -> RowNumbers:
        """Return the numbers (c,) of the chunks in which rows lie, some of them more than once.

        Parameters
        ----------
        rows : mapping of str to ndarray (r,) int64, or None
            Row numbers for each name of an array. None stands for the whole array.
        """
        found = [np.empty(0, dtype=np.int64)]
        for name, chosen in rows.items():
            array, start = self.arrays[name], self._begins[name]
            row_bytes = array.nbytes if chosen is None else array.itemsize * math.prod(array.shape[1:])
            if row_bytes == 0:
                continue
            begins = np.array([start]) if chosen is None else start + chosen * row_bytes
            first, last = begins // self._chunk, (begins + row_bytes - 1) // self._chunk
            found += [first, last]
            for between in range(1, row_bytes // self._chunk + 1):
                found.append(np.minimum(first + between, last))
        return np.concatenate(found)

    def _compare(self, chunks: list[int]) -> None:
        expected = self._expected
        for number, chunk in enumerate(chunks):
            if number % _AHEAD == 0:  # places all over the file, which the system then reads at the same time
                for later in chunks[number : number + _AHEAD]:
                    self._content.read_ahead(self._start + later * self._chunk, self._chunk)
            start = self._start + chunk * self._chunk
            if layout.chunk_digest(self._content.data[start : start + self._chunk]) != expected[chunk]:
                raise FileFormatError(
                    f"its arrays were altered: the checksum of {self._chunk >> 10} KiB from byte {start} on differs"
                )

    @cached_property
    def _expected(self) -> list[str]:
        """The checksums of all chunks."""
        try:
            expected = json.loads(self._checksums)
        except (ValueError, RecursionError) as error:
            raise FileFormatError("its list of checksums is not JSON") from error
        if not isinstance(expected, list) or len(expected) != len(self._verified.chunks):
            raise FileFormatError(f"its list of checksums does not fit {self.nbytes} bytes of arrays")
        return expected


class _Verified:
    """Which chunks of a file were compared with their checksums since its last write, at a time in ns."""

    def __init__(self, last_write: int | None, n_chunks: int) -> None:
        self.last_write = last_write
        self.chunks = np.zeros(n_chunks, dtype=bool)
        self.whole = False


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


def _parse(
    file: memoryview, kind: str
) -> tuple[int, str, str, dict[str, int], dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the payload's first byte, its checksums, the header's digest, the first byte of each array in the payload, and more.

    The last two are the arrays and the settings.
    """
    head, header, metadata = _read_head(file)
    if metadata["kind"] != kind:
        raise FileFormatError(f"holds a {shorten(metadata['kind'])}, expected a {kind!r}")

    payload_size = len(file) - len(head)
    position = 0
    begins = {}
    for begin, end, name in sorted(_check_entry(name, entry) for name, entry in header.items()):
        if begin != position:
            raise FileFormatError(
                f"array {shorten(name)} begins at byte {begin} of the arrays, expected {position}"
            )
        begins[name] = begin
        position = end
    if position != payload_size:
        raise FileFormatError(f"truncated or altered: {payload_size} bytes of arrays, expected {position}")
    arrays = {name: _array_view(file, len(head), name, entry) for name, entry in header.items()}
    settings = _parse_object(metadata["settings"], "settings")
    return len(head), metadata["checksums"], metadata["header"], begins, arrays, settings


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


def _array_view(file: memoryview, start: int, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = layout.DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    try:
        flat = np.frombuffer(file, dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        return flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # JSON allows more and larger dimensions than NumPy
        raise FileFormatError(f"array {shorten(name)} has a shape NumPy cannot hold") from error
