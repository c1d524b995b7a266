"""The rows of training, read by workers: a fit sends functions to blocks of them, and gets sums and samples back."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import xxhash

from supquant.arrays import Array, Float64, RowNumbers
from supquant.distributed.pool import Workers
from supquant.distributed.process_workers import ProcessWorkers
from supquant.distributed.ray_workers import RayWorkers
from supquant.distributed.row_reader import RowReader
from supquant.distributed.source_files import SourceFiles
from supquant.distributed.worker import Memory
from supquant.inputs.parameters import check_integer
from supquant.parallel import row_blocks, single_blas
from supquant.row_sums import RUN, FeatureCache, RunSum, sum_results
from supquant.rows import BlockFunction, RowBlock, RowNames, Rows

__all__ = ["ProcessRows", "RayRows", "WorkerRows"]

FETCHED_ROWS = 8192
"""This number of rows of a sample travel at a time."""

MEMORY_SHARE = 0.5
"""Share of the free memory of a machine that its workers keep rows and features in, unless the user says otherwise."""


class WorkerRows(Rows):
    """Rows that workers read: `ProcessRows` or `RayRows`.

    A row is read by the worker whose turn it is, checked, and kept as long as there is room. The driver sees sums, samples and
    codes. A fit to these rows gives the bits of a fit to the same rows in memory, whatever the number of workers.

    Attributes
    ----------
    shape : tuple of int
        The number of rows and the number of dimensions.
    labels : ndarray of shape (n,) or None
        The labels of all rows, None where one is unknown.
    workers : Workers
        The workers. `close` ends them, and so does the end of a ``with`` block.
    """

    workers: Workers

    def __init__(self, files: SourceFiles, start: Callable[[], Workers], cache_bytes: int | None) -> None:
        if cache_bytes is not None:
            check_integer(cache_bytes, "cache_bytes", 0)
        self._files = files
        source = files.open()  # bad columns are known before workers start
        self.shape, self.dtype = source.shape, source.dtype
        self.labels = source.labels
        self.workers = start()
        free = self.workers.free_bytes()
        self._cache_bytes = int(MEMORY_SHARE * free) if cache_bytes is None else cache_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers."""
        self.workers.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._files.path}: {len(self)} rows of {self.shape[1]} {self.dtype})"

    def __getitem__(self, rows: Any) -> Array:
        """Return some rows, by a slice or by their numbers (r,)."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                pieces: list[RowNames] = [
                    (start + a, start + b) for a, b in row_blocks(stop - start, FETCHED_ROWS)
                ]
                return self._fetched(pieces)
            rows = np.arange(start, stop, step)
        numbers = np.asarray(rows)
        numbers = np.flatnonzero(numbers) if numbers.dtype == bool else numbers
        distinct, places = np.unique(numbers, return_inverse=True)
        W = self.workers.n_workers
        # All workers take part, each in rows that it may have kept.
        rounds = max(1, -(-len(distinct) // (W * FETCHED_ROWS)))
        size = max(1, -(-len(distinct) // (W * rounds)))
        found = self._fetched([distinct[slice(*block)] for block in row_blocks(len(distinct), size)])
        return found if len(places) == len(distinct) and (np.diff(numbers) > 0).all() else found[places]

    def _fetched(self, pieces: Sequence[RowNames]) -> Array:
        """Return the rows of some pieces, one after the other."""
        sizes = [rows[1] - rows[0] if isinstance(rows, tuple) else len(rows) for rows in pieces]
        found = np.empty((sum(sizes), self.shape[1]), dtype=self.dtype)
        firsts = [0, *itertools.accumulate(sizes)]
        items = [_Item((rows,), None) for rows in pieces]
        for number, vectors in self.workers.run(visit_blocks, items, self._common(_vectors_of, None, None)):
            found[firsts[number] : firsts[number + 1]] = vectors
        return found

    def take(self, numbers: RowNumbers) -> Rows:
        """Return some of the rows, given in ascending order. They stay where they are."""
        return _ChosenRows(self, numbers)

    def map_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        *,
        n_jobs: int = 1,
        cache: FeatureCache | None = None,
    ) -> Iterator[Any]:
        """Apply a function to blocks of rows; yield its results in the order of the blocks. Workers have one thread each."""
        del n_jobs
        waiting: dict[int, Any] = {}
        wanted = 0
        for number, result in self.workers.run(
            visit_blocks, self._items(blocks, own, 1), self._common(function, shared, cache)
        ):
            waiting[number] = result
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted += 1

    def sum_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        *,
        n_jobs: int = 1,
        cache: FeatureCache | None = None,
        advance: Callable[[float], None] | None = None,
        results: list[Any] | None = None,
    ) -> tuple[Float64, ...]:
        """Return the sums of the arrays that a function returns for blocks. Workers have one thread each."""
        del n_jobs
        # Workers add up whole runs where there are enough of them, so that fewer sums travel. Bits are the same either way.
        whole_runs = len(blocks) >= 2 * RUN * self.workers.n_workers
        items = self._items(blocks, own, RUN if whole_runs else 1)
        found: dict[int, list[Any]] = {}

        def parts() -> Iterator[tuple[int, Sequence[Array]]]:
            common = self._common(function, shared, cache, is_summed=True, has_results=results is not None)
            for number, (summed, of_blocks) in self.workers.run(visit_blocks, items, common):
                found[number] = of_blocks
                yield number, summed

        sums = sum_results(parts(), len(items), advance)
        if results is not None:
            results.extend(itertools.chain.from_iterable(found[number] for number in range(len(items))))
        return sums

    def _items(self, blocks: Sequence[RowNames], own: Sequence[Any] | None, at_once: int) -> list[_Item]:
        """Divide a pass into items of `at_once` blocks.

        If there are fewer blocks than workers, blocks of scattered rows travel with their items. All workers fetch such rows
        from those that they keep; the worker of the block alone would read most of the files.
        """
        is_scattered = len(blocks) < self.workers.n_workers
        return [
            _Item(
                tuple(blocks[a:b]),
                None if own is None else own[a:b],
                [
                    self[rows] if is_scattered and not isinstance(rows, tuple) else None
                    for rows in blocks[a:b]
                ],
            )
            for a, b in row_blocks(len(blocks), at_once)
        ]

    def _common(
        self, function: BlockFunction, shared: object, cache: FeatureCache | None, **kind: bool
    ) -> _Common:
        name = "" if cache is None else cache.name
        return _Common(self._files, self._cache_bytes, name, function, shared, **kind)


class ProcessRows(WorkerRows):
    """Rows of training that processes of this machine read.

    Parameters
    ----------
    source : str or path
        Files of vectors, as in `open_vectors`.
    vectors, labels : str or None, default=None
        Columns, as in `open_vectors`.
    n_workers : int or None, default=None
        The number of processes. None takes one for each core.
    cache_bytes : int or None, default=None
        Bytes of rows and features that each process keeps. Others are read and computed again in every pass. None takes half of
        the free memory for all of them.
    restarts : int, default=3
        How often lost processes are started again in one pass.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> X, y = load_digits(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", X)
    ...     with ProcessRows(f"{folder}/X.npy", n_workers=1) as rows:
    ...         sq = SupervisedQuantizer(2, random_state=0, max_iter=1).fit(rows, y)
    >>> sq.training_codes_.shape
    (1797, 2)
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        vectors: str | Sequence[str] | None = None,
        labels: str | bool | None = None,
        *,
        n_workers: int | None = None,
        cache_bytes: int | None = None,
        restarts: int = 3,
    ) -> None:
        files = SourceFiles.of(source, vectors, labels, False)
        super().__init__(files, lambda: ProcessWorkers(n_workers, restarts=restarts), cache_bytes)


