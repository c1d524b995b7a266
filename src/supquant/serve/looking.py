"""Requests to answers: operations for the page: a map of the items, the audit of their labels, and why an answer is near."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from supquant.index import CodeIndex
from supquant.model.codec import SupervisedCodec
from supquant.serve import schemas
from supquant.serve.beside import Beside, columns_of, compact_ids, label_column
from supquant.serve.calls import Call, Operation
from supquant.serve.json_values import read_ids_field
from supquant.serve.limits import RefusalError
from supquant.serve.meanings import class_shares, explain, two_dimensions
from supquant.serve.queries import read_query
from supquant.serve.served import ServedIndex, Version

__all__ = ["OPERATIONS"]

MOST_POINTS = 50_000
"""The map has at most this number of items, which are drawn at random from more."""

MOST_AUDITED = 100_000
"""A service audits the labels of at most this number of items."""

MOST_LISTED = 500
"""At most this number of findings of a kind is answered."""

SAMPLED = 100
"""Number of random items that are answered."""

PATIENCE = 10.0
"""A request waits this number of seconds for a map or an audit. The work goes on, and the next request gets it."""

_beside: WeakKeyDictionary[ServedIndex, Beside] = WeakKeyDictionary()
_begun: WeakKeyDictionary[Version, dict[Any, asyncio.Future[Any]]] = WeakKeyDictionary()
"""The maps and audits of each version, under way or finished, by the function that makes them and the column of labels."""


def _table_beside(call: Call) -> Beside:
    return _beside.setdefault(call.served, Beside(call.served.folder))


async def read_map(call: Call) -> Any:
    """Answer a place in two dimensions for every item, or for a sample of them."""
    return await _once(call, _map_of)


async def read_audit(call: Call) -> Any:
    """Answer labels that look wrong, near-duplicates, rows of no class, and confused classes."""
    return await _once(call, _audit_of)


async def _once(call: Call, work: Callable[[CodeIndex, Beside, str | None], dict[str, Any]]) -> Any:
    """Return the result of some work for a column of labels, which is done once for a version of the index.

    While it is under way, the answer is that it is not ready.
    """
    wanted = call.parameters().get("label")
    index, beside = call.index, _table_beside(call)
    begun = _begun.setdefault(call.served_version, {})
    key = work, wanted
    if key not in begun or (begun[key].done() and begun[key].exception() is not None):
        begun[key] = asyncio.ensure_future(call.in_thread(work, index, beside, wanted))
        # If nobody asks again, nobody looks at its error, and asyncio would write it into the log.
        begun[key].add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([begun[key]], timeout=min(PATIENCE, call.service.limits.deadline / 2))
    return begun[key].result() if begun[key].done() else {"ready": False}


def _map_of(index: CodeIndex, beside: Beside, wanted: str | None) -> dict[str, Any]:
    ids = index.ids
    if not len(ids):
        return {
            "ready": True,
            "ids": [],
            "x": [],
            "y": [],
            "label": [],
            "labels": [],
            "column": None,
            "rows": 0,
        }
    sample = ids[np.sort(np.random.default_rng(0).permutation(len(ids))[:MOST_POINTS])]
    column, chosen = label_column(index, beside, wanted, sample.tolist())
    codes = index.codes(sample)
    places = two_dimensions(index.codec, codes)
    if column is None:  # colours then show what the codes say
        codec = index.codec
        shares = class_shares(codec, codec.decode(codes))
        if shares is not None and isinstance(codec, SupervisedCodec):
            chosen = codec.classes[shares.argmax(axis=1)].tolist()
    names = sorted({each for each in chosen if each is not None}, key=lambda each: (str(type(each)), each))
    number = {each: place for place, each in enumerate(names)}
    return {
        "ready": True,
        "ids": compact_ids(sample),
        "x": np.ascontiguousarray(places[:, 0].round(4)),
        "y": np.ascontiguousarray(places[:, 1].round(4)),
        "label": [number.get(each, -1) for each in chosen],
        "labels": names,
        "column": column,
        "rows": len(ids),
    }


def _audit_of(index: CodeIndex, beside: Beside, wanted: str | None) -> dict[str, Any]:
    """Return the findings of the file beside the index, and of its codes otherwise; the quality of classes is by codes."""
    from supquant.auditing import KINDS, audit  # noqa: PLC0415  # scikit-learn would double the start of a service

    ready = beside.findings()
    ids = index.ids.tolist() if len(index) <= MOST_AUDITED else []
    column, labels = label_column(index, beside, wanted, ids)
    if column is None and ready is None:
        raise RefusalError(
            422, "no column has labels: name one, or write findings beside the index with `supquant audit`"
        )
    answer: dict[str, Any] = {"ready": True, "column": column, "source": "codes", "notes": [], "classes": []}
    if column is not None and len(index) <= MOST_AUDITED:
        by_codes = audit(index, np.array(labels, dtype=object))
        answer |= {"notes": by_codes.notes, "classes": _lines(by_codes.classes.to_arrow())}
        answer["findings"] = {kind: _lines(by_codes.of_kind(kind).to_arrow()) for kind in KINDS}
    elif ready is None:
        raise RefusalError(
            422, f"more than {MOST_AUDITED:,} items: write findings beside the index with `supquant audit`"
        )
    if ready is not None:
        lines = ready.to_pylist()
        answer["findings"] = {
            kind: [line for line in lines if line["kind"] == kind][:MOST_LISTED] for kind in KINDS
        }
        answer["source"] = "file"
    return answer


def _lines(table: Any) -> list[dict[str, Any]]:
    return list(table.slice(0, MOST_LISTED).to_pylist())


async def read_sample(call: Call) -> Any:
    """Answer the ids of some random items."""
    ids = await call.in_thread(lambda: call.index.ids)
    rows = np.sort(np.random.default_rng().permutation(len(ids))[:SAMPLED])
    return {"ids": compact_ids(ids[rows])}


async def read_shown(call: Call) -> Any:
    """Answer all columns of items, those of the index and those beside it."""
    ids = read_ids_field(call.fields().get("ids"), call.service.limits)
    beside = _table_beside(call)
    return {"items": await call.in_thread(columns_of, call.index, beside, ids)}


async def read_reasons(call: Call) -> Any:
    """Answer what a query looks like, and why items are near to it."""
    fields = call.fields()
    ids = read_ids_field(fields.get("ids"), call.service.limits)
    query = await read_query(call, fields)

    def work() -> Any:
        index = call.index
        vector = query if isinstance(query, np.ndarray) else None
        own = index.codes([query]) if vector is None else None
        return explain(index.codec, vector, own, index.codes(ids))

    return await call.in_thread(work)


_READY = {"ready": {"description": "False while the work is under way: ask again.", **schemas.FLAG}}
_LABEL = {"label": {"description": "The column of labels; guessed by default.", **schemas.TEXT}}
_COLUMN = {"column": {"description": "The column of labels.", "type": ["string", "null"]}}
_OBJECTS = {"type": "array", "items": schemas.OBJECT}

OPERATIONS = (
    Operation(
        "GET",
        "/v1/{index}/map",
        read_map,
        f"Place items on a map by their codes, at most {MOST_POINTS:,} of them.",
        parameters=_LABEL,
        answer={
            **_READY,
            **_COLUMN,
            "ids": schemas.IDS,
            "x": schemas.NUMBERS,
            "y": schemas.NUMBERS,
            "label": {
                "description": "For each item the number of its label, -1 for none.",
                **schemas.INTEGERS,
            },
            "labels": {"type": "array"},
            "rows": schemas.INTEGER,
        },
    ),
    Operation(
        "GET",
        "/v1/{index}/audit",
        read_audit,
        "List labels that look wrong, near-duplicates, rows of no class and confused classes.",
        parameters=_LABEL,
        answer={
            **_READY,
            **_COLUMN,
            "source": {
                "description": "Whether findings come from a file beside the index or from codes.",
                **schemas.TEXT,
            },
            "notes": schemas.NAMES,
            "classes": _OBJECTS,
            "findings": schemas.OBJECT,
        },
    ),
    Operation(
        "GET",
        "/v1/{index}/sample",
        read_sample,
        f"List the ids of {SAMPLED} random items, to look at.",
        answer={"ids": schemas.IDS},
    ),
    Operation(
        "POST",
        "/v1/{index}/shown",
        read_shown,
        "Read all columns of items, those of the index and those of the file beside it.",
        body={"ids": schemas.IDS},
        answer={"items": _OBJECTS},
        example={"ids": [0, 1]},
    ),
    Operation(
        "POST",
        "/v1/{index}/explain",
        read_reasons,
        "Say what a query looks like, and why items are near to it.",
        body={**schemas.QUERY, "ids": schemas.IDS},
        answer={
            "classes": _OBJECTS,
            "novelty": {"type": ["number", "null"]},
            "answers": _OBJECTS,
        },
        example={"query": 0, "ids": [1, 2]},
    ),
)
