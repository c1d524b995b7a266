"""Requests to answers: fields of a JSON body to arrays, and columns of rows to what JSON can hold."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Codes, Float32
from supquant.serve.limits import Limits, RefusalError

__all__ = [
    "numbers_from",
    "plain",
    "read_codes",
    "read_count",
    "read_ids_field",
    "read_names",
    "read_number",
    "read_text",
    "read_vectors",
    "rows_of_bytes",
]


def read_vectors(value: Any, width: int, name: str, limit: int) -> Float32:
    """Return vectors (n, width) float32 from lists of numbers, or from the base64 of little-endian float32.

    Raises
    ------
    RefusalError
        If the value is not such vectors, has too many rows, or holds NaN or infinity.
    """
    if isinstance(value, str):
        return _finite(rows_of_bytes(_decoded(value, name), width, name, limit), name)
    found = numbers_from(value, name)
    if found.ndim != 2 or found.shape[1] != width:
        raise RefusalError(422, f"{name} must be lists of {width} numbers, got shape {found.shape}")
    with np.errstate(over="ignore"):
        return _finite(_few(found.astype(np.float32), name, limit), name)


def rows_of_bytes(data: bytes, width: int, name: str, limit: int) -> Float32:
    """Return rows (n, width) float32 from the bytes of little-endian float32. They may hold NaN and infinity."""
    if len(data) % (4 * width):
        raise RefusalError(
            422,
            f"{name} must be rows of {width} float32 numbers, {4 * width} bytes each, got {len(data):,} bytes",
        )
    return _few(np.frombuffer(data, dtype="<f4").reshape(-1, width), name, limit)


def _few(vectors: Float32, name: str, limit: int) -> Float32:
    if len(vectors) > limit:
        raise RefusalError(422, f"{name} must have at most {limit:,} rows, got {len(vectors):,}")
    return vectors


def _finite(vectors: Float32, name: str) -> Float32:
    if not np.isfinite(vectors).all():
        raise RefusalError(422, f"{name} must not hold NaN, infinity or numbers beyond float32")
    return vectors


def numbers_from(value: Any, name: str) -> NDArray[Any]:
    """Return an array of the numbers in nested lists; raise a `RefusalError` for anything else."""
    try:
        found = np.array(value if isinstance(value, list) else None)
    except ValueError:
        raise RefusalError(422, f"{name} must be lists of numbers of the same length") from None
    if found.size == 0 and found.dtype.kind == "f":
        return found
    if found.dtype.kind not in "fiu":
        raise RefusalError(422, f"{name} must be lists of numbers")
    return found


def read_codes(value: Any, n_codebooks: int, limit: int) -> Codes:
    """Return codes (n, M) uint8 from lists of whole numbers, or from the base64 of their bytes."""
    if isinstance(value, str):
        data = _decoded(value, "codes")
        if len(data) % n_codebooks:
            raise RefusalError(422, f"codes must have {n_codebooks} bytes each, got {len(data):,} bytes")
        found = np.frombuffer(data, dtype=np.uint8).reshape(-1, n_codebooks)
    else:
        found = numbers_from(value, "codes")
        if found.size == 0 and found.ndim < 2:
            found = np.empty((0, n_codebooks), np.uint8)
    if len(found) > limit:
        raise RefusalError(422, f"codes must have at most {limit:,} rows, got {len(found):,}")
    return found


def _decoded(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise RefusalError(422, f"{name} must be lists, or text in base64") from None


def read_ids_field(value: Any, limits: Limits, name: str = "ids") -> list[Any]:
    """Return a list of ids; the index checks what they are."""
    if not isinstance(value, list):
        raise RefusalError(422, f"{name} must be a list of whole numbers or of strings")
    if len(value) > limits.max_rows:
        raise RefusalError(422, f"{name} must be at most {limits.max_rows:,}, got {len(value):,}")
    return value


def read_count(value: Any, name: str, high: int) -> int:
    """Return a whole number from 1 to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
        raise RefusalError(422, f"{name} must be a whole number from 1 to {high:,}, got {str(value)[:40]}")
    return value


def read_number(value: Any, name: str) -> float | None:
    """Return a number, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RefusalError(422, f"{name} must be a number")
    return float(value)


def read_text(value: Any, name: str) -> str | None:
    """Return a text, or None."""
    if value is not None and not isinstance(value, str):
        raise RefusalError(422, f"{name} must be text")
    return value


def read_names(value: Any, name: str) -> list[str] | None:
    """Return a list of texts, or None."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise RefusalError(422, f"{name} must be a list of names")
    return value


def plain(value: Any) -> Any:
    """Return what stands for a value that JSON cannot hold: arrays as lists, bytes as base64, all else as text."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return str(value)
