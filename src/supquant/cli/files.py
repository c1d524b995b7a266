"""Files that the command writes: codes and answers."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from supquant.arrays import Array, Codes
from supquant.errors import InputError
from supquant.storage import replace_file, replaceable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from supquant.sources import Block


ANSWER_FILES = (".npz", ".csv", ".jsonl", ".parquet")
"""Endings of the files that `write_answers` writes."""


def write_answers(
    path: Path, scores: Array, ids: Array, columns: Mapping[str, list[Any]] = MappingProxyType({})
) -> None:
    """Write scores (q, k) and ids (q, k) of the answers to all queries. A failure leaves the old file.

    An .npz file holds `scores` and `ids`. A .csv file has a line for each answer, a .jsonl file a line for each query. Both also
    have other columns of the answers: q times k values by their names.
    """
    with replace_file(path) as binary:
        if path.suffix == ".npz":
            np.savez(binary, scores=scores, ids=ids.astype(str) if ids.dtype.kind == "O" else ids)
            return
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
        try:
            (_write_csv if path.suffix == ".csv" else _write_jsonl)(file, scores, ids, columns)
        finally:
            file.detach()  # otherwise it would close the file before it is synced


def write_table(path: Path, table: Any) -> None:
    """Write a `pyarrow.Table` to a Parquet file. A failure leaves the old file."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # an extra

    with replace_file(path) as file:
        pq.write_table(table, file)


def _write_csv(file: TextIO, scores: Array, ids: Array, columns: Mapping[str, list[Any]]) -> None:
    lines = csv.writer(file)
    lines.writerow(("query", "rank", "id", "score", *columns))
    k = ids.shape[1]
    for query, answers in enumerate(zip(ids.tolist(), scores.tolist(), strict=True)):
        for rank, (name, score) in enumerate(zip(*answers, strict=True)):
            others = (values[query * k + rank] for values in columns.values())
            lines.writerow((query, rank + 1, name, score, *others))


def _write_jsonl(file: TextIO, scores: Array, ids: Array, columns: Mapping[str, list[Any]]) -> None:
    k = ids.shape[1]
    for query, (names, values) in enumerate(zip(ids.tolist(), scores.tolist(), strict=True)):
        others = {name: column[query * k : (query + 1) * k] for name, column in columns.items()}
        file.write(json.dumps({"query": query, "ids": names, "scores": values, **others}, default=str) + "\n")


CODE_FILES = (".npy", ".npz", ".parquet")
"""Endings of the files that `write_codes` writes."""


def write_codes(path: Path, blocks: Iterable[tuple[Codes, Block]], shape: tuple[int, int]) -> None:
    """Write codes (n, M) of one byte per codebook. A failure leaves the old file.

    An .npy file is the array, an .npz file holds it as `codes`. A .parquet file has the columns `id` and `code`.
    """
    with replace_file(path) as file:
        if path.suffix == ".parquet":
            from supquant.distributed.encoding import write_code_table  # noqa: PLC0415  # pyarrow is an extra

            write_code_table(file, blocks, shape[1])
            return
        codes = np.empty(shape, dtype=np.uint8)
        for part, block in blocks:
            codes[block.start : block.start + len(part)] = part
        if path.suffix == ".npy":
            np.save(file, codes)
        else:
            np.savez(file, codes=codes)


def check_output(path: Path, kinds: tuple[str, ...] = ()) -> Path:
    """Return the path of an output; raise an `InputError` if it cannot be written or has none of the endings `kinds`.

    It is called before any work is done.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    replaceable(path)
    check_parent(path)
    if kinds and path.suffix not in kinds:
        raise InputError(f"cannot write {path}: expected a name that ends in {' or '.join(kinds)}")
    if path.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise InputError(f"pip install 'supquant[arrow]' installs pyarrow, which is needed to write {path}")
    return path


def make_folder(path: Path) -> Path:
    """Make a folder for results and return its path; raise an `InputError` if it is a file or cannot be written to.

    It is called before any work is done.
    """
    if path.exists() and not path.is_dir():
        raise InputError(f"{path} is a file; name a folder")
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to the folder {path}")
    return path


def check_parent(path: Path) -> None:
    """Raise an `InputError` if the folder of a file or folder to write does not exist or cannot be written to."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {parent}")
    written = path if path.is_dir() else parent
    if not os.access(written, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {path}: the folder {written} is read-only")


def check_space(path: Path, n_bytes: int) -> None:
    """Raise an `InputError` if the disk of an output has less than this number of bytes left. It is called before the work."""
    free = shutil.disk_usage(path.absolute().parent).free
    if free < n_bytes:
        raise InputError(
            f"cannot write {path}: it needs {n_bytes / 1e6:,.0f} MB, but only {free / 1e6:,.0f} MB are free"
        )


COLUMN_FILES = (".parquet", ".arrow", ".feather", ".csv", ".tsv", ".jsonl", ".ndjson")
"""Endings of files that may have pictures and texts in other columns."""


def has_columns(items: Path) -> bool:
    """Return whether a file, or a folder of files, may have columns other than vectors, labels and ids."""
    if not items.exists():
        raise InputError(f"no such file: {items}")
    if not items.is_dir():
        return items.suffix.lower() in COLUMN_FILES
    return any(each.suffix.lower() in COLUMN_FILES for each in items.iterdir())
