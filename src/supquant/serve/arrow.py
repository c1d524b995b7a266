"""Requests to answers: tables as Arrow streams."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from supquant.serve.calls import Answer
from supquant.serve.limits import RefusalError

__all__ = ["ARROW", "arrow_answer", "read_metadata"]

ARROW = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow stream."""


def arrow_answer(table: Any) -> Answer:
    """Return the answer that holds a `pyarrow.Table` as an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415  # the table is one of its

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Answer(sink.getvalue().to_pybytes(), ARROW)


def read_metadata(value: Any) -> Any:
    """Return columns by name, or the table of an Arrow stream in base64."""
    if value is None or isinstance(value, dict):
        return value
    if not isinstance(value, str):
        raise RefusalError(422, "metadata must be columns by name, or an Arrow stream in base64")
    import pyarrow as pa  # noqa: PLC0415  # only for clients that send its streams

    try:
        table = pa.ipc.open_stream(pa.py_buffer(base64.b64decode(value, validate=True))).read_all()
        table.validate(full=True)  # the bytes come from anywhere
    except (pa.ArrowException, OSError, binascii.Error, ValueError):
        raise RefusalError(422, "metadata is text, but no Arrow stream in base64") from None
    return table
