"""Arrays and settings in one safetensors file, written atomically, checked when read, mapped, not copied.

The safetensors package reads it too: eight bytes with the length of a JSON header, the header, and the
payload, which is the arrays one after the other. Ours in the header's metadata:

    supquant.kind       what the file holds, such as "model"
    supquant.version    the version of this format
    supquant.settings   JSON
    supquant.checksums  JSON list, xxh3 (64 bits, hexadecimal) of every MiB of payload
    supquant.header     xxh3 (128 bits, hexadecimal) of all before the payload, with zeros for this digest
"""

from __future__ import annotations

import json
import math
import mmap
import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from supquant.errors import FileFormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = [
    "ArrayFile",
    "PackedArrays",
    "load_arrays",
    "open_arrays",
    "pack_arrays",
    "save_arrays",
    "write_file_atomically",
]

_VERSION = "1"
_ALIGNMENT = 64
_CHUNK_BYTES = 1 << 20
_LONGEST_HEADER = 100_000_000  # the limit of the safetensors package
_ZERO_DIGEST = "0" * 32
_PREFIX = "supquant."
_FIELDS = ("kind", "version", "settings", "checksums", "header")

_DTYPES = {
    "BOOL": np.dtype("?"),
    "U8": np.dtype("u1"),
    "I8": np.dtype("i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def save_arrays(
    path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]
) -> None:
    """Write arrays and settings to one file, whole or not at all.

    Parameters
    ----------
    path : str or path-like
        Where to write. A file that is there already is replaced.
    kind : str
        What the file holds; `load_arrays` asks for the same.
    arrays : mapping of str to ndarray
        Booleans, integers or real numbers, of any shape. Those that are C-contiguous are written without a copy.
    settings : mapping of str to JSON value
        Whatever `json` can write and that is no NaN or infinity.

    Raises
    ------
    InputError
        If an array or a setting cannot be stored; nothing is written then.
    OSError
        If the file cannot be written, as when the disk is full; what was at `path` is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/small", "demo", {"codes": np.eye(2, dtype=np.uint8)}, {"n_codewords": 2})
    ...     arrays, settings = load_arrays(f"{folder}/small", "demo")
    >>> arrays["codes"].shape, settings
    ((2, 2), {'n_codewords': 2})
    """
    pack_arrays(kind, arrays, settings).write(path)


