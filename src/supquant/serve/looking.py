"""Requests to answers: operations of the page: a map of the items, the audit of their labels, and why an answer is near.

Next to a folder ``things`` may lie ``things.parquet`` or ``things.jsonl`` with a column ``id`` and columns to show, such as texts
and pictures, and ``things.audit.parquet``, a table of findings that `supquant audit` wrote.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from supquant.index import CodeIndex
from supquant.model.codec import SupervisedCodec
from supquant.parallel import row_blocks
from supquant.progress import Progress
from supquant.serve.calls import Call, operation
from supquant.serve.columns import read_rows, rows_of
from supquant.serve.fields import FLAG, IDS, INTEGER, NUMBER, OBJECT, TEXT, described, list_of
from supquant.serve.limits import RefusalError
from supquant.serve.mapping import layout, lays_out
from supquant.serve.meanings import explain, look_like
from supquant.serve.searching import read_query
from supquant.serve.served import ServedIndex, Version

__all__ = ["OPERATIONS"]

MAX_POINTS = 50_000
"""The maximum number of items on the map. From a larger index, they are drawn at random."""

MAX_AUDITED = 100_000
"""The maximum number of items whose labels a service audits by itself."""

MAX_LISTED = 500
"""The maximum number of findings of one kind in an answer."""

SAMPLED = 100
"""The number of random items in an answer."""

PATIENCE = 1.0
"""The time that a request waits for a map or an audit, in seconds. The work continues, and a later request gets the result."""

MAX_PAUSE = 10.0
"""The time within which a client asks again for work under way, in seconds."""

LABEL_NAMES = ("label", "labels", "class", "category", "target", "y")
"""Names of columns that are taken for the labels of items."""

_READY = {
    "ready": described("False while the work is under way: ask again.", FLAG),
    "stage": described("What is done now, while the work is under way.", TEXT),
    "done": described("The finished fraction of the work, from 0 to 1, while it is under way.", NUMBER),
    "version": described("The version of the index that was looked at.", TEXT),
}
_COLUMN = {"column": described("The column of labels.", {"type": ["string", "null"]})}


@dataclass
class Course:
    """How far some work has come."""

    stage: str = "waiting for other work"
    done: float = 0.0

    def at(self, stage: str, done: float) -> None:
        """Note the stage that begins and the finished fraction of the work."""
        self.stage, self.done = stage, done


@dataclass(eq=False)
class Work:
    """A map or an audit, under way or finished."""

    task: asyncio.Future[Any]
    course: Course
    version: str
    ended: float = 0.0
    told: bool = False

    def is_awaited(self) -> bool:
        """Return whether a client that asked for it may ask again."""
        return not self.task.done() or (not self.told and time.monotonic() - self.ended < MAX_PAUSE)


_begun: WeakKeyDictionary[Version, dict[Any, Work]] = WeakKeyDictionary()
"""The maps and audits of each version, by the function that makes them and the column of labels."""

_last: WeakKeyDictionary[ServedIndex, dict[Any, Work]] = WeakKeyDictionary()
"""Those of each index that were begun last."""


@operation(
    "GET",
    "/v1/{index}/map",
    parameters=("label",),
    answer={
        **_READY,
        **_COLUMN,
        "ids": IDS,
        "x": list_of(NUMBER),
        "y": list_of(NUMBER),
        "label": described("The number of each item's label, -1 for none.", list_of(INTEGER)),
        "looks": described(
            "The number of the label that each item probably has by its code, -1 for none.", list_of(INTEGER)
        ),
        "labels": {"type": "array"},
        "layout": described(
            "`neighbours` if near items are near on the map, `linear` without the extra `map`.", TEXT
        ),
        "rows": described(f"The number of items of the index. At most {MAX_POINTS:,} are placed.", INTEGER),
    },
)
async def read_map(call: Call) -> Any:
    """Place items on a map by their codes."""
    return await _once(call, _map_of)


@operation(
    "GET",
    "/v1/{index}/audit",
    parameters=("label",),
    answer={
        **_READY,
        **_COLUMN,
        "source": described("Whether findings come from the file next to the index or from codes.", TEXT),
        "notes": list_of(TEXT),
        "classes": list_of(OBJECT),
        "findings": OBJECT,
    },
)
async def read_audit(call: Call) -> Any:
    """List labels that look wrong, near-duplicates, rows of no class and confused classes."""
    return await _once(call, _audit_of)


@operation(
    "GET",
    "/v1/{index}/found",
    answer={
        **_READY,
        "groups": described(
            "Found classes of the model that have items: number, ids (the most typical first), how sure they are, and the most "
            "similar known classes.",
            list_of(OBJECT),
        ),
    },
)
async def read_found(call: Call) -> Any:
    """List items that seem to belong to classes that nobody has labelled."""
    return await _once(call, _found_in)


async def _once(
    call: Call, work: Callable[[CodeIndex, ItemTable, str | None, Course], dict[str, Any]]
) -> Any:
    """Return the result of some work for a column of labels, which is done once per version of the index.

    While it is under way, the answer is that it is not ready. Changes do not start it again: whoever
    asked gets what was begun, and the next client that of the present version.
    """
    key = work, call.parameters().get("label")
    begun, last = _begun.setdefault(call.version, {}), _last.setdefault(call.served, {})
    found = begun.get(key) or last.get(key)
    if found is None or not (found is begun.get(key) or found.is_awaited()):
        found = begun[key] = last[key] = _begin(call, *key)

        def forget_failure(task: asyncio.Future[Any], failed: Work = found) -> None:
            failed.ended = time.monotonic()
            if task.cancelled() or task.exception() is not None:  # clients may draw any number of labels
                for kept in (begun, last):
                    if kept.get(key) is failed:
                        del kept[key]

        found.task.add_done_callback(forget_failure)
    await asyncio.wait([found.task], timeout=min(PATIENCE, call.service.limits.deadline / 2))
    if not found.task.done():
        return {"ready": False, "stage": found.course.stage, "done": found.course.done}
    found.told = True
    return {**found.task.result(), "version": found.version}


def _begin(
    call: Call,
    work: Callable[[CodeIndex, ItemTable, str | None, Course], dict[str, Any]],
    label: str | None,
) -> Work:
    course = Course()
    doing = call.in_thread(work, call.index, _item_table(call), label, course, kind="view")
    return Work(asyncio.ensure_future(doing), course, call.version.name)


def _map_of(index: CodeIndex, items: ItemTable, wanted: str | None, course: Course) -> dict[str, Any]:
    course.at("reading codes", 0)
    ids, codec = index.ids, index.codec
    sample = ids[np.sort(np.random.default_rng(0).permutation(len(ids))[:MAX_POINTS])]
    column: str | None = None
    chosen: list[Any] = []
    looks: list[Any] = [None] * len(sample)
    places = np.empty((0, 2), np.float32)
    if len(ids):
        column, chosen = _label_column(index, items, wanted, sample.tolist())
        codes = index.codes(sample)
        course.at("finding near items", 0)
        places = layout(codec, codes, tell=lambda done: course.at("placing items", done))
        best = look_like(codec, codes) if None in chosen else None
        if best is not None and isinstance(codec, SupervisedCodec):
            classes = codec.classes.tolist()
            looks = [None if each < 0 else classes[each] for each in best]
    named = {each for each in (*chosen, *looks) if each is not None}
    names = sorted(named, key=lambda each: (str(type(each)), each))
    number = {each: place for place, each in enumerate(names)}
    return {
        "ready": True,
        "ids": sample,
        "x": np.ascontiguousarray(places[:, 0].round(4)),
        "y": np.ascontiguousarray(places[:, 1].round(4)),
        "label": [number.get(each, -1) for each in chosen],
        "looks": [number.get(each, -1) for each in looks],
        "labels": names,
        "column": column,
        "layout": "neighbours" if lays_out() else "linear",
        "rows": len(ids),
    }


def _audit_of(index: CodeIndex, items: ItemTable, wanted: str | None, course: Course) -> dict[str, Any]:
    """Return the findings of the file next to the index, or else of its codes; the quality of classes is by codes."""
    from supquant.auditing import KINDS, audit  # noqa: PLC0415  # scikit-learn would double the start of a service
    from supquant.auditing.pages import Shown  # noqa: PLC0415

    course.at("reading labels", 0)
    saved, few = items.findings(), len(index) <= MAX_AUDITED
    column, labels = _label_column(index, items, wanted, index.ids.tolist() if few else [])
    if saved is None and (column is None or not few):
        problem = (
            "no column has labels: name one, or" if column is None else f"more than {MAX_AUDITED:,} items:"
        )
        raise RefusalError(422, f"{problem} write findings next to the index with `supquant audit`")
    answer: dict[str, Any] = {"ready": True, "column": column, "source": "codes", "notes": [], "classes": []}
    if column is not None and few:
        texts = Shown.of(_text_columns(index, items, index.ids.tolist())).texts
        by_codes = audit(
            index, np.array(labels, dtype=object), texts=texts, callback=_course_of_audit(course)
        )
        answer |= {"notes": by_codes.notes, "classes": _lines(by_codes.classes.to_arrow())}
        answer["findings"] = {kind: _lines(by_codes.of_kind(kind).to_arrow()) for kind in KINDS}
    if saved is not None:
        kinds = saved.column("kind")
        answer["findings"] = {kind: _lines(saved.filter(pc.equal(kinds, kind))) for kind in KINDS}
        answer["source"] = "file"
    return answer


def _course_of_audit(course: Course) -> Callable[[Progress], None]:
    """Return a callback of `audit` that says what it does, in words of a user."""
    stages = {
        "neighbours": "finding near items",
        "out of fold": "learning the classes",
        "labels": "judging labels",
        "classes": "judging classes",
    }

    def told(progress: Progress) -> None:
        place = list(stages).index(progress.stage)
        course.at(stages[progress.stage], (place + bool(progress.step)) / len(stages))

    return told


def _found_in(index: CodeIndex, _items: ItemTable, _wanted: str | None, course: Course) -> dict[str, Any]:
    """Return the groups of items by their codes. They are small, so all items are looked at."""
    codec, ids = index.codec, index.ids
    found = codec.found if isinstance(codec, SupervisedCodec) else None
    if found is None or not isinstance(codec, SupervisedCodec):
        return {"ready": True, "groups": []}
    parts = []
    for block in row_blocks(len(ids)):
        course.at("reading codes", block[0] / len(ids))
        parts.append(codec.discover_codes(index.codes(ids[slice(*block)])))
    every = (np.concatenate(each) for each in zip(*parts, strict=True)) if parts else np.zeros((3, 0))
    numbers, agreement, novelty = every
    groups = []
    for number in range(len(found)):
        rows = np.flatnonzero(numbers == number)
        rows = rows[np.argsort(-(agreement * novelty)[rows], kind="stable")]
        near = zip(found.nearest[number].tolist(), found.nearness[number].tolist(), strict=True)
        if len(rows):
            groups.append(
                {
                    "number": number,
                    "items": len(rows),
                    "ids": ids[rows[:MAX_LISTED]].tolist(),
                    "agreement": float(agreement[rows].mean()),
                    "novelty": float(novelty[rows].mean()),
                    "nearest": [{"label": label, "share": share} for label, share in near],
                }
            )
    return {"ready": True, "groups": sorted(groups, key=lambda each: -each["items"])}


def _lines(table: Any) -> list[dict[str, Any]]:
    return list(table.slice(0, MAX_LISTED).to_pylist())


@operation("GET", "/v1/{index}/sample", answer={"ids": described(f"At most {SAMPLED} ids.", IDS)})
async def read_sample(call: Call) -> Any:
    """List the ids of some random items, to look at."""
    ids = await call.in_thread(lambda: call.index.ids)
    return {"ids": ids[np.sort(np.random.default_rng().permutation(len(ids))[:SAMPLED])]}


@operation(
    "POST",
    "/v1/{index}/shown",
    body=("ids",),
    required=("ids",),
    answer={"items": list_of(OBJECT)},
    example={"ids": [0, 1]},
)
async def read_shown(call: Call) -> Any:
    """Read all columns of items, those of the index and those of the file next to it."""
    return {"items": await call.in_thread(_columns_of, call.index, _item_table(call), call.fields()["ids"])}


def _columns_of(index: CodeIndex, items: ItemTable, ids: Sequence[Any]) -> list[dict[str, Any]]:
    own = rows_of(index, ids, None).to_pylist() if index.columns else [{} for _ in ids]
    return [{**other, **row, "id": each} for each, row, other in zip(ids, own, items.rows(ids), strict=True)]


@operation(
    "POST",
    "/v1/{index}/explain",
    body=("query", "text", "picture", "ids"),
    required=("ids",),
    answer={
        "classes": list_of(OBJECT),
        "novelty": {"type": ["number", "null"]},
        "answers": list_of(OBJECT),
    },
    example={"query": 0, "ids": [1, 2]},
)
async def read_reasons(call: Call) -> Any:
    """Say what a query looks like, and why items are near to it."""
    fields, max_k = call.fields(), call.service.limits.max_k
    if len(fields["ids"]) > max_k:
        raise RefusalError(422, f"ids must be at most {max_k:,}, got {len(fields['ids']):,}")
    query = await read_query(call, fields)

    def work() -> Any:
        index = call.index
        vector = query if isinstance(query, np.ndarray) else None
        own = index.codes([query]) if vector is None else None
        return explain(index.codec, vector, own, index.codes(fields["ids"]))

    return await call.in_thread(work)


OPERATIONS = (read_map, read_audit, read_found, read_sample, read_shown, read_reasons)

# the tables next to the folder of an index -------------------------------------------------------------------------------


class ItemTable:
    """The table of items next to the folder of an index, read when it is first needed, and again when its file has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[tuple[Path, int], Any, dict[Any, int]] | None = None

    def rows(self, ids: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the columns of some ids; nothing for ids that the table does not have."""
        table, place = self._table()
        if table is None:
            return [{} for _ in ids]
        places = [place.get(each) for each in ids]
        there = [each for each in places if each is not None]
        found = iter(read_rows(lambda some: table.take(pa.array(some, pa.int64())), there).to_pylist())
        return [{} if each is None else next(found) for each in places]

    def column(self, name: str, ids: Sequence[Any]) -> list[Any]:
        """Return one column for all ids, None where there is no value."""
        table, place = self._table()
        values = table.column(name).to_pylist()
        return [values[place[each]] if each in place else None for each in ids]

    @property
    def names(self) -> list[str]:
        """Names of the columns without the id."""
        table, _ = self._table()
        return [] if table is None else [each for each in table.column_names if each != "id"]

    def names_of_texts(self) -> list[str]:
        """Return the names of columns of strings without the id."""
        table, _ = self._table()
        return [each for each in self.names if _is_text(table.schema.field(each).type)]

    def findings(self) -> Any:
        """Return the table of findings next to the index, or None."""
        path = self._folder.with_name(self._folder.name + ".audit.parquet")
        return _read_table(path) if path.is_file() else None

    def _table(self) -> tuple[Any, dict[Any, int]]:
        for ending in (".parquet", ".jsonl"):
            path = self._folder.with_name(self._folder.name + ending)
            if path.is_file():
                key = path, path.stat().st_mtime_ns
                if self._read is None or self._read[0] != key:
                    table = _read_table(path)
                    if "id" not in table.column_names:
                        raise RefusalError(503, f"{path.name} next to the index has no column id")
                    place = {each: row for row, each in enumerate(table.column("id").to_pylist())}
                    self._read = key, table, place
                return self._read[1], self._read[2]
        return None, {}


_item_tables: WeakKeyDictionary[ServedIndex, ItemTable] = WeakKeyDictionary()


def _item_table(call: Call) -> ItemTable:
    return _item_tables.setdefault(call.served, ItemTable(call.served.folder))


def _read_table(path: Path) -> Any:
    try:
        return pq.read_table(path) if path.suffix == ".parquet" else pyarrow.json.read_json(path)
    except (OSError, pa.ArrowException) as error:
        raise RefusalError(503, f"{path.name} next to the index cannot be read") from error


def _text_columns(index: CodeIndex, items: ItemTable, ids: Sequence[Any]) -> Any:
    """Return a table of the columns of strings of some ids."""
    few = ids[:1]
    own = index.get(few, index.columns) if few and index.columns else None
    kept = (
        [] if own is None else [each.name for each in own.schema if each.name != "id" and _is_text(each.type)]
    )
    columns = {each: items.column(each, ids) for each in items.names_of_texts()}
    if kept:
        columns |= {name: index.get(list(ids), [name]).column(name) for name in kept}
    return pa.table(columns)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _label_column(
    index: CodeIndex, items: ItemTable, wanted: str | None, ids: Sequence[Any]
) -> tuple[str | None, list[Any]]:
    """Return the name of the column of labels, and the labels of some ids; None for an item that has none.

    Without a wanted column, it is one of `LABEL_NAMES`, or else the first column whose values are labels that the model knows.
    """
    names = [*index.columns, *(each for each in items.names if each not in index.columns)]

    def values(name: str) -> list[Any]:
        if name in index.columns:
            return list(index.get(list(ids), [name]).column(name).to_pylist())
        return items.column(name, ids)

    if wanted is not None and wanted not in names:
        raise RefusalError(422, f"label must be a column: {', '.join(names) or 'there is none'}")
    chosen = wanted or next((name for name in names if name.lower() in LABEL_NAMES), None)
    if chosen is not None:
        return chosen, values(chosen)
    classes = getattr(index.codec, "classes", None)
    known = {None} if classes is None else {None, *classes.tolist()}
    for name in names if classes is not None else ():
        found = values(name)
        if all(isinstance(each, int | str | None) and each in known for each in found):
            return name, found
    return None, [None] * len(ids)
