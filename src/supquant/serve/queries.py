"""Requests to answers: what a request searches for: a vector, an item, a text or a picture."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from supquant.arrays import Float32
from supquant.serve.calls import Call
from supquant.serve.json_values import read_vectors
from supquant.serve.limits import RefusalError

__all__ = ["encoded", "read_query"]


async def read_query(call: Call, fields: Mapping[str, Any]) -> Float32 | int | str:
    """Return the vector (1, p) of the fields ``query``, ``text`` or ``picture``, or the id of an item.

    Raises
    ------
    RefusalError
        If there is not one of them, or it cannot be used.
    """
    given = [name for name in ("query", "text", "picture") if name in fields]
    if len(given) != 1:
        raise RefusalError(422, "give either a query, a text or a picture")
    value = fields[given[0]]
    if given[0] == "text":
        if not isinstance(value, str):
            raise RefusalError(422, "text must be text")
        return await encoded(call, "text", value)
    if given[0] == "picture":
        try:
            picture = base64.b64decode(value, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise RefusalError(422, "picture must be a file in base64") from None
        return await encoded(call, "picture", picture)
    if isinstance(value, list):
        return read_vectors([value], call.served_version.width, "query", 1)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RefusalError(422, "query must be a vector, or the id of an item")
    return value


async def encoded(call: Call, kind: str, value: str | bytes) -> Float32:
    """Return the vector (1, p) of a text or a picture; raise a `RefusalError` if no encoder takes it."""
    encoder = call.served.encoders.get(kind)
    if encoder is None:
        raise RefusalError(422, f"this index has no encoder for a {kind}: search by a vector or an item")
    if not value:
        raise RefusalError(422, f"the {kind} is empty")
    return await encoder(value, call.served_version.width)
