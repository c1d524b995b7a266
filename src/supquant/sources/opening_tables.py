"""Tables as sources: Parquet, Arrow, CSV and JSON lines files, Arrow streams. Only this part of the package needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from supquant.errors import InputError
from supquant.sources.fields import ID_NAMES, LABEL_NAMES, Fields, choose_fields
from supquant.sources.formats import format_of
from supquant.sources.parquet import ParquetPart, partition_values
from supquant.sources.source import BadRow, VectorSource, Wish
from supquant.sources.tables import COLUMN_ROWS, MemoryPart, TablePart, TableRows, TableSource, gathered
from supquant.sources.text import read_csv, read_csv_table, read_json_lines
from supquant.sources.values import id_values, label_values

__all__ = ["column_from_file", "open_files", "open_stream", "table_from", "table_from_file"]


def open_files(path: Path, files: Sequence[Path], kind: str, wish: Wish) -> VectorSource:
    """Open files of one format.

    Parameters
    ----------
    path : Path
        The file, or the folder of the files.
    files : sequence of Path
        The files.
    kind : str
        "parquet", "arrow", "csv" or "jsonl".
    wish : Wish
        The columns to read.
    """
    if kind == "csv":
        return _open_csv_files(path, files, wish)
    rows = TableRows(str(path), _parts(path, files, kind))
    return TableSource(rows, choose_fields(rows.first, wish, str(path)))


def open_stream(source: Any, wish: Wish) -> VectorSource:
    """Open a table in memory, or a stream of batches. A stream is read once and kept."""
    name = type(source).__name__
    part = MemoryPart(name, table_from(source))
    return TableSource(TableRows(name, [part]), choose_fields(part.first, wish, name))


def table_from(source: Any) -> pa.Table:
    """Return a table, a stream of batches or a data set as a table."""
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    try:
        if hasattr(source, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(source)
            return gathered(reader, reader.schema)
        if hasattr(source, "scanner"):  # datasets of pyarrow and Lance
            reader = source.scanner().to_reader()
            return gathered(reader, reader.schema)
        if hasattr(source, "with_format"):  # Hugging Face
            return _gathered_tables(source.with_format("arrow").iter(batch_size=10_000))
        return table_from(source.collect())  # a lazy frame of Polars
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"cannot read a table from a {type(source).__name__}: {error}") from error


def table_from_file(path: Path) -> pa.Table:
    """Return all columns of a table file."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    kind = format_of(path)
    if kind not in ("parquet", "arrow", "csv", "jsonl"):
        raise InputError(f"{path} is no table: expected Parquet, Arrow, CSV or JSON lines")
    if kind == "csv":
        return read_csv_table(path)
    part = _parts(path, [path], kind)[0]
    return pa.concat_tables(part.tables(0, part.n_rows, tuple(part.first.column_names), COLUMN_ROWS))


def column_from_file(path: Path, what: str) -> Any:
    """Return the labels or ids of a table file: its only column, or the one that is usually called so."""
    table = table_from_file(path)
    usual = LABEL_NAMES if what == "labels" else ID_NAMES
    names = [name for name in table.column_names if len(table.column_names) == 1 or name.lower() in usual]
    if len(names) != 1:
        raise InputError(f"{path}: expected one column of {what}, got {', '.join(table.column_names)}")
    read = label_values if what == "labels" else id_values
    try:
        return read(table[names[0]])
    except BadRow as error:
        raise InputError(f"{path}, row {error.row} {error.fault}") from None


def _open_csv_files(path: Path, files: Sequence[Path], wish: Wish) -> VectorSource:
    read = [read_csv(file, wish) for file in files]
    fields: Fields = read[0][1]
    for file, (_, other) in zip(files, read, strict=True):
        if other.all != fields.all:
            raise InputError(f"{file} has other columns than {files[0]}: {', '.join(other.all)}")
    return TableSource(TableRows(str(path), [part for part, _ in read], text=True), fields)


def _parts(path: Path, files: Sequence[Path], kind: str) -> list[TablePart]:
    if kind == "parquet":
        return [ParquetPart(file, partition_values(file, path) if file != path else {}) for file in files]
    read = read_json_lines if kind == "jsonl" else _read_arrow
    return [read(file) for file in files]


def _read_arrow(path: Path) -> MemoryPart:
    """Read an Arrow file, also called Feather: mapped, not copied."""
    try:
        return MemoryPart(str(path), pa.ipc.open_file(pa.memory_map(str(path))).read_all())
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a readable Arrow file: {error}") from error


def _gathered_tables(tables: Iterable[pa.Table]) -> pa.Table:
    batches = (batch for table in tables for batch in table.to_batches())
    first = next(batches, None)
    if first is None:
        raise InputError("the table has no rows")
    return gathered(_after(first, batches), first.schema)


def _after(first: Any, rest: Iterable[Any]) -> Iterable[Any]:
    yield first
    yield from rest
