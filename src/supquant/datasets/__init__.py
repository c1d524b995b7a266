"""Data sets by name, or any .npz file: one loader a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant.datasets import cifar10, coco30k, digits, mnist, npz
from supquant.datasets.dataset import Dataset, Preparation
from supquant.datasets.files import data_folder
from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["NAMES", "Dataset", "Preparation", "data_folder", "load"]

_LOADERS: dict[str, Callable[[], Dataset]] = {
    "digits": digits.load,
    "mnist": mnist.load,
    "cifar10": cifar10.load,
    "coco30k": coco30k.load,
    "coco30k-noperson": coco30k.load_without_person,
}
NAMES = tuple(_LOADERS)
"""The data sets that have a name."""


def load(name_or_path: str | Path) -> Dataset:
    """Load a data set by its name, or any .npz file with arrays `X` and `y` by its path.

    Parameters
    ----------
    name_or_path : str or Path
        One of `NAMES`, or a path that ends in ``.npz``. Files of the named ones are looked for in the
        folder that the environment variable SUPQUANT_DATA names, or else in the user's cache folder.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.X.shape, digits.y.shape
    ((1797, 64), (1797,))
    """
    name = str(name_or_path)
    if name in _LOADERS:
        return _LOADERS[name]()
    if name.endswith(".npz"):
        return npz.load(name)
    raise InputError(
        f"unknown data set {name!r}: expected one of {', '.join(NAMES)}, or the path of an .npz file"
    )


def __dir__() -> list[str]:
    return __all__
