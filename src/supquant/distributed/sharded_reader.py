"""Codes to answers on several machines: everything that an index in several folders does without changing."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Flags, Float32, RowNumbers
from supquant.codec.interface import AnyCodec
from supquant.distributed.pool import Workers
from supquant.distributed.shard import (
    ALL_ROWS,
    Among,
    read_columns_of,
    read_shard,
    select_in_shard,
)
from supquant.distributed.shard_rows import id_array, moved
from supquant.distributed.sharded_search import ShardedFilter, ShardedSearch
from supquant.distributed.shards import Shards
from supquant.errors import InputError
from supquant.index.answers import answer_table, row_table
from supquant.index.columns import Columns
from supquant.index.filters import as_mask, is_condition
from supquant.index.ids import read_ids
from supquant.index.reader import check_state
from supquant.index.row_ids import Ids
from supquant.index.searchable import SearchableIndex, SearchOptions
from supquant.index.snapshot import Snapshot
from supquant.inputs.parameters import resolve_jobs

__all__ = ["PartialAnswer", "ShardedReader"]


class PartialAnswer(NamedTuple):
    """The answer of the shards that could answer."""

    scores: Float32
    ids: Array
    missing: dict[str, str]  # the folder of every shard that could not answer, and why


@dataclass(eq=False, slots=True)
class _ShardedOptions(SearchOptions):
    """What a search of shards is told. `missing` takes those that cannot answer, and why; None if that is an error."""

    missing: dict[int, str] | None = None


class ShardedReader(SearchableIndex):
    """The part of `ShardedIndex` that reads rows: searches, ids, codes and columns.

    Parameters
    ----------
    folders, workers, n_jobs
        As in `ShardedIndex`.
    """

    def __init__(
        self, folders: Sequence[str | os.PathLike[str]], workers: Workers | None, n_jobs: int | None
    ) -> None:
        resolve_jobs(n_jobs)
        self._n_jobs = n_jobs
        self._lock = threading.RLock()  # a method sees no change of another thread in its midst
        self._shards = Shards(folders, workers)
        self._note_new_rows(read_again=True)

    def _note_new_rows(self, *, read_again: bool = False) -> None:
        """Give the rows a new state. If the folders were read again, filters of the rows before are refused."""
        self._state = Snapshot().state
        if read_again:
            self._origin = object()
            self._filters: weakref.WeakSet[ShardedFilter] = weakref.WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, unless they were given by the caller."""
        self._shards.close()

    # rows ----------------------------------------------------------------------------------------------------------------

    @property
    def folders(self) -> list[str]:
        """The folders of the shards, in order."""
        return self._shards.folders

    @property
    def codec(self) -> AnyCodec:
        """The codec, which encodes items and makes the tables of queries."""
        return self._shards.codec

    def __len__(self) -> int:
        return len(self._shards)

    def __contains__(self, id_: object) -> bool:
        try:
            return bool(self.contains([id_])[0])
        except InputError:  # ids of this kind are not in the index
            return False

    def contains(self, ids: ArrayLike) -> Flags:
        """Return for each of some ids (n,) whether a row has it: (n,) bool."""
        with self._lock:
            return np.any(list(self._shards.which(id_array(ids)).values()), axis=0)

    @property
    def ids(self) -> Array:
        """The ids of all rows, in the order of the folders: int64, or objects that are str."""
        with self._lock:
            return self._of_all_shards(self._read_all("ids"))

    @property
    def state(self) -> str:
        """Names the present rows and their order, as `CodeIndex.state` does."""
        return self._state

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, ids and removals of all shards, without the codec."""
        return sum(self._read_all("nbytes"))

    @property
    def columns(self) -> list[str]:
        """The names of the columns that any shard keeps beside codes."""
        return list(self._shards.column_types())

    def info(self) -> dict[str, Any]:
        """Describe the index, as `CodeIndex.info` does. ``shards`` has this for each folder."""
        shards = self._read_all("info")
        bytes_ = {name: sum(each["bytes"][name] for each in shards) for name in shards[0]["bytes"]}
        return {
            "rows": len(self),
            "removed": sum(each["removed"] for each in shards),
            "bytes_per_code": self.codec.n_codebooks,
            "id_kind": self._shards.id_kind,
            "bytes": bytes_ | {"codec": self.codec.nbytes},
            "instruction_set": shards[0]["instruction_set"],
            "segments": [segment for each in shards for segment in each["segments"]],
            "shards": dict(zip(self.folders, shards, strict=True)),
        }

    def codes(self, ids: ArrayLike) -> Codes:
        """Return the codes (n, M) uint8 of rows, as `CodeIndex.codes` does."""
        given = id_array(ids)
        codes = np.empty((len(given), self.codec.n_codebooks), dtype=np.uint8)
        with self._lock:
            for own, found in self._shards.ask_owners(read_shard, given, "codes").values():
                codes[own] = found
        return codes

    def reconstruct(self, ids: ArrayLike) -> Float32:
        """Return the vectors (n, r) float32 that the codes of rows stand for."""
        return self.codec.decode(self.codes(ids))

    def _read_all(self, name: str) -> list[Any]:
        """Return what a method or an attribute of the index of each shard gives."""
        return self._shards.ask_all(read_shard, [(folder,) for folder in self.folders], name)

    def _of_all_shards(self, ids: Sequence[Array]) -> Array:
        """Join ids of all shards as those of one index."""
        return np.concatenate(
            [moved(own, by) for own, by in zip(ids, self._shards.first_numbers(), strict=True)]
        )

    # searches ------------------------------------------------------------------------------------------------------------

    @overload
    def search(
        self, Q: ArrayLike, k: int = 10, *, partial: Literal[False] = False, **search: Any
    ) -> tuple[Float32, Array]: ...

    @overload
    def search(
        self, Q: ArrayLike, k: int = 10, *, partial: bool, **search: Any
    ) -> tuple[Float32, Array] | PartialAnswer: ...

    def search(
        self, Q: ArrayLike, k: int = 10, *, partial: bool = False, **search: Any
    ) -> tuple[Float32, Array] | PartialAnswer:
        """Find the k best rows for every query, exactly, as `CodeIndex.search` does.

        Parameters
        ----------
        Q, k
            As in `CodeIndex.search`.
        partial : bool, default=False
            Whether shards that cannot answer are left out. Otherwise one of them is an error.
        **search
            `ranking`, `novelty`, `where`, `state` and `n_jobs`, as in `CodeIndex.search`. In a condition, a column that a shard
            lacks is null in its rows. `n_jobs` is the number of threads of each shard. None takes the number that the index was
            made with.

        Returns
        -------
        scores, ids : ndarray (q, k')
            As in `CodeIndex.search`.
        missing : dict of str to str
            Only if `partial`: the folders of the shards that could not answer, and why.
        """
        missing: dict[int, str] | None = {} if partial else None
        scores, ids = self._search(Q, k, _ShardedOptions(**search, missing=missing))
        if missing is None:
            return scores, ids
        return PartialAnswer(scores, ids, {self.folders[number]: why for number, why in missing.items()})

    def _find_best(self, Q: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        with self._lock:
            return self._start_search(options).find_best(Q, k, options.ranking)

    def _find_lowest_sums(self, tables: ArrayLike, k: int, options: SearchOptions) -> tuple[Float32, Array]:
        with self._lock:
            return self._start_search(options).find_lowest_sums(tables, k)

    def _find_in_range(
        self, Q: ArrayLike, threshold: float, options: SearchOptions
    ) -> tuple[RowNumbers, Float32, Array]:
        with self._lock:
            return self._start_search(options).find_in_range(Q, threshold, options.ranking)

    def _rank_rows(self, Q: ArrayLike, options: SearchOptions) -> Iterator[tuple[Float32, Array]]:
        with self._lock:
            return self._start_search(options).rank_rows(Q, options.ranking)

    def filter(self, where: ArrayLike, *, state: str | None = None) -> ShardedFilter:
        """Prepare searches among some of the rows, as `CodeIndex.filter` does.

        The filter stands for the same rows as long as changes are made by this index. After a `reload` that found other rows,
        it is refused.
        """
        with self._lock:
            made = ShardedFilter(self._origin, self._selected(where, state))
            self._filters.add(made)
        return made

    def select(self, where: object, *, state: str | None = None) -> Array:
        """Return the ids of some rows, in order of insertion, as `CodeIndex.select` does."""
        with self._lock:
            found = self._selected(where, state)
            none = np.empty(0, dtype=object if self._shards.id_kind == "str" else np.int64)
            return self._of_all_shards([found.get(number, none) for number in range(len(self.folders))])

    def _selected(self, where: object, state: str | None) -> dict[int, Array]:
        """Return the ids of some rows, for each shard that has any, as it knows them."""
        check_state(self.state, state)
        if where is None:
            raise InputError("expected ids, a mask or a condition, got None")
        items = {number: (self.folders[number], among) for number, among in self._among(where).items()}
        return self._shards.ask(select_in_shard, items)

    def _start_search(self, options: SearchOptions) -> ShardedSearch:
        check_state(self.state, options.state)
        resolve_jobs(options.n_jobs)
        missing = options.missing if isinstance(options, _ShardedOptions) else None
        return ShardedSearch(
            self.codec,
            Snapshot(),
            (),
            resolve_jobs(self._n_jobs if options.n_jobs is None else options.n_jobs),
            options.novelty,
            self._shards.all_labelled,
            self._shards,
            self._among(options.where, missing),
            options.where if isinstance(options.where, ShardedFilter) else None,
            missing,
        )

    def _among(self, where: object, missing: dict[int, str] | None = None) -> dict[int, Among]:
        """Return the shards that have rows of `where`, and which rows these are."""
        shards, every = self._shards, range(len(self.folders))
        if where is None:
            return dict.fromkeys(every, ALL_ROWS)
        if isinstance(where, ShardedFilter):
            if where.origin is not self._origin:
                raise InputError(
                    "the filter was made by another index, or before this one was read anew: make one with the filter method "
                    "of this index"
                )
            return {number: Among(filter=where.name) for number, ids in where.ids.items() if len(ids)}
        if is_condition(where):
            if not (known := shards.column_types()):
                raise InputError(f"the index has no columns, and {str(where)!r} is a condition on columns")
            return dict.fromkeys(every, Among(where, known))
        if (mask := as_mask(where)) is None:
            ids = id_array(where)
            owned, each = shards.owned(ids, partial=missing is not None), shards.each(ids)
            return {number: Among(each[number][1][own]) for number, own in owned.items()}
        if mask.shape != (len(self),):
            raise InputError(
                f"a mask must have one entry for each of the {len(self)} rows, got shape {mask.shape}"
            )
        edges = list(accumulate(facts.n_rows for facts in shards.facts))
        return {number: Among(own) for number, own in enumerate(np.split(mask, edges[:-1]))}

    # tables --------------------------------------------------------------------------------------------------------------

    def get(self, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the columns of rows as a `pyarrow.Table`, as `CodeIndex.get` does."""
        with self._lock:
            table = _Table(self._shards)
            positions = table.locate(read_ids(ids))  # first, because it refuses what are no ids
            return row_table({"id": np.asarray(ids)}, table, positions, columns)

    def search_table(
        self, Q: ArrayLike, k: int = 10, columns: Sequence[str] | None = None, **search: Any
    ) -> Any:
        """Find the k best rows for every query, and return them as one `pyarrow.Table`, as `CodeIndex.search_table` does."""
        with self._lock:
            scores, ids, *_ = self.search(Q, k, **search)
            return self._tabulate(scores, ids, columns)

    def _tabulate(self, scores: ArrayLike, ids: ArrayLike, columns: Sequence[str] | None = None) -> Any:
        """Return the answers of a search as one `pyarrow.Table`, as `CodeIndex._tabulate` does."""
        with self._lock:
            return answer_table(_Table(self._shards), np.asarray(scores), np.asarray(ids), columns)


class _Table:
    """The columns of all shards, as a snapshot has those of its rows. In place of positions it has ids."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.column_types = shards.column_types

    def locate(self, ids: Ids) -> Array:
        """Return the ids (n,), which must be in the index."""
        given = ids.take(np.arange(len(ids)))
        self._shards.owned(given)
        return given

    def columns_at(self, ids: Array) -> Columns | None:
        """Return the columns of the rows with some ids (n,); None if no row has any."""
        found = self._shards.ask_owners(read_columns_of, ids).values()
        pieces = [
            (None if table is None else Columns.of_table(table), int(own.sum()), None) for own, table in found
        ]
        if not pieces or (joined := Columns.join(pieces)) is None:
            return None
        order = np.concatenate([np.flatnonzero(own) for own, _ in found])
        return Columns.of_table(joined.take(np.argsort(order)))
