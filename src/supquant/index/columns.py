"""Columns of an index: what rows are called, cost or look like. They are kept as Arrow tables, and chosen by expressions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags, RowNumbers
from supquant.errors import InputError
from supquant.index.conditions import rows_of_condition
from supquant.index.stored import StoredArrays, array_of_file
from supquant.lazy import import_whole
from supquant.storage import ArrayFile

__all__ = ["Columns", "import_pyarrow", "read_columns", "rows_where", "warn_of_nulls"]


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
            without = pa.table({"": pa.nulls(n_rows)}).select([])  # rows without columns
            table = without if columns is None else columns.table()
            tables.append(table if mask is None else table.filter(pa.array(mask)))
        return cls.of_table(pa.concat_tables(tables, promote_options="default"))

    def table(self) -> Any:
        """Return the columns as a `pyarrow.Table`."""
        self.check_once()
        return self._opened

    def take(self, rows: RowNumbers, names: Sequence[str] | None = None) -> Any:
        """Return the columns of some rows, a `pyarrow.Table`: all of them, or those of some names that there are."""
        table = self.table()
        if names is not None:
            table = table.select([name for name in table.column_names if name in names])
        return table.take(import_pyarrow().array(rows))

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
        table = pa.ipc.open_stream(pa.py_buffer(self._ipc)).read_all()
        for place, name in enumerate(
            table.column_names
        ):  # older files may hold types that are no longer kept
            with suppress(pa.ArrowException):
                table = table.set_column(place, name, _cast(table[name], _kept_type(table[name].type)))
        return table

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
    except (pa.ArrowException, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InputError(f"metadata cannot be kept: {error}") from error
    if table.num_rows != n_rows:
        raise InputError(f"metadata has {table.num_rows} rows for {n_rows} items")
    columns = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns[name] = _kept(column, known.get(name))
        except (pa.ArrowException, ArithmeticError, RecursionError, TypeError, ValueError) as error:
            raise InputError(f"metadata cannot be kept: column {name!r} of {column.type}: {error}") from error
    if len(columns) < table.num_columns:
        raise InputError("metadata has two columns of the same name")
    try:
        return Columns.of_table(pa.table(columns))
    except (pa.ArrowException, RecursionError) as error:  # nested too deeply for a file
        raise InputError(f"metadata cannot be kept: {error}") from error


def warn_of_nulls(columns: Columns | None, index: HasColumns) -> None:
    """Warn if new rows have columns, but lack some of those that the index has."""
    if columns is None:
        return
    given = columns.table().column_names
    if missing := [name for name in index.column_types() if name not in given]:
        warnings.warn(
            f"the index has columns that the metadata of the new rows lacks, which are null there: {', '.join(missing)} (given "
            f"were {', '.join(given)})",
            stacklevel=5,
        )


def _kept(column: Any, known: Any) -> Any:
    """Return a column with the type that it has in the index, if it had a value there; raise an error if it could not be read."""
    pa = import_pyarrow()
    column.validate(full=True)
    if pa.types.is_union(column.type) and column.type.mode == "dense":
        raise TypeError("Arrow cannot take rows of dense unions: cast it to a plain type first")
    if known is None or pa.types.is_null(known):
        known = _kept_type(column.type)
    kept = _cast(column, known)
    kept.take(pa.array(range(min(1, len(kept))), pa.int64()))  # Arrow cannot take rows of all types
    for leaf in _leaves(kept):
        if pa.types.is_temporal(leaf.type) and not pa.types.is_interval(leaf.type):
            _check_times(leaf)
    return kept


def _cast(column: Any, kind: Any) -> Any:
    """Return a column of another type, or itself."""
    if import_pyarrow().types.is_run_end_encoded(column.type):
        column = import_whole("pyarrow.compute").run_end_decode(column)
    return column if column.type == kind else column.cast(kind)


def _kept_type(kind: Any) -> Any:
    """Return the type that holds the values of another, of which Arrow can take rows and DuckDB can read the values.

    Dictionaries of merged parts would differ. Other types stay as they are.
    """
    pa = import_pyarrow()
    is_kind = pa.types
    if is_kind.is_dictionary(kind) or is_kind.is_run_end_encoded(kind):
        return _kept_type(kind.value_type)
    if is_kind.is_struct(kind):
        return pa.struct([field.with_type(_kept_type(field.type)) for field in kind])
    if is_kind.is_map(kind):
        return pa.map_(_kept_type(kind.key_type), kind.item_field.with_type(_kept_type(kind.item_type)))
    if is_kind.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_kept_type(kind.value_type)), kind.list_size)
    if is_kind.is_list(kind):
        return pa.list_(kind.value_field.with_type(_kept_type(kind.value_type)))
    if is_kind.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_kept_type(kind.value_type)))
    if is_kind.is_decimal256(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    plain = {
        pa.string_view(): pa.large_string(),
        pa.binary_view(): pa.large_binary(),
        pa.float16(): pa.float32(),
    }
    return plain.get(kind, kind)


def _leaves(column: Any) -> Iterator[Any]:
    """Yield a column (n,), or the columns within its structs, lists and maps."""
    is_kind = import_pyarrow().types
    for array in column.chunks if hasattr(column, "chunks") else [column]:
        kind = array.type
        if is_kind.is_struct(kind):
            for field in array.flatten():
                yield from _leaves(field)
        elif is_kind.is_map(kind):
            yield from _leaves(array.keys)
            yield from _leaves(array.items)
        elif is_kind.is_nested(kind) and not is_kind.is_union(kind):
            yield from _leaves(array.flatten())
        else:
            yield array


def _check_times(times: Any) -> None:
    """Raise an error if Python cannot hold dates, times or durations (n,), or does not know their time zone."""
    pa = import_pyarrow()
    kind = times.type
    if getattr(kind, "unit", None) != "ns":  # Python has years enough for all of these
        numbers = times.view(pa.int32() if kind.bit_width == 32 else pa.int64())
        found = import_whole("pyarrow.compute").min_max(numbers)
        for number in found.values():
            pa.scalar(number.as_py(), kind).as_py()


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
    own: Any = pa.table({}) if columns is None else columns.table()
    named = _named_columns(where, known) if isinstance(where, str) else list(known)
    # A part whose values are all null may have got no type.
    arrays = [
        _cast(own[name], known[name]) if name in own.column_names else pa.nulls(n_rows, known[name])
        for name in named
    ]
    if not isinstance(where, str):
        return _rows_of_expression(pa.table(arrays, names=named), where)
    row = "supquant_row"  # a name that no column has, and that the condition does not contain
    while row in where.casefold() or any(row == name.casefold() for name in named):
        row += "_"
    table = pa.table([*arrays, np.arange(n_rows)], names=[*named, row])
    found = rows_of_condition(table, where, row, known)
    return np.sort(np.asarray(found[row], dtype=np.int64))


def _named_columns(where: str, known: Iterable[str]) -> list[str]:
    """Return the columns that a condition may name: those whose names occur in it, or all if it has a star or COLUMNS.

    Raises an `InputError` if two of them differ only in case: DuckDB would take either for both.
    """
    text = where.casefold()
    if "*" in text or "columns" in text:
        named = list(known)
    else:
        words = {name: re.escape(name.casefold().replace('"', '""')) for name in known}
        named = [name for name, word in words.items() if re.search(rf"(?<!\w){word}(?!\w)", text)]
    by_word: dict[str, str] = {}
    for name in named:
        if (other := by_word.setdefault(name.casefold(), name)) != name:
            raise InputError(
                f"the condition {where!r} may mean column {other!r} or {name!r}, which differ only in case: rename one, or give "
                "an expression of pyarrow"
            )
    return named


def _rows_of_expression(table: Any, where: Any) -> RowNumbers:
    """Return the rows of a table for which an expression of pyarrow is true."""
    pa, acero = import_pyarrow(), import_whole("pyarrow.acero")
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([where], ["chosen"])),
    ]
    try:
        chosen = acero.Declaration.from_sequence(steps).to_table(use_threads=False)["chosen"]
    except pa.ArrowException as error:
        raise InputError(f"the filter cannot be evaluated: {error}") from error
    if not pa.types.is_boolean(chosen.type):
        raise InputError(f"a filter must be true or false for every row, got {chosen.type}: {where}")
    return np.flatnonzero(chosen.fill_null(False).to_numpy()).astype(np.int64)


def import_pyarrow(needed_by: str = "columns of an index") -> Any:
    """Return pyarrow. If it is missing, raise an `InputError` that says how to install it and what needs it."""
    try:
        return import_whole("pyarrow", first_use=lambda pa: pa.array(np.arange(1)))  # which looks for pandas
    except ModuleNotFoundError:
        raise InputError(f"pip install 'supquant[arrow]' brings pyarrow, which {needed_by} need") from None
