"""Requests to answers: operations that search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.serve import schemas
from supquant.serve.arrow import ARROW, arrow_answer
from supquant.serve.calls import OCTETS, Call, Operation
from supquant.serve.json_values import (
    numbers_from,
    read_count,
    read_ids_field,
    read_names,
    read_number,
    read_text,
    read_vectors,
    rows_of_bytes,
)
from supquant.serve.limits import RefusalError
from supquant.serve.queries import encoded, read_query
from supquant.serve.served import SearchKey, search_key

__all__ = ["OPERATIONS", "SEARCH"]

_OPTIONS = ("k", "ranking", "novelty", "where", "state", "threshold", "columns")
"""Fields of a search beside its queries. All but ids may also stand in the address of a search by bytes."""


_MOST_OPTIONS = 64
"""The number of different options that are kept with a version. Many clients ask with the same ones."""


@dataclass(frozen=True, eq=False)
class _Search:
    """What a search asks for beside its queries."""

    k: int
    key: SearchKey
    threshold: float | None
    columns: list[str] | None


async def search(call: Call) -> Any:
    """Answer the k best rows for each query."""
    limits, version = call.service.limits, call.served_version
    if call.media_type == OCTETS:
        # The index checks that all numbers are finite, once for all queries of a scan.
        queries: Any = rows_of_bytes(call.body, version.width, "the body", limits.max_queries)
        asked = version.options.get(call.query_string)
        if asked is None:
            asked = await _read_search(call, _typed(call.parameters()))
            if len(version.options) < _MOST_OPTIONS:
                version.options[call.query_string] = asked
        return await _answer(call, asked, queries)
    if call.media_type.startswith("image/"):
        asked = await _read_search(call, _typed(call.parameters()))
        return await _answer(call, asked, await encoded(call, "picture", call.body), single=True)
    fields = call.fields()
    asked = await _read_search(call, fields)
    if "queries" not in fields:
        query = await read_query(call, fields)
        return await _answer(call, asked, query if isinstance(query, np.ndarray) else [query], single=True)
    given = fields["queries"]
    if not {"query", "text", "picture"}.isdisjoint(fields):
        raise RefusalError(422, "give either a query or queries")
    queries = (
        np.empty((0, version.width), np.float32)
        if given == []
        else read_vectors(given, version.width, "queries", limits.max_queries)
    )
    return await _answer(call, asked, queries)


async def _answer(call: Call, asked: _Search, queries: Float32 | list[Any], *, single: bool = False) -> Any:
    """Search vectors (q, p), or what is like the items of some ids, and return the fields of the answer."""
    limits = call.service.limits
    if len(queries) * asked.k > limits.max_answers:
        raise RefusalError(
            422, f"{len(queries):,} queries with k={asked.k:,} are more than {limits.max_answers:,} answers"
        )
    if isinstance(queries, list):
        scores, ids = await call.in_thread(_search_like, call, asked, queries)
    else:
        scores, ids = await call.served.search(asked.key, queries)
        scores, ids = scores[:, : asked.k], ids[:, : asked.k]
    if call.accepts(ARROW):
        table = await call.in_thread(call.index._tabulate, scores, ids, asked.columns)
        return arrow_answer(table)
    found: dict[str, Any] = {"ids": ids, "scores": scores}
    if asked.columns:
        found["columns"] = await call.in_thread(_columns, call, ids, asked.columns)
    if asked.threshold is not None:
        found = _cut(found, scores, asked.threshold, call.served_version.descends(asked.key.ranking))
    return _first(found) if single else found


def _search_like(call: Call, asked: _Search, ids: list[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Search what is like the items of some ids, by their codes."""
    if asked.key.novelty is not None:
        raise RefusalError(422, "novelty cannot be given with the id of an item")
    tables = call.index.codec.item_tables(call.index.codes(ids), asked.key.ranking)
    sums, found = call.index.search_tables(tables, asked.k, where=asked.key.among)
    return tables.scores(sums), found


