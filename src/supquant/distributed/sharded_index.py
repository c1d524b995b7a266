"""Codes to answers on several machines: an index in several folders, a worker for each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from supquant.arrays import Array, ArrayLike, Flags, Float32
from supquant.codec import QueryTables
from supquant.distributed.pool import Failure, Workers
from supquant.distributed.process_workers import ProcessWorkers
from supquant.distributed.shard import (
    ShardFacts,
    change_shard,
    describe_shard,
    read_shard,
    search_shard,
    which_ids,
)
from supquant.distributed.shard_rows import as_ids, moved, taken
from supquant.errors import InputError, WorkerError
from supquant.index import CodeIndex
from supquant.index.filters import as_mask
from supquant.index.ids import name_some, read_ids
from supquant.index.searching import Search
from supquant.index.snapshot import Snapshot
from supquant.index.topk import merge_answers
from supquant.validation import check_integer, resolve_jobs

__all__ = ["PartialAnswer", "ShardedIndex"]

_NOWHERE = object()
"""Stands for no row of a shard."""


class PartialAnswer(NamedTuple):
    """The answer of the shards that could answer."""

    scores: Float32
    ids: Array
    missing: dict[str, str]  # the folder of every shard that could not answer, and why


class ShardedIndex:
    """One index whose rows lie in several folders, each of which was written by `CodeIndex.save`.

    A query goes to all shards. Answers are those of one `CodeIndex` over the rows of all folders, in the order of the folders:
    of equal rows, that of an earlier folder comes first. Rows that are numbered automatically are numbered over all folders.
    A change is in the folder of its shard when the call returns. So a worker that was lost loads its folder again, and knows
    every change. Any number of threads may use the index, one after the other.

    Parameters
    ----------
    folders : sequence of str or path
        The folders. Their indexes have the same codec, and no id is in two of them. Every worker must be able to read its own.
    workers : Workers or None, default=None
        One for each folder: `ProcessWorkers` or `RayWorkers`. None starts local processes, which `close` ends.
    n_jobs : int or None, default=1
        Number of threads of each shard; None uses all cores of its machine.

    Examples
    --------
    >>> import tempfile
    >>> from supquant import ProductQuantizer
    >>> X = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32)
    >>> quantizer = ProductQuantizer(n_codebooks=2, n_codewords=16, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name, rows in (("a", X[:500]), ("b", X[500:])):
    ...         CodeIndex(quantizer).add(rows).save(f"{folder}/{name}")
    ...     with ShardedIndex([f"{folder}/a", f"{folder}/b"]) as index:
    ...         scores, ids = index.search(X[:3], k=5)
    >>> bool((ids == CodeIndex(quantizer).add(X).search(X[:3], k=5)[1]).all())
    True
    """

    def __init__(
        self,
        folders: Sequence[str | os.PathLike[str]],
        *,
        workers: Workers | None = None,
        n_jobs: int | None = 1,
    ) -> None:
        self.folders = [str(Path(folder).absolute()) for folder in folders]
        if not self.folders or len(set(self.folders)) < len(self.folders):
            raise InputError(f"expected different folders, got {self.folders}")
        if workers is not None and workers.n_workers < len(self.folders):
            raise InputError(f"{len(self.folders)} shards need as many workers, got {workers.n_workers}")
        self.codec = CodeIndex.load(self.folders[0]).codec
        self._n_jobs = n_jobs
        self._owns_workers = workers is None
        self._workers = ProcessWorkers(len(self.folders)) if workers is None else workers
        try:
            self._facts: list[ShardFacts] = self._ask(describe_shard, self.folders)
            self._check_alike()
        except BaseException:
            self.close()
            raise

    def _check_alike(self) -> None:
        for folder, facts in zip(self.folders, self._facts, strict=True):
            if facts.codec != self._facts[0].codec:
                raise InputError(f"{folder} was made with another codec than {self.folders[0]}")
        kinds = {facts.id_kind for facts in self._facts} - {None}
        if len(kinds) > 1:
            raise InputError(f"shards have ids of different kinds: {', '.join(sorted(map(str, kinds)))}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, unless they were given by the caller."""
        if self._owns_workers:
            self._workers.close()

    def __len__(self) -> int:
        return sum(facts.n_rows for facts in self._facts)

    def __repr__(self) -> str:
        return (
            f"ShardedIndex({len(self)} rows of {self.codec.n_codebooks} bytes in {len(self.folders)} shards)"
        )

    @property
    def ids(self) -> Array:
        """The ids of all rows, in the order of the folders."""
        found = self._ask(read_shard, [(folder, ()) for folder in self.folders], "ids")
        return np.concatenate([moved(ids, by) for ids, by in zip(found, self._first_numbers(), strict=True)])

    # searches ------------------------------------------------------------------------------------------------------------

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        partial: bool = False,
    ) -> tuple[Float32, Array] | PartialAnswer:
        """Find the k best rows for every query, exactly, as `CodeIndex.search` does.

        Parameters
        ----------
        Q, k, ranking, novelty
            As in `CodeIndex.search`.
        where : ids, mask (n,) of bool, or condition, default=None
            Search only among these rows. A mask is in the order of `ids`. A condition uses columns that every shard has, unless
            a shard has no columns at all.
        partial : bool, default=False
            Whether shards that cannot answer are left out. Otherwise one of them is an error.

        Returns
        -------
        scores, ids : ndarray (q, k')
            As in `CodeIndex.search`.
        missing : dict of str to str
            Only if `partial`: the folders of the shards that could not answer, and why.
        """
        k = check_integer(k, "k", 1)
        one = isinstance(Q, np.ndarray) and Q.ndim == 1
        rows = self._rows_of_shards(where, partial)
        all_labelled = not any(facts.any_unlabelled for facts in self._facts)
        queries = Search(self.codec, Snapshot(), (), resolve_jobs(None), novelty, all_labelled)
        missing: dict[str, str] = {}
        blocks = queries.table_blocks(np.asarray(Q)[None] if one else Q, ranking)
        found = [self._best_of_block(tables, k, rows, missing, partial) for tables in blocks]
        width = min(scores.shape[1] for scores, _ in found)  # a shard may have been lost between two blocks
        scores, ids = (
            np.concatenate([each[:, :width] for each in both]) for both in zip(*found, strict=True)
        )
        if one:
            scores, ids = scores[0], ids[0]
        return PartialAnswer(scores, ids, missing) if partial else (scores, ids)

    def _best_of_block(
        self, tables: QueryTables, k: int, rows: list[Any], missing: dict[str, str], partial: bool
    ) -> tuple[Float32, Array]:
        asked = [number for number, where in enumerate(rows) if where is not _NOWHERE]
        items = [
            (self.folders[number], None if where is _NOWHERE else where) for number, where in enumerate(rows)
        ]
        numbers, sums = [], []
        first = 0
        for number, answer in self._answers(search_shard, items, (tables, k, self._n_jobs), partial, asked):
            if isinstance(answer, Failure):
                missing[self.folders[number]] = str(answer.error)
                continue
            positions = np.arange(first, first + answer[0].shape[1])
            first += len(positions)
            sums.append((answer[0], np.broadcast_to(positions, answer[0].shape)))
            numbers.append(moved(answer[1], self._first_numbers()[number]))
        lowest, places = merge_answers(sums, k, len(tables))
        if not numbers:
            return lowest, np.empty(places.shape, dtype=np.int64)
        return tables.scores(lowest), np.take_along_axis(np.concatenate(numbers, axis=1), places, axis=1)

    def _rows_of_shards(self, where: object, partial: bool) -> list[Any]:
        """Return what each shard searches, as `where` of its own index."""
        if where is None:
            return [None] * len(self.folders)
        if isinstance(where, str) or type(where).__name__ == "Expression":
            if not any(facts.has_columns for facts in self._facts):
                return [where] * len(self.folders)  # a shard says what is wrong
            return [where if facts.has_columns else _NOWHERE for facts in self._facts]
        mask = as_mask(where)
        if mask is None:
            ids = as_ids(where)
            return [
                _NOWHERE if own is None else ids_there[own]
                for own, (_, ids_there) in zip(self._owned(ids, partial), self._each(ids), strict=True)
            ]
        if mask.shape != (len(self),):
            raise InputError(
                f"a mask must have one entry for each of the {len(self)} rows, got shape {mask.shape}"
            )
        edges = list(accumulate(facts.n_rows for facts in self._facts))
        return np.split(mask, edges[:-1])

    def _owned(self, ids: Array, partial: bool = False) -> list[Flags | None]:
        """Return for each shard which of the ids (n,) it has; None if it has none. An id of no shard is an `InputError`."""
        owned: list[Flags | None] = [None] * len(self.folders)
        left = np.ones(len(ids), dtype=bool)
        for number, found in self._answers(which_ids, self._each(ids), None, partial):
            if isinstance(found, Failure):
                left[:] = False  # nobody knows which ids the shard has
            elif found.any():
                left &= ~found
                owned[number] = found
        if left.any():
            raise InputError(f"these ids are not in the index: {name_some(ids[left])}")
        return owned

    def _each(self, ids: Array) -> list[tuple[str, Array]]:
        """Return each folder, and the ids (n,) as its shard knows them."""
        moves = zip(self.folders, self._first_numbers(), strict=True)
        return [(folder, moved(ids, -by)) for folder, by in moves]

    # rows ----------------------------------------------------------------------------------------------------------------

    def codes(self, ids: ArrayLike) -> Array:
        """Return the codes (n, M) uint8 of rows, as `CodeIndex.codes` does."""
        given = as_ids(ids)
        codes = np.empty((len(given), self.codec.n_codebooks), dtype=np.uint8)
        for number, own in enumerate(self._owned(given)):
            if own is not None:
                items = [(folder, (there[own],)) for folder, there in self._each(given)]
                codes[own] = dict(self._answers(read_shard, items, "codes", False, [number]))[number]
        return codes

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        *,
        metadata: object = None,
        shard: int = -1,
    ) -> Self:
        """Encode items and append them to a shard, whose folder has them when the call returns.

        Parameters
        ----------
        X, y, ids, metadata
            As in `CodeIndex.add`. No shard may have one of the ids.
        shard : int, default=-1
            The number of the shard. In the last one, the default, the new rows come after all others, as in one index. If rows
            are numbered automatically, it must be the last one.

        Returns
        -------
        self
        """
        number = range(len(self.folders))[
            check_integer(shard, "shard", -len(self.folders), len(self.folders) - 1)
        ]
        if ids is None and number < len(self.folders) - 1:
            raise InputError("rows that are numbered automatically can only be added to the last shard")
        if ids is not None:
            given = as_ids(ids)
            for _, found in self._answers(which_ids, self._each(given), None, False):
                if found.any():
                    raise InputError(f"these ids are in the index already: {name_some(given[found])}")
        self._change(number, "add", {"X": X, "y": y, "ids": ids, "metadata": metadata}, len(X))
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows from their shards, whose folders no longer have them when the call returns.

        Parameters
        ----------
        ids : sequence or array (n,) of int or str
            The ids of the rows.

        Returns
        -------
        self
        """
        given = as_ids(ids)
        read_ids(given, distinct=True)
        for number, own in enumerate(self._owned(given)):
            if own is not None:
                there = self._each(given)[number][1][own]
                self._change(number, "remove", {"ids": there}, -len(there))
        return self

    def update(self, ids: ArrayLike, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Encode items anew in their shards. Each row keeps its id and its place.

        Parameters
        ----------
        ids, X, y
            As in `CodeIndex.update`.

        Returns
        -------
        self
        """
        given = as_ids(ids)
        read_ids(given, distinct=True)
        if len(given) != len(X):
            raise InputError(f"expected one id for every row, got {len(given)} ids for {len(X)} rows")
        for number, own in enumerate(self._owned(given)):
            if own is not None:
                there, rows = self._each(given)[number][1][own], np.flatnonzero(own)
                labels = None if y is None else taken(y, rows)
                self._change(number, "update", {"ids": there, "X": taken(X, rows), "y": labels}, 0)
        return self

    def reload(self) -> Self:
        """Bring all shards to the present state of their folders."""
        self._facts = self._ask(describe_shard, self.folders, True)
        return self

    def _change(self, number: int, method: str, arguments: dict[str, Any], added: int) -> None:
        """Change a shard. If its worker was lost, the folder tells whether the change was made."""
        before = self._facts[number].n_rows
        item = self.folders[number], arguments
        for _ in range(2):
            items = [item if each == number else (folder, {}) for each, folder in enumerate(self.folders)]
            try:
                answers = dict(self._answers(change_shard, items, method, False, [number], restarts=0))
                self._facts[number] = answers[number]
            except WorkerError:
                self._facts[number] = self._ask(describe_shard, self.folders)[number]
                if added and self._facts[number].n_rows == before + added:
                    return
            else:
                return
        raise WorkerError(
            f"the worker of {self.folders[number]} was lost twice in {method!r}: nothing was changed"
        )

    # workers -------------------------------------------------------------------------------------------------------------

    def _first_numbers(self) -> list[int]:
        """Return what is added to the ids of each shard: rows that are numbered automatically are numbered over all shards."""
        if not any(facts.id_kind == "automatic" for facts in self._facts):
            return [0] * len(self._facts)
        return [0, *accumulate(facts.next_number for facts in self._facts[:-1])]

    def _ask(self, task: Any, items: Sequence[Any], common: object = None) -> list[Any]:
        """Ask all shards; return their answers in order."""
        return [answer for _, answer in self._answers(task, items, common, False)]

    def _answers(
        self,
        task: Any,
        items: Sequence[Any],
        common: object,
        partial: bool,
        asked: Sequence[int] | None = None,
        restarts: int | None = None,
    ) -> Iterator[tuple[int, Any]]:
        """Ask some shards, or all; yield their numbers and answers, in order."""
        found = dict(
            self._workers.run(task, items, common, pinned=True, restarts=restarts, catch=partial, only=asked)
        )
        for number in sorted(found):
            yield number, found[number]
