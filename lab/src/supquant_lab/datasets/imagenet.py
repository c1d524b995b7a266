"""ImageNet (ILSVRC 2012) as 4,096 features per picture, from files that the user has made with a network.

The published split: the 1,281,167 training pictures are the database, the 50,000 validation pictures the queries, and
only the first 1,500 answers count.

Features come in one file or several, the shards, as .npy or HDF5. The shards are joined once to one file in the cache folder,
which is mapped: features are never all in memory.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib
import io
import json
import os
import shutil
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS, row_blocks
from supquant.progress import Reporter
from supquant.storage import write_file_atomically
from supquant_lab.datasets.dataset import Dataset, unchanged
from supquant_lab.datasets.files import cache_folder, data_folder, not_found

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from supquant.progress import Progress


HOW_TO_GET_IT = (
    "Put there a folder imagenet with 4,096 features per picture, of the training and of the validation pictures: "
    "train*.npy (n, 4096) with train_labels*.npy (n,), val*.npy with val_labels*.npy, in one file or several "
    "with the same ending (train-00.npy, train_labels-00.npy); or train*.h5 and val*.h5 with data sets "
    "`features` and `labels`."
)
DIMENSIONS = 4096
CLASSES = 1000
TRAINING_ROWS = 1_281_167
VALIDATION_ROWS = 50_000
CUT = 1500


SUMS = "SHA256SUMS"
"""The name of a file of checksums next to the shards, as the command sha256sum writes it; the shards are compared with it."""

RECIPE = 2
"""The version of joined files. It grows when their form changes, so that older ones are made again."""

SEED = 0


def load(callback: Callable[[Progress], None] | None = None) -> Dataset:
    """Load the features as a memory map; several files are first joined in the cache folder.

    Parameters
    ----------
    callback : callable, optional
        Gets `Progress` events while files are joined.
    """
    folder = data_folder() / "imagenet"
    training, validation = (find_shards(folder, part) for part in ("train", "val"))
    if not training or not validation:
        missing = " and ".join(
            part for part, files in (("train*.npy", training), ("val*.npy", validation)) if not files
        )
        raise not_found(f"imagenet with {missing} (or .h5)", HOW_TO_GET_IT)
    X, y = join_shards(
        "imagenet", training, validation, n_features=DIMENSIONS, n_classes=CLASSES, callback=callback
    )
    n_validation = sum(_n_rows(shard) for shard in validation)
    n_training = len(y) - n_validation
    if (n_training, n_validation) != (TRAINING_ROWS, VALIDATION_ROWS):
        warnings.warn(
            f"{folder} holds {n_training:,} training and {n_validation:,} validation rows, published were "
            f"{TRAINING_ROWS:,} and {VALIDATION_ROWS:,}",
            stacklevel=2,
        )
    return Dataset("imagenet", X, y, unchanged, n_queries_last=n_validation, cut=CUT)


def _n_rows(shard: Shard) -> int:
    with shard.open() as (features, _):
        return len(features)


def join_shards(
    name: str,
    first: Sequence[Shard],
    last: Sequence[Shard],
    *,
    n_features: int,
    n_classes: int,
    callback: Callable[[Progress], None] | None = None,
) -> tuple[Array, Array]:
    """Return the rows of shards as a memory map; they are joined in the cache folder once.

    The rows of `first` are in a fixed random order, so that ties favour no class; those of `last` follow in their own order.
    Files of a killed process are never used.

    Parameters
    ----------
    name : str
        The beginning of the name of the joined folder.
    first, last : sequence of Shard
    n_features, n_classes : int
        The expected number of columns, and the largest number of classes. Labels of `last` must occur in `first`.
    callback : callable, optional
        Gets a `Progress` after every block of rows.

    Returns
    -------
    X : memory map of shape (n, n_features)
        float32, so that no copy is needed.
    y : ndarray of shape (n,), int64
    """
    target = cache_folder() / f"{name}-{_key([*first, *last])}"
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(f"{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process joins, others wait; the lock ends with its process
        if not target.is_dir():
            unfinished = target.with_name(f"{target.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            try:
                y = _check_shards(first, last, n_features, n_classes)
                _join(unfinished, first, last, y, callback)
                unfinished.rename(target)
            except BaseException:  # after Ctrl-C, too, no gigabytes may stay
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
    return map_array(target / "X.npy"), np.array(map_array(target / "y.npy"))


def _key(shards: Sequence[Shard]) -> str:
    """Return a key of the files, so that files that have changed are joined again."""
    files = [file for shard in shards for file in (shard.path, shard.label_path) if file.is_file()]
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return xxhash.xxh3_64_hexdigest(json.dumps([RECIPE, SEED, states]).encode())


def _check_shards(first: Sequence[Shard], last: Sequence[Shard], n_features: int, n_classes: int) -> Array:
    """Check everything but the features before hours of copying; return the labels (n,) in the order of the shards."""
    sums = _known_sums(first[0].path.with_name(SUMS))
    parts = []
    for shards in (first, last):
        labels_of_part = []
        for shard in shards:
            _check_sums(shard, sums)
            with shard.open() as (features, labels):
                if features.shape[1] != n_features:
                    raise InputError(
                        f"{shard.path}: expected {n_features} features per row, got {features.shape[1]}"
                    )
                labels_of_part.append(labels.astype(np.int64))
        parts.append(np.concatenate(labels_of_part))
    classes = np.unique(parts[0])
    unknown = np.setdiff1d(parts[1], classes)
    if len(classes) > n_classes or len(unknown):
        raise InputError(
            f"{first[0].path.parent}: expected labels of at most {n_classes} classes, those of {last[0].part} among "
            f"those of {first[0].part}; got {len(classes)} classes, and {len(unknown)} more in {last[0].part}"
        )
    return np.concatenate(parts)


def _join(
    folder: Path,
    first: Sequence[Shard],
    last: Sequence[Shard],
    labels: Array,
    callback: Callable[[Progress], None] | None,
) -> None:
    """Write X.npy and y.npy."""
    sizes = []
    for shard in (*first, *last):
        with shard.open() as (features, _):
            sizes.append(len(features))
            n_features = features.shape[1]
    n_first = sum(sizes[: len(first)])
    places = np.arange(sum(sizes))  # the new row number of each row
    places[:n_first] = np.random.default_rng(SEED).permutation(n_first)

    X = np.lib.format.open_memmap(
        folder / "X.npy",
        mode="w+",
        dtype=np.float32,
        shape=(len(places), n_features),
    )
    _reserve(folder / "X.npy")
    start = 0
    with Reporter(callback).stage("join", total=sum(-(-size // BLOCK_ROWS) for size in sizes)) as stage:
        for shard, size in zip((*first, *last), sizes, strict=True):
            with shard.open() as (features, _):
                for block in row_blocks(size):
                    X[places[start:][slice(*block)]] = _rows(shard, features, block)
                    stage.step()
            start += size
    X.flush()

    y = np.empty_like(labels)
    y[places] = labels
    content = io.BytesIO()
    np.save(content, y)
    write_file_atomically(folder / "y.npy", content.getbuffer())


def _reserve(path: Path) -> None:
    """Reserve the disk space before mapped memory is written: otherwise a full disk kills the process."""
    size = path.stat().st_size
    try:
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError as error:
        raise OSError(error.errno, f"no room for {size / 1e9:.1f} GB: {error.strerror}", str(path)) from error


def _rows(shard: Shard, features: Array, block: tuple[int, int]) -> Array:
    with np.errstate(over="ignore"):  # a value that does not fit becomes infinite, which is an error
        rows: Array = np.asarray(features[slice(*block)]).astype(np.float32, copy=False)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise InputError(
            f"{shard.path}: row {block[0] + int(finite.argmin())} holds a number that is not finite in float32"
        )
    return rows


def _known_sums(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    lines = [line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    if not all(len(line) == 2 and len(line[0]) == 64 for line in lines):
        raise InputError(f"{path}: expected lines of a SHA-256 and a file name, as sha256sum writes them")
    return {name.strip().removeprefix("*"): known for known, name in lines}


def _check_sums(shard: Shard, sums: dict[str, str]) -> None:
    for path in {shard.path, shard.label_path}:
        if path.name in sums and path.is_file():
            with path.open("rb") as file:
                came = hashlib.file_digest(file, "sha256").hexdigest()
            if came != sums[path.name]:
                raise InputError(
                    f"{path} is damaged: SHA-256 {came}, expected {sums[path.name]} by {SUMS}; download it again"
                )


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
                raise InputError(f"{self.path} has no labels next to it: expected {self.label_path.name}")
            yield self._checked(map_array(self.path), np.array(map_array(self.label_path)))
        else:
            h5py = importlib.import_module("h5py")
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
    supquant.errors.InputError: ...npy is damaged, short, or not an .npy file of plain numbers: ...
    """
    try:
        array: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(
            f"{path} is damaged, short, or not an .npy file of plain numbers: {error}"
        ) from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise InputError(f"{path} holds several arrays; expected one, as numpy.save writes it")
    return array


def _open_hdf5(h5py: Any, path: Path) -> Any:
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise InputError(f"{path} is damaged, short, or not an HDF5 file: {error}") from error
