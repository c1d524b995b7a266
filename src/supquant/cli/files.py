"""What the command reads and where it writes: .npy, .npz and .csv files."""

from __future__ import annotations

import contextlib
import csv
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from supquant.datasets.files import read_arrays
from supquant.errors import InputError
from supquant.validation import check_vectors

if TYPE_CHECKING:
    from pathlib import Path

Array = npt.NDArray[Any]


def read_vectors(path: Path) -> Array:
    """Read vectors (n, d): an .npy file (mapped), `X` of an .npz file, or a .csv file of numbers."""
    kind = _kind(path, (".npy", ".npz", ".csv"))
    if kind == ".npz":
        X = read_arrays(path, ("X",))[0]
    elif kind == ".npy":
        X = _read_npy(path, mapped=True)
    else:
        X = _read_numbers(path)
    return check_vectors(X, name=f"X of {path}")


def read_label_file(path: Path) -> Array:
    """Read labels: an .npy file, `y` of an .npz file, or a .csv or .txt file, a row a line.

    One column of text or whole numbers holds class labels; several columns of 0 and 1 an indicator.
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
    """Read vectors and their labels, from one .npz file or from two files."""
    if labels is not None:
        return read_vectors(path), read_label_file(labels)
    if path.suffix.lower() != ".npz":
        raise InputError(
            f"{path} has no labels: name their file with --labels, or use an .npz file with X and y"
        )
    _kind(path, (".npz",))
    X, y = read_arrays(path, ("X", "y"))
    return check_vectors(X, name=f"X of {path}"), y


def check_output(path: Path) -> Path:
    """Refuse an output that could not be written, before any work is done."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file to write")
    if not path.absolute().parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.absolute().parent}")
    return path


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file that people can read."""
    path.write_text(json.dumps(content, indent=2, default=str) + "\n")


def _kind(path: Path, kinds: tuple[str, ...]) -> str:
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
    lines = _read_lines(path)
    if not _is_number(lines[0][0]):
        lines = lines[1:]  # a line of names
    if not lines:
        raise InputError(f"{path} has a line of names and no rows")
    try:
        return np.array(lines, dtype=np.float32)
    except ValueError as error:
        raise InputError(f"{path} holds something that is no number: {error}") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
