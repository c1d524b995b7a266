"""Requests to answers: operations that search."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.serve.calls import OCTETS, Call, operation, table_answer
from supquant.serve.columns import rows_of, tabulate
from supquant.serve.fields import (
    FOUND,
    IDS,
    INTEGER,
    NUMBER,
    check_ids,
    list_of,
    numbers_from,
    read_vectors,
    rows_of_bytes,
)
from supquant.serve.limits import RefusalError
from supquant.serve.served import SearchKey
from supquant.serve.service import WorkKind

__all__ = ["OPERATIONS", "read_query", "search"]

_OPTIONS = ("k", "ranking", "novelty", "where", "state", "threshold", "columns", "refine")
"""The fields of a search besides its queries. They may also stand in the address."""

_MAX_OPTIONS = 64
"""The number of different options that are kept with a version. Many clients ask with the same ones."""


@dataclass(frozen=True, eq=False)
class _Search:
    """What a search asks for besides its queries."""

    k: int
    key: SearchKey
    threshold: float | None
    columns: list[str] | None


@operation(
    "POST",
    "/v1/{index}/search",
    body=("query", "text", "picture", "queries", *_OPTIONS),
    parameters=_OPTIONS,
    other_bodies={
        OCTETS: "Queries as rows of little-endian float32. Options stand in the address.",
        "image/*": "The file of a picture, if the index has an encoder. Options stand in the address.",
    },
    answer=FOUND,
    example={"query": [0.0] * 64, "k": 3, "columns": ["digit"]},
)
async def search(call: Call) -> Any:
    """Find the k best rows for each query: a vector, several vectors, an item, a text or a picture."""
    max_queries, version = call.service.limits.max_queries, call.version
    if call.media_type == OCTETS:
        # The index checks that all numbers are finite, once for all queries of a scan.
        queries = rows_of_bytes(call.body, version.width, "the body", max_queries)
        asked = version.options.get(call.query_string)
        if asked is None:
            asked = await _read_options(call, call.parameters())
            if len(version.options) < _MAX_OPTIONS:
                version.options[call.query_string] = asked
        return await _answer(call, asked, queries)
    if call.media_type.startswith("image/"):
        asked = await _read_options(call, call.parameters())
        return await _answer(call, asked, await _encoded(call, "picture", call.body), single=True)
    fields = call.fields()
    asked = await _read_options(call, fields)
    if "queries" not in fields:
        return await _answer(call, asked, await read_query(call, fields), single=True)
    if not {"query", "text", "picture"}.isdisjoint(fields):
        raise RefusalError(422, "give either a query or queries")
    return await _answer(call, asked, read_vectors(fields["queries"], version.width, "queries", max_queries))


async def _read_options(call: Call, fields: Mapping[str, Any]) -> _Search:
    """Read what a search asks for besides its queries, and prepare its filter."""
    rankings, ranking = call.index.codec.rankings, fields.get("ranking")
    if ranking is not None and ranking not in rankings:
        raise RefusalError(422, f"ranking must be one of {', '.join(rankings)}, got {ranking[:40]!r}")
    where = _read_where(call, fields.get("where"))
    if "state" in fields and fields["state"] != call.index.state:
        raise RefusalError(409, "rows were added or removed since the state was read")
    among = None
    if where is not None:
        among = await call.in_thread(call.version.filter, where, kind=_kind_of(where))
    k, novelty, refine = fields.get("k", 10), fields.get("novelty"), fields.get("refine")
    # The best k of more answers are the best k, so searches of similar k share a scan.
    rounded = 1 << (k - 1).bit_length()
    if refine is not None:  # more answers than that would be ordered by their vectors, too
        refine = max(k, refine)
        rounded = min(rounded, refine)
    alone = object() if isinstance(novelty, tuple) else None
    key = SearchKey(call.version, rounded, ranking, novelty, among, alone, refine)
    return _Search(k, key, fields.get("threshold"), fields.get("columns"))


def _kind_of(where: object) -> WorkKind:
    return "condition" if isinstance(where, str) else "short"


def _read_where(call: Call, value: Any) -> Any:
    """Return a condition, ids, or a mask as an array of bool; None for all rows."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and "ids" in value and set(value) <= {"ids", "skip_missing"}:
        ids = check_ids(value["ids"], "the ids of where", call.service.limits)
        skipped = value.get("skip_missing", False)
        if not isinstance(skipped, bool):
            raise RefusalError(422, "skip_missing must be true or false")
        if not skipped:
            return ids
        return [each for each, known in zip(ids, call.index.contains(ids).tolist(), strict=True) if known]
    if isinstance(value, dict) and set(value) == {"mask"}:
        mask = value["mask"]
        if isinstance(mask, list) and all(isinstance(each, bool) for each in mask):
            return np.array(mask, dtype=bool)
    raise RefusalError(422, 'where must be a condition, {"ids": [...]}, or {"mask": [...]} of true and false')


