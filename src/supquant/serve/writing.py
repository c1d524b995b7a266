"""Requests to answers: operations that change an index. A change is in the folder when it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supquant.index import CodeIndex
from supquant.serve import schemas
from supquant.serve.arrow import read_metadata
from supquant.serve.calls import Call, Operation
from supquant.serve.json_values import read_codes, read_ids_field, read_vectors
from supquant.serve.limits import Limits, RefusalError

__all__ = ["OPERATIONS"]


async def add(call: Call) -> Any:
    """Append rows."""
    fields, limits = call.fields(), call.service.limits
    ids = None if fields.get("ids") is None else read_ids_field(fields["ids"], limits)
    metadata = read_metadata(fields.get("metadata"))

    def change(index: CodeIndex) -> Any:
        X, codes = _read_rows(fields, index, limits)
        if codes is None:
            index.add(X, _read_labels(fields, index), ids, metadata=metadata)
        else:
            index.add_codes(codes, ids, metadata=metadata)
        return {"rows": len(index)}

    return await call.served.change(change)


async def update(call: Call) -> Any:
    """Replace rows whose ids are in the index."""
    return await _put(call, "update")


async def upsert(call: Call) -> Any:
    """Replace rows whose ids are in the index, and append the others."""
    return await _put(call, "upsert")


async def _put(call: Call, method: str) -> Any:
    fields, limits = call.fields(), call.service.limits
    ids = read_ids_field(fields.get("ids"), limits)
    metadata = read_metadata(fields.get("metadata"))

    def change(index: CodeIndex) -> Any:
        X, codes = _read_rows(fields, index, limits)
        if codes is None:
            getattr(index, method)(ids, X, _read_labels(fields, index), metadata=metadata)
        else:
            getattr(index, f"{method}_codes")(ids, codes, metadata=metadata)
        return {"rows": len(index)}

    return await call.served.change(change)


async def remove(call: Call) -> Any:
    """Remove rows."""
    ids = read_ids_field(call.fields().get("ids"), call.service.limits)

    def change(index: CodeIndex) -> Any:
        return {"rows": len(index.remove(ids))}

    return await call.served.change(change)


async def compact(call: Call) -> Any:
    """Copy all rows into one segment, without removed ones."""
    call.fields()

    def change(index: CodeIndex) -> Any:
        return {"rows": len(index.compact())}

    return await call.served.change(change)


def _read_rows(fields: Mapping[str, Any], index: CodeIndex, limits: Limits) -> tuple[Any, Any]:
    """Return the vectors of a body and None, or None and its codes. They are read for the index that is changed."""
    if ("vectors" in fields) == ("codes" in fields):
        raise RefusalError(422, "give either vectors or codes")
    if "codes" in fields:
        if fields.get("labels") is not None:
            raise RefusalError(422, "labels are given with vectors, not with codes")
        return None, read_codes(fields["codes"], index.codec.n_codebooks, limits.max_rows)
    return read_vectors(fields["vectors"], index.codec.n_inputs, "vectors", limits.max_rows), None


def _read_labels(fields: Mapping[str, Any], index: CodeIndex) -> Any:
    """Return the labels of a body; where rows may have several, an array of lists."""
    given = fields.get("labels")
    if given is None:
        return None
    if not isinstance(given, list):
        raise RefusalError(422, "labels must be a list")
    if not getattr(index.codec, "multilabel", False):
        return given
    labels = np.empty(len(given), dtype=object)
    labels[:] = given
    return labels


_ROWS = {
    "vectors": schemas.VECTORS,
    "codes": schemas.CODES,
    "labels": schemas.LABELS,
    "metadata": schemas.METADATA,
}

OPERATIONS = (
    Operation(
        "POST",
        "/v1/{index}/add",
        add,
        "Append rows: vectors with labels where they are known, or codes.",
        access="write",
        body={**_ROWS, "ids": schemas.IDS},
        answer=schemas.CHANGED,
        example={"vectors": [[0.0] * 64], "labels": [0]},
    ),
    Operation(
        "POST",
        "/v1/{index}/update",
        update,
        "Replace rows whose ids are in the index. Each keeps its place.",
        access="write",
        body={"ids": schemas.IDS, **_ROWS},
        answer=schemas.CHANGED,
        example={"ids": [0], "vectors": [[0.0] * 64], "labels": [0]},
    ),
    Operation(
        "POST",
        "/v1/{index}/upsert",
        upsert,
        "Replace rows whose ids are in the index, and append the others.",
        access="write",
        body={"ids": schemas.IDS, **_ROWS},
        answer=schemas.CHANGED,
        example={"ids": [0], "vectors": [[0.0] * 64]},
    ),
    Operation(
        "POST",
        "/v1/{index}/remove",
        remove,
        "Remove rows.",
        access="write",
        body={"ids": schemas.IDS},
        answer=schemas.CHANGED,
        example={"ids": [5]},
    ),
    Operation(
        "POST",
        "/v1/{index}/compact",
        compact,
        "Copy all rows into one segment, without removed ones.",
        access="write",
        body={},
        answer=schemas.CHANGED,
        example={},
    ),
)
