"""Below the flow: the names of arrays in signatures. Shapes are given next to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "Codes", "Counts", "Flags", "Float32", "Float64", "RowNumbers"]

Array = NDArray[Any]
"""An array of any dtype."""

ArrayLike = Any
"""Anything that a caller may pass for an array: lists, arrays, tensors, sparse matrices or data frames. The gates check it."""

Float32 = NDArray[np.float32]
"""Vectors, features, tables and scores are float32."""

Float64 = NDArray[np.float64]
"""Sums over rows, and what is solved from them, are float64."""

Codes = NDArray[np.uint8]
"""Codes (n, M) have one byte per codebook."""

Counts = NDArray[np.uint16]
"""Features between 0 and 1 may be kept as counts of 2^-15."""

RowNumbers = NDArray[np.int64]
"""Rows are numbered from 0."""

Flags = NDArray[np.bool_]
"""Flags are true or false, usually one per row."""
