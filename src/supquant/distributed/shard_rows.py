"""Rows and ids that go to shards and come back from them."""

from __future__ import annotations

import numpy as np

from supquant.arrays import Array, ArrayLike
from supquant.index.ids import read_ids

__all__ = ["id_array", "moved"]


def moved(ids: Array, by: int) -> Array:
    """Return ids with something added to them, if they are numbers."""
    return ids + by if by and ids.dtype.kind == "i" else ids


def id_array(ids: ArrayLike, *, distinct: bool = False) -> Array:
    """Return ids (n,) of a user as an array of int64, or of objects that are str. If `distinct`, none may come twice."""
    read = read_ids(ids, distinct=distinct)
    return read.take(np.arange(len(read)))
