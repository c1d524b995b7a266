"""Requests to answers: columns of rows in requests and answers. A few bytes can ask for a long row often, or send it often."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.serve.limits import RefusalError

__all__ = [
    "MAX_COLUMNS",
    "MAX_COLUMN_BYTES",
    "check_columns",
    "read_rows",
    "read_stream",
    "rows_of",
    "tabulate",
]

MAX_COLUMN_BYTES = 128 << 20
"""The maximum size of the columns in an answer, or in a request when they are written out, in bytes."""

MAX_COLUMNS = 1000
"""The maximum number of columns of an index that a service gives further ones. Conditions look for the names of all."""

MAX_NAME = 256
"""The maximum length of the name of a new column, in characters."""

_VALUE_BYTES = 32
"""What a value takes in addition to its content before it is JSON, in bytes."""

_NESTED = 8
"""How much larger lists and structs become for that."""

_DICTIONARY, _ROWS = 2, 3
"""The kinds of messages of an Arrow stream that hold values."""

_BLOCK = 1000
"""The number of distinct rows that are read before their size is known."""


def rows_of(index: CodeIndex, ids: Any, columns: Sequence[str] | None) -> Any:
    """Return the columns of rows, as `CodeIndex.get` does. An id may come often.

    Raises
    ------
    RefusalError
        If they take more than `MAX_COLUMN_BYTES`.
    """
    keys = ids.ravel().tolist() if isinstance(ids, np.ndarray) else list(ids)
    if len({type(each) for each in keys} & {int, str}) != 1 or len(set(map(type, keys))) > 1:
        return index.get(ids, columns)  # refuses what are no ids
    return read_rows(lambda some: index.get(some, columns), keys)


def read_rows(read: Callable[[list[Any]], Any], keys: Sequence[Any]) -> Any:
    """Return the table (n,) of rows with n keys, of which some may be equal.

    Parameters
    ----------
    read : callable
        Returns the table of rows with different keys.
    keys : sequence (n,)

    Raises
    ------
    RefusalError
        If the rows take more than `MAX_COLUMN_BYTES`.
    """
    import pyarrow as pa  # noqa: PLC0415  # only for indexes with columns

    place = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    which = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    distinct, counts = list(place), np.bincount(which, minlength=1)
    size, parts = 0.0, []
    for first in range(0, max(1, len(distinct)), _BLOCK):
        parts.append(read(distinct[first : first + _BLOCK]))
        size += float(counts[first : first + _BLOCK] @ _sizes(parts[-1])) if distinct else 0
        if size > MAX_COLUMN_BYTES:
            raise RefusalError(
                422,
                f"the columns of these rows take more than {MAX_COLUMN_BYTES >> 20} MiB: ask for fewer rows or columns",
            )
    table = pa.concat_tables(parts)
    return table if len(distinct) == len(keys) else table.take(pa.array(which))


def _sizes(table: Any) -> NDArray[np.float64]:
    """Return about how many bytes each row (n,) of a table takes in an answer."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    sizes = np.zeros(table.num_rows)
    for column in table.columns:
        is_kind, kind = pa.types, column.type
        if any(
            each(kind)
            for each in (
                is_kind.is_string,
                is_kind.is_large_string,
                is_kind.is_binary,
                is_kind.is_large_binary,
            )
        ):
            sizes += pc.binary_length(column).fill_null(0).to_numpy()
        elif is_kind.is_nested(kind):
            sizes += [_NESTED * column.slice(row, 1).nbytes for row in range(len(column))]
        else:
            sizes += column.nbytes / max(1, len(column))
    return sizes + _VALUE_BYTES * table.num_columns


def tabulate(index: CodeIndex, scores: NDArray[Any], ids: NDArray[Any], columns: Sequence[str] | None) -> Any:
    """Return the answers (q, k) of a search as one table, as `CodeIndex.search_table` does."""
    table = index._tabulate(scores, ids, [])
    if columns is None and not index.columns:
        return table
    rows = rows_of(index, ids, columns)
    for name, values in zip(rows.column_names[1:], rows.columns[1:], strict=True):
        own = name.removesuffix("_") if name == "id_" else name
        table = table.append_column(own if own not in table.column_names[:4] else f"{own}_", values)
    return table


# columns that clients send -----------------------------------------------------------------------------------------------