def _columns(call: Call, ids: NDArray[Any], names: list[str]) -> dict[str, list[list[Any]]]:
    """Return columns of answers (q, k), by name: lists of lists."""
    table = call.index.get(ids.ravel(), names).drop_columns(["id"])
    width = max(1, ids.shape[1])
    return {
        name: [values[start : start + width] for start in range(0, len(values), width)]
        for name, values in zip(
            table.column_names, (column.to_pylist() for column in table.columns), strict=True
        )
    }


def _cut(found: dict[str, Any], scores: NDArray[Any], threshold: float, descends: bool) -> dict[str, Any]:
    """Leave out answers that are worse than the threshold. The best ones come first, so the others are a prefix."""
    counts = (scores >= threshold if descends else scores <= threshold).sum(axis=1).tolist()

    def cut(values: Any) -> Any:
        if isinstance(values, dict):
            return {name: cut(each) for name, each in values.items()}
        rows = values.tolist() if isinstance(values, np.ndarray) else values
        return [row[:count] for row, count in zip(rows, counts, strict=True)]

    return {name: cut(values) for name, values in found.items()}


def _first(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to the first query alone, without the outer lists."""
    return {name: _first(each) if isinstance(each, dict) else each[0] for name, each in found.items()}


async def search_tables(call: Call) -> Any:
    """Answer the k rows with the lowest sums of table entries."""
    fields, limits, codec = call.fields(), call.service.limits, call.index.codec
    asked = await _read_search(call, fields)
    given = fields.get("tables")
    size = codec.n_codebooks * codec.n_codewords
    if isinstance(given, str):
        tables = read_vectors(given, size, "tables", limits.max_queries).reshape(
            -1, codec.n_codebooks, codec.n_codewords
        )
    else:
        tables = numbers_from(given, "tables").astype(np.float32)

    def scan() -> Any:
        return call.index.search_tables(tables, asked.k, where=asked.key.among)

    sums, ids = await call.in_thread(scan)
    return {"ids": ids, "sums": sums}


async def range_search(call: Call) -> Any:
    """Answer all rows whose score is as good as a threshold or better."""
    fields, limits, codec = call.fields(), call.service.limits, call.index.codec
    asked = await _read_search(call, fields)
    queries = read_vectors(fields.get("queries"), codec.n_inputs, "queries", limits.max_queries)
    threshold = read_number(fields.get("threshold"), "threshold")
    if threshold is None:
        raise RefusalError(422, "give a threshold")

    def scan() -> Any:
        return call.index.range_search(
            queries,
            threshold,
            ranking=asked.key.ranking,
            novelty=asked.key.novelty,
            where=asked.key.among,
        )

    bounds, scores, ids = await call.in_thread(scan)
    if len(ids) > limits.max_answers:
        raise RefusalError(
            422, f"{len(ids):,} rows are within the threshold, at most {limits.max_answers:,} are answered"
        )
    return {"limits": bounds.tolist(), "ids": ids.tolist(), "scores": scores}


async def select(call: Call) -> Any:
    """Answer the ids of the rows that a condition, ids or a mask choose."""
    fields = call.fields()
    where, state = read_where(fields.get("where"), call), read_text(fields.get("state"), "state")
    if where is None:
        raise RefusalError(422, "give where")
    ids = await call.in_thread(lambda: call.index.select(where, state=state))
    return {"ids": ids.tolist()}


async def _read_search(call: Call, fields: Mapping[str, Any]) -> _Search:
    """Read what a search asks for beside its queries, and prepare its filter."""
    limits, index = call.service.limits, call.index
    ranking = read_text(fields.get("ranking"), "ranking")
    if ranking is not None and ranking not in index.codec.rankings:
        raise RefusalError(
            422, f"ranking must be one of {', '.join(index.codec.rankings)}, got {ranking[:40]!r}"
        )
    novelty = fields.get("novelty")
    state = read_text(fields.get("state"), "state")
    where = read_where(fields.get("where"), call)
    among = None
    if state is not None and state != index.state:
        raise RefusalError(409, "rows were added or removed since the state was read")
    if where is not None:
        among = await call.in_thread(call.served_version.filter, where)
    k = read_count(fields.get("k", 10), "k", limits.max_k)
    novelty = tuple(novelty) if isinstance(novelty, list) else read_number(novelty, "novelty")
    return _Search(
        k,
        search_key(call.served_version, k, ranking, novelty, among),
        read_number(fields.get("threshold"), "threshold"),
        read_names(fields.get("columns"), "columns"),
    )


def read_where(value: Any, call: Call) -> Any:
    """Return a condition, ids, or a mask as an array of bool; None for all rows."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and "ids" in value and set(value) <= {"ids", "skip_missing"}:
        ids = read_ids_field(value["ids"], call.service.limits, "the ids of where")
        if value.get("skip_missing") is not True:
            return ids
        return [each for each, there in zip(ids, call.index.contains(ids).tolist(), strict=True) if there]
    if isinstance(value, dict) and set(value) == {"mask"}:
        mask = value["mask"]
        if isinstance(mask, list) and all(isinstance(each, bool) for each in mask):
            return np.array(mask, dtype=bool)
    raise RefusalError(422, 'where must be a condition, {"ids": [...]}, or {"mask": [...]} of true and false')


def _typed(parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of an address as the fields of a body."""
    fields: dict[str, Any] = dict(parameters)
    for name, kind in (("k", int), ("novelty", float), ("threshold", float)):
        if name in fields:
            try:
                fields[name] = kind(fields[name])
            except ValueError:
                raise RefusalError(422, f"{name} must be a number, got {fields[name][:40]!r}") from None
    if "columns" in fields:
        fields["columns"] = fields["columns"].split(",")
    return fields


SEARCH = Operation(
    "POST",
    "/v1/{index}/search",
    search,
    "Find the k best rows for each query: a vector, several vectors, an item, a text or a picture.",
    body={**schemas.QUERY, "queries": schemas.VECTORS, **schemas.SEARCH},
    parameters={name: schemas.SEARCH[name] for name in _OPTIONS},
    answer=schemas.FOUND,
    octets="Queries as rows of little-endian float32. Options stand in the address.",
    picture="The file of a picture, if the index has an encoder. Options stand in the address.",
    example={"query": [0.0] * 64, "k": 3, "columns": ["digit"]},
)

OPERATIONS = (
    SEARCH,
    Operation(
        "POST",
        "/v1/{index}/search_tables",
        search_tables,
        "Find the k rows with the lowest sums of table entries.",
        body={"tables": schemas.TABLES, **{name: schemas.SEARCH[name] for name in ("k", "where", "state")}},
        answer={"ids": schemas.NESTED_IDS, "sums": schemas.NESTED_NUMBERS},
    ),
    Operation(
        "POST",
        "/v1/{index}/select",
        select,
        "List the ids of the rows that a condition, ids or a mask choose, in order of insertion.",
        body={"where": schemas.WHERE, "state": schemas.TEXT},
        answer={"ids": schemas.IDS},
        example={"where": "digit = 3"},
    ),
    Operation(
        "POST",
        "/v1/{index}/range_search",
        range_search,
        "Find all rows whose score is as good as a threshold or better.",
        body={
            "queries": schemas.VECTORS,
            "threshold": schemas.NUMBER,
            **{name: schemas.SEARCH[name] for name in ("ranking", "novelty", "where", "state")},
        },
        answer={"limits": schemas.INTEGERS, "ids": schemas.IDS, "scores": schemas.NUMBERS},
        example={"queries": [[0.0] * 64], "threshold": 0.9},
    ),
)
