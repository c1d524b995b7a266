"""Rows and ids that go to shards and come back from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from supquant.arrays import Array, ArrayLike

__all__ = ["as_ids", "moved", "taken"]


def moved(ids: Array, by: int) -> Array:
    """Return ids that are numbers, with something added to them."""
    return ids + by if by else ids


def taken(values: Any, rows: Array) -> Any:
    """Return some rows of an array, a table of labels or a list."""
    return values[rows] if hasattr(values, "shape") else [values[row] for row in rows]


def as_ids(ids: ArrayLike) -> Array:
    """Return ids (n,) as an array of int64 or of objects that are str."""
    array = np.asarray(ids)
    return array.astype(object) if array.dtype.kind == "U" else array
