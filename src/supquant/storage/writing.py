"""Arrays to a file: packed and digested first, then written whole or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.errors import InputError
from supquant.storage import layout
from supquant.storage.replacing import write_file_atomically

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["PackedArrays", "pack_arrays"]


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
