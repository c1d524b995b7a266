"""Before the flow: any file, folder, table or array as a source of vectors."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError, InputTypeError
from supquant.sources.formats import KNOWN_ENDINGS, ending_of, files_of, format_of
from supquant.sources.matrices import (
    MatrixSource,
    binary_matrix,
    npy_matrix,
    open_named_arrays,
    read_named_array,
    unknown_if_blank,
)
from supquant.sources.source import VectorSource, Wish

__all__ = ["is_file_name", "open_vectors", "read_id_file", "read_labels_by_id", "typed_texts"]

_INDEX_NAMES = ("", "Unnamed: 0", "index")
"""Names of a first column of row numbers, as pandas writes it."""


def open_vectors(
    source: Any,
    vectors: str | Sequence[str] | None = None,
    labels: Any = None,
    ids: Any = None,
    metadata: str | Sequence[str] | bool | None = None,
) -> VectorSource:
    """Open vectors from anywhere: a file, a folder of files, a table, a stream or an array.

    Files are Parquet, Arrow (Feather), CSV, JSON lines, .npy, .npz, HDF5, .fbin, .u8bin, .i8bin, .fvecs and .bvecs. A folder has
    Parquet files, also in folders such as ``brand=x``, or files of one other format. A table is anything with
    ``__arrow_c_stream__`` (pyarrow, pandas, Polars, DuckDB), a `datasets.Dataset`, or a dataset of pyarrow or Lance. An array is
    anything with two dimensions, also a torch tensor. Tables need pyarrow (``pip install 'supquant[arrow]'``), HDF5 needs h5py.

    Parameters
    ----------
    source : str, path, table or array
        Where the vectors are stored.
    vectors : str, sequence of str, or None, default=None
        The column of lists, or the columns of numbers, or a pattern such as ``"x*"`` for them. For an .npz or HDF5 file, the
        name of the array. None takes the only one that fits.
    labels : str, path, array or True, default=None
        The column of labels, a file of labels (.npy, .npz with `y`, .txt, .csv, .parquet), or the labels themselves. A missing or
        blank label is unknown. A column of lists gives several labels per row. True takes the only column that fits.
    ids : str, path, array or bool, default=None
        The column of ids, a file of ids, or the ids themselves: integers or strings. True as for `labels`. None takes a
        column that is called id, if there is one. False reads none.
    metadata : str, sequence of str, or True, default=None
        Other columns to keep. True keeps all.

    Returns
    -------
    VectorSource
        With `shape`, `dtype`, `blocks`, `X`, `labels`, `ids` and `metadata`. What was guessed is in its `notes`.

    Raises
    ------
    InputError
        If the source cannot be read, or if more than one column fits.

    Examples
    --------
    >>> items = open_vectors(np.eye(3, dtype=np.float16), labels=["a", "b", None])
    >>> items
    VectorSource(array: 3 rows of 3 float16)
    >>> [block.labels.tolist() for block in items.blocks(1, rows=1)]
    [['b'], [None]]
    """
    if isinstance(source, VectorSource):
        return source
    wanted: dict[str, Any] = {"vectors": vectors}
    given: dict[str, Any] = {}
    for what, value in (("labels", labels), ("ids", ids), ("metadata", metadata)):
        (given if _is_given(value, what) else wanted)[what] = value
    if isinstance(wanted.get("metadata"), str):
        wanted["metadata"] = [wanted["metadata"]]
    opened = _open(source, Wish(**wanted))
    return opened.with_values(
        **{what: _read_given(value, what, len(opened)) for what, value in given.items()}
    )


def _open(source: Any, wish: Wish) -> VectorSource:
    if isinstance(source, str) and not source.strip():
        raise InputError("the name of a file is empty")  # a path of it would be the current folder
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), wish)
    if _is_table(source):
        return _tables_module("a table").open_stream(source, wish)
    _refuse_columns(wish, "an array")
    return MatrixSource([("array", _as_array(source))])


def _open_path(path: Path, wish: Wish) -> VectorSource:
    files = files_of(path)
    formats = {format_of(file) for file in files}
    if len(formats) > 1:
        raise InputError(f"{path} holds files of several formats: {', '.join(sorted(formats))}")
    kind = formats.pop()
    if kind in ("npy", "binary"):
        _refuse_columns(wish, str(path))
        read = npy_matrix if kind == "npy" else binary_matrix
        return MatrixSource([(str(file), read(file)) for file in files], str(path))
    if kind not in ("npz", "hdf5"):
        return _tables_module(str(path)).open_files(path, files, kind, wish)
    if len(files) > 1:
        raise InputError(f"{path} is a folder of {kind} files: open them one by one")
    return open_named_arrays(files[0], kind, wish)


def _is_given(value: Any, what: str) -> bool:
    """Return whether labels, ids or metadata are given as a separate file or as values, not as the name of a column."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, str):
        return is_file_name(value)
    return what != "metadata" or not isinstance(value, list | tuple)


