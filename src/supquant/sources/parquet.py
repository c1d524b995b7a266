"""Sources that are Parquet files: row groups are read in order, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from supquant.errors import InputError

__all__ = ["ParquetPart", "partition_values"]

FIRST_ROWS = 100
"""Rows that are read to choose columns by."""


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
        with self._open() as file:
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
        with self._open() as file, self._naming():
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
        with self._naming():
            return pq.ParquetFile(self._path, pre_buffer=False, buffer_size=1 << 20)

    def _naming(self) -> _Unreadable:
        return _Unreadable(self.name)


class _Unreadable:
    """A context in which pyarrow's errors become an `InputError` of one line that names the file."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, pa.ArrowException) or (isinstance(error, OSError) and error.errno is None):
            raise InputError(f"{self._name} is not a readable Parquet file: {error}") from error


def partition_values(path: Path, folder: Path) -> dict[str, str | None]:
    """Return the columns that the folders between a folder and a file are named by.

    Examples
    --------
    >>> partition_values(Path("shop/brand=a%20b/size=/part-0.parquet"), Path("shop"))
    {'brand': 'a b', 'size': ''}
    """
    pairs = (part.split("=", 1) for part in path.relative_to(folder).parts[:-1] if "=" in part)
    return {name: None if value == "__HIVE_DEFAULT_PARTITION__" else unquote(value) for name, value in pairs}
