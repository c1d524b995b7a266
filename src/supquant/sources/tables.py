"""Sources that are tables: Arrow tables and streams, Parquet files and folders, CSV and JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.sources.fields import Fields
from supquant.sources.source import BadRow, Block, VectorSource, laid_out
from supquant.sources.values import (
    id_values,
    is_text,
    label_values,
    stacked_vectors,
    vector_values,
    whole_numbers,
)
from supquant.system import spool_file

__all__ = [
    "MemoryPart",
    "ParquetPart",
    "TablePart",
    "TableSource",
    "first_rows",
    "gathered",
    "naming_errors",
    "naming_file",
    "partition_values",
]

MEMORY_BYTES = 1 << 28
"""A stream of more than this number of bytes goes to a temporary file, which is memory-mapped."""

FIRST_ROWS = 100
"""Number of rows of a Parquet file that are read to choose its columns."""

COLUMN_ROWS = 1 << 18
"""Number of rows that are read at a time if only labels, ids or metadata are needed."""


class TablePart(Protocol):
    """Rows of one file or one table. They can be read any number of times, starting at any row."""

    name: str
    n_rows: int
    first: pa.Table  # the first rows, to choose columns from

    def tables(self, start: int, stop: int, columns: tuple[str, ...], rows: int) -> Iterator[pa.Table]:
        """Read rows of some columns, at most `rows` at a time."""


class MemoryPart:
    """Rows of a `pyarrow.Table`, in memory or mapped."""

    def __init__(self, name: str, table: pa.Table) -> None:
        self.name, self.table = name, table
        self.n_rows: int = table.num_rows
        self.first: pa.Table = self._checked(table.slice(0, 1000))

    def tables(self, start: int, stop: int, columns: tuple[str, ...], rows: int) -> Iterator[pa.Table]:
        """Return slices of the table."""
        chosen = self.table.select(list(columns))
        for low in range(start, stop, rows):
            yield self._checked(chosen.slice(low, min(rows, stop - low)))

    def _checked(self, table: pa.Table) -> pa.Table:
        """Return rows as they are; raise an `InputError` if Arrow would read outside its buffers, or a text is not UTF-8."""
        with naming_file(self.name, "table"):
            table.validate(full=True)
        return table


class ParquetPart:
    """Rows of a Parquet file.

    Parameters
    ----------
    path : Path
        The file.
    partition : dict of str to (str or None), default={}
        Columns that are not in the file because its folders are named by them, as in ``brand=x/part-0.parquet``.
    """

    def __init__(self, path: Path, partition: dict[str, str | None] | None = None) -> None:
        self.name, self._path, self._partition = str(path), path, partition or {}
        with self._naming(), self._open() as file:
            metadata = file.metadata
            groups = range(metadata.num_row_groups)
            self._sizes = [metadata.row_group(group).num_rows for group in groups]
            self._names = set(file.schema_arrow.names)
            self.n_rows: int = metadata.num_rows
            batches = file.iter_batches(FIRST_ROWS, use_threads=False) if self.n_rows else iter(())
            first = next(batches, None)
            schema = file.schema_arrow
        table = schema.empty_table() if first is None else pa.Table.from_batches([first])
        self.first: pa.Table = self._with_partition(table, list(self._partition))

    def tables(self, start: int, stop: int, columns: tuple[str, ...], rows: int) -> Iterator[pa.Table]:
        """Read rows of some columns. Row groups before the first row are not read."""
        stored = [name for name in columns if name in self._names]
        added = [name for name in columns if name not in self._names]
        groups, skipped = [], 0  # row groups with any of these rows; rows before the first of them
        first = 0
        for group, size in enumerate(self._sizes):
            if first + size <= start:
                skipped = first + size
            elif first < stop:
                groups.append(group)
            first += size
        low = skipped
        with self._naming(), self._open() as file:
            for batch in file.iter_batches(rows, row_groups=groups, columns=stored, use_threads=False):
                high = low + batch.num_rows
                if high > start and low < stop:
                    cut = batch.slice(max(start - low, 0), min(high, stop) - max(low, start))
                    yield self._with_partition(pa.Table.from_batches([cut]), added).select(list(columns))
                low = high
                if low >= stop:
                    return

    def _with_partition(self, table: pa.Table, names: list[str]) -> pa.Table:
        for name in names:
            table = table.append_column(
                name, pa.repeat(pa.scalar(self._partition[name], pa.string()), len(table))
            )
        return table

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20)

    def _naming(self) -> AbstractContextManager[None]:
        return naming_file(self.name, "Parquet file")


@contextmanager
def naming_file(name: str, kind: str) -> Iterator[None]:
    """Turn errors about the content of a file of a kind into an `InputError` of one line that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file system
            raise
        first = str(error).strip().partition("\n")[0]
        raise InputError(f"{name} is not a readable {kind}: {first}") from error


def partition_values(path: Path, folder: Path) -> dict[str, str | None]:
    """Return the columns that the folders between a folder and a file are named by.

    Examples
    --------
    >>> partition_values(Path("shop/brand=a%20b/size=/part-0.parquet"), Path("shop"))
    {'brand': 'a b', 'size': ''}
    """
    pairs = (part.split("=", 1) for part in path.relative_to(folder).parts[:-1] if "=" in part)
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for name, value in pairs}


