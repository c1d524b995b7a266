"""What a worker does with its shard: an index that it loads from a folder at the first task, and saves after each change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supquant.arrays import Array, Flags, Float32
from supquant.codec import QueryTables, SemanticCodec
from supquant.distributed.worker import Memory
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.index.ids import read_ids

__all__ = ["ShardFacts", "change_shard", "describe_shard", "read_shard", "search_shard", "which_ids"]


@dataclass(frozen=True)
class ShardFacts:
    """What the driver knows of a shard."""

    n_rows: int
    id_kind: str | None
    next_number: int  # the id of the next row, if ids are automatic numbers
    any_unlabelled: bool
    has_columns: bool
    codec: str  # the digest of the codec


def describe_shard(memory: Memory, common: object, folder: str) -> ShardFacts:
    """Return the facts of a shard. With a true `common`, the folder is read again first."""
    index = _shard(memory, folder)
    if common:
        index.reload()
    return _facts(index)


def search_shard(
    memory: Memory, common: tuple[QueryTables, int, int | None], item: tuple[str, Any]
) -> tuple[Float32, Array]:
    """Return the lowest sums (q, k') and their ids, for the tables of queries that all shards get.

    Parameters
    ----------
    memory : dict
        That of the worker.
    common : (QueryTables, int, int or None)
        The tables, k, and the number of threads.
    item : (str, object)
        The folder of the shard, and the rows to search, as `where` in `CodeIndex.search`.
    """
    (tables, k, n_jobs), (folder, where) = common, item
    return _shard(memory, folder).search_tables(tables, k, where=where, n_jobs=n_jobs)


def which_ids(memory: Memory, common: object, item: tuple[str, Array]) -> Flags:
    """Return which ids (n,) are in a shard; the item is its folder, and the ids."""
    del common
    folder, ids = item
    try:
        found: Flags = _shard(memory, folder)._snapshot.find(read_ids(ids)) >= 0
    except InputError:  # ids of this kind are not in the shard
        return np.zeros(len(ids), dtype=bool)
    return found


def read_shard(memory: Memory, common: str, item: tuple[str, tuple[Any, ...]]) -> Any:
    """Call a method of `CodeIndex` that reads, or read an attribute; `common` is its name."""
    folder, arguments = item
    found = getattr(_shard(memory, folder), common)
    return found(*arguments) if callable(found) else found


def change_shard(memory: Memory, common: str, item: tuple[str, dict[str, Any]]) -> ShardFacts:
    """Call a method of `CodeIndex` that changes, and save the index; `common` is the name of the method."""
    folder, arguments = item
    index = _shard(memory, folder)
    try:
        getattr(index, common)(**arguments)
        index.save(folder)
    except BaseException:
        memory.clear()  # what is not in the folder must not answer
        raise
    return _facts(index)


def _shard(memory: Memory, folder: str) -> CodeIndex:
    loaded, index = memory.get("shard", (None, None))
    if loaded != folder:
        index = CodeIndex.load(folder)
        memory["shard"] = folder, index
    assert index is not None
    return index


def _facts(index: CodeIndex) -> ShardFacts:
    snapshot, codec = index._snapshot, index.codec
    return ShardFacts(
        snapshot.n_live,
        snapshot.id_kind,
        snapshot.next_number,
        isinstance(codec, SemanticCodec) and index._any_unlabelled(snapshot),
        bool(index.columns),
        codec.pack().digest,
    )
