"""Codes to answers on several machines: an index in several folders, a worker for each."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Flags, Float32
from supquant.codec.interface import AnyCodec
from supquant.distributed.pool import Failure, Workers
from supquant.distributed.shard import (
    ALL_ROWS,
    Among,
    change_shard,
    describe_shard,
    read_columns_of,
    read_shard,
    select_in_shard,
    which_taken,
)
from supquant.distributed.sharded_search import ShardedFilter, ShardedSearch
from supquant.distributed.shards import Shards, array_of, id_array, moved
from supquant.errors import InputError, WorkerError
from supquant.index.columns import Columns, read_columns, warn_of_nulls
from supquant.index.filters import as_mask, is_condition
from supquant.index.ids import Ids, name_some
from supquant.index.local import CodecStep, LocalIndex, check_state
from supquant.index.searchable import Change, SearchOptions
from supquant.index.snapshot import Snapshot
from supquant.index.unknown_labels import UnknownMode
from supquant.index.vectors import CodedRows, VectorKind
from supquant.inputs.parameters import check_integer, resolve_jobs

__all__ = ["PartialAnswer", "ShardedIndex"]


class PartialAnswer(NamedTuple):
    """The answer of the shards that could answer."""

    scores: Float32
    ids: Array
    missing: dict[str, str]  # the folder of every shard that could not answer, and why


@dataclass(eq=False, slots=True)
class _ShardedOptions(SearchOptions):
    """The options of a search of shards. `missing` collects shards that cannot answer, and why; None makes them an error."""

    missing: dict[int, str] | None = None


class ShardedIndex(LocalIndex):
    """One index whose rows are in several folders, each written by `CodeIndex.save`.

    Its methods take and return what those of `CodeIndex` do. A query goes to all shards. Answers are those of one `CodeIndex`
    over the rows of all folders, in the order of the folders: of equal rows, that of an earlier folder comes first. Rows that
    are numbered automatically are numbered over all folders. A change is in the folders of its shards when the call returns.
    So a worker that was lost loads its folder again, and knows every change. Any number of threads may use the index; calls
    run one at a time. There is no `save`, `load`, `extend` or `with_codec`, and the index cannot be copied.

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
    >>> from supquant import CodeIndex, ProductQuantizer
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
        resolve_jobs(n_jobs)
        self._n_jobs = n_jobs
        # While a method runs, no other thread changes the index.
        self._lock = self._reading = threading.RLock()
        self._shards = Shards(folders, workers)
        self._note_new_rows(read_again=True)

    def __repr__(self) -> str:
        return (
            f"ShardedIndex({len(self)} rows of {self.codec.n_codebooks} bytes in {len(self.folders)} shards)"
        )

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
    def vectors(self) -> VectorKind | None:
        """The type of the vectors that all shards keep with the codes; None if there are none."""
        return self._shards.vectors

    @property
    def nbytes(self) -> int:
        """The number of bytes of codes, vectors, ids and removals of all shards, without the codec."""
        return sum(self._read_all("nbytes"))

    @property
    def columns(self) -> list[str]:
        """The names of the columns that any shard keeps with its codes."""
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
            **({} if self.vectors is None else {"vectors": self.vectors}),
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
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
        refine: object = None,
        partial: Literal[False] = False,
    ) -> tuple[Float32, Array]: ...

    @overload
    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
        refine: object = None,
        partial: bool,
    ) -> tuple[Float32, Array] | PartialAnswer: ...

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        *,
        ranking: str | None = None,
        novelty: ArrayLike | None = None,
        where: object = None,
        state: str | None = None,
        n_jobs: int | None = None,
        refine: object = None,
        partial: bool = False,
    ) -> tuple[Float32, Array] | PartialAnswer:
        """Find the k best rows for every query, exactly, as `CodeIndex.search` does.

        Parameters
        ----------
        Q, k, ranking, novelty, where, state, refine
            As in `CodeIndex.search`. In a condition, a column that a shard lacks is null in its rows. Shards read their own
            vectors; those of a source are read here.
        n_jobs : int, default=None
            The number of threads of each shard. None takes the number that the index was made with.
        partial : bool, default=False
            Whether shards that cannot answer are left out. Otherwise one of them is an error.

        Returns
        -------
        scores, ids : ndarray (q, k')
            As in `CodeIndex.search`.
        missing : dict of str to str
            Only if `partial`: the folders of the shards that could not answer, and why.
        """
        missing: dict[int, str] | None = {} if partial else None
        scores, ids = self._search(
            Q, k, _ShardedOptions(ranking, novelty, where, state, n_jobs, refine, missing)
        )
        if missing is None:
            return scores, ids
        return PartialAnswer(scores, ids, {self.folders[number]: why for number, why in missing.items()})

    def filter(self, where: ArrayLike, *, state: str | None = None) -> ShardedFilter:
        """Prepare searches among some of the rows, as `CodeIndex.filter` does.

        The filter selects the same rows as long as all changes are made by this index. After a `reload` that found other rows,
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
            shards=self._shards,
            among=self._among(options.where, missing),
            filter=options.where if isinstance(options.where, ShardedFilter) else None,
            missing=missing,
        )

    def _among(self, where: object, missing: dict[int, str] | None = None) -> dict[int, Among]:
        """Return the shards that have rows of `where`, and which rows these are."""
        shards, every = self._shards, range(len(self.folders))
        if where is None:
            return dict.fromkeys(every, ALL_ROWS)
        if isinstance(where, ShardedFilter):
            if where.origin is not self._origin:
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
        if mask.shape != (len(self),):
            raise InputError(
                f"a mask must have one entry for each of the {len(self)} rows, got shape {mask.shape}"
            )
        edges = list(accumulate(facts.n_rows for facts in shards.facts))
        return {number: Among(own) for number, own in enumerate(np.split(mask, edges[:-1]))}

    # tables --------------------------------------------------------------------------------------------------------------

    def search_table(
        self,
        Q: ArrayLike,
        k: int = 10,
        columns: Sequence[str] | None = None,
        **search: Any,
    ) -> Any:
        """Find the k best rows for every query, and return them as one `pyarrow.Table`, as `CodeIndex.search_table` does.

        `partial` is as in `search`.
        """
        with self._lock:
            scores, ids, *_ = self.search(Q, k, **search)
            return self._tabulate(scores, ids, columns)

    def _table(self) -> _Table:
        return _Table(self._shards)

    # changes -------------------------------------------------------------------------------------------------------------

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        *,
        shard: int = -1,
        metadata: object = None,
        unknown_labels: UnknownMode = "error",
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items in this process and append them to a shard.

        Parameters
        ----------
        X, y, ids, metadata, unknown_labels, n_jobs
            As in `CodeIndex.add`. No shard may have one of the ids. If labels are added to the model, all shards get it, one
            after the other: a process that ends meanwhile may leave the model extended, and the rows not added.
        shard : int, default=-1
            The number of the shard. In the last one, the default, the new rows come after all others, as in one index. If rows
            are numbered automatically, it must be the last one.

        Returns
        -------
        self
        """
        return self._change_items("add", ids, X, y, metadata, unknown_labels, n_jobs, shard=shard)

    def add_codes(
        self,
        codes: ArrayLike,
        ids: ArrayLike | None = None,
        *,
        metadata: object = None,
        vectors: ArrayLike | None = None,
        shard: int = -1,
    ) -> Self:
        """Append rows that are already encoded to a shard, as `CodeIndex.add_codes` does; `shard` is as in `add`."""
        return self._change_codes("add", ids, codes, metadata, vectors=vectors, shard=shard)

    def _check_change(self, change: Change, ids: Ids | None) -> None:
        given = None if ids is None else array_of(ids)
        if change == "add":
            self._check_addable(given)
        elif given is not None and change == "update":
            self._shards.owned(given)
        elif given is not None:
            self._shards.which(given)  # ids of another kind are refused

    def _check_addable(self, given: Array | None) -> None:
        """Check that rows with these ids can be added, as `CodeIndex.add` does."""
        there = [None] * len(self.folders) if given is None else [own for _, own in self._shards.each(given)]
        taken = self._shards.ask_all(which_taken, list(zip(self.folders, there, strict=True)))
        if given is not None and (found := np.any(taken, axis=0)).any():
            raise InputError(f"these ids are in the index already: {name_some(given[found])}")

    def _change_rows(
        self,
        change: Change,
        ids: Ids | None,
        codes: CodedRows,
        metadata: object,
        step: CodecStep | None,
        **place: int,
    ) -> bool:
        n = len(self.folders)
        last = range(n)[check_integer(place.get("shard", -1), "shard", -n, n - 1)]  # gets new rows
        if ids is None and last < n - 1:
            raise InputError("rows that are numbered automatically can only be added to the last shard")
        given = None if ids is None else array_of(ids)
        with self._lock:
            if step is not None and self.codec is not step.before:
                return False
            if change == "add":
                self._check_addable(given)
            columns = read_columns(metadata, len(codes), self._shards)
            new = np.full(len(codes), change == "add")
            rows: dict[int, Array] = {}  # of each shard
            if given is not None and change != "add":
                if change == "upsert":
                    new = ~self.contains(given)
                old = np.flatnonzero(~new)
                rows = {number: old[own] for number, own in self._shards.owned(given[old]).items()}
                if new.any():
                    self._check_addable(given[new])
            if new.any():
                warn_of_nulls(columns, self._shards)
                rows[last] = np.concatenate([rows.get(last, np.empty(0, np.int64)), np.flatnonzero(new)])
            each = None if given is None else self._shards.each(given)
            changes = {
                number: {
                    "ids": None if each is None else each[number][1][own],
                    "codes": coded.codes,
                    "vectors": coded.vectors,
                    "metadata": None if columns is None else columns.take(own),
                }
                for number, own in rows.items()
                for coded in [codes[own]]
            }
            extended = None if step is None or step.after is step.before else step.after
            self._change(f"{change}_codes", changes, {last: int(new.sum())}, extended)
        return True

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows, as `CodeIndex.remove` does."""
        given = id_array(ids, distinct=True)
        with self._lock:
            each = self._shards.each(given)
            gone = {number: each[number][1][own] for number, own in self._shards.owned(given).items()}
            changes = {number: {"ids": there} for number, there in gone.items()}
            self._change("remove", changes, {number: -len(there) for number, there in gone.items()})
            for number, there in gone.items():
                for filter_ in self._filters:
                    filter_.forget(number, there)
        return self

    def compact(self) -> Self:
        """Copy the rows of each shard into one segment, without removed ones."""
        with self._lock:
            self._change("compact", {number: {} for number in range(len(self.folders))}, {})
        return self

    def reload(self) -> Self:
        """Bring all shards to the present state of their folders."""
        with self._lock:
            self._shards.facts = self._shards.ask_all(describe_shard, self.folders, True)
            self._shards.note_codec()
            if any(facts.is_new for facts in self._shards.facts):
                self._note_new_rows(read_again=True)
        return self

    def _change(
        self,
        method: str,
        changes: Mapping[int, dict[str, Any]],
        added: Mapping[int, int],
        codec: AnyCodec | None = None,
    ) -> None:
        """Change shards, all at once. If a worker was lost, its folder shows whether its change was made.

        Parameters
        ----------
        method : str
            The name of a method of `CodeIndex`.
        changes : mapping of int to dict
            The arguments of the method for each shard.
        added : mapping of int to int
            By how many rows each shard grows; shards that do not grow may be left out.
        codec : AnyCodec or None, default=None
            The codec that all shards get. None leaves theirs.
        """
        shards = self._shards
        before = [facts.n_rows for facts in shards.facts]
        try:
            if codec is None:
                self._change_at_once(method, dict(changes), added, None)
            else:  # whoever is first to extend the first shard wins, so no two shards know different classes
                numbers = range(len(self.folders))
                for some in (numbers[:1], numbers[1:]):
                    self._change_at_once(method, {each: changes.get(each) for each in some}, added, codec)
        finally:
            if [facts.n_rows for facts in shards.facts] != before:
                self._note_new_rows()
            if codec is not None and shards.facts[0].codec == codec.pack().digest:
                shards.codec = codec

    def _change_at_once(
        self,
        method: str,
        left: dict[int, dict[str, Any] | None],
        added: Mapping[int, int],
        codec: AnyCodec | None,
    ) -> None:
        """Change some shards, as `_change` does; a shard without arguments only gets the codec."""
        shards, before = self._shards, [facts.n_rows for facts in self._shards.facts]
        digest = None if codec is None else codec.pack().digest
        errors: list[BaseException] = []
        for _ in range(2):
            items = {number: (self.folders[number], arguments) for number, arguments in left.items()}
            answers = shards.ask(change_shard, items, (method, codec), catch=True, restarts=0)
            for number, answer in answers.items():
                more = added.get(number, 0)
                if not isinstance(answer, Failure):
                    shards.facts[number] = answer
                    del left[number]
                elif not isinstance(answer.error, WorkerError):
                    errors.append(answer.error)
                    del left[number]
                else:
                    shards.facts[number] = shards.ask(describe_shard, {number: self.folders[number]})[number]
                    grown = more and shards.facts[number].n_rows == before[number] + more
                    if grown or shards.facts[number].codec == digest:
                        del left[number]
        if errors:
            raise errors[0]
        if left:
            names = ", ".join(self.folders[number] for number in left)
            raise WorkerError(
                f"the workers of {names} were lost twice in {method!r}: nothing was changed there"
            )


class _Table:
    """The columns of all shards, as a snapshot has those of its rows. In place of positions it has ids."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.column_types = shards.column_types

    def locate(self, ids: Ids) -> Array:
        """Return the ids (n,), which must be in the index."""
        given = array_of(ids)
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
