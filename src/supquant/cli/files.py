"""Files that the command reads and writes: .npy, .npz, .csv, .txt and .jsonl."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
from typing import TYPE_CHECKING, TextIO

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.storage import replace_file
from supquant.storage.npz import read_arrays
from supquant.validation import check_vectors

if TYPE_CHECKING:
    from pathlib import Path


def read_vectors(path: Path) -> Array:
    """Return vectors (n, p) from an .npy file (memory-mapped), from `X` of an .npz file, or from a .csv file of numbers."""
    kind = _kind(path, (".npy", ".npz", ".csv"))
    if kind == ".npz":
        X = read_arrays(path, ("X",))[0]
    elif kind == ".npy":
        X = _read_npy(path, mapped=True)
    else:
        X = _read_numbers(path)
    return check_vectors(X, name=f"X of {path}")


def read_label_file(path: Path) -> Array:
    """Return labels from an .npy file, from `y` of an .npz file, or from a .csv or .txt file with one row a line.

    One column of text or whole numbers holds class labels. Several columns of 0 and 1 are an indicator matrix.
    """
    kind = _kind(path, (".npy", ".npz", ".csv", ".txt"))
    if kind == ".npz":
        return read_arrays(path, ("y",))[0]
    if kind == ".npy":
        return _read_npy(path, mapped=False)
    lines = _read_lines(path)
    values = np.array(lines)
    with contextlib.suppress(ValueError):
        values = values.astype(np.int64)
    return values[:, 0] if values.shape[1] == 1 else values


def read_labelled(path: Path, labels: Path | None = None) -> tuple[Array, Array]:
    """Return vectors and their labels, from one .npz file or from two files."""
    if labels is not None:
        return read_vectors(path), read_label_file(labels)
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path} has no labels: name their file with --labels, or use an .npz file with X and y"
        )
    _kind(path, (".npz",))
    X, y = read_arrays(path, ("X", "y"))
    return check_vectors(X, name=f"X of {path}"), y


def read_ids(path: Path, *, text: bool | None = None) -> Array:
    """Return ids (n,) from an .npy file, from `ids` of an .npz file, or from a .csv or .txt file with one id a line.

    Parameters
    ----------
    path : Path
        The file to read.
    text : bool or None, default=None
        Whether lines of a text file are strings or whole numbers. None takes them as numbers if all of them are written as
        numbers are; 007 is not.
    """
    kind = _kind(path, (".npy", ".npz", ".csv", ".txt"))
    if kind in (".npy", ".npz"):
        ids = read_arrays(path, ("ids",))[0] if kind == ".npz" else _read_npy(path, mapped=False)
        if ids.ndim != 1 or ids.dtype.kind not in "iuU":
            raise InputError(
                f"ids of {path} must be one row of whole numbers or strings, got {ids.dtype} of shape {ids.shape}"
            )
        return ids
    lines = _read_lines(path)
    if len(lines[0]) > 1:
        raise InputError(f"{path} has {len(lines[0])} values a line; expected one id")
    values = [line[0] for line in lines]
    if text is None:
        text = not all(_is_whole(value) for value in values)
    try:
        return np.array(values, dtype=object) if text else np.array(values).astype(np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} holds an id that is no whole number of 64 bits: {error}") from error


ANSWER_FILES = (".npz", ".csv", ".jsonl")
"""Endings of the files that `write_answers` writes."""


def write_answers(path: Path, scores: Array, ids: Array) -> None:
    """Write scores (q, k) and ids (q, k) of the answers to all queries. A failure leaves the old file.

    An .npz file holds `scores` and `ids`. A .csv file has a line for each answer, a .jsonl file a line for each query.
    """
    with replace_file(path) as binary:
        if path.suffix == ".npz":
            np.savez(binary, scores=scores, ids=ids.astype(str) if ids.dtype.kind == "O" else ids)
            return
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="", write_through=True)
        try:
            (_write_csv if path.suffix == ".csv" else _write_jsonl)(file, scores, ids)
        finally:
            file.detach()  # otherwise it would close the file before it is synced


def _write_csv(file: TextIO, scores: Array, ids: Array) -> None:
    lines = csv.writer(file)
    lines.writerow(("query", "rank", "id", "score"))
    for query, answers in enumerate(zip(ids.tolist(), scores.tolist(), strict=True)):
        for rank, (name, score) in enumerate(zip(*answers, strict=True), start=1):
            lines.writerow((query, rank, name, score))


def _write_jsonl(file: TextIO, scores: Array, ids: Array) -> None:
    file.writelines(
        json.dumps({"query": query, "ids": names, "scores": values}) + "\n"
        for query, (names, values) in enumerate(zip(ids.tolist(), scores.tolist(), strict=True))
    )


def check_output(path: Path, kinds: tuple[str, ...] = ()) -> Path:
    """Return the path of an output; raise an `InputError` if it cannot be written or has none of the endings `kinds`.

    It is called before any work is done.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    check_parent(path)
    if kinds and path.suffix not in kinds:
        raise InputError(f"cannot write {path}: expected a name that ends in {' or '.join(kinds)}")
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
    """Raise an `InputError` if the folder of a file or folder to write does not exist."""
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.absolute().parent}")


def _kind(path: Path, kinds: tuple[str, ...]) -> str:
    """Return the ending of a file to read, in lower case; raise an `InputError` if it is none of `kinds`."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    if path.suffix.lower() not in kinds:
        raise InputError(f"cannot read {path}: expected a file that ends in {', '.join(kinds)}")
    return path.suffix.lower()


def _read_npy(path: Path, *, mapped: bool) -> Array:
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path} is not a readable .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} holds several arrays; expected one, as numpy.save writes it")
    return array


def _read_lines(path: Path) -> list[list[str]]:
    """Return the values of every line of a text file; all lines have the same number of values."""
    with path.open(newline="") as file:
        try:
            lines = [[value.strip() for value in line] for line in csv.reader(file) if line]
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path} is not a readable text file: {error}") from error
    if not lines:
        raise InputError(f"{path} is empty")
    widths = {len(line) for line in lines}
    if len(widths) > 1:
        raise InputError(
            f"the lines of {path} have between {min(widths)} and {max(widths)} values; expected the same"
        )
    return lines


def _read_numbers(path: Path) -> Array:
    """Return the numbers (n, p) float32 in a text file, whose first line may hold names."""
    lines = _read_lines(path)
    if not _is_number(lines[0][0]):
        lines = lines[1:]
    if not lines:
        raise InputError(f"{path} has a line of names and no rows")
    try:
        return np.array(lines, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} holds something that is no number: {error}") from error


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
