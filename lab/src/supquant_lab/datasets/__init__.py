"""Data sets by name, or any .npz file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from supquant.errors import InputError
from supquant_lab.datasets import arrays, cifar10, imagenet, mnist, nuswide
from supquant_lab.datasets.dataset import Dataset, Preparation
from supquant_lab.datasets.files import cache_folder, data_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from supquant.progress import Progress

    Callback = Callable[[Progress], None] | None

__all__ = ["NAMES", "Dataset", "Preparation", "cache_folder", "data_folder", "load"]

_LOADERS: dict[str, Callable[[Callback], Dataset]] = {
    "digits": lambda _: arrays.digits(),
    "mnist": lambda _: mnist.load(),
    "cifar10": cifar10.load,
    "coco30k": lambda _: arrays.coco30k(),
    "coco30k-noperson": lambda _: arrays.coco30k_without_person(),
    "banking77": lambda _: arrays.banking77(),
    "tinyimagenet": lambda _: arrays.tinyimagenet(),
    "tinyimagenet-1500": lambda _: arrays.tinyimagenet_first_1500(),
    "nuswide": lambda _: nuswide.load(),
    "imagenet": imagenet.load,
}
_DOWNLOADS: dict[str, Callable[[], None]] = {"mnist": mnist.download, "cifar10": cifar10.download}

NAMES = tuple(_LOADERS)
"""The names of data sets."""


def load(name_or_path: str | Path, *, download: bool = False, callback: Callback = None) -> Dataset:
    """Load a data set by its name, or any .npz file with arrays `X` and `y` by its path.

    Parameters
    ----------
    name_or_path : str or Path
        One of `NAMES`, or a path that ends in ``.npz``. Files of named data sets are in the folder of the environment variable
        SUPQUANT_DATA, or in the user's cache folder by default.
    download : bool
        Whether to fetch missing files of `mnist` and `cifar10` from their public addresses into that folder. Others cannot be
        fetched.
    callback : callable, optional
        Gets `Progress` events while features of pictures are made or files are joined.

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
        if download and name in _DOWNLOADS:
            _DOWNLOADS[name]()
        return _LOADERS[name](callback)
    if name.endswith(".npz"):
        return arrays.any_npz(name)
    raise InputError(
        f"unknown data set {name!r}: expected one of {', '.join(NAMES)}, or the path of an .npz file"
    )


def __dir__() -> list[str]:
    return __all__
