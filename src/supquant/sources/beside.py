"""Labels, ids and metadata that are not in the source of the vectors: files of their own, or values."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.sources.formats import format_of, tables_module
from supquant.sources.matrices import npy_matrix
from supquant.sources.named_arrays import read_named_array, unknown_if_blank

__all__ = ["read_beside", "read_id_file", "typed_texts"]

_INDEX_NAMES = ("", "Unnamed: 0", "index")
"""Names of a first column of row numbers, as pandas writes it."""


def read_beside(value: Any, what: str, n: int) -> Any:
    """Return the labels, ids or metadata of n rows.

    Parameters
    ----------
    value : str, path, array or table
        A file, or the values.
    what : str
        "labels", "ids" or "metadata".
    n : int
        The expected number of rows. A text file with one line more begins with a name.

    Returns
    -------
    ndarray of shape (n,) or (n, L), sparse matrix, or pyarrow.Table
        The caller checks that there are n rows.
    """
    if what == "metadata":
        return _read_table(value)
    if isinstance(value, str | os.PathLike):
        path = Path(value)
        if not path.is_file():
            raise InputError(f"no such file: {path}")
        kind = format_of(path)
        if kind in ("npy", "npz", "hdf5"):
            values = npy_matrix(path, mapped=False) if kind == "npy" else read_named_array(path, kind, what)
            if what == "labels":
                values = unknown_if_blank(values)
            return _check_values(values, what, str(path))
        if kind == "binary":
            raise InputError(f"{path} holds vectors; expected a file of {what}")
        if kind != "csv":
            return tables_module(str(path)).column_from_file(path, what)
        return _check_values(_read_text(path, what, n), what, str(path))
    return _check_values(_as_values(value), what, what)


def read_id_file(path: Path) -> Array:
    """Return the ids in a file, however many they are."""
    if path.is_file() and format_of(path) == "csv":
        with path.open("rb") as file:
            n = sum(1 for line in file if line.strip())
        return read_beside(path, "ids", n)
    return read_beside(path, "ids", 0)


def _as_values(value: Any) -> Any:
    """Return labels or ids as an array, without changing a number beside None into something else."""
    if hasattr(value, "tocsr"):  # a sparse matrix of SciPy
        return value.tocsr()
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "to_numpy"):
        return value.to_numpy()
    values = list(value)
    if values and all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in values):
        return np.array(values)
    if values and isinstance(values[0], np.ndarray):
        return np.asarray(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _check_values(values: Any, what: str, name: str) -> Any:
    if what == "ids" and (values.ndim != 1 or values.dtype.kind not in "iuUO"):
        raise InputError(
            f"ids of {name} must be one row of whole numbers or strings, got {values.dtype} of shape {values.shape}"
        )
    return values


def _read_table(value: Any) -> Any:
    """Return metadata, a file or a table, as a pyarrow.Table."""
    if not isinstance(value, str | os.PathLike):
        return tables_module("metadata").table_from(value)
    return tables_module(str(value)).table_from_file(Path(value))


def _read_text(path: Path, what: str, n: int) -> Array:
    """Return the values of a text file with one row a line; None where a line is blank."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] or [""] for row in csv.reader(file)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a readable text file: {error}") from error
    while len(rows) > n and rows[-1] == [""]:
        rows.pop()
    if not any(any(row) for row in rows):
        raise InputError(f"{path} is empty")
    header = rows.pop(0) if len(rows) == n + 1 else None
    if len(rows) != n:
        raise InputError(f"{path} has {len(rows)} lines of {what} for {n} rows")
    widths = {len(row) for row in rows if row != [""]}
    if len(widths) != 1:
        raise InputError(
            f"the lines of {path} have between {min(widths)} and {max(widths)} values; expected the same"
        )
    width = widths.pop()
    if header is not None and width == 2 and header[0] in _INDEX_NAMES:
        rows, width = [row[1:] or row for row in rows], 1
    if width == 1:
        return typed_texts([row[0] for row in rows])
    if what == "ids":
        raise InputError(f"{path} has {width} values a line; expected one id")
    return _indicator(path, rows, width)


def typed_texts(cells: list[str]) -> Array:
    """Return texts as whole numbers if all are written so; 007 is not. A blank one is None."""
    filled = [cell for cell in cells if cell]
    whole = all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", cell) for cell in filled)
    values = np.empty(len(cells), dtype=object)
    values[:] = [(int(cell) if whole else cell) if cell else None for cell in cells]
    return values.astype(np.int64) if whole and len(filled) == len(cells) else values


def _indicator(path: Path, rows: list[list[str]], width: int) -> Array:
    """Return an indicator matrix of 0 and 1; a blank row is unknown."""
    try:
        return np.array(
            [
                [float(cell) if cell else np.nan for cell in (row if row != [""] else [""] * width)]
                for row in rows
            ]
        )
    except ValueError as error:
        raise InputError(
            f"{path} has several values a line; expected one label, or an indicator of 0 and 1: {error}"
        ) from error
