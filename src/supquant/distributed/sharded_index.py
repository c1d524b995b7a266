"""Codes to answers on several machines: an index in several folders, a worker for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from supquant.arrays import Array, ArrayLike, Codes
from supquant.distributed.pool import Failure, Workers
from supquant.distributed.shard import change_shard, describe_shard, which_taken
from supquant.distributed.shard_rows import id_array
from supquant.distributed.sharded_reader import PartialAnswer, ShardedReader
from supquant.errors import InputError, WorkerError
from supquant.index.changeable import ChangeableIndex
from supquant.index.code_index import beside_items, check_length, encode_rows
from supquant.index.columns import Columns, read_columns
from supquant.index.ids import name_some
from supquant.inputs.parameters import check_integer

__all__ = ["PartialAnswer", "ShardedIndex"]


class ShardedIndex(ShardedReader, ChangeableIndex):
    """One index whose rows lie in several folders, each of which was written by `CodeIndex.save`.

    Its methods take and return what those of `CodeIndex` do. A query goes to all shards. Answers are those of one `CodeIndex`
    over the rows of all folders, in the order of the folders: of equal rows, that of an earlier folder comes first. Rows that
    are numbered automatically are numbered over all folders. A change is in the folders of its shards when the call returns.
    So a worker that was lost loads its folder again, and knows every change. Any number of threads may use the index, one
    after the other. There is no `save`, `load` or `with_codec`, and the index cannot be copied.

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
        super().__init__(folders, workers, n_jobs)

    def __repr__(self) -> str:
        return (
            f"ShardedIndex({len(self)} rows of {self.codec.n_codebooks} bytes in {len(self.folders)} shards)"
        )

    # changes -------------------------------------------------------------------------------------------------------------

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        *,
        shard: int = -1,
        metadata: object = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Encode items in this process and append them to a shard.

        Parameters
        ----------
        X, y, ids, metadata, n_jobs
            As in `CodeIndex.add`. No shard may have one of the ids.
        shard : int, default=-1
            The number of the shard. In the last one, the default, the new rows come after all others, as in one index. If rows
            are numbered automatically, it must be the last one.

        Returns
        -------
        self
        """
        return self._add_items(X, y, ids, metadata, n_jobs, shard)

    def _add_items(
        self,
        X: ArrayLike,
        y: ArrayLike,
        ids: ArrayLike,
        metadata: object,
        n_jobs: int | None,
        shard: int = -1,
    ) -> Self:
        y, ids, metadata = beside_items(X, y, ids, metadata)
        self._check_new(ids)  # before the long work of encoding
        return self.add_codes(encode_rows(self.codec, X, y, n_jobs), ids, metadata=metadata, shard=shard)

    def add_codes(
        self, codes: ArrayLike, ids: ArrayLike | None = None, *, metadata: object = None, shard: int = -1
    ) -> Self:
        """Append rows that are already encoded to a shard, as `CodeIndex.add_codes` does; `shard` is as in `add`."""
        n = len(self.folders)
        number = range(n)[check_integer(shard, "shard", -n, n - 1)]
        if ids is None and number < n - 1:
            raise InputError("rows that are numbered automatically can only be added to the last shard")
        checked = self.codec.check_codes(codes)
        given = None if ids is None else id_array(ids, distinct=True)
        if given is not None:
            check_length(given, checked)
        with self._lock:
            self._check_new(given)
            columns = read_columns(metadata, len(checked), self._shards)
            if len(checked):
                rows = {"codes": checked, "ids": given, "metadata": _table(columns)}
                self._change("add_codes", {number: rows}, {number: len(checked)})
        return self

    def _check_new(self, ids: ArrayLike | None = None) -> None:
        """Check that rows with these ids can be added, as `CodeIndex._check_new` does."""
        given = None if ids is None else id_array(ids, distinct=True)
        there = [None] * len(self.folders) if given is None else [own for _, own in self._shards.each(given)]
        taken = self._shards.ask_all(which_taken, list(zip(self.folders, there, strict=True)))
        if given is not None and (found := np.any(taken, axis=0)).any():
            raise InputError(f"these ids are in the index already: {name_some(given[found])}")

    def remove(self, ids: ArrayLike) -> Self:
        """Remove rows, as `CodeIndex.remove` does."""
        given = id_array(ids, distinct=True)
        with self._lock:
            gone = {number: there for number, (_, there) in self._of_owners(given).items()}
            changes = {number: {"ids": there} for number, there in gone.items()}
            self._change("remove", changes, {number: -len(there) for number, there in gone.items()})
            for number, there in gone.items():
                for filter_ in self._filters:
                    filter_.forget(number, there)
        return self

    def _update_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self:
        given = id_array(ids, distinct=True)
        self._shards.owned(given)  # before the long work of encoding
        return self.update_codes(given, self.codec.encode_items(X, y, n_jobs=n_jobs), metadata=metadata)

    def update_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Replace the codes of rows, as `CodeIndex.update_codes` does."""
        given, checked = id_array(ids, distinct=True), self.codec.check_codes(codes)
        check_length(given, checked)
        with self._lock:
            columns = read_columns(metadata, len(checked), self._shards)
            changes = {
                number: _rows(there, checked, columns, own)
                for number, (own, there) in self._of_owners(given).items()
            }
            self._change("update_codes", changes, {})
        return self

    def _upsert_items(
        self, ids: ArrayLike, X: ArrayLike, y: ArrayLike, metadata: object, n_jobs: int | None
    ) -> Self:
        given = id_array(ids, distinct=True)
        self.contains(given)  # ids of another kind are refused before the long work of encoding
        return self.upsert_codes(given, self.codec.encode_items(X, y, n_jobs=n_jobs), metadata=metadata)

    def upsert_codes(self, ids: ArrayLike, codes: ArrayLike, *, metadata: object = None) -> Self:
        """Update the codes of rows whose ids are in the index, and append the others to the last shard."""
        given, checked = id_array(ids, distinct=True), self.codec.check_codes(codes)
        check_length(given, checked)
        with self._lock:
            columns = read_columns(metadata, len(checked), self._shards)
            old = self.contains(given)
            owned = self._of_owners(given[old])
            places, last = np.flatnonzero(old), len(self.folders) - 1
            chosen = {number: places[own] for number, (own, _) in owned.items()}
            if not old.all():
                self._check_new(given[~old])
                chosen[last] = np.concatenate([chosen.get(last, places[:0]), np.flatnonzero(~old)])
            each = self._shards.each(given)
            changes = {
                number: _rows(each[number][1][rows], checked, columns, rows)
                for number, rows in chosen.items()
            }
            self._change("upsert_codes", changes, {last: int((~old).sum())})
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
            if any(facts.is_new for facts in self._shards.facts):
                self._note_new_rows(read_again=True)
        return self

    def _of_owners(self, ids: Array) -> dict[int, tuple[Array, Array]]:
        """Return which of the ids (n,) each shard has, as a mask, and these ids as the shard knows them."""
        each = self._shards.each(ids)
        return {number: (own, each[number][1][own]) for number, own in self._shards.owned(ids).items()}

    def _change(self, method: str, changes: Mapping[int, dict[str, Any]], added: Mapping[int, int]) -> None:
        """Change shards, all at once. If a worker was lost, the folder tells whether its change was made.

        Parameters
        ----------
        method : str
            The name of a method of `CodeIndex`.
        changes : mapping of int to dict
            The arguments of the method for each shard.
        added : mapping of int to int
            The number of rows that a shard has more afterwards, where that is not 0.
        """
        shards, left = self._shards, dict(changes)
        before = [facts.n_rows for facts in shards.facts]
        errors: list[BaseException] = []
        for _ in range(2):
            items = {number: (self.folders[number], arguments) for number, arguments in left.items()}
            for number, answer in shards.ask(change_shard, items, method, catch=True, restarts=0).items():
                more = added.get(number, 0)
                if not isinstance(answer, Failure):
                    shards.facts[number] = answer
                    del left[number]
                elif not isinstance(answer.error, WorkerError):
                    errors.append(answer.error)
                    del left[number]
                else:
                    shards.facts[number] = shards.ask(describe_shard, {number: self.folders[number]})[number]
                    if more and shards.facts[number].n_rows == before[number] + more:
                        del left[number]
        if [facts.n_rows for facts in shards.facts] != before:
            self._note_new_rows()
        if errors:
            raise errors[0]
        if left:
            names = ", ".join(self.folders[number] for number in left)
            raise WorkerError(
                f"the workers of {names} were lost twice in {method!r}: nothing was changed there"
            )


def _rows(ids: Array, codes: Codes, columns: Columns | None, rows: Array) -> dict[str, Any]:
    """Return some rows, by a mask or by their numbers, as arguments of a method that changes codes."""
    numbers = np.flatnonzero(rows) if rows.dtype == bool else rows
    metadata = None if columns is None else columns.take(numbers)
    return {"ids": ids, "codes": codes[numbers], "metadata": metadata}


def _table(columns: Columns | None) -> Any:
    return None if columns is None else columns.table()
