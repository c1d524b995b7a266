"""Below the flow: rows of vectors as a fit sees them, whether they are in an array or read by other processes.

A fit asks for some rows by their numbers, or applies a function to blocks of rows and gets its results or their sums. `ArrayRows`
does this on threads of this process, `supquant.distributed` with workers. The bits of a fit are the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from numpy.typing import NDArray

from supquant.arrays import Array, Float64, RowNumbers
from supquant.parallel import ordered_map, row_blocks
from supquant.row_sums import FeatureCache, sum_results

__all__ = ["ArrayRows", "BlockFunction", "CentredRows", "RowBlock", "RowNames", "Rows", "rows_of", "sum_rows"]

RowNames = tuple[int, int] | RowNumbers
"""The rows of a block: the first one and one past the last one, or their numbers in ascending order."""


class RowBlock(Protocol):
    """One block of rows, as a function sees it in the process that reads it."""

    @property
    def key(self) -> int:
        """Names the rows of the block in the cache."""

    @property
    def cache(self) -> FeatureCache:
        """Keeps features of rows between passes, if there is room."""

    @property
    def x(self) -> Array:
        """The vectors (b, p); they are read when they are first used."""


BlockFunction = Callable[[RowBlock, Any, Any], Any]
"""A function of a module: it takes a block, what belongs to this block, and what all blocks share. It returns a result, which is
a tuple of arrays if results are summed."""


class Rows(ABC):
    """Vectors (n, p).

    Attributes
    ----------
    shape : tuple of int
        The number of rows and the number of dimensions.
    dtype : numpy.dtype
        The type of the numbers as they are stored.
    checked : bool
        Whether `check_training_rows` has seen the values.
    here : bool
        Whether the rows are in an array of this process.
    """

    shape: tuple[int, int]
    dtype: Any
    ndim = 2
    checked = False
    here = False

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: Any) -> Array:
        """Return some rows, by a slice, their numbers (r,) or a mask (n,), as an array. They should be few."""

    @abstractmethod
    def take(self, numbers: RowNumbers) -> Rows:
        """Return some of the rows, given in ascending order."""

    @abstractmethod
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
        """Apply a function to blocks of rows; yield its results in the order of the blocks.

        Parameters
        ----------
        function : callable
            As `BlockFunction` says.
        blocks : sequence of rows
            As `RowNames` says.
        shared : object
            What all blocks share, such as a model.
        own : sequence or None, default=None
            What belongs to each block, such as its labels; None if nothing does.
        n_jobs : int, default=1
            Number of threads, if they are threads of this process.
        cache : FeatureCache or None, default=None
            Where the function keeps features. Other processes have a cache of their own for it, of their own size.
        """

    @abstractmethod
    def sum_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        *,
        n_jobs: int = 1,
        cache: FeatureCache | None = None,
        results: list[Any] | None = None,
    ) -> tuple[Float64, ...]:
        """Return the sums of the arrays that a function returns for blocks, added up as `RunSum` does.

        Parameters
        ----------
        function, blocks, shared, own, n_jobs, cache
            As in `map_blocks`.

        results : list or None, default=None
            If given, the function returns its arrays and a result for the block; the list gets the results of all blocks.
        """

    def map_into(
        self,
        results: NDArray[Any],
        function: BlockFunction,
        blocks: Sequence[tuple[int, int]],
        shared: object,
        own: Sequence[Any] | None = None,
        *,
        n_jobs: int = 1,
    ) -> None:
        """Fill an array (n, ...) with the results of a function for blocks, as `map_blocks` yields them."""
        found = self.map_blocks(function, blocks, shared, own, n_jobs=n_jobs)
        for block, result in zip(blocks, found, strict=True):
            results[slice(*block)] = result


def rows_of(X: NDArray[Any] | Rows) -> Rows:
    """Return rows as they are, and those of an array (n, p), which is not copied."""
    return X if isinstance(X, Rows) else ArrayRows(X)


class ArrayRows(Rows):
    """The rows of an array (n, p) of any real dtype, which may be memory-mapped."""

    here = True

    def __init__(self, X: NDArray[Any]) -> None:
        self._X = X
        n, p = X.shape
        self.shape, self.dtype = (n, p), X.dtype

    def __getitem__(self, rows: Any) -> Array:
        return self._X[rows]

    def take(self, numbers: RowNumbers) -> Rows:
        """Return some of the rows, given in ascending order."""
        taken = ArrayRows(self._X[numbers])
        taken.checked = self.checked
        return taken

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
        """Apply a function to blocks of rows on `n_jobs` threads; yield its results in the order of the blocks."""
        cache = cache or FeatureCache(0)

        def of_block(number: int) -> Any:
            block = _ArrayBlock(self._X, blocks[number], cache)
            return function(block, None if own is None else own[number], shared)

        return ordered_map(of_block, range(len(blocks)), n_jobs)

    def sum_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        *,
        n_jobs: int = 1,
        cache: FeatureCache | None = None,
        results: list[Any] | None = None,
    ) -> tuple[Float64, ...]:
        """Return the sums of the arrays that a function returns for blocks, made on `n_jobs` threads."""
        found = self.map_blocks(function, blocks, shared, own, n_jobs=n_jobs, cache=cache)

        def parts() -> Iterator[tuple[int, Sequence[Array]]]:
            for number, each in enumerate(found):
                if results is None:
                    yield number, each
                else:
                    results.append(each[1])
                    yield number, each[0]

        return sum_results(parts(), len(blocks))


@dataclass
class _ArrayBlock:
    """One block of the rows of an array."""

    X: NDArray[Any]
    rows: RowNames
    cache: FeatureCache

    @property
    def key(self) -> int:
        return int(self.rows[0])

    @cached_property
    def x(self) -> Array:
        return self.X[slice(*self.rows) if isinstance(self.rows, tuple) else self.rows]


class CentredRows(Rows):
    """Rows less a centre (p,), which is taken off in float64: float32 would lose what little lies around a distant centre."""

    def __init__(self, rows: Rows, centre: Float64) -> None:
        self._rows, self._centre = rows, centre
        self.shape, self.dtype, self.checked = rows.shape, centre.dtype, rows.checked
        self.here = rows.here

    def __getitem__(self, rows: Any) -> Array:
        return self._rows[rows] - self._centre

    def take(self, numbers: RowNumbers) -> Rows:
        """Return some of the rows, given in ascending order."""
        return CentredRows(self._rows.take(numbers), self._centre)

    def map_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        **options: Any,
    ) -> Iterator[Any]:
        """Apply a function to blocks of centred rows, as the rows themselves do it."""
        return self._rows.map_blocks(_of_centred, blocks, (function, self._centre, shared), own, **options)

    def sum_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[RowNames],
        shared: object,
        own: Sequence[Any] | None = None,
        **options: Any,
    ) -> tuple[Float64, ...]:
        """Return the sums of the arrays that a function returns for blocks of centred rows."""
        return self._rows.sum_blocks(_of_centred, blocks, (function, self._centre, shared), own, **options)


def _of_centred(block: RowBlock, own: Any, shared: tuple[BlockFunction, Float64, Any]) -> Any:
    function, centre, its_own = shared
    return function(_CentredBlock(block, centre), own, its_own)


@dataclass
class _CentredBlock:
    """One block of centred rows."""

    block: RowBlock
    centre: Float64

    @property
    def key(self) -> int:
        return self.block.key

    @property
    def cache(self) -> FeatureCache:
        return self.block.cache

    @cached_property
    def x(self) -> Array:
        return self.block.x - self.centre


def sum_rows(
    function: Callable[[Array, Any], Sequence[Array]],
    X: NDArray[Any] | Rows,
    shared: object,
    n_jobs: int,
) -> tuple[Float64, ...]:
    """Return the sums over rows of the arrays that a function returns for every block of them.

    Parameters
    ----------
    function : callable
        A function of a module. It takes a block (b, p) and `shared`, and returns arrays.
    X : ndarray or Rows of shape (n, p)
    shared : object
        What the function needs for every block.
    n_jobs : int
        Number of threads.
    """
    return rows_of(X).sum_blocks(_of_vectors, row_blocks(len(X)), (function, shared), n_jobs=n_jobs)


def _of_vectors(block: RowBlock, own: None, shared: tuple[Any, Any]) -> Sequence[Array]:
    del own
    function, its_shared = shared
    parts: Sequence[Array] = function(block.x, its_shared)
    return parts