async def read_query(call: Call, fields: Mapping[str, Any]) -> Float32 | int | str:
    """Return the vector (1, p) of the fields ``query``, ``text`` or ``picture``, or the id of an item.

    Raises
    ------
    RefusalError
        If not exactly one of them is given, or it cannot be used.
    """
    given = [name for name in ("query", "text", "picture") if name in fields]
    if len(given) != 1:
        raise RefusalError(422, "give either a query, a text or a picture")
    value = fields[given[0]]
    if given[0] != "query":
        return await _encoded(call, given[0], value)
    if isinstance(value, list):
        return read_vectors([value], call.version.width, "query", 1)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise RefusalError(422, "query must be a vector, or the id of an item")
    return value


async def _encoded(call: Call, kind: str, value: str | bytes) -> Float32:
    """Return the vector (1, p) of a text or a picture; raise a `RefusalError` if no encoder takes it."""
    encoder = call.served.encoders.get(kind)
    if encoder is None:
        raise RefusalError(422, f"this index has no encoder for a {kind}: search by a vector or an item")
    if not value:
        raise RefusalError(422, f"the {kind} is empty")
    return await encoder(value, call.version.width)


async def _answer(call: Call, asked: _Search, queries: Float32 | int | str, *, single: bool = False) -> Any:
    """Search for vectors (q, p), or for what is like an item, and return the fields of the answer."""
    k = asked.k
    n_found = max(k, asked.key.refine or 0)
    _check_answers(call, len(queries) if isinstance(queries, np.ndarray) else 1, n_found)
    if isinstance(queries, np.ndarray):
        scores, ids = await call.served.search(asked.key, queries)
        scores, ids = scores[:, :k], ids[:, :k]
    else:
        scores, ids = await call.in_thread(_search_like, call, asked, queries)
    if call.accepts_arrow():
        return table_answer(await call.in_thread(tabulate, call.index, scores, ids, asked.columns))
    found: dict[str, Any] = {"ids": ids, "scores": scores}
    if asked.columns:
        found["columns"] = await call.in_thread(_columns, call, ids, asked.columns)
    if asked.threshold is not None:  # the best answers come first, so those that are good enough are a prefix
        good = _is_good(call, asked.key, scores, asked.threshold)
        counts = good.sum(axis=1).tolist()
        found = _each(found, lambda rows: [row[:count] for row, count in zip(rows, counts, strict=True)])
    return _each(found, itemgetter(0)) if single else found


def _check_answers(call: Call, n_queries: int, k: int) -> None:
    """Raise a `RefusalError` if so many queries would have too many answers."""
    max_answers = call.service.limits.max_answers
    if n_queries * k > max_answers:
        raise RefusalError(
            422,
            f"{n_queries:,} queries with k={k:,} have more than {max_answers:,} answers: ask for fewer at once",
        )


