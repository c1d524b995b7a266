"""The layout of a file, which writing and reading share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION = "1"
"""The version of the format that is written and read."""

ALIGNMENT = 64
"""The payload begins at a multiple of this number of bytes."""

_MIN_CHUNK = 1 << 16
"""Each checksum covers at least this number of bytes of the payload, except the last one."""

_MAX_CHUNKS = 1 << 20
"""The greatest number of checksums of a file. They then take at most 23 MB of its header."""

_MAX_HEADER = 4 << 20
"""The greatest length in bytes of the header of a file without arrays."""

_MAX_ANY_HEADER = 100_000_000
"""The greatest length of any header in bytes. It is the limit of the safetensors package."""

ZERO_DIGEST = "0" * 32
"""The text in place of the header's digest while this digest is computed."""

PREFIX = "supquant."
"""The names of our fields in the header's metadata begin with this text."""

FIELDS = ("kind", "version", "settings", "checksums", "header")
"""Our fields in the header's metadata, in the order in which they are written."""

DTYPES = {
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
"""The dtype of each name that safetensors gives to one."""

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
"""The name of each dtype in safetensors."""


def lay_out_as_stored(holder: object, names: Iterable[str]) -> None:
    """Make arrays of a frozen dataclass contiguous, row by row, as a file holds them.

    A matrix product rounds differently for another layout of its factors. With this layout, an object that was just made and its
    loaded copy give the same bits.

    Parameters
    ----------
    holder : object
        The dataclass. It is changed.
    names : iterable of str
        The names of the arrays. An attribute that is None stays None.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> holder = SimpleNamespace(matrix=np.ones((3, 2)).T)
    >>> lay_out_as_stored(holder, ["matrix"])
    >>> holder.matrix.flags.c_contiguous
    True
    """
    for name in names:
        if (array := getattr(holder, name)) is not None:
            object.__setattr__(holder, name, np.ascontiguousarray(array))


def longest_header(payload_size: int) -> int:
    """Return the greatest length of a header in bytes, for a payload of some bytes.

    JSON takes up to 30 times its length in memory. A header holds checksums and the names of classes, which have weights in the
    payload. So a header that is much longer than the payload was not written by us.
    """
    return min(_MAX_HEADER + payload_size, _MAX_ANY_HEADER)


def chunk_bytes(payload_size: int) -> int:
    """Return the number of bytes that each checksum covers, for a payload of some bytes. The last one may cover fewer.

    Whoever needs one row of a mapped file reads such a chunk. So chunks are small: 64 KiB up to a payload of 64 GiB.

    Examples
    --------
    >>> chunk_bytes(0), chunk_bytes(1 << 36), chunk_bytes((1 << 36) + 1)
    (65536, 65536, 131072)
    """
    needed = -(-payload_size // _MAX_CHUNKS)
    return max(_MIN_CHUNK, 1 << (needed - 1).bit_length())


def digests_of(pieces: Sequence[memoryview]) -> list[str]:
    """Return the xxh3 digest (64 bits, hexadecimal) of every chunk of the joined pieces."""
    digests = []
    hasher = xxhash.xxh3_64()
    size = room = chunk_bytes(sum(map(len, pieces)))
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
                room = size
    if room < size:
        digests.append(hasher.hexdigest())
    return digests


def chunk_digest(chunk: memoryview) -> str:
    """Return the digest of one chunk, as in `digests_of`."""
    return xxhash.xxh3_64_hexdigest(chunk)


def head_digest(head_with_zero_digest: bytes) -> str:
    """Return the xxh3 digest (128 bits, hexadecimal) of everything before the payload, with zeros in place of the digest."""
    return xxhash.xxh3_128_hexdigest(head_with_zero_digest)
