"""Below the flow: what arrays are called in signatures. Their shapes stand beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "ArrayLike", "Codes", "Flags", "Float32", "Float64", "RowNumbers"]

Array = NDArray[Any]
"""Of any dtype."""

ArrayLike = Any
"""What a caller may give for an array: lists, arrays, tensors, sparse matrices or data frames. The gates check it."""

Float32 = NDArray[np.float32]
"""Vectors, features, tables and scores."""

Float64 = NDArray[np.float64]
"""What is summed over rows and solved."""

Codes = NDArray[np.uint8]
"""One byte for each codebook: (n, M)."""

RowNumbers = NDArray[np.int64]
"""Numbers of rows, counted from 0."""

Flags = NDArray[np.bool_]
"""Yes or no, most often for each row."""