def _search_like(call: Call, asked: _Search, id_: int | str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Search for what is like an item, by its code; return scores and ids (1, k')."""
    if asked.key.novelty is not None:
        raise RefusalError(422, "novelty cannot be given with the id of an item")
    if asked.key.refine is not None:
        raise RefusalError(422, "refine cannot be given with the id of an item")
    tables = call.index.codec.item_tables(call.index.codes([id_]), asked.key.ranking)
    sums, found = call.index.search_tables(tables, asked.k, where=asked.key.among)
    return tables.scores(sums), found


def _columns(call: Call, ids: NDArray[Any], names: list[str]) -> dict[str, list[list[Any]]]:
    """Return columns of answers (q, k), by name: lists of lists."""
    table = rows_of(call.index, ids, names).drop_columns(["id"])
    width = max(1, ids.shape[1])
    return {
        name: [values[start : start + width] for start in range(0, len(values), width)]
        for name, values in table.to_pydict().items()
    }


def _each(found: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the fields of an answer, each one and each of its columns changed."""
    return {
        name: _each(each, change) if isinstance(each, dict) else change(each) for name, each in found.items()
    }


@operation(
    "POST",
    "/v1/{index}/search_tables",
    body=("tables", "k", "where", "state"),
    required=("tables",),
    answer={"ids": FOUND["ids"], "sums": FOUND["scores"]},
)
async def search_tables(call: Call) -> Any:
    """Find the k rows with the lowest sums of table entries."""
    fields, codec = call.fields(), call.index.codec
    asked = await _read_options(call, fields)
    tables = fields["tables"]
    if isinstance(tables, str):
        size = codec.n_codebooks * codec.n_codewords
        flat = read_vectors(tables, size, "tables", call.service.limits.max_queries)
        tables = flat.reshape(-1, codec.n_codebooks, codec.n_codewords)
    else:
        with np.errstate(over="ignore"):  # the index refuses infinite entries
            tables = numbers_from(tables, "tables").astype(np.float32)
    _check_answers(call, len(tables), asked.k)

    def scan() -> Any:
        return call.index.search_tables(tables, asked.k, where=asked.key.among)

    sums, ids = await call.in_thread(scan)
    return {"ids": ids, "sums": sums}


@operation(
    "POST",
    "/v1/{index}/select",
    body=("where", "state"),
    required=("where",),
    answer={"ids": IDS},
    example={"where": "digit = 3"},
)
async def select(call: Call) -> Any:
    """List the ids of the rows that a condition, ids or a mask select, in order of insertion."""
    fields = call.fields()
    where = _read_where(call, fields["where"])
    ids = await call.in_thread(call.version.select, where, fields.get("state"), kind=_kind_of(where))
    return {"ids": ids}


@operation(
    "POST",
    "/v1/{index}/range_search",
    body=("queries", "threshold", "ranking", "novelty", "where", "state"),
    required=("queries", "threshold"),
    answer={"limits": list_of(INTEGER), "ids": IDS, "scores": list_of(NUMBER)},
    example={"queries": [[0.0] * 64], "threshold": 0.9},
)
async def range_search(call: Call) -> Any:
    """Find all rows whose score is as good as a threshold or better."""
    fields = call.fields()
    key = (await _read_options(call, fields)).key
    max_queries = call.service.limits.max_queries
    queries = read_vectors(fields["queries"], call.version.width, "queries", max_queries)
    until = time.monotonic() + call.service.deadlines.left()
    bounds, scores, ids = await call.in_thread(_within, call, key, queries, fields["threshold"], until)
    return {"limits": bounds.tolist(), "ids": ids.tolist(), "scores": scores}


def _within(
    call: Call, key: SearchKey, queries: Float32, threshold: float, until: float
) -> tuple[NDArray[Any], ...]:
    """Return limits (q + 1,), and scores and ids of all rows within a threshold, in little more memory than the answer takes."""
    index, max_answers = call.index, call.service.limits.max_answers
    if isinstance(key.novelty, tuple) and len(key.novelty) != len(queries):
        raise RefusalError(
            422,
            f"novelty has {len(key.novelty)} numbers for {len(queries)} queries: give one each, or one for all",
        )
    refusal = RefusalError(
        422, f"more than {max_answers:,} rows are within the threshold: give a better one, or fewer queries"
    )
    at_once = max(1, max_answers // max(1, len(index)))
    counts, found, n_found = [np.zeros(1, np.int64)], [], 0
    for first in range(0, max(1, len(queries)), at_once):
        if time.monotonic() > until:
            raise TimeoutError
        rows = slice(first, first + at_once)
        novelty = key.novelty[rows] if isinstance(key.novelty, tuple) else key.novelty
        options: Any = {"ranking": key.ranking, "novelty": novelty, "where": key.among}
        if len(index) > max_answers and len(queries):  # one query alone may have too many answers
            best, _ = index.search(queries[rows], max_answers + 1, **options)
            if best.shape[1] > max_answers and _is_good(call, key, best[:, -1], threshold).any():
                raise refusal
        bounds, scores, ids = index.range_search(queries[rows], threshold, **options)
        n_found += len(ids)
        if n_found > max_answers:
            raise refusal
        counts.append(np.diff(bounds))
        found.append((scores, ids))
    scores, ids = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.cumsum(np.concatenate(counts)), scores, ids


def _is_good(call: Call, key: SearchKey, scores: NDArray[Any], threshold: float) -> NDArray[np.bool_]:
    """Return whether scores are as good as a threshold or better."""
    good: NDArray[np.bool_] = (
        scores >= threshold if call.version.descends(key.ranking) else scores <= threshold
    )
    return good


OPERATIONS = (search, search_tables, select, range_search)
