"""Requests to answers: operations that describe an index and read its rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from supquant.serve import schemas
from supquant.serve.arrow import ARROW, arrow_answer
from supquant.serve.calls import Call, Operation
from supquant.serve.json_values import read_ids_field, read_names
from supquant.serve.limits import RefusalError

__all__ = ["OPERATIONS"]


async def list_indexes(call: Call) -> Any:
    """Answer the names and sizes of all indexes."""
    return {
        "indexes": [
            {"name": name, "rows": len(served.version.index)} for name, served in call.service.indexes.items()
        ]
    }


async def info(call: Call) -> Any:
    """Answer what an index is like."""
    index, codec = call.index, call.index.codec
    classes = getattr(codec, "classes", None)
    return {
        "name": call.served.name,
        "bits": 8 * codec.n_codebooks,
        "inputs": codec.n_inputs,
        "codewords": codec.n_codewords,
        "rankings": codec.rankings,
        "descending": {each: call.served_version.descends(each) for each in codec.rankings},
        "columns": call.served_version.column_types(),
        "labels": None if classes is None else classes.tolist(),
        "multilabel": bool(getattr(codec, "multilabel", False)),
        "accepts": ["vector", "item", *call.served.encoders],
        "state": index.state,
        "limits": asdict(call.service.limits),
        **index.info(),
    }


async def items(call: Call) -> Any:
    """Answer the columns of the rows whose ids stand in the address."""
    parameters = call.parameters()
    if "ids" not in parameters:
        raise RefusalError(422, "give ids, with commas between them")
    ids: list[Any] = read_ids_field(parameters["ids"].split(","), call.service.limits)
    if call.index.info()["id_kind"] != "str":
        try:
            ids = list(map(int, ids))
        except ValueError:
            raise RefusalError(422, "the ids of this index are whole numbers") from None
    columns = parameters.get("columns")
    return await call.in_thread(_items, call, ids, None if columns is None else columns.split(","))


async def read_items(call: Call) -> Any:
    """Answer the columns of rows."""
    fields = call.fields()
    ids = read_ids_field(fields.get("ids"), call.service.limits)
    return await call.in_thread(_items, call, ids, read_names(fields.get("columns"), "columns"))


def _items(call: Call, ids: list[Any], columns: list[str] | None) -> Any:
    if columns is None and not call.index.columns:
        call.index.codes(ids)  # refuses ids that are not there, and needs no pyarrow
        return {"items": [{"id": each} for each in ids]}
    table = call.index.get(ids, columns)
    if call.accepts(ARROW):
        return arrow_answer(table)
    return {"items": table.to_pylist()}


async def list_ids(call: Call) -> Any:
    """Answer the ids of all rows, in order of insertion, and the state of the index."""
    ids = await call.in_thread(lambda: call.index.ids)
    return {
        "ids": ids.tolist() if ids.dtype == object else np.ascontiguousarray(ids),
        "state": call.index.state,
    }


async def codes(call: Call) -> Any:
    """Answer the codes of rows."""
    ids = read_ids_field(call.fields().get("ids"), call.service.limits)
    return {"codes": await call.in_thread(call.index.codes, ids)}


async def reconstruct(call: Call) -> Any:
    """Answer the vectors that the codes of rows stand for."""
    ids = read_ids_field(call.fields().get("ids"), call.service.limits)
    vectors = await call.in_thread(call.index.reconstruct, ids)
    return {"vectors": np.ascontiguousarray(vectors), "width": vectors.shape[1]}


async def check_new(call: Call) -> Any:
    """Answer whether rows with these ids can be added."""
    given = call.fields().get("ids")
    ids = None if given is None else read_ids_field(given, call.service.limits)
    await call.in_thread(call.index._check_new, ids)
    return {"new": True}


_ITEMS = {"items": {"type": "array", "items": {"type": "object", "properties": {"id": schemas.ID}}}}
_IDS_BODY = {"ids": schemas.IDS}

OPERATIONS = (
    Operation(
        "GET",
        "/v1",
        list_indexes,
        "List the indexes.",
        answer={"indexes": {"type": "array", "items": schemas.OBJECT}},
    ),
    Operation("GET", "/v1/{index}", info, "Describe an index.", answer=schemas.INFO),
    Operation(
        "GET",
        "/v1/{index}/items",
        items,
        "Read the columns of rows, by a list of ids with commas between them.",
        parameters={"ids": schemas.TEXT, "columns": schemas.TEXT},
        answer=_ITEMS,
    ),
    Operation(
        "POST",
        "/v1/{index}/items",
        read_items,
        "Read the columns of rows, by ids of any form. An Arrow stream is answered if the client accepts it.",
        body={**_IDS_BODY, "columns": schemas.NAMES},
        answer=_ITEMS,
        example={"ids": [0, 1]},
    ),
    Operation(
        "GET",
        "/v1/{index}/ids",
        list_ids,
        "List the ids of all rows, in order of insertion.",
        answer={"ids": schemas.IDS, "state": schemas.TEXT},
    ),
    Operation(
        "POST",
        "/v1/{index}/codes",
        codes,
        "Read the codes of rows.",
        body=_IDS_BODY,
        answer={"codes": {"type": "array", "items": schemas.INTEGERS}},
        example={"ids": [0, 1]},
    ),
    Operation(
        "POST",
        "/v1/{index}/reconstruct",
        reconstruct,
        "Read the vectors that the codes of rows stand for.",
        body=_IDS_BODY,
        answer={"vectors": {"type": "array", "items": schemas.VECTOR}, "width": schemas.INTEGER},
        example={"ids": [0, 1]},
    ),
    Operation(
        "POST",
        "/v1/{index}/check_new",
        check_new,
        "Check that rows with these ids can be added.",
        body=_IDS_BODY,
        answer={"new": schemas.FLAG},
        example={},
    ),
)