def first_rows(name: str, parts: Sequence[TablePart]) -> pa.Table:
    """Return the first rows of some tables, from which columns are chosen; `name` is that of the whole in errors."""
    first = next((part.first for part in parts if part.n_rows), None)
    if first is None:
        raise InputError(f"{name} has no rows")
    return first


class TableSource(VectorSource):
    """Vectors, labels, ids and metadata in columns of one or several tables, one after the other.

    Parameters
    ----------
    name : str
        The name of the whole in errors.
    tables : sequence of TablePart
        The tables.
    fields : Fields
        The columns.
    text : bool, default=False
        Whether numbers may be written as strings, as in a CSV file.
    """

    def __init__(self, name: str, tables: Sequence[TablePart], fields: Fields, *, text: bool = False) -> None:
        self.name, self._parts, self.fields, self.notes = name, tables, fields, fields.notes
        for part in tables:
            for column in fields.all:
                if column not in part.first.column_names:
                    raise InputError(f"{part.name} has no column {column!r}, which {tables[0].name} has")
        self.parts = laid_out((part.name, part.n_rows) for part in tables)
        rows = first_rows(name, tables)
        first = self._vectors(rows.slice(0, 1), 0)
        if not first.shape[1]:
            raise InputError(f"{self.where(0)} has a vector of no values")
        self.shape, self.dtype = (self.parts[-1][2], first.shape[1]), first.dtype
        self._kept: dict[str, Any] = {}
        self._numbers: dict[str, bool] = {}  # whether labels and ids are written as integers
        for column in filter(None, {fields.labels, fields.ids}):
            is_written = text and is_text(rows.schema.field(column).type)
            self._numbers[column] = is_written and all(
                whole_numbers(table[column]) for table in self._tables(0, len(self), (column,), COLUMN_ROWS)
            )

    def _tables(self, start: int, stop: int, columns: tuple[str, ...], rows: int) -> Iterator[pa.Table]:
        """Read rows of some columns, at most `rows` at a time."""
        for part, (_, first, last) in zip(self._parts, self.parts, strict=True):
            low, high = max(start, first), min(stop, last)
            if low < high:
                yield from part.tables(low - first, high - first, columns, rows)

    def _blocks(self, start: int, stop: int, rows: int) -> Iterator[Block]:
        fields, low = self.fields, start
        for table in self._tables(start, stop, fields.all, rows):
            X = self._vectors(table, low)
            if X.shape[1] != self.dim:
                raise InputError(
                    f"{self.where(low)} has a vector of {X.shape[1]} values, and row 0 has {self.dim}"
                )
            yield Block(
                low,
                X.astype(self.dtype, copy=False),
                self._values(table, low, fields.labels, label_values),
                self._values(table, low, fields.ids, id_values),
                table.select(list(fields.metadata)) if fields.metadata else None,
            )
            low += len(X)

    def _vectors(self, table: pa.Table, start: int) -> Array:
        names = self.fields.vectors
        with naming_errors(self.where, self.name, names, start):
            if self.fields.stacked:
                return stacked_vectors([(name, table[name]) for name in names])
            return vector_values(table[names[0]])

    def _values(self, table: pa.Table, start: int, name: str | None, read: Callable[..., Array]) -> Any:
        if name is None:
            return None
        with naming_errors(self.where, self.name, (name,), start):
            return read(table[name], numbers=self._numbers[name])

    def _column(self, what: str) -> Any:
        """Return all labels, ids or metadata. Labels and ids are read once."""
        if what == "metadata":
            names = self.fields.metadata
            return pa.concat_tables(self._tables(0, len(self), names, COLUMN_ROWS)) if names else None
        name, read = getattr(self.fields, what), {"labels": label_values, "ids": id_values}[what]
        if name is not None and name not in self._kept:
            pieces, start = [], 0
            for table in self._tables(0, len(self), (name,), COLUMN_ROWS):
                pieces.append(self._values(table, start, name, read))
                start += table.num_rows
            self._kept[name] = np.concatenate(pieces)
        return None if name is None else self._kept[name]


@contextmanager
def naming_errors(
    where: Callable[[int], str], source: str, columns: tuple[str, ...], start: int
) -> Iterator[None]:
    """Give errors about values the name of the source, of the column and of the row; `start` is the first row at hand."""
    try:
        yield
    except BadRow as error:
        raise InputError(f"{where(start + error.row)} {error.fault}") from None
    except InputError as error:
        place = f"column {columns[0]!r} of {source}" if len(columns) == 1 else source
        raise InputError(f"{place}: {error}") from None


def gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Return a stream of batches as a table: in memory if it is small, otherwise mapped from a file without a name."""
    kept: list[pa.RecordBatch] = []
    size = 0
    rest = iter(batches)
    for batch in rest:
        kept.append(batch)
        size += batch.nbytes
        if size > MEMORY_BYTES:
            return _spooled(chain(kept, rest), schema)
    return pa.Table.from_batches(kept, schema)


def _spooled(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    with spool_file() as path:
        with pa.ipc.new_file(path, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
