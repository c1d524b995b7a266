"""Requests to answers: what users give to a client and get from it, in the form of a service."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.errors import InputError
from supquant.index.columns import import_pyarrow
from supquant.index.ids import read_ids
from supquant.inputs.validation import as_float32, check_vectors, refuse_masked


@dataclass(frozen=True, eq=False, repr=False)
class ClientFilter:
    """Ids of the rows to search among. `Client.filter` makes it.

    Rows that are removed leave it. Unlike the filter of an index, it selects an id again that was removed and added again.
    """

    ids: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)


def read_vectors(X: Any, name: str, n_features: int) -> Float32:
    """Return vectors (n, p) as float32."""
    return as_float32(check_vectors(X, name=name, n_features=n_features, min_rows=0))


def to_base64(array: NDArray[Any]) -> str:
    """Return the base64 of the little-endian bytes of an array."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(little.tobytes()).decode("ascii")


def plain_ids(ids: Any, *, distinct: bool = False) -> list[Any]:
    """Return ids as a list of int or str."""
    read = read_ids(ids, distinct=distinct)
    return list(read.take(np.arange(len(read))).tolist())


def plain_codes(codes: Any) -> list[Any]:
    """Return codes (n, M) as lists of whole numbers."""
    array = np.asarray(refuse_masked(codes, "codes"))
    if array.ndim != 2 or array.dtype.kind not in "iu":
        raise InputError(
            f"codes must be whole numbers of shape (n, M), got {array.dtype} of shape {array.shape}"
        )
    return list(array.tolist())


def plain_where(where: object) -> Any:
    """Return `where` as the service takes it."""
    if where is None or isinstance(where, str):
        return where
    if isinstance(where, ClientFilter):
        return {"ids": where.ids.tolist(), "skip_missing": True}
    if type(where).__name__ == "Expression":
        raise InputError("a service takes conditions as text, not as pyarrow expressions")
    array = np.asarray(refuse_masked(where, "where")) if not isinstance(where, range) else np.array(where)
    if array.dtype == bool:
        return {"mask": array.tolist()}
    return {"ids": plain_ids(where)}


def novelty_of(novelty: Any, rows: slice) -> Any:
    """Return the novelty of some queries: a number, a list, or None."""
    array = np.asarray(novelty, dtype=object)
    return novelty if array.ndim == 0 else np.asarray(novelty, dtype=np.float32)[rows].tolist()


def plain_labels(y: Any) -> list[Any] | None:
    """Return labels as JSON can hold them: unknown ones are None, and rows with several labels are lists of them."""
    if y is None:
        return None
    array = np.asarray(refuse_masked(y.toarray() if hasattr(y, "toarray") else y, "y"))
    if array.ndim == 2:  # an indicator matrix; a row of NaN is unknown
        return [None if np.isnan(row).any() else np.flatnonzero(row).tolist() for row in array.astype(float)]
    return [None if _is_unknown(each) else each for each in array.tolist()]


def _is_unknown(label: Any) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))


def plain_metadata(metadata: Any) -> Any:
    """Return columns as an Arrow stream in base64; without pyarrow, as lists."""
    if metadata is None:
        return None
    try:
        pa = import_pyarrow("tables")
    except InputError:
        if not isinstance(metadata, dict):
            raise
        return json.loads(json.dumps(metadata))
    try:
        table = pa.table(metadata)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"metadata cannot be kept: {error}") from error
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def table_of(stream: bytes) -> Any:
    """Return the `pyarrow.Table` of an Arrow stream."""
    pa = import_pyarrow("tables of answers")
    return pa.ipc.open_stream(pa.py_buffer(stream)).read_all()


def without_none(**values: Any) -> dict[str, Any]:
    """Return the values that are not None, by name."""
    return {name: value for name, value in values.items() if value is not None}
