"""The rows of training, read by workers: a fit sends functions to blocks of them, and gets sums and samples back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Self

import numpy as np
import xxhash

from supquant.arrays import Array, RowNumbers
from supquant.distributed.pool import Workers
from supquant.distributed.process_workers import ProcessWorkers
from supquant.distributed.ray_workers import RayWorkers
from supquant.distributed.row_reader import RowReader
from supquant.distributed.source_files import SourceFiles
from supquant.distributed.worker import Memory
from supquant.inputs.parameters import check_integer
from supquant.parallel import row_blocks, single_blas
from supquant.remote import BlockFunction, RemoteBlock, RemoteRows, RowPass, Rows
from supquant.row_sums import RUN, RunSum

__all__ = ["ProcessRows", "RayRows", "WorkerRows"]

FETCHED_ROWS = 8192
"""This number of rows of a sample travel at a time."""

MEMORY_SHARE = 0.5
"""Share of the free memory of a machine that its workers keep rows and features in, unless the user says otherwise."""


class WorkerRows(RemoteRows):
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
                pieces: list[Rows] = [
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

    def _fetched(self, pieces: Sequence[Rows]) -> Array:
        """Return the rows of some pieces, one after the other."""
        sizes = [rows[1] - rows[0] if isinstance(rows, tuple) else len(rows) for rows in pieces]
        found = np.empty((sum(sizes), self.shape[1]), dtype=self.dtype)
        firsts = [0, *accumulate(sizes)]
        items = [_Item((rows,), None) for rows in pieces]
        for number, vectors in self._results(RowPass(_vectors_of, pieces, None), items):
            found[firsts[number] : firsts[number + 1]] = vectors
        return found

    def take(self, numbers: RowNumbers) -> RemoteRows:
        """Return some of the rows, given in ascending order. They stay where they are."""
        return _ChosenRows(self, numbers)

    def largest(self) -> float:
        """Return the largest size of a value. Rows that cannot be read are an `InputError` that names file and row."""
        return self._largest

    @cached_property
    def _largest(self) -> float:
        return max(self.map_blocks(_largest_of, row_blocks(len(self)), None))

    def map_pass(self, row_pass: RowPass) -> Iterator[Any]:
        """Apply the function of a pass to its blocks; yield the results in the order of the blocks."""
        waiting: dict[int, Any] = {}
        wanted = 0
        for number, result in self._results(row_pass, self._items(row_pass, 1)):
            waiting[number] = result
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted += 1

    def sum_pass(self, row_pass: RowPass) -> tuple[Array, ...]:
        """Return the sums of the arrays that the function of a pass returns, added up as `RunSum` does."""
        # Workers add up whole runs where there are enough of them, so that fewer sums travel. Bits are the same either way.
        whole_runs = len(row_pass.blocks) >= 2 * RUN * self.workers.n_workers
        items = self._items(row_pass, RUN if whole_runs else 1, is_summed=whole_runs)
        total = RunSum(len(items))
        for number, parts in self._results(row_pass, items):
            total.add(number, parts)
        return total.total()

    def _items(self, row_pass: RowPass, at_once: int, *, is_summed: bool = False) -> list[_Item]:
        """Divide a pass into items of `at_once` blocks.

        If there are fewer blocks than workers, blocks of scattered rows travel with their items. All workers fetch such rows
        from those that they keep; the worker of the block alone would read most of the files.
        """
        blocks, own = row_pass.blocks, row_pass.own
        is_scattered = len(blocks) < self.workers.n_workers
        return [
            _Item(
                tuple(blocks[a:b]),
                None if own is None else own[a:b],
                is_summed,
                [
                    self[rows] if is_scattered and not isinstance(rows, tuple) else None
                    for rows in blocks[a:b]
                ],
            )
            for a, b in row_blocks(len(blocks), at_once)
        ]

    def _results(self, row_pass: RowPass, items: list[_Item]) -> Iterator[tuple[int, Any]]:
        common = _Common(self._files, self._cache_bytes, row_pass.function, row_pass.shared)
        return self.workers.run(visit_blocks, items, common)


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


class _ChosenRows(RemoteRows):
    """Some rows of others, in ascending order."""

    def __init__(self, rows: WorkerRows, numbers: RowNumbers) -> None:
        self._rows, self._numbers = rows, numbers
        self.shape, self.dtype = (len(numbers), rows.shape[1]), rows.dtype

    def __getitem__(self, rows: Any) -> Array:
        return self._rows[self._numbers[rows]]

    def take(self, numbers: RowNumbers) -> RemoteRows:
        return _ChosenRows(self._rows, self._numbers[numbers])

    def largest(self) -> float:
        return self._rows.largest()

    def map_pass(self, row_pass: RowPass) -> Iterator[Any]:
        return self._rows.map_pass(self._there(row_pass))

    def sum_pass(self, row_pass: RowPass) -> tuple[Array, ...]:
        return self._rows.sum_pass(self._there(row_pass))

    def _there(self, row_pass: RowPass) -> RowPass:
        blocks = [
            self._numbers[slice(*rows) if isinstance(rows, tuple) else rows] for rows in row_pass.blocks
        ]
        return replace(row_pass, blocks=blocks)


# in a worker ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Common:
    """What all items of a pass have in common."""

    files: SourceFiles
    cache_bytes: int
    function: BlockFunction
    shared: Any


@dataclass(frozen=True)
class _Item:
    """Blocks that a worker visits for one answer."""

    blocks: tuple[Rows, ...]
    own: Any  # what belongs to each block, or None
    is_summed: bool = False  # whether the answer is the sum of a whole run
    sent: Sequence[Array | None] | None = None  # the vectors of each block, or None if the worker reads them


def visit_blocks(memory: Memory, common: _Common, item: _Item) -> Any:
    """Apply the function of a pass to the blocks of an item, on one thread: the task of a worker."""
    nothing = [None] * len(item.blocks)
    own, sent = (nothing if each is None else each for each in (item.own, item.sent))
    with single_blas():
        results = (
            common.function(_Block(rows, memory, common, vectors), mine, common.shared)
            for rows, mine, vectors in zip(item.blocks, own, sent, strict=True)
        )
        if not item.is_summed:
            return next(results)
        total = RunSum(len(item.blocks))
        for number, parts in enumerate(results):
            total.add(number, parts)
        return total.total()


@dataclass
class _Block:
    """One block of rows in a worker, as `RemoteBlock` says."""

    rows: Rows
    memory: Memory
    common: _Common
    sent: Array | None  # its vectors, or None if they are read
    key: int = field(init=False)
    cache_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.key = xxhash.xxh3_64_intdigest(np.asarray(self.rows, dtype=np.int64).tobytes())
        self.cache_bytes = self.common.cache_bytes // 2  # the other half is for vectors

    @property
    def x(self) -> Array:
        """The vectors (b, p) as the files have them."""
        if self.sent is not None:
            return self.sent
        half = self.common.cache_bytes // 2
        return RowReader.of(self.common.files, self.memory, half).read(self.rows)


def _vectors_of(block: RemoteBlock, own: None, shared: None) -> Array:
    del own, shared
    return block.x


def _largest_of(block: RemoteBlock, own: None, shared: None) -> float:
    del own, shared
    return max(float(block.x.max()), -float(block.x.min()))
