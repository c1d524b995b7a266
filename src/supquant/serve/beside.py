"""Requests to answers: what lies beside the folder of an index, and shows what its items are.

Beside a folder ``things`` may lie ``things.parquet`` or ``things.jsonl`` with a column ``id`` and columns to show, such as
texts and pictures, and ``things.audit.parquet``, a table of findings that `supquant audit` wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

from supquant.index import CodeIndex
from supquant.serve.limits import RefusalError

__all__ = ["Beside", "columns_of", "label_column"]

LABEL_NAMES = ("label", "labels", "class", "category", "target", "y")
"""Names of columns that hold the labels of items, as a guess."""


class Beside:
    """The table beside the folder of an index, read when it is first asked for and again when its file has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[tuple[Path, int], Any, dict[Any, int]] | None = None

    def rows(self, ids: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the columns of some ids; nothing for ids that the table does not have."""
        table, place = self._table()
        if table is None:
            return [{} for _ in ids]
        places = [place.get(each) for each in ids]
        there = table.take([each for each in places if each is not None]).to_pylist()
        found = iter(there)
        return [{} if each is None else next(found) for each in places]

    def column(self, name: str, ids: Sequence[Any]) -> list[Any] | None:
        """Return one column for all ids, None where there is no value; None if there is no such column."""
        table, place = self._table()
        if table is None or name not in table.column_names:
            return None
        values = table.column(name).to_pylist()
        return [values[place[each]] if each in place else None for each in ids]

    @property
    def names(self) -> list[str]:
        """Names of the columns without the id."""
        table, _ = self._table()
        return [] if table is None else [each for each in table.column_names if each != "id"]

    def findings(self) -> Any:
        """Return the table of findings beside the index, or None."""
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
                        raise RefusalError(503, f"{path.name} beside the index has no column id")
                    place = {each: row for row, each in enumerate(table.column("id").to_pylist())}
                    self._read = key, table, place
                return self._read[1], self._read[2]
        return None, {}


def _read_table(path: Path) -> Any:
    try:
        return pq.read_table(path) if path.suffix == ".parquet" else pyarrow.json.read_json(path)
    except (OSError, pa.ArrowException) as error:
        raise RefusalError(503, f"{path.name} beside the index cannot be read") from error


def columns_of(index: CodeIndex, beside: Beside, ids: Sequence[Any]) -> list[dict[str, Any]]:
    """Return all columns of some items: those of the index, and those that lie beside it."""
    own = index.get(list(ids)).to_pylist() if index.columns else [{} for _ in ids]
    return [{**there, **row, "id": each} for each, row, there in zip(ids, own, beside.rows(ids), strict=True)]


def label_column(
    index: CodeIndex, beside: Beside, wanted: str | None, ids: Sequence[Any]
) -> tuple[str | None, list[Any]]:
    """Return the name of the column of labels, and the labels of some ids; None for an item that has none.

    Without a wanted column, it is one of `LABEL_NAMES`, or else the first column whose values are labels that the model knows.
    """
    names = [*index.columns, *(each for each in beside.names if each not in index.columns)]

    def values(name: str) -> list[Any]:
        if name in index.columns:
            return list(index.get(list(ids), [name]).column(name).to_pylist())
        return beside.column(name, ids) or []

    if wanted is not None:
        if wanted not in names:
            raise RefusalError(422, f"label must be a column: {', '.join(names) or 'there is none'}")
        return wanted, values(wanted)
    guessed = next((name for name in names if name.lower() in LABEL_NAMES), None)
    if guessed is not None:
        return guessed, values(guessed)
    classes = getattr(index.codec, "classes", None)
    known = set() if classes is None else set(classes.tolist())
    for name in names:
        found = values(name)
        if known and all(
            isinstance(each, int | str | None) and (each is None or each in known) for each in found
        ):
            return name, found
    return None, [None] * len(ids)


def compact_ids(ids: Any) -> Any:
    """Return ids as JSON can hold them."""
    return ids.tolist() if ids.dtype == object else np.ascontiguousarray(ids)
