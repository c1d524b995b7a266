"""Arrays to a file: packed and digested first, then written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError
from supquant.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

__all__ = ["PackedArrays", "pack_arrays", "write_file_atomically"]


def pack_arrays(kind: str, arrays: Mapping[str, NDArray[Any]], settings: Mapping[str, Any]) -> PackedArrays:
    """Return the content of a file with arrays and settings. `PackedArrays.write` writes it.

    A caller that names files by their content needs the digest first. The arrays must not change before they are written.

    Parameters
    ----------
    kind : str
        What the file holds, such as ``"model"``. `load_arrays` must be given the same kind.
    arrays : mapping of str to ndarray
        Booleans, integers or real numbers, of any shape. C-contiguous arrays are not copied.
    settings : mapping of str to JSON value
        Settings that `json` can write, without NaN and infinity.

    Returns
    -------
    PackedArrays

    Raises
    ------
    InputError
        If an array or a setting cannot be stored.

    Examples
    --------
    >>> import tempfile
    >>> from supquant.storage import load_arrays
    >>> packed = pack_arrays("demo", {"codes": np.eye(2, dtype=np.uint8)}, {"n_codewords": 2})
    >>> len(packed.digest)
    32
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     packed.write(f"{folder}/small")
    ...     arrays, settings = load_arrays(f"{folder}/small", "demo")
    >>> arrays["codes"].shape, settings
    ((2, 2), {'n_codewords': 2})
    """
    stored = {name: _storable(name, array) for name, array in arrays.items()}
    try:
        settings_text = json.dumps(dict(settings), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"settings must be JSON values without NaN or infinity: {error}") from error
    # With the widest items first, every array starts at a multiple of its item size, without gaps.
    payload = {name: stored[name] for name in sorted(stored, key=lambda name: -stored[name].itemsize)}
    pieces = [array.reshape(-1).view(np.uint8).data for array in payload.values()]
    head, digest = _make_head(kind, settings_text, _entries(payload), layout.digests_of(pieces))
    if len(head) - 8 > (longest := layout.longest_header(sum(map(len, pieces)))):
        raise InputError(f"settings are too long: a header of {len(head) - 8} bytes, at most {longest}")
    return PackedArrays(digest, (memoryview(head), *pieces))


@dataclass(frozen=True, eq=False)
class PackedArrays:
    """The content of a file that is not written yet. `pack_arrays` makes it.

    Attributes
    ----------
    digest : str
        32 hexadecimal digits. Files with the same digest have the same bytes.
    """

    digest: str
    _pieces: tuple[memoryview, ...] = field(repr=False)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file as `write_file_atomically` does."""
        write_file_atomically(path, *self._pieces)


def write_file_atomically(path: str | os.PathLike[str], *pieces: bytes | memoryview) -> None:
    """Write one file, whole or not at all.

    The content is written to another file in the same folder, synced to the disk, and renamed. The renaming is synced too. So a
    failure, such as a full disk or a crash, leaves the old file.

    Parameters
    ----------
    path : str or path-like
        The file. An existing file is replaced. If `path` is a link, it stays a link, and its target is replaced.
    *pieces : bytes or memoryview
        The content. The pieces are written one after the other.

    Raises
    ------
    OSError
        If the file cannot be written. An existing file is unchanged.

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
        _write_and_rename(target, pieces)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"could not save, nothing was changed: {reason}", str(path)) from error
    _sync_folder(target.parent)


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is stored: C-contiguous and little-endian."""
    if name == "__metadata__":
        raise InputError("an array cannot be called '__metadata__'")
    dtype = array.dtype.newbyteorder("<")
    if dtype not in layout.DTYPE_NAMES:
        raise InputError(f"array {name!r} of dtype {array.dtype} cannot be stored")
    return np.asarray(array, dtype=dtype, order="C")


def _entries(payload: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, Any]]:
    """Return the description of every array, as in safetensors."""
    entries: dict[str, dict[str, Any]] = {}
    begin = 0
    for name, array in payload.items():
        end = begin + array.nbytes
        entries[name] = {
            "dtype": layout.DTYPE_NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
        begin = end
    return entries


def _make_head(
    kind: str, settings_text: str, entries: Mapping[str, Any], checksums: list[str]
) -> tuple[bytes, str]:
    """Return all bytes before the payload, and their digest.

    The bytes are the header's length, the header, and spaces up to the alignment.
    """
    values = (kind, layout.VERSION, settings_text, json.dumps(checksums), layout.ZERO_DIGEST)
    metadata = {layout.PREFIX + field: value for field, value in zip(layout.FIELDS, values, strict=True)}
    header = json.dumps({"__metadata__": metadata, **entries}, separators=(",", ":")).encode("ascii")
    header += b" " * (-(8 + len(header)) % layout.ALIGNMENT)
    head = len(header).to_bytes(8, "little") + header
    field = f'"{layout.PREFIX}header":"'.encode()
    digest = layout.head_digest(head)
    return head.replace(field + layout.ZERO_DIGEST.encode(), field + digest.encode(), 1), digest


def _write_and_rename(target: Path, pieces: Iterable[bytes | memoryview]) -> None:
    temporary = target.with_name(f".supquant-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:  # also after Ctrl-C, no half-written file stays
        temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Sync a folder to the disk, so that a crash does not undo a renaming."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
