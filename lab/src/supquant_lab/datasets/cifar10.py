"""CIFAR-10 (Krizhevsky 2009): 60,000 pictures in ten classes, each as its 512 GIST features."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.storage import write_file_atomically
from supquant_lab.datasets.dataset import Dataset, centred_unit_length
from supquant_lab.datasets.files import (
    cache_folder,
    check_published,
    checksum,
    data_folder,
    fetch,
    not_found,
    read_pickle,
)
from supquant_lab.datasets.npz import read_arrays
from supquant_lab.gist import RECIPE, gist_descriptors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from supquant.progress import Progress

HOW_TO_GET_IT = (
    "Ask for a download (`supquant experiment --dataset cifar10 --download`, or `load('cifar10', download=True)`); or "
    "put there the original cifar-10-python.tar.gz, its folder cifar-10-batches-py, "
    "cifar10.npz with arrays X (60000, 32, 32, 3) uint8 and y (60000,), or cifar10_gist.npz with the GIST "
    "features: the training pictures first, then the test pictures."
)
GIST_CHECKSUM = "f00eb66ee5e1e197e53fe080b5f95e3b"
"""The xxh3 of X (60000, 512) float16 and y of cifar10_gist.npz."""

LABELS_CHECKSUM = "405529257f65240c9fd3668fc5ebec13"
"""The xxh3 of y (60000,) uint8 in the original order, from any of the files."""

IMAGE_SHAPE = (32, 32)
URL = "https://www.cs.toronto.edu/~kriz/"
ARCHIVE = "cifar-10-python.tar.gz"
ARCHIVE_HASH = "sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"
FOLDER = "cifar-10-batches-py"
BATCHES = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
"""The files of the archive in the order of rows, and the md5 that torchvision publishes."""


def load(callback: Callable[[Progress], None] | None = None) -> Dataset:
    """Load the GIST features; rows are centred and scaled to unit length.

    They are read from cifar10_gist.npz, or made once from the pictures and kept in the cache folder. The pictures are loaded as
    well if they are there.

    Parameters
    ----------
    callback : callable, optional
        Gets `Progress` events while features are made.
    """
    pictures = _read_pictures()
    gist_file = data_folder() / "cifar10_gist.npz"
    if gist_file.is_file():
        X, y = read_arrays(gist_file, ("X", "y"))
        check_published(gist_file, GIST_CHECKSUM, X, y)
    elif pictures is not None:
        X, y = _cached_gist(pictures[0], callback), pictures[1]
    else:
        raise not_found(f"cifar10_gist.npz, {FOLDER}, {ARCHIVE} or cifar10.npz", HOW_TO_GET_IT)
    images = None if pictures is None else pictures[0]
    return Dataset("cifar10", X, y, centred_unit_length, images=images)


def download() -> None:
    """Fetch the original archive into the data folder, unless the data are there in some form."""
    there = ("cifar10_gist.npz", "cifar10.npz", FOLDER, ARCHIVE)
    if not any((data_folder() / name).exists() for name in there):
        fetch(URL, {ARCHIVE: ARCHIVE_HASH})


def _read_pictures() -> tuple[Array, Array] | None:
    """Return the pictures (60000, 32, 32, 3) and labels (60000,); None if they are not there."""
    folder = data_folder()
    if (folder / "cifar10.npz").is_file():
        path = folder / "cifar10.npz"
        images, labels = _read_npz(path)
    elif (folder / FOLDER).is_dir():
        path = folder / FOLDER
        images, labels = _read_batches(_files_of_folder(path))
    elif (folder / ARCHIVE).is_file():
        path = folder / ARCHIVE
        images, labels = _read_batches(_files_of_archive(path))
    else:
        return None
    check_published(path, LABELS_CHECKSUM, labels)
    return images, labels


def _read_npz(path: Path) -> tuple[Array, Array]:
    images, labels = read_arrays(path, ("X", "y"))
    if images.dtype != np.uint8 or images.shape != (len(labels), *IMAGE_SHAPE, 3):
        raise InputError(
            f"{path}: expected pictures X ({len(labels)}, 32, 32, 3) uint8, got {images.shape} {images.dtype}"
        )
    return images, labels.astype(np.uint8)


def _files_of_folder(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for name in BATCHES:
        if not (folder / name).is_file():
            raise InputError(f"{folder} has no file {name}; extract the archive again")
        yield folder / name, (folder / name).read_bytes()


def _files_of_archive(path: Path) -> Iterator[tuple[Path, bytes]]:
    """Read batches in their order in the archive, because a compressed file can only be read forwards."""
    missing = set(BATCHES)
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                name = member.name.removeprefix(f"{FOLDER}/")
                file = archive.extractfile(member) if name in missing else None
                if file is not None:
                    missing.remove(name)
                    yield path / name, file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path} is damaged or not an archive: {error}; download the file again") from error
    if missing:
        raise InputError(f"{path} has no file {FOLDER}/{min(missing)}; download the file again")


def _read_batches(files: Iterator[tuple[Path, bytes]]) -> tuple[Array, Array]:
    batches = {path.name: _read_batch(path, content) for path, content in files}
    parts = [batches[name] for name in BATCHES]
    return np.concatenate([images for images, _ in parts]), np.concatenate([labels for _, labels in parts])


def _read_batch(path: Path, content: bytes) -> tuple[Array, Array]:
    """Read rows of 3,072 bytes: the reds of a picture, line by line, then its greens, then its blues."""
    came, expected = hashlib.md5(content, usedforsecurity=False).hexdigest(), BATCHES[path.name]
    if came != expected:
        raise InputError(f"{path} is damaged: md5 {came}, expected {expected}; download the file again")
    batch = read_pickle(content, path)
    planes = batch["data"].reshape(-1, 3, *IMAGE_SHAPE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), np.array(batch["labels"], dtype=np.uint8)


def _cached_gist(images: Array, callback: Callable[[Progress], None] | None) -> Array:
    """Return the features (60000, 512) float32; the same pictures and the same program make them only once."""
    path = cache_folder() / f"cifar10-gist-{RECIPE}-{checksum(images)}.npz"
    if path.is_file():
        (X,) = read_arrays(path, ("X",))
        return X
    X = gist_descriptors(images, callback=callback)
    content = io.BytesIO()
    np.savez(content, X=X)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file_atomically(path, content.getbuffer())
    return X
