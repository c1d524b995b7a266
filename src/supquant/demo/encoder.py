"""Pictures of digits to vectors, for the service of the demonstration."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from supquant.arrays import Float32

__all__ = ["encode_digits"]

MAX_PIXELS = 4096 * 4096
"""Maximum number of pixels of a picture."""


def encode_digits(pictures: Sequence[bytes]) -> Float32:
    """Return the vectors (n, 64) float32 of pictures of one digit each, as the index of the demonstration has them.

    Parameters
    ----------
    pictures : sequence of bytes
        Files that Pillow can read. A digit may be dark on a light background or light on a dark one.

    Raises
    ------
    ValueError
        If a file is not a picture, or is too large.
    """
    return np.stack([_vector(each) for each in pictures])


def _vector(picture: bytes) -> Float32:
    from PIL import Image  # noqa: PLC0415  # only pictures need it

    try:
        with Image.open(io.BytesIO(picture)) as opened:
            if opened.width * opened.height > MAX_PIXELS:
                raise ValueError(f"it has more than {MAX_PIXELS:,} pixels")
            grey = opened.convert("L").resize((8, 8), Image.Resampling.BOX)
    except (OSError, SyntaxError, Image.DecompressionBombError):
        raise ValueError("it is not a picture") from None
    pixels: Float32 = np.asarray(grey, dtype=np.float32) / np.float32(255)
    ground = np.median(np.concatenate([pixels[:, 0], pixels[:, -1]]))  # digits do not touch both sides
    vector: Float32 = (1 - pixels if ground > 0.5 else pixels).ravel()
    return vector