class RayRows(WorkerRows):
    """Rows of training that actors of a Ray cluster read.

    Parameters
    ----------
    source : str or path
        Files of vectors that every node can read, as in `open_vectors`.
    vectors, labels : str or None, default=None
        Columns, as in `open_vectors`.
    num_actors : int or None, default=None
        The number of actors. None takes one for each processor of the cluster.
    actor_options : mapping or None, default=None
        Options of the actors as Ray takes them, such as ``{"num_cpus": 4, "memory": 8e9}``.
    cache_bytes : int or None, default=None
        Bytes of rows and features that each actor keeps. None takes half of its `memory` if that is given, or of the memory of
        the cluster for all actors.
    restarts : int, default=3
        How often lost actors are started again in one pass.
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        vectors: str | Sequence[str] | None = None,
        labels: str | bool | None = None,
        *,
        num_actors: int | None = None,
        actor_options: Mapping[str, Any] | None = None,
        cache_bytes: int | None = None,
        restarts: int = 3,
    ) -> None:
        files = SourceFiles.of(source, vectors, labels, False)
        super().__init__(
            files,
            lambda: RayWorkers(num_actors, actor_options=actor_options, restarts=restarts),
            cache_bytes,
        )


class _ChosenRows(Rows):
    """Some rows of others, in ascending order."""

    def __init__(self, rows: WorkerRows, numbers: RowNumbers) -> None:
        self._rows, self._numbers = rows, numbers
        self.shape, self.dtype = (len(numbers), rows.shape[1]), rows.dtype
        self.checked = rows.checked

    def __getitem__(self, rows: Any) -> Array:
        return self._rows[self._numbers[rows]]

    def take(self, numbers: RowNumbers) -> Rows:
        return _ChosenRows(self._rows, self._numbers[numbers])

    def map_blocks(
        self, function: BlockFunction, blocks: Sequence[RowNames], *rest: Any, **settings: Any
    ) -> Iterator[Any]:
        return self._rows.map_blocks(function, self._there(blocks), *rest, **settings)

    def sum_blocks(
        self, function: BlockFunction, blocks: Sequence[RowNames], *rest: Any, **settings: Any
    ) -> tuple[Float64, ...]:
        return self._rows.sum_blocks(function, self._there(blocks), *rest, **settings)

    def _there(self, blocks: Sequence[RowNames]) -> list[RowNames]:
        return [self._numbers[slice(*rows) if isinstance(rows, tuple) else rows] for rows in blocks]


# in a worker ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Common:
    """What all items of a pass have in common."""

    files: SourceFiles
    cache_bytes: int
    cache_name: str  # that of the features to keep; empty if none are kept
    function: BlockFunction
    shared: Any
    is_summed: bool = False  # whether an answer is the sum of the arrays of its blocks, and a list of results
    has_results: bool = False  # whether the function returns a result next to the arrays


@dataclass(frozen=True)
class _Item:
    """Blocks that a worker visits for one answer."""

    blocks: tuple[RowNames, ...]
    own: Any  # what belongs to each block, or None
    sent: Sequence[Array | None] | None = None  # the vectors of each block, or None if the worker reads them


def visit_blocks(memory: Memory, common: _Common, item: _Item) -> Any:
    """Apply the function of a pass to the blocks of an item, on one thread: the task of a worker."""
    own, sent = ([None] * len(item.blocks) if each is None else each for each in (item.own, item.sent))
    with single_blas():
        found = (
            common.function(_WorkerBlock(rows, memory, common, vectors), mine, common.shared)
            for rows, mine, vectors in zip(item.blocks, own, sent, strict=True)
        )
        if not common.is_summed:
            return next(found)
        total, results = RunSum(len(item.blocks)), []
        for number, each in enumerate(found):
            parts, result = each if common.has_results else (each, None)
            total.add(number, parts)
            results.append(result)
        # A single block's arrays travel as they are: they may be float32.
        return parts if len(item.blocks) == 1 else total.total(), results


@dataclass
class _WorkerBlock:
    """One block of rows in a worker, as `RowBlock` says."""

    rows: RowNames
    memory: Memory
    common: _Common
    sent: Array | None  # its vectors, or None if they are read

    @cached_property
    def key(self) -> int:
        return xxhash.xxh3_64_intdigest(np.asarray(self.rows, dtype=np.int64).tobytes())

    @cached_property
    def cache(self) -> FeatureCache:
        name = self.common.cache_name
        if not name:
            return FeatureCache(0)
        known, kept = self.memory.get("features", ("", None))
        if known != name:  # those of another fit, or of another kernel of it
            kept = FeatureCache(self.common.cache_bytes // 2)  # the other half is for vectors
            self.memory["features"] = name, kept
        assert isinstance(kept, FeatureCache)
        return kept

    @cached_property
    def x(self) -> Array:
        if self.sent is not None:
            return self.sent
        half = self.common.cache_bytes // 2
        return RowReader.of(self.common.files, self.memory, half).read(self.rows)


def _vectors_of(block: RowBlock, own: None, shared: None) -> Array:
    del own, shared
    return block.x
