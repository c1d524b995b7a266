"""Requests to answers: the fields of requests and answers, with their JSON schemas and their checks."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.serve.columns import MAX_COLUMNS, read_stream
from supquant.serve.limits import Limits, RefusalError

Schema = dict[str, Any]

# schemas -----------------------------------------------------------------------------------------------------------------

INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def described(description: str, schema: Schema) -> Schema:
    """Return a schema with a description."""
    return {"description": description, **schema}


ID = described("A 64-bit integer or a string, as in the index.", {"type": ["integer", "string"]})
IDS = list_of(ID)
VECTOR = described("One vector.", list_of(NUMBER))
VECTORS = described(
    "Lists of numbers, or rows of little-endian float32 in base64.", {"oneOf": [list_of(VECTOR), TEXT]}
)
CHANGED = {"rows": described("The number of rows after the change.", INTEGER)}
FOUND = {
    "ids": described("Ids; one list per query if there are several.", {"type": "array"}),
    "scores": described("Numbers; one list per query if there are several.", {"type": "array"}),
    "columns": described("The values of each column, arranged like the ids.", OBJECT),
}
_WHERE = {
    "oneOf": [
        TEXT,
        {
            "type": "object",
            "properties": {"ids": IDS, "skip_missing": described("Whether to leave out unknown ids.", FLAG)},
            "required": ["ids"],
        },
        {"type": "object", "properties": {"mask": list_of(FLAG)}, "required": ["mask"]},
    ]
}

# checks of single values -------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """A field of a JSON body, or a parameter in an address."""

    schema: Schema
    check: Callable[[Any, str, Limits], Any] = lambda value, _name, _limits: value
    """Returns the value of a field, given its name and the limits. By default, the operation itself checks it."""
    parse: Callable[[str], Any] = str
    """Turns the text of a parameter into what a JSON body would hold."""


def check_ids(value: Any, name: str, limits: Limits) -> list[Any]:
    """Return a list of ids; the index checks their type."""
    if not isinstance(value, list):
        raise RefusalError(422, f"{name} must be a list of whole numbers or of strings")
    if len(value) > limits.max_rows:
        raise RefusalError(422, f"{name} must be at most {limits.max_rows:,}, got {len(value):,}")
    if any(isinstance(each, bool) for each in value):  # an index would take them for a mask
        raise RefusalError(422, f"{name} must be whole numbers or strings, got true or false")
    return value


def _check_k(value: Any, name: str, limits: Limits) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limits.max_k:
        raise RefusalError(
            422, f"{name} must be a whole number from 1 to {limits.max_k:,}, got {str(value)[:40]}"
        )
    return value


def _check_number(value: Any, name: str, _: Limits) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RefusalError(422, f"{name} must be a number")
    return float(value)


def _check_novelty(value: Any, name: str, limits: Limits) -> float | tuple[float, ...]:
    if isinstance(value, list):
        return tuple(_check_number(each, name, limits) for each in value)
    return _check_number(value, name, limits)


def _check_text(value: Any, name: str, _: Limits) -> str:
    if not isinstance(value, str):
        raise RefusalError(422, f"{name} must be text")
    return value


def _check_names(value: Any, name: str, _: Limits) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RefusalError(422, f"{name} must be a list of names")
    if len(set(value)) < len(value):  # each would be read again
        raise RefusalError(422, f"{name} must not name a column twice")
    return value


def _check_list(value: Any, name: str, _: Limits) -> list[Any]:
    if not isinstance(value, list):
        raise RefusalError(422, f"{name} must be a list")
    return value


def _check_base64(value: Any, name: str, _: Limits) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise RefusalError(422, f"{name} must be a file in base64") from None


def _check_metadata(value: Any, _name: str, _: Limits) -> Any:
    """Return columns by name, or the table of an Arrow stream in base64."""
    if isinstance(value, dict):
        if len(value) > MAX_COLUMNS:
            raise RefusalError(422, f"metadata must have at most {MAX_COLUMNS:,} columns, got {len(value):,}")
        for column, values in value.items():
            if not isinstance(values, list):  # a text would be a list of its letters
                raise RefusalError(422, f"column {column[:40]!r} of metadata must be a list of values")
        return value
    if not isinstance(value, str):
        raise RefusalError(422, "metadata must be columns by name, or an Arrow stream in base64")
    try:
        data = base64.b64decode(value, validate=True)
    except ValueError:
        raise RefusalError(422, "metadata is text, but not an Arrow stream in base64") from None
    return read_stream(data)


def parse_whole(text: str) -> int:
    """Return a whole number that is written with the digits 0 to 9. `int` would take `1_0` and other digits, too.

    Examples
    --------
    >>> parse_whole("-12")
    -12
    """
    if re.fullmatch("-?[0-9]+", text) is None:
        raise ValueError
    return int(text)


def _split(text: str) -> list[str]:
    return text.split(",")


FIELDS = {
    # of searches
    "query": Field(described("One vector, or the id of an item.", {"oneOf": [VECTOR, INTEGER, TEXT]})),
    "text": Field(described("A text, if the index has an encoder for texts.", TEXT), _check_text),
    "picture": Field(
        described("A picture's file in base64, if the index has an encoder for pictures.", TEXT),
        _check_base64,
    ),
    "queries": Field(VECTORS),
    "tables": Field(
        described(
            "Look-up tables (q, M, K) as lists, or as little-endian float32 in base64.",
            {"type": ["array", "string"]},
        )
    ),
    "k": Field(
        described("The number of answers per query.", {"type": "integer", "default": 10, "minimum": 1}),
        _check_k,
        parse_whole,
    ),
    "ranking": Field(
        described("One of the rankings of the index; the first one by default.", TEXT), _check_text
    ),
    "novelty": Field(
        described(
            "The probability that a query belongs to no known class: one number, or one per query.",
            {"type": ["number", "array"]},
        ),
        _check_novelty,
        float,
    ),
    "where": Field(
        described(
            "Only these rows: a condition on columns in DuckDB's SQL, ids, or a mask in the order of the ids.",
            _WHERE,
        )
    ),
    "state": Field(described("The state of the index that a mask was made for.", TEXT), _check_text),
    "refine": Field(
        described(
            "How many of the first rows are ordered by their vectors, if the index keeps vectors.",
            {"type": "integer", "minimum": 1},
        ),
        _check_k,
        parse_whole,
    ),
    "threshold": Field(described("Worse answers are left out.", NUMBER), _check_number, float),
    "columns": Field(described("The columns to return.", list_of(TEXT)), _check_names, _split),
    # of rows
    "ids": Field(IDS, check_ids, _split),
    "vectors": Field(VECTORS),
    "codes": Field(
        described(
            "Lists of whole numbers from 0 to 255, or the bytes of codes in base64.",
            {"oneOf": [list_of(list_of(INTEGER)), TEXT]},
        )
    ),
    "labels": Field(
        described(
            "One label per row, or a list of labels per row if rows may have several; null if unknown.",
            {"type": "array"},
        ),
        _check_list,
    ),
    "unknown_labels": Field(
        described(
            "What to do if the model does not know some of the labels: refuse them, take their rows as rows without a label, "
            "or first add the labels to the model.",
            {"type": "string", "enum": ["error", "ignore", "extend"], "default": "error"},
        ),
        _check_text,
    ),
    "metadata": Field(
        described(
            "Columns by name, each a list of values; or an Arrow stream in base64.",
            {"type": ["object", "string"]},
        ),
        _check_metadata,
    ),
    "label": Field(described("The column of labels; guessed by default.", TEXT), _check_text),
}
"""Every field of a request, by name. A name means the same in every operation."""

# arrays, whose width the index says --------------------------------------------------------------------------------------


def read_vectors(value: Any, width: int, name: str, limit: int) -> Float32:
    """Return vectors (n, width) float32 from lists of numbers, or from little-endian float32 in base64.

    Raises
    ------
    RefusalError
        If the value holds no such vectors, more rows than the limit, or NaN or infinity.
    """
    if isinstance(value, str):
        found = rows_of_bytes(_decode(value, name), width, name, limit)
    else:
        numbers = numbers_from(value, name) if value != [] else np.empty((0, width), np.float32)
        if numbers.ndim != 2 or numbers.shape[1] != width:
            raise RefusalError(422, f"{name} must be lists of {width} numbers, got shape {numbers.shape}")
        with np.errstate(over="ignore"):
            found = numbers.astype(np.float32)
        _check_length(found, name, limit)
    if not np.isfinite(found).all():
        raise RefusalError(422, f"{name} must not hold NaN, infinity or numbers beyond float32")
    return found


def rows_of_bytes(data: bytes, width: int, name: str, limit: int) -> Float32:
    """Return rows (n, width) float32 from the bytes of little-endian float32. They may hold NaN and infinity."""
    size = 4 * width
    if len(data) % size:
        raise RefusalError(
            422, f"{name} must be rows of {width} float32 numbers, {size} bytes each, got {len(data):,} bytes"
        )
    found = np.frombuffer(data, dtype="<f4").reshape(-1, width)
    _check_length(found, name, limit)
    return found


def read_codes(value: Any, n_codebooks: int, limit: int) -> Codes:
    """Return codes (n, M) from lists of whole numbers, or uint8 from their bytes in base64."""
    if isinstance(value, str):
        data = _decode(value, "codes")
        if len(data) % n_codebooks:
            raise RefusalError(422, f"codes must have {n_codebooks} bytes each, got {len(data):,} bytes")
        found = np.frombuffer(data, dtype=np.uint8).reshape(-1, n_codebooks)
    else:
        found = numbers_from(value, "codes") if value != [] else np.empty((0, n_codebooks), np.uint8)
    _check_length(found, "codes", limit)
    return found


def numbers_from(value: Any, name: str) -> NDArray[Any]:
    """Return an array of the numbers in nested lists; raise a `RefusalError` for anything else."""
    try:
        found = np.array(value if isinstance(value, list) else None)
    except ValueError:
        raise RefusalError(422, f"{name} must be lists of numbers of the same length") from None
    if found.dtype.kind not in "fiu":
        raise RefusalError(422, f"{name} must be lists of numbers")
    return found


def _decode(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise RefusalError(422, f"{name} must be lists, or text in base64") from None


def _check_length(rows: NDArray[Any], name: str, limit: int) -> None:
    if len(rows) > limit:
        raise RefusalError(422, f"{name} must have at most {limit:,} rows, got {len(rows):,}")
