"""Queries to answers of shards: tables go to all shards, and their answers are merged."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Array, ArrayLike, Codes, Float32
from supquant.codec.interface import QueryTables
from supquant.distributed.pool import Failure
from supquant.distributed.shard import ALL_ROWS, Among, Sought, prepare_filter, read_shard, search_shard
from supquant.distributed.shards import Shards, id_array, moved
from supquant.errors import InputError
from supquant.index.filters import as_mask, is_condition
from supquant.index.parts import Positions, Sums
from supquant.index.searching import Search, merge_answers
from supquant.model.exact import ExactQueries

__all__ = ["ShardedFilter", "ShardedSearch", "rows_among"]


class ShardedFilter:
    """Rows that are prepared for searches among them. `ShardedIndex.filter` makes it.

    It is what `Filter` is to a `CodeIndex`. Every shard keeps the prepared rows, and the driver keeps their ids. A shard whose
    worker was lost gets them again.

    Attributes
    ----------
    origin : object
        Identifies the index and the rows that were in its folders when they were last read.
    ids : dict of int to ndarray
        The ids of the chosen rows that were not removed, as each shard knows them.
    """

    def __init__(self, origin: object, ids: dict[int, Array]) -> None:
        self.origin = origin
        self.ids = ids
        self.name = os.urandom(8).hex()

    def __len__(self) -> int:
        return sum(map(len, self.ids.values()))

    def forget(self, shard: int, removed: Array) -> None:
        """Forget the ids of removed rows: a row added later under such an id is a different one."""
        if shard in self.ids:
            self.ids[shard] = self.ids[shard][~np.isin(self.ids[shard], removed)]


def rows_among(
    shards: Shards, where: object, origin: object, missing: dict[int, str] | None = None
) -> dict[int, Among]:
    """Return the shards that have rows of `where`, and which rows these are.

    Parameters
    ----------
    shards : Shards
    where : object
        As in `CodeIndex.search`.
    origin : object
        That of the filters that may be used.
    missing : dict of int to str or None, default=None
        As in `ShardedSearch`.
    """
    every = range(len(shards.folders))
    if where is None:
        return dict.fromkeys(every, ALL_ROWS)
    if isinstance(where, ShardedFilter):
        if where.origin is not origin:
            raise InputError(
                "the filter was made by another index, or before this one was reloaded: make one with the filter method "
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
    if mask.shape != (len(shards),):
        raise InputError(
            f"a mask must have one entry for each of the {len(shards)} rows, got shape {mask.shape}"
        )
    edges = list(accumulate(facts.n_rows for facts in shards.facts))
    return {number: Among(own) for number, own in enumerate(np.split(mask, edges[:-1]))}


@dataclass(eq=False, kw_only=True)
class ShardedSearch(Search):
    """A search of the rows of all shards. In place of positions it has ids.

    Attributes
    ----------
    shards : Shards
        The shards.
    among : mapping of int to Among
        The shards that are asked, and their rows to search.
    filter : ShardedFilter or None, default=None
        The prepared rows, if `among` names them.
    missing : dict of int to str or None, default=None
        Shards that could not answer, and why: they are not asked again. None if that is an error.
    """

    shards: Shards
    among: Mapping[int, Among]
    filter: ShardedFilter | None = None
    missing: dict[int, str] | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows of all shards."""
        return len(self.shards)

    def ids_at(self, positions: Positions) -> NDArray[Any]:
        """Return the ids, which are there already."""
        return positions

    def find_best(
        self, Q: ArrayLike, k: int, ranking: str | None, refine: object = None
    ) -> tuple[Float32, Array]:
        """Return the scores and ids (q, k') of the best rows for every query, of the same shards for all queries."""
        while True:
            try:
                return super().find_best(Q, k, ranking, refine)
            except _LostShardError:  # the others are asked again
                continue

    def lowest(self, tables: Sums, bits: Array | None, k: int) -> tuple[Float32, Array]:
        """Return the lowest sums (q, k') of all shards, and the ids of their rows."""
        answers = self._answers(Sought(tables, bits, int(k), self.n_threads))
        sums, places = _merged(answers, k, len(tables))
        return sums, self._taken([own for *_, own in answers], places)

    def exact(
        self, queries: QueryTables, n: int, exact: ExactQueries
    ) -> tuple[Float32, Float32, NDArray[Any]]:
        """Return the exact scores, the cosines and the ids of the n rows with the lowest sums of all shards."""
        answers = self._answers(Sought(queries.tables, queries.bits, n, self.n_threads, exact))
        places = _merged(answers, n, len(queries))[1]
        none = np.empty((len(queries), 0), dtype=np.float32)
        scores, cosines = (
            np.take_along_axis(np.concatenate([none, *each], axis=1), places, axis=1)
            for each in ([answer[1] for answer in answers], [answer[2] for answer in answers])
        )
        return scores, cosines, self._taken([own for *_, own in answers], places)

    def codes_at(self, positions: Positions) -> Codes:
        """Return the codes (n, M) of rows, by their ids (n,)."""
        codes = np.empty((len(positions), self.codec.n_codebooks), dtype=np.uint8)
        distinct, which = np.unique(positions, return_inverse=True)
        for own, found in self.shards.ask_owners(read_shard, distinct, "codes").values():
            codes[own[which]] = found[(np.cumsum(own) - 1)[which[own[which]]]]
        return codes

    def _check_vectors(self) -> None:
        if self.shards.vectors is None:
            super()._check_vectors()

    def _taken(self, ids: list[Array], places: Positions) -> Array:
        """Return the ids (q, k) at some places among those of all shards."""
        return np.take_along_axis(self._joined(ids, (len(places), 0)), places, axis=1)

    def within(self, tables: Sums, bits: Array | None, limits: Sums) -> tuple[Positions, Float32, Array]:
        """Return the query, the sum and the id of every row whose sum is at most a limit."""
        answers = self._answers(Sought(tables, bits, limits, self.n_threads))
        none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        which, sums = (
            np.concatenate(each) for each in zip(none, *(answer[:2] for answer in answers), strict=True)
        )
        ids = self._joined([own for *_, own in answers], (0,))
        order = np.lexsort((sums, which))  # stable: rows of equal sums stay in the order of the shards
        return which[order], sums[order], ids[order]

    def _joined(self, ids: list[Array], shape: tuple[int, ...]) -> Array:
        """Join ids of shards; those of none have a shape."""
        kind: type = object if self.shards.id_kind == "str" else np.int64
        return np.concatenate([np.empty(shape, dtype=kind), *ids], axis=-1)

    def _answers(self, common: Sought) -> list[tuple[Any, ...]]:
        """Return the answers of the shards that are asked and can answer, in order, with ids of the whole index."""
        shards, missing = self.shards, self.missing
        items = {
            number: (shards.folders[number], among)
            for number, among in self.among.items()
            if missing is None or number not in missing
        }
        found = shards.ask(search_shard, items, common, catch=missing is not None)
        unprepared = [number for number, answer in found.items() if isinstance(answer, str)]
        if self.filter is not None and unprepared:
            chosen = {number: (shards.folders[number], self.filter.ids[number]) for number in unprepared}
            shards.ask(prepare_filter, chosen, self.filter.name)
            found |= shards.ask(search_shard, {number: items[number] for number in unprepared}, common)
        lost = {number: str(answer.error) for number, answer in found.items() if isinstance(answer, Failure)}
        if missing is not None and lost:
            missing |= lost
            raise _LostShardError
        firsts = shards.first_numbers()
        return [(*answer[:-1], moved(answer[-1], firsts[number])) for number, answer in found.items()]


def _merged(answers: list[tuple[Any, ...]], k: int, n_queries: int) -> tuple[Float32, Positions]:
    """Return the k lowest sums of all shards, and their places among the answers (q, ...) of all, one after the other."""
    found, first = [], 0
    for sums, *_ in answers:
        places = np.arange(first, first + sums.shape[1])
        first += len(places)
        found.append((sums, np.broadcast_to(places, sums.shape)))
    return merge_answers(found, k, n_queries)


class _LostShardError(Exception):
    """A shard could not answer, and the others are asked to answer without it."""
