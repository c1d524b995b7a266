"""Tables as sources: Parquet, Arrow, CSV and JSON lines files, Arrow streams. All that needs pyarrow is imported from here."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.types as kinds

from supquant.errors import InputError
from supquant.sources.fields import ID_NAMES, LABEL_NAMES, Fields, choose_fields, choose_labels_and_ids
from supquant.sources.formats import format_of
from supquant.sources.source import BadRow, VectorSource, Wish
from supquant.sources.tables import (
    COLUMN_ROWS,
    MemoryPart,
    ParquetPart,
    TablePart,
    TableSource,
    first_rows,
    gathered,
    naming_errors,
    naming_file,
    partition_values,
)
from supquant.sources.values import id_values, is_text, label_values, stacked_vectors, whole_numbers

__all__ = [
    "column_from_file",
    "is_header",
    "labels_by_id",
    "open_files",
    "open_stream",
    "table_from",
    "table_from_file",
]

PARSED_BYTES = 1 << 24
"""Number of bytes of text that are parsed at a time. A row must be shorter."""

HEAD_BYTES = 1 << 22
"""Number of bytes in which the first two rows of a CSV file are searched for."""

MAX_DEPTH = 100
"""Lists and objects of a JSON file may lie at most this deep within one another."""

_JSON_LINES = "file of JSON lines"

_NOT_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[^][{}"]+', re.DOTALL)

STACKED = "vectors"
"""Name of the column into which several columns of numbers are joined."""

_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of compressed files."""


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
    parts = _parts(path, files, kind)
    fields = choose_fields(first_rows(str(path), parts), wish, str(path))
    return TableSource(str(path), parts, fields)


def open_stream(source: Any, wish: Wish) -> VectorSource:
    """Open a table in memory, or a stream of batches. A stream is read once and kept."""
    name = type(source).__name__
    parts = [MemoryPart(name, table_from(source))]
    return TableSource(name, parts, choose_fields(first_rows(name, parts), wish, name))


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
            tables = source.with_format("arrow").iter(batch_size=10_000)
            batches = (batch for table in tables for batch in table.to_batches())
            first = next(batches, None)
            if first is None:
                raise InputError("the table has no rows")
            return gathered(chain([first], batches), first.schema)
        return table_from(source.collect())  # a lazy frame of Polars
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"cannot read a table from a {type(source).__name__}: {error}") from error


