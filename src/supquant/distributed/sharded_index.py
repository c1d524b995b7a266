"""Codes to answers on several machines: an index in several folders, a worker for each."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes, Flags, Float32
from supquant.codec.interface import AnyCodec
from supquant.distributed.pool import Workers
from supquant.distributed.shard import describe_shard, read_shard, select_in_shard
from supquant.distributed.sharded_changes import change_shards, check_addable
from supquant.distributed.sharded_search import ShardedFilter, ShardedSearch, rows_among
from supquant.distributed.shards import ShardedTable, Shards, array_of, id_array, moved
from supquant.errors import InputError
from supquant.index.columns import read_columns, warn_of_nulls
from supquant.index.ids import Ids
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
        among = rows_among(self._shards, where, self._origin)
        items = {number: (self.folders[number], each) for number, each in among.items()}
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
            among=rows_among(self._shards, options.where, self._origin, missing),
            filter=options.where if isinstance(options.where, ShardedFilter) else None,
            missing=missing,
        )

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

    def _table(self) -> ShardedTable:
        return ShardedTable(self._shards)

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
            check_addable(self._shards, given)
        elif given is not None and change == "update":
            self._shards.owned(given)
        elif given is not None:
            self._shards.which(given)  # ids of another kind are refused

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
                check_addable(self._shards, given)
            columns = read_columns(metadata, len(codes), self._shards)
            new = np.full(len(codes), change == "add")
            rows: dict[int, Array] = {}  # of each shard
            if given is not None and change != "add":
                if change == "upsert":
                    new = ~self.contains(given)
                old = np.flatnonzero(~new)
                rows = {number: old[own] for number, own in self._shards.owned(given[old]).items()}
                if new.any():
                    check_addable(self._shards, given[new])
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
        """Change shards, as `change_shards` does, and give the rows a new state if there are more or fewer."""
        before = [facts.n_rows for facts in self._shards.facts]
        try:
            change_shards(self._shards, method, changes, added, codec)
        finally:
            if [facts.n_rows for facts in self._shards.facts] != before:
                self._note_new_rows()