def is_file_name(text: str) -> bool:
    """Return whether a text names a file, and not a column."""
    return ending_of(Path(text)) in KNOWN_ENDINGS or Path(text).is_file()


def _refuse_columns(wish: Wish, name: str) -> None:
    """Raise an `InputError` if columns are asked for where there are none."""
    for what in ("vectors", "labels", "ids", "metadata"):
        wanted = getattr(wish, what)
        if wanted:
            column = "" if wanted is True else f"column {wanted!r}, and no "
            raise InputError(f"{name} has no {column}{what}: give a file of {what} with {what}= (--{what})")


def _is_table(source: Any) -> bool:
    return any(hasattr(source, each) for each in ("__arrow_c_stream__", "scanner", "with_format", "collect"))


def _as_array(source: Any) -> Any:
    """Return anything with rows and columns as an array; a torch tensor as it is."""
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return source
    try:
        return np.asarray(source)
    except (TypeError, ValueError) as error:
        raise InputTypeError(f"cannot read vectors from a {type(source).__name__}: {error}") from error


def _tables_module(name: str) -> Any:
    """Import the module that reads tables; raise an `InputError` that says how to install what it needs."""
    try:
        return import_module("supquant.sources.table_files")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "pyarrow":
            raise
        raise InputError(
            f"pip install 'supquant[arrow]' installs pyarrow, which is needed to read {name}"
        ) from None


def _read_given(value: Any, what: str, n: int) -> Any:
    """Return the labels, ids or metadata of n rows.

    Parameters
    ----------
    value : str, path, array or table
        A file, or the values.
    what : str
        "labels", "ids" or "metadata".
    n : int
        The expected number of rows. A text file with one more line than that begins with a name.

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
            return _tables_module(str(path)).column_from_file(path, what)
        return _check_values(_read_text(path, what, n), what, str(path))
    return _check_values(_as_values(value), what, what)


def read_id_file(path: Path) -> Array:
    """Return the ids in a file, however many there are."""
    if path.is_file() and format_of(path) == "csv":
        with path.open("rb") as file:
            n = sum(1 for line in file if line.strip())
        return _read_given(path, "ids", n)
    return _read_given(path, "ids", 0)


def read_labels_by_id(
    path: Path, labels: str | None = None, ids: str | None = None
) -> tuple[Array, Array, tuple[str, ...]]:
    """Read the labels of items that a table names by their ids.

    Parameters
    ----------
    path : Path
        A table file, such as a CSV file with the columns `id` and `label`. It may have more columns.
    labels, ids : str or None, default=None
        The columns. None takes the only ones that fit.

    Returns
    -------
    ids : ndarray (n,)
        int64, or objects that are str.
    labels : ndarray (n,)
        As `VectorSource.labels` has them.
    notes : tuple of str
        What was guessed, in sentences.
    """
    found: tuple[Array, Array, tuple[str, ...]] = _tables_module(str(path)).labels_by_id(
        path, Wish(labels=True if labels is None else labels, ids=True if ids is None else ids)
    )
    return found


def _as_values(value: Any) -> Any:
    """Return labels or ids as an array, without converting numbers because of a None among them."""
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
            f"ids of {name} must be a 1d array of integers or strings, got {values.dtype} of shape {values.shape}"
        )
    return values


def _read_table(value: Any) -> Any:
    """Return metadata, a file or a table, as a pyarrow.Table."""
    if not isinstance(value, str | os.PathLike):
        return _tables_module("metadata").table_from(value)
    return _tables_module(str(value)).table_from_file(Path(value))


def _read_text(path: Path, what: str, n: int) -> Array:
    """Return the values of a text file with one row per line; None for a blank line."""
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
            f"the lines of {path} have between {min(widths)} and {max(widths)} values; expected the same number on every line"
        )
    width = widths.pop()
    if header is not None and width == 2 and header[0] in _INDEX_NAMES:
        rows, width = [row[1:] or row for row in rows], 1
    if width == 1:
        return typed_texts([row[0] for row in rows])
    if what == "ids":
        raise InputError(f"{path} has {width} values per line; expected one id")
    return _indicator(path, rows, width)


def typed_texts(cells: list[str]) -> Array:
    """Return texts as integers if all of them are canonical integers (007 is not). A blank text is None."""
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
            f"{path} has several values per line; expected one label, or an indicator of 0 and 1: {error}"
        ) from error
