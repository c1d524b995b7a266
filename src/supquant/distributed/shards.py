"""The shards of an index as the driver sees them: folders, workers, what is known of each shard, and which has which ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array, ArrayLike, Flags
from supquant.distributed.pool import Failure, Workers
from supquant.distributed.process_workers import ProcessWorkers
from supquant.distributed.shard import ShardFacts, describe_shard, read_columns_of, read_shard
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant.index.columns import Columns
from supquant.index.ids import Ids, name_some, read_ids
from supquant.index.unknown_labels import classes_of, read_codes_of
from supquant.index.vectors import VectorKind

__all__ = ["ShardedTable", "Shards", "array_of", "id_array", "moved"]


class Shards:
    """The folders of an index and their workers.

    Parameters
    ----------
    folders, workers
        As in `ShardedIndex`.

    Attributes
    ----------
    folders : list of str
        The folders, in order.
    facts : list of ShardFacts
        What is known of each shard. Whoever changes a shard writes its new facts.
    workers : Workers
        Worker i has shard i.
    codec : codec
        That of all shards. If some lack classes that were added later, it knows all of them.
    """

    def __init__(self, folders: Sequence[str | os.PathLike[str]], workers: Workers | None) -> None:
        self.folders = [str(Path(folder).absolute()) for folder in folders]
        if not self.folders or len(set(self.folders)) < len(self.folders):
            raise InputError(f"expected different folders, got {self.folders}")
        if workers is not None and workers.n_workers < len(self.folders):
            raise InputError(f"{len(self.folders)} shards need as many workers, got {workers.n_workers}")
        self.codec = CodeIndex.load(self.folders[0]).codec
        self._owns_workers = workers is None
        self.workers = ProcessWorkers(len(self.folders)) if workers is None else workers
        try:
            self.facts: list[ShardFacts] = self.ask_all(describe_shard, self.folders)
            self.note_codec()
            self._check_ids()
        except BaseException:
            self.close()
            raise

    def note_codec(self) -> None:
        """Note the codec of the shards: the one that knows most classes, if they differ in those that were added.

        A process that ends while it extends the codec leaves such shards. The next extension brings all of them to one codec.
        """
        if {facts.codec for facts in self.facts} == {self.codec.pack().digest}:
            return
        codecs = self.ask_all(read_shard, [(folder,) for folder in self.folders], "codec")
        widest = max(codecs, key=lambda codec: len(classes_of(codec)))
        for folder, codec in zip(self.folders, codecs, strict=True):
            known = classes_of(codec)
            if not read_codes_of(codec, codecs[0]) or known != classes_of(widest)[: len(known)]:
                raise InputError(f"{folder} was made with another codec than {self.folders[0]}")
        self.codec = widest

    def _check_ids(self) -> None:
        kinds = {facts.id_kind for facts in self.facts} - {None}
        if len(kinds) > 1:
            raise InputError(f"shards have ids of different kinds: {', '.join(sorted(map(str, kinds)))}")
        kept = {facts.vectors for facts in self.facts}
        if len(kept) > 1:
            raise InputError(f"shards keep vectors of different types: {', '.join(sorted(map(str, kept)))}")

    def close(self) -> None:
        """End the workers, unless they were given by the caller."""
        if self._owns_workers:
            self.workers.close()

    # what is known -------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(facts.n_rows for facts in self.facts)

    @property
    def all_labelled(self) -> bool:
        """Whether no item was added without labels."""
        return not any(facts.any_unlabelled for facts in self.facts)

    @property
    def id_kind(self) -> str | None:
        """The kind of the ids, as in `CodeIndex.info`."""
        return next((facts.id_kind for facts in self.facts if facts.id_kind is not None), None)

    @property
    def vectors(self) -> VectorKind | None:
        """The type of the vectors next to the codes; None if a shard keeps none."""
        return self.facts[0].vectors

    def column_types(self) -> dict[str, Any]:
        """Return the name and the pyarrow type of every column of any shard."""
        return {name: kind for facts in self.facts for name, kind in facts.column_types.items()}

    def first_numbers(self) -> list[int]:
        """Return what is added to the ids of each shard: rows that are numbered automatically are numbered over all shards."""
        if self.id_kind != "automatic":
            return [0] * len(self.facts)
        return [0, *accumulate(facts.next_number for facts in self.facts[:-1])]

    # questions to shards -------------------------------------------------------------------------------------------------

    def ask_all(self, task: Any, items: Sequence[Any], common: object = None) -> list[Any]:
        """Ask all shards; return their answers in order."""
        return list(self.ask(task, dict(enumerate(items)), common).values())

    def ask(
        self,
        task: Any,
        items: dict[int, Any],
        common: object = None,
        *,
        catch: bool = False,
        restarts: int | None = None,
    ) -> dict[int, Any]:
        """Ask some shards, by their numbers; return their answers in order.

        With `catch`, a shard that cannot answer has a `Failure`, and otherwise its error is raised.
        """
        every = [items.get(number) for number in range(len(self.folders))]
        found = dict(
            self.workers.run(
                task, every, common, pinned=True, restarts=restarts, catch=catch, only=list(items)
            )
        )
        return {number: found[number] for number in sorted(found)}

    def each(self, ids: Array) -> list[tuple[str, Array]]:
        """Return each folder, and the ids (n,) as its shard knows them."""
        moves = zip(self.folders, self.first_numbers(), strict=True)
        return [(folder, moved(ids, -by)) for folder, by in moves]

    def which(self, ids: Array, *, catch: bool = False) -> dict[int, Any]:
        """Return for each shard which of the ids (n,) it has, as a mask (n,); with `catch`, as in `ask`."""
        return self.ask(read_shard, dict(enumerate(self.each(ids))), "contains", catch=catch)

    def owned(self, ids: Array, *, partial: bool = False) -> dict[int, Flags]:
        """Return which of the ids (n,) each shard has, for shards that have any. An id of no shard is an `InputError`.

        If `partial`, nothing is known of a shard that cannot answer: ids may be there.
        """
        owned, left = {}, np.ones(len(ids), dtype=bool)
        for number, found in self.which(ids, catch=partial).items():
            if isinstance(found, Failure):
                left[:] = False
            elif found.any():
                left &= ~found
                owned[number] = found
        if left.any():
            raise InputError(f"these ids are not in the index: {name_some(ids[left])}")
        return owned

    def ask_owners(self, task: Any, ids: Array, common: object = None) -> dict[int, tuple[Flags, Any]]:
        """Ask each shard about those of the ids (n,) that it has; return which these are, and its answer."""
        owned, each = self.owned(ids), self.each(ids)
        items = {number: (each[number][0], each[number][1][own]) for number, own in owned.items()}
        return {number: (owned[number], found) for number, found in self.ask(task, items, common).items()}


class ShardedTable:
    """The columns of all shards, as a snapshot has those of its rows. In place of positions it has ids."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.column_types = shards.column_types

    def locate(self, ids: Ids) -> Array:
        """Return the ids (n,), which must be in the index."""
        given = array_of(ids)
        self._shards.owned(given)
        return given

    def columns_at(self, ids: Array, names: Sequence[str]) -> Columns | None:
        """Return some columns of the rows with some ids (n,); None if no row has any."""
        found = self._shards.ask_owners(read_columns_of, ids, names).values()
        pieces = [
            (None if table is None else Columns.of_table(table), int(own.sum()), None) for own, table in found
        ]
        if not pieces or (joined := Columns.join(pieces)) is None:
            return None
        order = np.concatenate([np.flatnonzero(own) for own, _ in found])
        return Columns.of_table(joined.take(np.argsort(order)))


def moved(ids: Array, by: int) -> Array:
    """Return ids with something added to them, if they are numbers."""
    return ids + by if by and ids.dtype.kind == "i" else ids


def id_array(ids: ArrayLike, *, distinct: bool = False) -> Array:
    """Return ids (n,) of a user as an array of int64, or of objects that are str. If `distinct`, none may come twice."""
    return array_of(read_ids(ids, distinct=distinct))


def array_of(ids: Ids) -> Array:
    """Return ids (n,) as an array of int64, or of objects that are str."""
    return ids.take(np.arange(len(ids)))
