"""One of several files of features and labels, .npy or HDF5, opened without reading the features."""

from __future__ import annotations

import importlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Shard:
    """The file of some rows of a part, such as ``train-00.npy`` of ``train``."""

    part: str
    path: Path

    @property
    def label_path(self) -> Path:
        """The file of the labels; an HDF5 file has them itself.

        Examples
        --------
        >>> Shard("train", Path("train-00.npy")).label_path.name
        'train_labels-00.npy'
        """
        if self.path.suffix != ".npy":
            return self.path
        return self.path.with_name(f"{self.part}_labels{self.path.name.removeprefix(self.part)}")

    @contextmanager
    def open(self) -> Iterator[tuple[Any, Array]]:
        """Yield checked features (rows, d), as a memory map or an HDF5 data set, and labels (rows,).

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/val.npy", np.zeros((3, 2), dtype=np.float32))
        ...     np.save(f"{folder}/val_labels.npy", [0, 1, 0])
        ...     with Shard("val", Path(folder) / "val.npy").open() as (features, labels):
        ...         features.shape, labels
        ((3, 2), array([0, 1, 0]))
        """
        if self.path.suffix == ".npy":
            if not self.label_path.is_file():
                raise InputError(f"{self.path} has no labels beside it: expected {self.label_path.name}")
            yield self._checked(map_array(self.path), np.array(map_array(self.label_path)))
        else:
            h5py = _import_h5py()
            with _open_hdf5(h5py, self.path) as file:
                missing = [
                    name for name in ("features", "labels") if not isinstance(file.get(name), h5py.Dataset)
                ]
                if missing:
                    raise InputError(
                        f"{self.path} has no data set {' and no '.join(missing)}; "
                        f"it holds {', '.join(file) or 'none'}"
                    )
                yield self._checked(file["features"], file["labels"][()])

    def _checked(self, features: Any, labels: Array) -> tuple[Any, Array]:
        if len(features.shape) != 2 or features.dtype.kind != "f":
            raise InputError(
                f"{self.path}: expected features (rows, dimensions) of floats, "
                f"got {features.shape} {features.dtype}"
            )
        if labels.shape != features.shape[:1] or labels.dtype.kind not in "iu":
            raise InputError(
                f"{self.label_path}: expected {features.shape[0]} integer labels, "
                f"got {labels.shape} {labels.dtype}"
            )
        return features, labels


def find_shards(folder: Path, part: str) -> list[Shard]:
    """Return the files ``<part>*.npy``, or ``<part>*.h5`` if there are none, sorted by name.

    Examples
    --------
    >>> find_shards(Path("/no/such/folder"), "train")
    []
    """
    arrays = [path for path in folder.glob(f"{part}*.npy") if not path.name.startswith(f"{part}_labels")]
    return [Shard(part, path) for path in sorted(arrays or folder.glob(f"{part}*.h5"))]


def map_array(path: Path) -> Array:
    """Return the memory map of an .npy file; a short or damaged file or another format is an error.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".npy") as file:
    ...     map_array(Path(file.name))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: ...npy is damaged, short, or no .npy file of plain numbers: ...
    """
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is damaged, short, or no .npy file of plain numbers: {error}") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path} holds several arrays; expected one, as numpy.save writes it")
    return array


def _import_h5py() -> Any:
    try:
        return importlib.import_module("h5py")
    except ModuleNotFoundError as error:
        raise InputError("HDF5 files need the package h5py: pip install 'supquant[lab]'") from error


def _open_hdf5(h5py: Any, path: Path) -> Any:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is damaged, short, or no HDF5 file: {error}") from error
