"""Before the flow: any file, folder, table or array as a source of vectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supquant.errors import InputError, InputTypeError
from supquant.sources.beside import read_beside
from supquant.sources.formats import KNOWN_ENDINGS, ending_of, files_of, format_of, tables_module
from supquant.sources.matrices import MatrixSource, binary_matrix, npy_matrix
from supquant.sources.named_arrays import open_named_arrays
from supquant.sources.source import VectorSource, Wish

__all__ = ["open_vectors"]


def open_vectors(
    source: Any,
    vectors: str | Sequence[str] | None = None,
    labels: Any = None,
    ids: Any = None,
    metadata: str | Sequence[str] | bool | None = None,
) -> VectorSource:
    """Open vectors wherever they are: a file, a folder of files, a table, a stream or an array.

    Files are Parquet, Arrow (Feather), CSV, JSON lines, .npy, .npz, HDF5, .fbin, .u8bin, .i8bin, .fvecs and .bvecs. A folder has
    Parquet files, also in folders such as ``brand=x``, or files of one other format. A table is anything with
    ``__arrow_c_stream__`` (pyarrow, pandas, Polars, DuckDB), a `datasets.Dataset`, or a dataset of pyarrow or Lance. An array is
    anything with two dimensions, also a torch tensor. Tables need pyarrow (``pip install 'supquant[arrow]'``), HDF5 needs h5py.

    Parameters
    ----------
    source : str, path, table or array
        Where the vectors are.
    vectors : str, sequence of str, or None, default=None
        The column of lists, or the columns of numbers, or a pattern such as ``"x*"`` for them. For an .npz or HDF5 file, the
        name of the array. None guesses if there is no doubt.
    labels : str, path, array or True, default=None
        The column of labels, a file of labels (.npy, .npz with `y`, .txt, .csv, .parquet), or the labels themselves. A missing or
        blank label is unknown. A column of lists gives several labels to a row. True guesses the column if there is no doubt.
    ids : str, path, array or bool, default=None
        The column of ids, a file of ids, or the ids themselves: whole numbers or strings. True as for `labels`. None takes a
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
        If the source cannot be read, or if there is doubt about its columns.

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
        **{what: read_beside(value, what, len(opened)) for what, value in given.items()}
    )


def _open(source: Any, wish: Wish) -> VectorSource:
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), wish)
    if _is_table(source):
        return tables_module("a table").open_stream(source, wish)
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
        return tables_module(str(path)).open_files(path, files, kind, wish)
    if len(files) > 1:
        raise InputError(f"{path} is a folder of {kind} files: open them one by one")
    return open_named_arrays(files[0], kind, wish)


def _is_given(value: Any, what: str) -> bool:
    """Return whether labels, ids or metadata are given by a file of their own or as values, not as the name of a column."""
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, str):
        return ending_of(Path(value)) in KNOWN_ENDINGS or Path(value).is_file()
    return what != "metadata" or not isinstance(value, list | tuple)


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