@dataclass(frozen=True, eq=False)
class PackedArrays:
    """A file that is not written yet; made by `pack_arrays`.

    Attributes
    ----------
    digest : str
        32 hexadecimal digits, of the whole content: files of the same digest have the same bytes.
    """

    digest: str
    _pieces: tuple[memoryview, ...] = field(repr=False)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file as `write_file_atomically` does."""
        write_file_atomically(path, *self._pieces)


def pack_arrays(kind: str, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> PackedArrays:
    """Do all of `save_arrays` but the writing, for those who name files by their content.

    The arrays must not change before they are written.

    Examples
    --------
    >>> one, other = (pack_arrays("demo", {"codes": np.full(3, value)}, {}) for value in (1, 2))
    >>> len(one.digest), one.digest == other.digest
    (32, False)
    """
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    try:
        settings_text = json.dumps(dict(settings), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"settings must be JSON values without NaN or infinity: {error}") from error
    # Widest items first: then every array starts at a multiple of its item size, without gaps.
    payload = {name: stored[name] for name in sorted(stored, key=lambda name: -stored[name].itemsize)}
    pieces = [array.reshape(-1).view(np.uint8).data for array in payload.values()]
    head, digest = _head(kind, settings_text, _entries(payload), _checksums(pieces))
    return PackedArrays(digest, (memoryview(head), *pieces))


def write_file_atomically(path: str | os.PathLike[str], *pieces: bytes | memoryview) -> None:
    """Write one file, whole or not at all.

    It is written beside its place under another name, synced to the disk and renamed, and the renaming is synced too: a
    failure (a full disk, a crash) leaves what was there before.

    Parameters
    ----------
    path : str or path-like
        Where to write. A file that is there already is replaced; a link stays, and the file it leads to is replaced.
    *pieces : bytes or memoryview
        The content, one after the other.

    Raises
    ------
    OSError
        If the file cannot be written; what was at `path` is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file_atomically(f"{folder}/note", b"all ", b"or nothing")
    ...     (Path(folder) / "note").read_bytes()
    b'all or nothing'
    """
    target = Path(path).resolve()
    try:
        _replace(target, pieces)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"could not save, nothing was changed: {reason}", str(path)) from error
    _sync_folder(target.parent)


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """`array` C-contiguous and little-endian."""
    if name == "__metadata__":
        raise InputError("an array cannot be called '__metadata__'")
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _DTYPE_NAMES:
        raise InputError(f"array {name!r} of dtype {array.dtype} cannot be stored")
    return np.asarray(array, dtype=dtype, order="C")


def _entries(payload: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    entries: dict[str, dict[str, Any]] = {}
    begin = 0
    for name, array in payload.items():
        end = begin + array.nbytes
        entries[name] = {
            "dtype": _DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    return entries


def _checksums(pieces: Iterable[memoryview]) -> list[str]:
    """Digest of every `_CHUNK_BYTES` of the pieces put together."""
    digests = []
    hasher = xxhash.xxh3_64()
    room = _CHUNK_BYTES
    for piece in pieces:
        position = 0
        while position < len(piece):
            part = piece[position : position + room]
            hasher.update(part)
            position += len(part)
            room -= len(part)
            if room == 0:
                digests.append(hasher.hexdigest())
                hasher.reset()
                room = _CHUNK_BYTES
    if room < _CHUNK_BYTES:
        digests.append(hasher.hexdigest())
    return digests


def _head(
    kind: str, settings_text: str, entries: Mapping[str, Any], checksums: list[str]
) -> tuple[bytes, str]:
    """All bytes before the payload (the header's length, the header, spaces up to the alignment) and their digest."""
    values = (kind, _VERSION, settings_text, json.dumps(checksums), _ZERO_DIGEST)
    metadata = {_PREFIX + field: value for field, value in zip(_FIELDS, values, strict=True)}
    header = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode("ascii")
    header += b" " * (-(8 + len(header)) % _ALIGNMENT)
    head = len(header).to_bytes(8, "little") + header
    field = f'"{_PREFIX}header":"'.encode()
    digest = _head_digest(head)
    return head.replace(field + _ZERO_DIGEST.encode(), field + digest.encode(), 1), digest


def _head_digest(head_with_zero_digest: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(head_with_zero_digest)


def _replace(target: Path, pieces: Iterable[bytes | memoryview]) -> None:
    temporary = target.with_name(f".supquant-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:  # Ctrl-C too must leave no half-written file behind
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_arrays(f"{folder}/small", "demo", {"codes": np.eye(2, dtype=np.uint8)}, {})
    ...     file = open_arrays(f"{folder}/small", "demo")
    >>> file.verify()
    >>> file.arrays["codes"].shape, file.nbytes
    ((2, 2), 4)
    """
    return ArrayFile(path, kind)


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
    length = int.from_bytes(file[:8], "little")
    if length > min(len(file) - 8, _LONGEST_HEADER):
        raise FileFormatError(
            f"truncated or not a safetensors file: a header of {length} bytes in a file of {len(file)}"
        )
    head = file[: 8 + length]
    header = _json_object(head[8:], "header")
    metadata = _own_metadata(header.pop("__metadata__", None), head)
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
    if not isinstance(metadata, dict) or _PREFIX + "version" not in metadata:
        raise FileFormatError("a safetensors file, but none that supquant wrote")
    if metadata[_PREFIX + "version"] != _VERSION:
        raise FileFormatError(
            f"format version {metadata[_PREFIX + 'version']!r}, this supquant reads version {_VERSION!r}"
        )
    own = {field: metadata.get(_PREFIX + field) for field in _FIELDS}
    if not all(isinstance(value, str) for value in own.values()):
        raise FileFormatError("its metadata is incomplete or altered")
    # The digest is looked for by its bytes, so that no other way of writing the same JSON passes.
    field = f'"{_PREFIX}header":"'.encode()
    written = field + str(own["header"]).encode("utf-8", "replace")
    zeroed = head.replace(written, field + _ZERO_DIGEST.encode())
    if head.count(written) != 1 or _head_digest(zeroed) != own["header"]:
        raise FileFormatError("its header was altered: the checksum differs")
    return {field: str(value) for field, value in own.items()}


def _span(name: str, entry: Any) -> tuple[int, int, str]:
    """Tell where an array lies in the payload, after its description was found to make sense."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"array {name!r} is not described as in safetensors")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise FileFormatError(f"array {name!r} has dtype {dtype!r}, expected one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise FileFormatError(f"array {name!r} has shape {shape!r} and offsets {offsets!r}")
    begin, end = offsets
    if end - begin != math.prod(shape) * _DTYPES[dtype].itemsize:
        raise FileFormatError(f"array {name!r} of shape {shape} and dtype {dtype} does not fill {offsets}")
    return begin, end, name


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _verify_payload(file: mmap.mmap, start: int, checksums: str) -> None:
    try:
        expected = json.loads(checksums)
    except (ValueError, RecursionError) as error:
        raise FileFormatError("its list of checksums is not JSON") from error
    found = _checksums([memoryview(file)[start:]])
    if found == expected:
        return
    if not isinstance(expected, list) or len(found) != len(expected):
        raise FileFormatError(f"its list of checksums does not fit {len(found)} MiB of arrays")
    first = next(i for i, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    raise FileFormatError(f"its arrays were altered: the checksum of MiB {first} differs")


def _view(file: mmap.mmap, start: int, name: str, entry: Mapping[str, Any]) -> NDArray[Any]:
    dtype, shape = _DTYPES[entry["dtype"]], entry["shape"]
    begin, end = entry["data_offsets"]
    try:
        flat = np.frombuffer(file, dtype, count=(end - begin) // dtype.itemsize, offset=start + begin)
        return flat.reshape(shape)
    except (ValueError, OverflowError) as error:  # NumPy has fewer dimensions and smaller ones than JSON
        raise FileFormatError(f"array {name!r} has a shape NumPy cannot hold") from error