def read_stream(data: bytes) -> Any:
    """Return the table that an Arrow stream holds.

    Raises
    ------
    RefusalError
        If it holds none, is compressed, or refers to so much so often that the columns would take more than `MAX_COLUMN_BYTES`.
    """
    import pyarrow as pa  # noqa: PLC0415

    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data)):
            if _is_compressed(message.metadata.to_pybytes()):
                raise RefusalError(
                    422, "the Arrow stream of metadata is compressed: write it without compression"
                )
        table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
        table.validate(full=True)  # the bytes come from anywhere
        size = sum(_written_out(chunk) for column in table.columns for chunk in column.chunks)
    except (pa.ArrowException, IndexError, OSError, StopIteration, ValueError, struct.error):
        raise RefusalError(422, "metadata is text, but not an Arrow stream in base64") from None
    if size > MAX_COLUMN_BYTES:
        raise RefusalError(
            422,
            f"the columns of metadata take more than {MAX_COLUMN_BYTES >> 20} MiB: send fewer rows at once",
        )
    return table


def check_columns(before: Sequence[str], after: Sequence[str]) -> None:
    """Raise an `InputError` if new columns would be in the way of conditions on other ones."""
    known = {name.casefold(): name for name in before}
    for name in after:
        other = known.setdefault(name.casefold(), name)
        if other != name and name not in before:
            raise InputError(
                f"no condition could tell a column {name!r} from {other!r}: they differ only in case"
            )
        if len(name) > MAX_NAME and name not in before:
            raise InputError(
                f"the name of a column must have at most {MAX_NAME} characters, got {len(name):,}"
            )
    if len(after) > max(MAX_COLUMNS, len(before)):
        raise InputError(f"an index must have at most {MAX_COLUMNS:,} columns, got {len(after):,}")


def _is_compressed(message: bytes) -> bool:
    """Return whether the head of an Arrow message says that its rows are compressed. It is a table of flatbuffers."""

    def field(table: int, number: int) -> int:
        """Return the place of a field of a table, or 0 if it is not there."""
        fields = table - struct.unpack_from("<i", message, table)[0]
        if 4 + 2 * number >= struct.unpack_from("<H", message, fields)[0]:
            return 0
        offset = struct.unpack_from("<H", message, fields + 4 + 2 * number)[0]
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", message, place)[0])

    root = follow(0)
    kind, head = field(root, 1), field(root, 2)
    if not kind or not head or message[kind] not in (_DICTIONARY, _ROWS):
        return False
    rows = follow(head)
    if message[kind] == _DICTIONARY:
        rows = follow(field(rows, 1))
    return field(rows, 3) != 0


def _written_out(values: Any) -> int:
    """Return at most how many bytes an Arrow array takes if what it refers to several times is written that often."""
    import pyarrow as pa  # noqa: PLC0415

    is_kind, kind = pa.types, values.type
    if not len(values):
        return 0
    if is_kind.is_dictionary(kind):
        used = values.indices.drop_null().to_numpy()
        return int(_each_written_out(values.dictionary)[used].sum())
    if is_kind.is_run_end_encoded(kind):
        lengths = np.diff(values.run_ends.to_numpy().astype(np.int64), prepend=0)
        return int(_each_written_out(values.values) @ lengths)
    if is_kind.is_string_view(kind) or is_kind.is_binary_view(kind):
        return int(_each_written_out(values).sum())
    if is_kind.is_list_view(kind) or is_kind.is_large_list_view(kind):
        raise RefusalError(422, f"metadata must not have columns of {kind}: cast them to lists")
    if is_kind.is_struct(kind):
        return sum(_written_out(values.field(number)) for number in range(kind.num_fields))
    if is_kind.is_map(kind):
        return _written_out(values.keys) + _written_out(values.items)
    if is_kind.is_list(kind) or is_kind.is_large_list(kind) or is_kind.is_fixed_size_list(kind):
        return 8 * len(values) + _written_out(values.values)
    if is_kind.is_union(kind):
        return sum(_written_out(values.field(number)) for number in range(kind.num_fields))
    if isinstance(values, pa.ExtensionArray):
        return _written_out(values.storage)
    return int(values.nbytes)


def _each_written_out(values: Any) -> NDArray[np.int64]:
    """Return at most how many bytes each value (n,) of an Arrow array takes if it is written out."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    is_kind, kind, n = pa.types, values.type, len(values)
    if not n:
        return np.zeros(0, np.int64)
    if is_kind.is_string_view(kind) or is_kind.is_binary_view(kind):  # each view begins with its length
        views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
        return views[values.offset : values.offset + n, 0].astype(np.int64)
    if (
        is_kind.is_string(kind)
        or is_kind.is_large_string(kind)
        or is_kind.is_binary(kind)
        or is_kind.is_large_binary(kind)
    ):
        return np.asarray(pc.binary_length(values).fill_null(0), np.int64)
    return np.full(n, _written_out(values))  # of all together, which is no less than each
