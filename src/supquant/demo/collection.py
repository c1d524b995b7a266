"""An index of handwritten digits with their pictures, to try a service with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from supquant.demo.pictures import png
from supquant.index import CodeIndex
from supquant.model.quantizer import SupervisedQuantizer

__all__ = ["save_digits"]

N_CODEBOOKS = 4
"""Number of bytes of a code."""

N_TRAINING = 600
"""Number of digits whose labels are known. The others are labelled by the model."""


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
