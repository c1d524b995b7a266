"""Requests to answers: operations that change an index. A change is in the folder when it is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supquant.index import CodeIndex
from supquant.index.unknown_labels import classes_of
from supquant.serve.calls import Call, operation
from supquant.serve.columns import check_columns
from supquant.serve.fields import CHANGED, described, read_codes, read_vectors
from supquant.serve.limits import RefusalError
from supquant.serve.served import Change

__all__ = ["OPERATIONS"]

_ROWS = ("ids", "vectors", "codes", "labels", "metadata", "unknown_labels")


@operation(
    "POST",
    "/v1/{index}/add",
    access="write",
    body=_ROWS,
    answer=CHANGED,
    example={"vectors": [[0.0] * 64], "labels": [0]},
)
async def add(call: Call) -> Any:
    """Append rows: vectors with labels where they are known, or codes."""
    return await _put(call, "add")


@operation(
    "POST",
    "/v1/{index}/update",
    access="write",
    body=_ROWS,
    required=("ids",),
    answer=CHANGED,
    example={"ids": [0], "vectors": [[0.0] * 64], "labels": [0]},
)
async def update(call: Call) -> Any:
    """Replace rows whose ids are in the index. Each keeps its place."""
    return await _put(call, "update")


@operation(
    "POST",
    "/v1/{index}/upsert",
    access="write",
    body=_ROWS,
    required=("ids",),
    answer=CHANGED,
    example={"ids": [0], "vectors": [[0.0] * 64]},
)
async def upsert(call: Call) -> Any:
    """Replace rows whose ids are in the index, and append the others."""
    return await _put(call, "upsert")


async def _put(call: Call, method: str) -> Any:
    """Add, update or upsert the rows of a body."""
    fields, max_rows = call.fields(), call.service.limits.max_rows
    if ("vectors" in fields) == ("codes" in fields):
        raise RefusalError(422, "give either vectors or codes")
    for name in ("labels", "unknown_labels"):
        if "codes" in fields and name in fields:
            raise RefusalError(422, f"{name} are given with vectors, not with codes")
    ids, metadata = fields.get("ids"), fields.get("metadata")

    def make(index: CodeIndex) -> None:
        codec = index.codec  # of the index that is changed: another process may have saved another one
        columns = index.columns
        if "codes" in fields:
            codes = read_codes(fields["codes"], codec.n_codebooks, max_rows)
            getattr(index, f"{method}_codes")(ids=ids, codes=codes, metadata=metadata)
        else:
            X = read_vectors(fields["vectors"], codec.n_inputs, "vectors", max_rows)
            mode = fields.get("unknown_labels", "error")
            y = _labels(fields, index)
            getattr(index, method)(ids=ids, X=X, y=y, metadata=metadata, unknown_labels=mode)
        check_columns(columns, index.columns)

    return await call.served.change(Change(make, key=call.change_key()))


def _labels(fields: Mapping[str, Any], index: CodeIndex) -> Any:
    """Return the labels of a body, or None. Where rows may have several, they are an array of lists."""
    given = fields.get("labels")
    if given is None or not getattr(index.codec, "multilabel", False):
        return given
    labels = np.empty(len(given), dtype=object)
    labels[:] = given
    return labels


@operation(
    "POST",
    "/v1/{index}/extend",
    access="write",
    body=("ids", "labels"),
    required=("ids", "labels"),
    answer={
        **CHANGED,
        "labels": described("The labels that the model knows after the change.", {"type": "array"}),
    },
)
async def extend(call: Call) -> Any:
    """Add new classes to the model, from items of the index and their labels. No code changes."""
    fields = call.fields()

    return await call.served.change(
        Change(
            lambda index: index.extend(fields["ids"], fields["labels"]),
            lambda index: {"rows": len(index), "labels": classes_of(index.codec)},
            call.change_key(),
        )
    )


@operation(
    "POST",
    "/v1/{index}/remove",
    access="write",
    body=("ids",),
    required=("ids",),
    answer=CHANGED,
    example={"ids": [1000]},
)
async def remove(call: Call) -> Any:
    """Remove rows."""
    ids = call.fields()["ids"]
    return await call.served.change(Change(lambda index: index.remove(ids), key=call.change_key()))


@operation("POST", "/v1/{index}/compact", access="write", body=(), answer=CHANGED, example={})
async def compact(call: Call) -> Any:
    """Copy all rows into one segment, without removed ones."""
    call.fields()
    return await call.served.change(Change(CodeIndex.compact, key=call.change_key()))


OPERATIONS = (add, update, upsert, extend, remove, compact)
