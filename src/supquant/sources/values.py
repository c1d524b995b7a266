"""Arrow columns to arrays: vectors, numbers, labels and ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from supquant.arrays import Array
from supquant.errors import InputError
from supquant.sources.source import BadRow

__all__ = [
    "holds_vectors",
    "id_values",
    "is_text",
    "label_values",
    "stacked_vectors",
    "vector_values",
    "whole_numbers",
]

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
"""A canonical integer. 007 is text: as a number it would lose its zeros."""


def holds_vectors(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds lists of numbers, or texts such as "[0.5, 1]"."""
    kind = _stored(column.type)
    if _is_list(kind):
        return _is_number(kind.value_type)
    if not is_text(kind):
        return False
    cells = [cell for cell in column.slice(0, 100).to_pylist() if cell and cell.strip()]
    return bool(cells) and all(cell.strip()[0] == "[" and cell.strip()[-1] == "]" for cell in cells)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are strings."""
    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)


def vector_values(column: pa.ChunkedArray) -> Array:
    """Return the vectors (n, p) of a column of lists; raise a `BadRow` for a row that is missing or has another length."""
    array = _one_array(column)
    if is_text(array.type):
        return _parsed_vectors(array)
    kind = array.type
    if not _is_list(kind):
        raise InputError(f"it holds {kind}, but a vector is a list of numbers")
    if not _is_number(kind.value_type):
        raise InputError(f"it holds lists of {kind.value_type}, but a vector is a list of numbers")
    _refuse_missing(array, "has no vector")
    lengths = np.full(len(array), kind.list_size) if kinds.is_fixed_size_list(kind) else _lengths(array)
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise BadRow(row, f"has a vector of {lengths[row]} values where the rows before it have {lengths[0]}")
    values = array.flatten()
    width = int(lengths[0]) if len(lengths) else 0
    if values.null_count:
        raise BadRow(int(np.argmax(values.is_null())) // width, "has a vector with a missing value")
    return values.to_numpy(zero_copy_only=False).reshape(len(array), width)


def stacked_vectors(columns: Sequence[tuple[str, pa.ChunkedArray]]) -> Array:
    """Return the vectors (n, p) whose p values are in p columns of numbers."""
    return np.column_stack([_numbers(name, column) for name, column in columns])


def label_values(column: pa.ChunkedArray, *, numbers: bool = False) -> Array:
    """Return labels (n,), None where a label is unknown: numbers, or objects that are str or lists of labels.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Strings, integers, booleans, or lists of them. A blank string is an unknown label.
    numbers : bool, default=False
        Whether strings are integers, as in a text file.
    """
    kind = _stored(column.type)
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        return _as_numbers(_texts(column)) if numbers else _texts(column)
    if kinds.is_null(kind):
        return np.full(len(column), None, dtype=object)
    if kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_floating(kind):
        array = _one_array(column)
        values = array.to_numpy(zero_copy_only=False)
        if not array.null_count:
            return values
        whole = np.asarray(pc.fill_null(array, False if kinds.is_boolean(kind) else 0)).astype(object)
        whole[np.asarray(array.is_null())] = None
        return whole
    if _is_list(kind) and (is_text(kind.value_type) or _is_number(kind.value_type)):
        if kinds.is_floating(kind.value_type):  # as JSON lines hold numbers; a fraction is refused
            column = column.cast(pa.list_(pa.int64()))
        rows = np.empty(len(column), dtype=object)
        rows[:] = column.to_pylist()
        return rows
    raise InputError(f"it holds {kind}, but labels are strings, integers, or lists of them")


def id_values(column: pa.ChunkedArray, *, numbers: bool = False) -> Array:
    """Return ids (n,): int64, or objects that are str; raise a `BadRow` for a row without one."""
    kind = _stored(column.type)
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        texts = _texts(column)
        blank = np.array([text is None for text in texts], dtype=bool)
        if blank.any():
            raise BadRow(int(np.argmax(blank)), "has no id")
        return _as_numbers(texts).astype(np.int64) if numbers else texts
    if not kinds.is_integer(kind):
        raise InputError(f"it holds {kind}, but ids are integers or strings")
    array = _one_array(column)
    _refuse_missing(array, "has no id")
    values = array.to_numpy(zero_copy_only=False)
    if kind == pa.uint64() and len(values) and values.max() > np.iinfo(np.int64).max:
        raise BadRow(int(np.argmax(values > np.iinfo(np.int64).max)), "has an id above 2^63 - 1")
    return values.astype(np.int64)


def whole_numbers(column: pa.ChunkedArray) -> bool:
    """Return whether all strings of a column that are not blank are canonical integers."""
    trimmed = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    fits = pc.or_kleene(pc.match_substring_regex(trimmed, _WHOLE), pc.equal(trimmed, ""))
    return bool(pc.all(fits, min_count=0).as_py())


def _texts(column: pa.ChunkedArray) -> Array:
    """Return strings (n,) without surrounding blanks; None for a missing or blank one. Equal strings are one object."""
    encoded = column if kinds.is_dictionary(column.type) else column.dictionary_encode()
    encoded = encoded.unify_dictionaries() if encoded.num_chunks > 1 else encoded
    if not encoded.num_chunks:
        return np.empty(0, dtype=object)
    words = [text.strip() or None if text else None for text in encoded.chunk(0).dictionary.to_pylist()]
    lookup = np.array([*words, None], dtype=object)
    indices = pc.fill_null(pa.chunked_array([chunk.indices for chunk in encoded.chunks]), len(words))
    return lookup[indices.to_numpy()]


def _as_numbers(texts: Array) -> Array:
    """Return strings of integers as int64, or as int objects if one is None."""
    numbers = np.array([None if text is None else int(text) for text in texts], dtype=object)
    return numbers if any(number is None for number in numbers) else numbers.astype(np.int64)


def _numbers(name: str, column: pa.ChunkedArray) -> Array:
    """Return the numbers (n,) of a column; text becomes float32."""
    array = _one_array(column)
    if is_text(array.type):
        trimmed = pc.utf8_trim_whitespace(array)
        try:
            array = trimmed.cast(pa.float32())
        except pa.ArrowInvalid:
            raise _first_bad_cell(name, trimmed.to_pylist()) from None
    elif not _is_number(array.type):
        raise InputError(f"column {name!r} holds {array.type}, but a vector has numbers")
    _refuse_missing(array, f"has no value in column {name!r}")
    return array.to_numpy(zero_copy_only=False)


def _first_bad_cell(name: str, cells: list[str | None]) -> BadRow:
    for row, cell in enumerate(cells):
        if not cell:
            return BadRow(row, f"has no value in column {name!r}")
        try:
            float(cell)
        except ValueError:
            return BadRow(row, f"has {cell[:40]!r} in column {name!r}, where a number is expected")
    return BadRow(0, f"has something other than a number in column {name!r}")


def _parsed_vectors(array: pa.Array) -> Array:
    """Return the vectors (n, p) float32 of texts such as "[0.5, 1]" or "[0.5 1. ]", as pandas and NumPy write them."""
    rows: list[Array] = []
    for row, text in enumerate(array.to_pylist()):
        cell = (text or "").strip()
        if not cell:
            raise BadRow(row, "has no vector")
        if "..." in cell:
            raise BadRow(
                row, "has a vector that was shortened to '...' when it was written: its values are lost"
            )
        try:
            rows.append(np.array(cell.strip("[]").replace(",", " ").split(), dtype=np.float32))
        except ValueError as error:
            raise BadRow(row, f"has a vector that is not a list of numbers: {error}") from None
        if len(rows[row]) != len(rows[0]):
            raise BadRow(
                row, f"has a vector of {len(rows[row])} values where the rows before it have {len(rows[0])}"
            )
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without its dictionary, extension type or view layout."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # an empty column, or one too long for one array
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if kinds.is_string_view(array.type):
        array = array.cast(pa.large_string())
    if kinds.is_list_view(array.type) or kinds.is_large_list_view(array.type):
        array = array.cast(pa.large_list(array.type.value_type))
    return array


def _stored(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _is_list(kind: pa.DataType) -> bool:
    return (
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
        or kinds.is_large_list_view(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return kinds.is_integer(kind) or kinds.is_floating(kind)


def _lengths(array: pa.Array) -> Array:
    return pc.list_value_length(array).to_numpy(zero_copy_only=False)


def _refuse_missing(array: pa.Array, fault: str) -> None:
    if array.null_count:
        raise BadRow(int(np.argmax(np.asarray(array.is_null()))), fault)
