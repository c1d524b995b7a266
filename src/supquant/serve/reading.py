"""Requests to answers: operations that describe an index and read its rows, the page, and what shows how a service is doing."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from supquant.serve.calls import Answer, Call, operation, table_answer
from supquant.serve.columns import MAX_COLUMN_BYTES, rows_of
from supquant.serve.fields import (
    FLAG,
    ID,
    IDS,
    INTEGER,
    OBJECT,
    TEXT,
    VECTOR,
    described,
    list_of,
    parse_whole,
)
from supquant.serve.limits import RefusalError
from supquant.serve.metrics import CONTENT_TYPE

__all__ = ["OPERATIONS"]

# indexes and their rows --------------------------------------------------------------------------------------------------


@operation("GET", "/v1", answer={"indexes": list_of(OBJECT)})
async def list_indexes(call: Call) -> Any:
    """List the indexes."""
    return {
        "indexes": [
            {"name": name, "rows": len(served.version.index)} for name, served in call.service.indexes.items()
        ]
    }


@operation(
    "GET",
    "/v1/{index}",
    answer={
        "name": TEXT,
        "rows": INTEGER,
        "removed": INTEGER,
        "bits": INTEGER,
        "bytes_per_code": INTEGER,
        "inputs": described("The width of vectors.", INTEGER),
        "codewords": INTEGER,
        "rankings": list_of(TEXT),
        "descending": described("Whether greater scores are better, by ranking.", OBJECT),
        "columns": described("The type of each column.", OBJECT),
        "labels": described(
            "The labels that the model knows; null if it knows none.", {"type": ["array", "null"]}
        ),
        "multilabel": FLAG,
        "accepts": described("What a query may be: vector, item, text, picture.", list_of(TEXT)),
        "id_kind": {"type": ["string", "null"]},
        "state": TEXT,
        "version": described("Differs after every change, also of columns and labels.", TEXT),
        "limits": described("The limits of the service.", OBJECT),
        "bytes": OBJECT,
        "instruction_set": TEXT,
        "segments": list_of(OBJECT),
    },
)
async def info(call: Call) -> Any:
    """Describe an index."""
    index, codec, version = call.index, call.index.codec, call.version
    classes = getattr(codec, "classes", None)
    return {
        "name": call.served.name,
        "bits": 8 * codec.n_codebooks,
        "inputs": codec.n_inputs,
        "codewords": codec.n_codewords,
        "rankings": codec.rankings,
        "descending": {each: version.descends(each) for each in codec.rankings},
        "columns": version.column_types(),
        "labels": None if classes is None else classes.tolist(),
        "multilabel": bool(getattr(codec, "multilabel", False)),
        "accepts": ["vector", "item", *call.served.encoders],
        "state": index.state,
        "version": version.name,
        "limits": asdict(call.service.limits),
        **index.info(),
    }


_ITEMS = {"items": list_of({"type": "object", "properties": {"id": ID}})}


@operation("GET", "/v1/{index}/items", parameters=("ids", "columns"), required=("ids",), answer=_ITEMS)
async def items(call: Call) -> Any:
    """Read the columns of rows, by a list of ids with commas between them."""
    fields = call.parameters()
    if call.index.info()["id_kind"] != "str":
        try:
            fields["ids"] = list(map(parse_whole, fields["ids"]))
        except ValueError:
            raise RefusalError(422, "the ids of this index are whole numbers") from None
    return await call.in_thread(_items, call, fields["ids"], fields.get("columns"))


@operation(
    "POST",
    "/v1/{index}/items",
    body=("ids", "columns"),
    required=("ids",),
    answer=_ITEMS,
    example={"ids": [0, 1]},
)
async def read_items(call: Call) -> Any:
    """Read the columns of rows, by ids of any kind. An Arrow stream is answered if the client accepts it."""
    fields = call.fields()
    return await call.in_thread(_items, call, fields["ids"], fields.get("columns"))


def _items(call: Call, ids: list[Any], columns: list[str] | None) -> Any:
    if columns is None and not call.index.columns:
        call.index.codes(ids)  # refuses ids that are not there, and needs no pyarrow
        return {"items": [{"id": each} for each in ids]}
    table = rows_of(call.index, ids, columns)
    return table_answer(table) if call.accepts_arrow() else {"items": table.to_pylist()}


@operation("GET", "/v1/{index}/ids", answer={"ids": IDS, "state": TEXT})
async def list_ids(call: Call) -> Any:
    """List the ids of all rows, in order of insertion."""
    return {"ids": await call.in_thread(lambda: call.index.ids), "state": call.index.state}


@operation(
    "POST",
    "/v1/{index}/codes",
    body=("ids",),
    required=("ids",),
    answer={"codes": list_of(list_of(INTEGER))},
    example={"ids": [0, 1]},
)
async def codes(call: Call) -> Any:
    """Read the codes of rows."""
    return {"codes": await call.in_thread(call.index.codes, call.fields()["ids"])}


@operation(
    "POST",
    "/v1/{index}/reconstruct",
    body=("ids",),
    required=("ids",),
    answer={"vectors": list_of(VECTOR), "width": INTEGER},
    example={"ids": [0, 1]},
)
async def reconstruct(call: Call) -> Any:
    """Read the vectors that the codes of rows stand for."""
    ids = call.fields()["ids"]
    width = (await call.in_thread(call.index.reconstruct, ids[:1])).shape[1]
    if 4 * width * len(ids) > MAX_COLUMN_BYTES:
        most = MAX_COLUMN_BYTES // (4 * width)
        raise RefusalError(
            422, f"ids must be at most {most:,}, as a vector has {width:,} numbers, got {len(ids):,}"
        )
    return {"vectors": await call.in_thread(call.index.reconstruct, ids), "width": width}


@operation("POST", "/v1/{index}/check_new", body=("ids",), answer={"new": FLAG}, example={})
async def check_new(call: Call) -> Any:
    """Check that rows with these ids can be added."""
    await call.in_thread(call.index._check_new, call.fields().get("ids"))
    return {"new": True}


# the page, and operations for those who run a service --------------------------------------------------------------------

_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""What a browser must not do with the page: load anything from elsewhere, or send anything there."""


