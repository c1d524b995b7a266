"""What a worker does with its shard: an index that it loads from a folder at the first task, and saves after each change."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supquant.arrays import Array, Flags, Float32
from supquant.codec.interface import AnyCodec
from supquant.distributed.worker import Memory
from supquant.index import CodeIndex
from supquant.index.filters import Filter, choose, chosen_positions, views_of
from supquant.index.parts import View
from supquant.index.searching import Search
from supquant.index.snapshot import Snapshot
from supquant.index.vectors import VectorKind
from supquant.inputs.parameters import resolve_jobs
from supquant.model.codec import SupervisedCodec
from supquant.model.exact import ExactQueries

__all__ = [
    "ALL_ROWS",
    "Among",
    "ShardFacts",
    "Sought",
    "change_shard",
    "describe_shard",
    "prepare_filter",
    "read_columns_of",
    "read_shard",
    "search_shard",
    "select_in_shard",
    "which_taken",
]

KEPT_FILTERS = 64
"""A shard keeps this number of prepared filters. An older one that is needed again is prepared again."""

UNPREPARED = "unprepared"
"""The answer of a shard that does not have the filter of a search. It is then sent the ids of the rows."""


@dataclass(frozen=True)
class Among:
    """The rows of a shard that are searched.

    Attributes
    ----------
    where : ids, mask or condition
        As in `CodeIndex.search`; None means all rows.
    known : mapping of str to pyarrow.DataType
        The columns of all shards. Those that a shard lacks are null in its rows.
    filter : str or None, default=None
        The name of a prepared filter, which takes the place of `where`.
    """

    where: Any = None
    known: Mapping[str, Any] | None = None
    filter: str | None = None


ALL_ROWS = Among()


@dataclass(frozen=True)
class ShardFacts:
    """What the driver knows of a shard."""

    n_rows: int
    id_kind: str | None
    next_number: int  # the id of the next row, if ids are automatic numbers
    any_unlabelled: bool
    column_types: dict[str, Any]
    codec: str  # the digest of the codec
    vectors: VectorKind | None  # the type of the vectors next to the codes
    is_new: bool = False  # whether the folder had other rows than the worker before


@dataclass(frozen=True)
class Sought:
    """What all shards get for the k best rows of each query, or for all rows whose sums are at most a limit."""

    tables: Float32  # (q, M, K)
    bits: Array | None  # (q, M) uint8
    up_to: Any  # k, or the limits (q,) float32
    n_jobs: int | None
    exact: ExactQueries | None = None  # what the k best rows are ordered by


# reading -----------------------------------------------------------------------------------------------------------------


def describe_shard(memory: Memory, common: object, folder: str) -> ShardFacts:
    """Return the facts of a shard. With a true `common`, the folder is read again first."""
    index = _shard(memory, folder)
    before, codec = index._snapshot, index.codec
    if common:
        index.reload()
        if index.codec is not codec:
            _keep(memory, folder, index)
    return _facts(memory, index, is_new=index._snapshot is not before)


def search_shard(memory: Memory, common: Sought, item: tuple[str, Among]) -> tuple[Array, ...] | str:
    """Return the lowest sums (q, k') and their ids, or the queries, sums and ids of all rows within limits.

    If the rows are ordered by their vectors, their exact scores and cosines (q, k') come before the ids.
    The item is the folder and the rows to search. If their filter is not prepared here, the answer is `UNPREPARED`.
    """
    folder, among = item
    index = _shard(memory, folder)
    snapshot = index._snapshot
    if (views := _views(memory, snapshot, among)) is None:
        return UNPREPARED
    search = Search(index.codec, snapshot, views, resolve_jobs(common.n_jobs))
    find = search.lowest if isinstance(common.up_to, int) else search.within
    *found, positions = find(common.tables, common.bits, common.up_to)
    if common.exact is None:
        return *found, search.ids_at(positions)
    exact = snapshot.exact_scores(positions, common.exact, search.n_threads)
    return *found, *exact, search.ids_at(positions)


def _views(memory: Memory, snapshot: Snapshot, among: Among) -> list[View] | None:
    if among.filter is not None:
        kept: Filter | None = memory.setdefault("filters", {}).get(among.filter)
        return None if kept is None or not kept.belongs_to(snapshot) else kept.views(snapshot)
    if among.where is None:
        return snapshot.views
    return views_of(snapshot, choose(snapshot, among.where, among.known))


def select_in_shard(memory: Memory, common: object, item: tuple[str, Among]) -> Array:
    """Return the ids of some rows, in order of insertion; the item is as in `search_shard`."""
    del common
    folder, among = item
    snapshot = _shard(memory, folder)._snapshot
    return snapshot.ids_at(chosen_positions(snapshot, choose(snapshot, among.where, among.known)))


def prepare_filter(memory: Memory, common: str, item: tuple[str, Array]) -> None:
    """Keep a filter of the rows with some ids under a name, which is `common`. The item is the folder and the ids."""
    folder, ids = item
    snapshot = _shard(memory, folder)._snapshot
    filters = memory.setdefault("filters", {})
    filters[common] = Filter(snapshot.origin, choose(snapshot, ids))
    for oldest in list(filters)[:-KEPT_FILTERS]:
        del filters[oldest]


def which_taken(memory: Memory, common: object, item: tuple[str, Array | None]) -> Flags:
    """Return which ids (n,) of new rows are in a shard; raise an `InputError` if its ids are of another kind."""
    del common
    folder, ids = item
    index = _shard(memory, folder)
    index._check_new(None if ids is None else ids[:0])
    return np.zeros(0, dtype=bool) if ids is None else index.contains(ids)


def read_shard(memory: Memory, common: str, item: tuple[Any, ...]) -> Any:
    """Call a method of `CodeIndex` that reads, or read an attribute; `common` is its name.

    The item is the folder, and the arguments of the method.
    """
    folder, *arguments = item
    found = getattr(_shard(memory, folder), common)
    return found(*arguments) if callable(found) else found


def read_columns_of(memory: Memory, common: Sequence[str], item: tuple[str, Array]) -> Any:
    """Return columns of rows as a `pyarrow.Table`, or None if there are none; given their names, and the folder and the ids."""
    folder, ids = item
    index = _shard(memory, folder)
    names = [name for name in index.columns if name in common]
    return index.get(ids, names).drop_columns(["id"]).rename_columns(names) if names else None


# changing ----------------------------------------------------------------------------------------------------------------


def change_shard(
    memory: Memory, common: tuple[str, AnyCodec | None], item: tuple[str, dict[str, Any] | None]
) -> ShardFacts:
    """Call a method of `CodeIndex` that changes, and save the index.

    What is common to all shards is the name of the method, and the codec that they get in the same save; None leaves theirs. The
    item is the folder, and the arguments of the method. None does not call it.
    """
    (method, codec), (folder, arguments) = common, item
    index = _shard(memory, folder)
    try:
        if codec is not None:
            index = index.with_codec(codec)
        if arguments is not None:
            with warnings.catch_warnings(action="ignore"):  # the driver gives them
                getattr(index, method)(**arguments)
        index.save(folder)
    except BaseException:
        memory.clear()  # rows that are not in the folder must not be found
        raise
    if codec is not None:
        _keep(memory, folder, index)
    return _facts(memory, index)


def _shard(memory: Memory, folder: str) -> CodeIndex:
    loaded, index, _ = memory.get("shard", (None, None, None))
    if loaded != folder:
        index = CodeIndex.load(folder)
        _keep(memory, folder, index)
    assert index is not None
    return index


def _keep(memory: Memory, folder: str, index: CodeIndex) -> None:
    memory["shard"] = folder, index, index.codec.pack().digest


def _facts(memory: Memory, index: CodeIndex, *, is_new: bool = False) -> ShardFacts:
    snapshot, codec = index._snapshot, index.codec
    return ShardFacts(
        snapshot.n_live,
        snapshot.id_kind,
        snapshot.next_number,
        isinstance(codec, SupervisedCodec) and index._any_unlabelled(snapshot),
        snapshot.column_types(),
        memory["shard"][2],
        snapshot.vectors,
        is_new,
    )
