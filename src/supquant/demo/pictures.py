"""Pictures as PNG, inside a page that needs no other file."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt


def png(image: npt.NDArray[Any]) -> bytes:
    r"""Return the PNG of a grey picture (height, width) or a coloured one (height, width, 3); 0 is black, 1 is white.

    Examples
    --------
    >>> png(np.zeros((8, 8)))[:8]
    b'\x89PNG\r\n\x1a\n'
    """
    pixels = np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    no_filter = np.zeros((height, 1), dtype=np.uint8)  # the first byte of a line names its filter
    lines = np.concatenate([no_filter, pixels.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )


def data_uri(image: npt.NDArray[Any]) -> str:
    """Return a data URI that holds a picture as PNG.

    Examples
    --------
    >>> data_uri(np.zeros((8, 8)))[:22]
    'data:image/png;base64,'
    """
    return f"data:image/png;base64,{base64.b64encode(png(image)).decode()}"