def table_from_file(path: Path) -> pa.Table:
    """Return all columns of a table file."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    kind = format_of(path)
    if kind not in ("parquet", "arrow", "csv", "jsonl"):
        raise InputError(f"{path} is not a table: expected Parquet, Arrow, CSV or JSON lines")
    if kind == "csv":
        return read_csv_table(path)
    part = _parts(path, [path], kind)[0]
    return pa.concat_tables(part.tables(0, part.n_rows, tuple(part.first.column_names), COLUMN_ROWS))


def column_from_file(path: Path, what: str) -> Any:
    """Return the labels or ids of a table file: its only column, or the one with a usual name."""
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


def labels_by_id(path: Path, wish: Wish) -> tuple[Any, Any, tuple[str, ...]]:
    """Return the ids (n,) and labels (n,) of a table file without vectors, and in sentences what was guessed."""
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    written = format_of(path) == "csv"  # numbers are written as texts
    table = _text_table(path) if written else table_from_file(path)
    notes: list[str] = []
    found = []
    names = choose_labels_and_ids(table, wish, str(path), notes)
    for name, read in zip(names, (label_values, id_values), strict=True):
        assert name is not None
        with naming_errors(lambda row: f"{path}, row {row}", str(path), (name,), 0):
            numbers = written and is_text(table.schema.field(name).type) and whole_numbers(table[name])
            found.append(read(table[name], numbers=numbers))
    labels, ids = found
    return ids, labels, tuple(notes)


def _text_table(path: Path) -> pa.Table:
    """Return all columns of a CSV file as texts."""
    batches = list(_opened(path, *_read_head(path)))
    if not batches:
        raise InputError(f"{path} has no rows")
    return pa.Table.from_batches(batches)


def _open_csv_files(path: Path, files: Sequence[Path], wish: Wish) -> VectorSource:
    read = [read_csv(file, wish) for file in files]
    fields: Fields = read[0][1]
    for file, (_, other) in zip(files, read, strict=True):
        if other.all != fields.all:
            raise InputError(f"{file} has different columns from {files[0]}: {', '.join(other.all)}")
    return TableSource(str(path), [part for part, _ in read], fields, text=True)


def _parts(path: Path, files: Sequence[Path], kind: str) -> list[TablePart]:
    if kind == "parquet":
        return [ParquetPart(file, partition_values(file, path) if file != path else {}) for file in files]
    read = read_json_lines if kind == "jsonl" else _read_arrow
    return [read(file) for file in files]


def _read_arrow(path: Path) -> MemoryPart:
    """Read an Arrow file, also called Feather: mapped, not copied."""
    with naming_file(str(path), "Arrow file"):
        return MemoryPart(str(path), pa.ipc.open_file(pa.memory_map(str(path))).read_all())


def uncompressed(path: Path) -> Any:
    """Open a file as a stream of its bytes, without its compression."""
    with path.open("rb") as file:
        start = file.read(4)
    for magic, name in _COMPRESSED.items():
        if start.startswith(magic):
            return pa.CompressedInputStream(pa.OSFile(str(path)), name)
    return pa.OSFile(str(path))


def read_csv(path: Path, wish: Wish) -> tuple[MemoryPart, Fields]:
    """Read a CSV file: all cells as text, and the columns of vectors as numbers.

    Returns
    -------
    part : MemoryPart
        The columns that were asked for.
    fields : Fields
        Their names.
    """
    delimiter, names, skipped = _read_head(path)
    named = skipped > 0
    reader = _opened(path, delimiter, names, skipped)
    first = next(reader, None)
    if first is None:
        raise InputError(f"{path} has column names but no rows" if named else f"{path} has no rows")
    fields = choose_fields(pa.Table.from_batches([first]), wish, str(path), named=named)
    joined = replace(fields, vectors=(STACKED,), stacked=False) if fields.stacked else fields
    batches = _narrowed(chain([first], reader), fields, path)
    head = next(batches)
    return MemoryPart(str(path), gathered(chain([head], batches), head.schema)), joined


def read_csv_table(path: Path) -> pa.Table:
    """Return all columns of a CSV file, with types that pyarrow finds in its first rows."""
    delimiter, names, skipped = _read_head(path)
    with naming_file(str(path), "CSV file"), uncompressed(path) as stream:
        return pyarrow.csv.read_csv(
            stream,
            pyarrow.csv.ReadOptions(column_names=names, skip_rows=skipped),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
        )


def read_json_lines(path: Path) -> MemoryPart:
    """Read a file with one JSON object per line, whose fields are columns."""
    _check_depth(path)
    options = pyarrow.json.ReadOptions(block_size=PARSED_BYTES)
    with naming_file(str(path), _JSON_LINES):
        with uncompressed(path) as stream, pyarrow.json.open_json(stream, options) as reader:
            schema = pa.schema([(field.name, _widened(field.type)) for field in reader.schema])
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        with uncompressed(path) as stream, pyarrow.json.open_json(stream, options, parse) as reader:
            return MemoryPart(str(path), gathered(reader, schema))


def _check_depth(path: Path) -> None:
    """Raise an `InputError` if a JSON value is nested deeper than `MAX_DEPTH`: pyarrow recurses, and would end the process."""
    with naming_file(str(path), _JSON_LINES), uncompressed(path) as stream:
        lines = io.BufferedReader(stream)
        for row, line in enumerate(iter(lambda: lines.readline(PARSED_BYTES), b"")):
            if line.count(b"[") + line.count(b"{") <= MAX_DEPTH:
                continue
            brackets = np.frombuffer(_NOT_BRACKETS.sub(b"", line), dtype=np.uint8)
            steps = np.where((brackets == ord("[")) | (brackets == ord("{")), 1, -1)
            if (depth := np.cumsum(steps).max(initial=0)) > MAX_DEPTH:
                raise InputError(
                    f"{path}, line {row + 1} has {depth} lists or objects within one another; expected at most {MAX_DEPTH}"
                )


def is_header(first: list[str], second: list[str] | None) -> bool:
    """Return whether the first row of a CSV file holds the names of the columns.

    It does if no cell is a number, if a cell is text where the next row has a number, or if three or more cells count up from 0
    or 1, as the columns of a DataFrame do.

    Examples
    --------
    >>> is_header(["id", "x", "y"], ["7", "0.5", "0.25"]), is_header(["", "0", "1", "2"], ["0", ".5", ".1", ".2"])
    (True, True)
    >>> is_header(["0.5", "0.25", "cat"], ["0.1", "0.3", "dog"])
    False
    """
    cells = [cell.strip() for cell in first]
    numbers = [cell for cell in cells if _is_number(cell)]
    if not numbers:
        return any(cells)
    if second is not None and any(
        cell and not _is_number(cell) and _is_number(below)
        for cell, below in zip(cells, second, strict=False)
    ):
        return True
    counted = len(numbers) > 2 and numbers[0] in ("0", "1") and all(cell.isdecimal() for cell in numbers)
    return counted and all(int(after) == int(before) + 1 for before, after in pairwise(numbers))


def _read_head(path: Path) -> tuple[str, list[str], int]:
    """Return the delimiter, the names of the columns, and the number of lines of the names: 0 if there are none."""
    with naming_file(str(path), "CSV file"), uncompressed(path) as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16 text: write it as UTF-8")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a readable text file: {error}") from error
    if "\0" in text:
        raise InputError(f"{path} is not a readable text file: it contains a zero byte")
    lines = text.lstrip("\r\n").splitlines()
    if not lines:
        raise InputError(f"{path} is empty")
    delimiter = "\t" if ".tsv" in path.suffixes else next((mark for mark in ",\t;|" if mark in lines[0]), ",")
    rows = csv.reader(io.StringIO(text, newline=None), delimiter=delimiter)
    try:
        filled = (row for row in rows if any(cell.strip() for cell in row))
        first = next(filled, None)
        lines_of_names = rows.line_num
        second = next(filled, None)
    except csv.Error as error:
        raise InputError(f"{path} is not a readable CSV file: {error}") from error
    if first is None:
        raise InputError(f"{path} is empty")
    if is_header(first, second):
        return delimiter, [name.strip() for name in first], lines_of_names
    return delimiter, [str(number) for number in range(len(first))], 0


def _opened(path: Path, delimiter: str, names: list[str], skipped: int) -> Iterator[pa.RecordBatch]:
    """Read the rows of a CSV file, all of whose cells are text."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{path} has two columns called {twice!r}")
    with naming_file(str(path), "CSV file"), uncompressed(path) as stream:
        yield from pyarrow.csv.open_csv(
            stream,
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=PARSED_BYTES, column_names=names, skip_rows=skipped
            ),
            pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )


def _narrowed(batches: Iterable[pa.RecordBatch], fields: Fields, path: Path) -> Iterator[pa.RecordBatch]:
    """Keep the columns that were asked for. Several columns of numbers become one of vectors."""
    others = [name for name in fields.all if not fields.stacked or name not in fields.vectors]
    start = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in others}
        if fields.stacked:
            with naming_errors(lambda row: f"{path}, row {row}", str(path), fields.vectors, start):
                X = stacked_vectors(
                    [(name, pa.chunked_array([batch.column(name)])) for name in fields.vectors]
                )
            columns[STACKED] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
        yield pa.RecordBatch.from_pydict(columns)
        start += batch.num_rows


def _widened(kind: pa.DataType) -> pa.DataType:
    """Return a type for a JSON field that also holds what later rows may have: fractions in lists, texts after nulls."""
    if kinds.is_list(kind) and kinds.is_integer(kind.value_type):
        return pa.list_(pa.float64())
    return pa.string() if kinds.is_null(kind) else kind


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
