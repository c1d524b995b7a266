"""Shards joined to one file in the cache folder and mapped; features are never all in memory."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS, row_blocks
from supquant.progress import Reporter
from supquant.storage import write_file_atomically
from supquant_lab.datasets.files import cache_folder
from supquant_lab.datasets.shards import map_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from supquant.progress import Progress
    from supquant_lab.datasets.shards import Shard

SUMS = "SHA256SUMS"
"""The name of a file of checksums beside the shards, as the command sha256sum writes it; the shards are compared with it."""

RECIPE = 2
"""The version of joined files. It grows when their form changes, so that older ones are made again."""

SEED = 0


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
                        f"{shard.path}: expected {n_features} features a row, got {features.shape[1]}"
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
                    f"{path} is damaged: SHA-256 {came}, expected {sums[path.name]} by {SUMS}; get it again"
                )
