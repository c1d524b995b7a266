"""Columns of an index: what rows are called, cost or look like. They are kept as Arrow tables, and chosen by expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers
from supquant.errors import InputError
from supquant.index.conditions import rows_of_condition
from supquant.index.stored import StoredArrays, array_of_file
from supquant.storage import ArrayFile

__all__ = ["Columns", "import_pyarrow", "read_columns", "rows_where"]

_ROW = "__row__"
"""The name of a column of row numbers, which is added while an expression is evaluated."""


class Columns(StoredArrays):
    """Columns of the rows of a part.

    A file holds the bytes of an Arrow stream. Arrow follows offsets in them, so they are copied from a mapped file at first use.

    Parameters
    ----------
    ipc : ndarray (b,) uint8
        The bytes of an Arrow stream with one table.
    n_rows : int
        The number of rows.
    file : ArrayFile, default=None
        The file that `ipc` comes from.
    """

    KIND: ClassVar[str] = "columns"
    ARRAYS = FOLLOWED = ("ipc",)

    def __init__(self, ipc: NDArray[np.uint8], n_rows: int, file: ArrayFile | None = None) -> None:
        super().__init__(file)
        self._ipc = ipc
        self.n_rows = n_rows

    @classmethod
    def of_table(cls, table: Any) -> Self:
        """Return the columns of a `pyarrow.Table`."""
        pa = import_pyarrow()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        return cls(np.frombuffer(sink.getvalue(), dtype=np.uint8), table.num_rows)

    @classmethod
    def from_file(cls, file: ArrayFile, n_rows: int) -> Self:
        """Return the columns that a file holds."""
        return cls(array_of_file(file, "ipc", np.uint8, None), n_rows, file)

    @classmethod
    def join(cls, pieces: Sequence[tuple[Columns | None, int, Flags | None]]) -> Self | None:
        """Return the columns of several parts, of which each has some rows, and a mask of those to keep or None for all.

        A column that a part lacks is null there. None if no part has columns.
        """
        if all(columns is None for columns, _, _ in pieces):
            return None
        pa = import_pyarrow()
        tables = []
        for columns, n_rows, mask in pieces:
            without = pa.table({_ROW: pa.nulls(n_rows)}).select([])  # rows without columns
            table = without if columns is None else columns.table()
            tables.append(table if mask is None else table.filter(pa.array(mask)))
        return cls.of_table(pa.concat_tables(tables, promote_options="default"))

    def table(self) -> Any:
        """Return the columns as a `pyarrow.Table`."""
        self.check_once()
        return self._opened

    def take(self, rows: RowNumbers) -> Any:
        """Return the columns of some rows, a `pyarrow.Table`."""
        return self.table().take(import_pyarrow().array(rows))

    def kept(self, mask: Flags) -> Columns:
        """Return the columns of the rows that a mask (n_rows,) keeps."""
        return Columns.of_table(self.table().filter(import_pyarrow().array(mask)))

    def replaced(self, rows: RowNumbers, table: Any) -> Columns:
        """Return the columns after some rows (r,) get the values of a table of r rows. Columns that it lacks stay as they are."""
        pa = import_pyarrow()
        old = self.table()
        places = np.arange(self.n_rows)
        places[rows] = self.n_rows + np.arange(len(rows))
        names = list(dict.fromkeys([*old.column_names, *table.column_names]))
        columns = {}
        for name in names:
            if name not in table.column_names:
                columns[name] = old[name]
                continue
            after = table[name]
            before = old[name] if name in old.column_names else pa.chunked_array([pa.nulls(self.n_rows)])
            kind = after.type if pa.types.is_null(before.type) else before.type
            both = pa.chunked_array([*before.cast(kind).chunks, *after.cast(kind).chunks], kind)
            columns[name] = both.take(pa.array(places))
        return Columns.of_table(pa.table(columns))

    @cached_property
    def _opened(self) -> Any:
        pa = import_pyarrow()
        return pa.ipc.open_stream(pa.py_buffer(self._ipc)).read_all()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_opened"}

    def _find_flaw(self) -> str | None:
        pa = import_pyarrow()
        try:
            table = pa.ipc.open_stream(pa.py_buffer(self._ipc)).read_all()
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            return f"holds no Arrow table: {error}"
        if table.num_rows != self.n_rows:
            return f"has {table.num_rows} rows, expected {self.n_rows}"
        if len(set(table.column_names)) < len(table.column_names):
            return "has two columns of the same name"
        return None


class HasColumns(Protocol):
    """Rows that know the types of their columns."""

    def column_types(self) -> dict[str, Any]:
        """Return the name and the pyarrow type of every column."""


def read_columns(metadata: Any, n_rows: int, index: HasColumns) -> Columns | None:
    """Read the columns of new rows.

    Parameters
    ----------
    metadata : table, mapping of names to values, or None
        A `pyarrow.Table`, a DataFrame, anything with ``__arrow_c_stream__``, or a dict of columns.
    n_rows : int
        The expected number of rows.
    index : HasColumns
        The rows that there are. A column of the same name becomes of the same type.

    Raises
    ------
    InputError
        If the number of rows differs, or a column cannot have the type that it has in the index.
    """
    if metadata is None:
        return None
    pa = import_pyarrow()
    known = index.column_types()
    try:
        table = pa.table(metadata)
        columns = {
            name: _kept(column, known.get(name))
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
        read = Columns.of_table(pa.table(columns))
    except (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"metadata cannot be kept: {error}") from error
    if table.num_rows != n_rows:
        raise InputError(f"metadata has {table.num_rows} rows for {n_rows} items")
    if len(columns) < table.num_columns:
        raise InputError("metadata has two columns of the same name")
    for name, column in columns.items():
        if not _is_usable(column.type):
            raise InputError(
                f"column {name!r} is of type {column.type}, of which Arrow cannot take rows: cast it to a plain type first"
            )
    return read


def _kept(column: Any, known: Any) -> Any:
    """Return a column with the type that it has in the index, if it had a value there.

    Dictionaries of merged parts would differ, and Arrow cannot take rows of views: such a column becomes a plain one.
    """
    pa = import_pyarrow()
    if known is not None and pa.types.is_null(known):
        known = None
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    kind = known or {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind, kind)
    return column if column.type == kind else column.cast(kind)


def _is_usable(kind: Any, *, inner: bool = False) -> bool:
    """Return whether Arrow and DuckDB can take, join and filter values of a type. A view that is not in another type was cast."""
    types = import_pyarrow().types
    if types.is_run_end_encoded(kind) or (types.is_union(kind) and kind.mode == "dense"):
        return False
    if inner and (types.is_string_view(kind) or types.is_binary_view(kind)):
        return False
    return all(_is_usable(kind.field(each).type, inner=True) for each in range(kind.num_fields))


def rows_where(columns: Columns | None, n_rows: int, known: Mapping[str, Any], where: Any) -> RowNumbers:
    """Return the rows for which a condition is true.

    Parameters
    ----------
    columns : Columns or None
        The columns of the rows.
    n_rows : int
        The number of rows.
    known : dict of str to pyarrow.DataType
        All columns of the index. Those that these rows lack are null.
    where : str or pyarrow.compute.Expression
        A condition in the SQL of DuckDB, such as ``"price < 10 and brand = 'x'"``, or an expression of pyarrow.
    """
    pa = import_pyarrow()
    table = pa.table({_ROW: pa.array(np.arange(n_rows))})
    own = (
        {}
        if columns is None
        else dict(zip(columns.table().column_names, columns.table().columns, strict=True))
    )
    for name, kind in known.items():
        # A part whose values are all null may have got no type.
        table = table.append_column(name, own.get(name, pa.nulls(n_rows, kind)).cast(kind))
    if not isinstance(where, str):
        try:
            return np.asarray(table.filter(where)[_ROW], dtype=np.int64)
        except pa.ArrowException as error:
            raise InputError(f"the filter cannot be evaluated: {error}") from error
    found = rows_of_condition(table, where, _ROW)
    return np.sort(np.asarray(found[_ROW], dtype=np.int64))


def import_pyarrow(needed_by: str = "columns of an index") -> Any:
    """Return pyarrow. If it is missing, raise an `InputError` that says how to install it and what needs it."""
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError:
        raise InputError(f"pip install 'supquant[arrow]' brings pyarrow, which {needed_by} need") from None