@operation("GET", "/", access="open", media_type="text/html")
async def page(_: Call) -> Answer:
    """Read the page to search with."""
    return Answer(_page("page"), "text/html; charset=utf-8", headers=_PAGE_HEADERS)


@operation("GET", "/docs", access="open", media_type="text/html")
async def docs(_: Call) -> Answer:
    """Read the page that describes all operations."""
    return Answer(_page("docs"), "text/html; charset=utf-8", headers=_PAGE_HEADERS)


@cache
def _page(name: str) -> bytes:
    """Return a page with its style and its script in it, so that it needs no other file."""
    folder = files("supquant.serve")
    text = (folder / f"{name}.html").read_text(encoding="utf-8")
    for part in ("page.css", f"{name}.js"):
        text = text.replace(f"/* {part} */", (folder / part).read_text(encoding="utf-8"))
    return text.encode()


@operation("GET", "/healthz", access="open", answer={"status": TEXT})
async def healthz(_: Call) -> Any:
    """Say that the service runs."""
    return {"status": "ok"}


@operation("GET", "/readyz", access="open", answer={"status": TEXT})
async def readyz(call: Call) -> Any:
    """Say that the service takes requests."""
    if not call.service.ready:
        raise RefusalError(503, "the service is shutting down")
    return {"status": "ready"}


@operation("GET", "/metrics", media_type="text/plain")
async def metrics(call: Call) -> Answer:
    """Read counts and times for Prometheus."""
    return Answer(call.service.metrics.text(), CONTENT_TYPE)


@operation("GET", "/openapi.json", access="open", answer={"openapi": TEXT})
async def openapi(call: Call) -> Any:
    """Describe all operations."""
    return call.service.openapi


OPERATIONS = (
    list_indexes,
    info,
    items,
    read_items,
    list_ids,
    codes,
    reconstruct,
    check_new,
    page,
    docs,
    healthz,
    readyz,
    metrics,
    openapi,
)
