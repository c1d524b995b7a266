"""The layout of a file that writing and reading share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = "1"
ALIGNMENT = 64
CHUNK_BYTES = 1 << 20
LONGEST_HEADER = 100_000_000  # the limit of the safetensors package
ZERO_DIGEST = "0" * 32
PREFIX = "supquant."
FIELDS = ("kind", "version", "settings", "checksums", "header")

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
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def lay_out_as_stored(holder: object, names: Iterable[str]) -> None:
    """Lay arrays of a frozen dataclass out row by row, as a file holds them; None stays None.

    Products round by the layout of their factors, and what was made must answer to the bit as what was read.

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


def digests_of(pieces: Iterable[memoryview]) -> list[str]:
    """Give the digest of every `CHUNK_BYTES` of the pieces put together."""
    digests = []
    hasher = xxhash.xxh3_64()
    room = CHUNK_BYTES
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
                room = CHUNK_BYTES
    if room < CHUNK_BYTES:
        digests.append(hasher.hexdigest())
    return digests


def head_digest(head_with_zero_digest: bytes) -> str:
    """Give the digest of all before the payload, in which its own place holds zeros."""
    return xxhash.xxh3_128_hexdigest(head_with_zero_digest)
