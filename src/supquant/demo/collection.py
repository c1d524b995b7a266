"""An index of handwritten digits with their pictures, to try a service with, and the encoder of its queries."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from supquant.arrays import Float32
from supquant.demo.pictures import png
from supquant.index import CodeIndex
from supquant.model.quantizer import SupervisedQuantizer

__all__ = ["encode_digits", "save_digits"]

N_CODEBOOKS = 4
"""Number of bytes of a code."""

N_TRAINING = 600
"""Number of digits whose labels are known. The others are labelled by the model."""

MAX_PIXELS = 4096 * 4096
"""Maximum number of pixels of a picture."""


def save_digits(folder: Path, *, seed: int = 0) -> None:
    """Train on some of scikit-learn's digits, and save an index of the others.

    Parameters
    ----------
    folder : Path
        The folder of the index. It has the columns ``digit`` and ``picture``, a PNG file.
    seed : int, default=0
        Seed of training.
    """
    pixels, digits = load_digits(return_X_y=True)
    X = (pixels / 16).astype(np.float32)
    model = SupervisedQuantizer(N_CODEBOOKS, random_state=seed).fit(X[:N_TRAINING], digits[:N_TRAINING])
    items = slice(N_TRAINING, None)
    pictures = [png(row.reshape(8, 8)) for row in X[items]]
    CodeIndex(model).add(X[items], metadata={"digit": digits[items], "picture": pictures}).save(folder)


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
