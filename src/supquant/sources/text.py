"""Sources that are text: CSV files with or without a line of names, and JSON lines."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.types as kinds

from supquant.errors import InputError
from supquant.sources.fields import Fields, choose_fields
from supquant.sources.source import Wish
from supquant.sources.tables import MemoryPart, gathered, naming_errors
from supquant.sources.values import stacked_vectors

__all__ = ["is_header", "read_csv", "read_csv_table", "read_json_lines", "uncompressed"]

PARSED_BYTES = 1 << 24
"""Bytes of text that are parsed at a time. A row must be shorter."""

HEAD_BYTES = 1 << 22
"""Bytes in which the first two rows of a CSV file are looked for."""

STACKED = "vectors"
"""The column into which several columns of numbers are joined."""

_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of compressed files."""


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
        raise InputError(f"{path} has a line of names and no rows" if named else f"{path} has no rows")
    fields = choose_fields(pa.Table.from_batches([first]), wish, str(path), named=named)
    joined = replace(fields, vectors=(STACKED,), stacked=False) if fields.stacked else fields
    batches = (_narrowed(batch, fields, start, path) for start, batch in _counted(first, reader))
    head = next(batches)
    table = gathered(_chained(head, batches), head.schema)
    return MemoryPart(str(path), table), joined


def read_csv_table(path: Path) -> pa.Table:
    """Return all columns of a CSV file, with types that pyarrow finds in its first rows."""
    delimiter, names, skipped = _read_head(path)
    try:
        with uncompressed(path) as stream:
            return pyarrow.csv.read_csv(
                stream,
                pyarrow.csv.ReadOptions(column_names=names, skip_rows=skipped),
                pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
            )
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a readable CSV file: {error}") from error


def read_json_lines(path: Path) -> MemoryPart:
    """Read a file with one JSON object a line, whose fields are columns."""
    options = pyarrow.json.ReadOptions(block_size=PARSED_BYTES)
    try:
        with uncompressed(path) as stream, pyarrow.json.open_json(stream, options) as reader:
            schema = pa.schema([(field.name, _widened(field.type)) for field in reader.schema])
        parse = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        with uncompressed(path) as stream, pyarrow.json.open_json(stream, options, parse) as reader:
            return MemoryPart(str(path), gathered(reader, schema))
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a readable file of JSON lines: {error}") from error


def is_header(first: list[str], second: list[str] | None) -> bool:
    """Return whether the first row of a CSV file holds the names of the columns.

    It does if no cell is a number, if a cell is text where the next row has a number, or if three or more cells count on from 0
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
    """Return the delimiter, the names of the columns, and the number of lines up to them: 0 if they are not in the file."""
    with uncompressed(path) as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path} is UTF-16 text: write it as UTF-8")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a readable text file: {error}") from error
    if "\0" in text:
        raise InputError(f"{path} is not a readable text file: it holds a byte of 0")
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
        raise InputError(f"{path} has two columns that are called {twice!r}")
    try:
        with uncompressed(path) as stream:
            yield from pyarrow.csv.open_csv(
                stream,
                pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=PARSED_BYTES, column_names=names, skip_rows=skipped
                ),
                pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
            )
    except pa.ArrowException as error:
        raise InputError(f"{path} is not a readable CSV file: {error}") from error


def _narrowed(batch: pa.RecordBatch, fields: Fields, start: int, path: Path) -> pa.RecordBatch:
    """Return the columns that were asked for. Several columns of numbers become one of vectors."""
    others = [name for name in fields.all if not fields.stacked or name not in fields.vectors]
    columns = {name: batch.column(name) for name in others}
    if fields.stacked:
        with naming_errors(lambda row: f"{path}, row {row}", str(path), fields.vectors, start):
            X = stacked_vectors([(name, pa.chunked_array([batch.column(name)])) for name in fields.vectors])
        columns[STACKED] = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    return pa.RecordBatch.from_pydict(columns)


def _counted(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    start = 0
    for batch in _chained(first, rest):
        yield start, batch
        start += batch.num_rows


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


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
