"""Below the flow: rows of vectors that other processes read, as a fit sees them.

A fit asks for some rows by their numbers, or sends a function to the blocks of rows and gets its results. `supquant.distributed`
implements this.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from supquant.arrays import Array, RowNumbers

__all__ = ["BlockFunction", "RemoteBlock", "RemoteRows", "RowPass", "Rows", "some_rows"]

Rows = tuple[int, int] | RowNumbers
"""The rows of a block: the first one and one past the last one, or their numbers in ascending order."""


def some_rows(X: Any, numbers: RowNumbers) -> Any:
    """Return rows of an array (n, p), or of remote rows, which stay where they are; `numbers` ascend."""
    return X.take(numbers) if isinstance(X, RemoteRows) else X[numbers]


class RemoteBlock(Protocol):
    """One block of rows, as a function sees it in the process that reads it."""

    key: int
    """Names the rows of the block."""
    memory: dict[str, Any]
    """What the process keeps between functions. It may be lost at any time."""
    cache_bytes: int
    """Bytes that a function may keep there for all blocks."""

    @property
    def x(self) -> Array:
        """The vectors (b, p); they are read when they are first used."""


BlockFunction = Callable[[RemoteBlock, Any, Any], Any]
"""A function of a module: it takes a block, what belongs to this block, and what all blocks share. It returns a result, which is
a tuple of arrays if results are summed."""


@dataclass(frozen=True)
class RowPass:
    """A function that is applied to blocks of rows.

    Attributes
    ----------
    function : callable
        As `BlockFunction` says.
    blocks : sequence of rows
        As `Rows` says.
    shared : object
        What all blocks share, such as a model.
    own : sequence or None
        What belongs to each block, such as its labels; None if nothing does.
    """

    function: BlockFunction
    blocks: Sequence[Rows]
    shared: object
    own: Sequence[Any] | None = None


class RemoteRows(ABC):
    """Vectors (n, p) in files that other processes read.

    Attributes
    ----------
    shape : tuple of int
        The number of rows and the number of dimensions.
    dtype : numpy.dtype
        The type of the numbers as they are stored.
    """

    shape: tuple[int, int]
    dtype: Any
    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: Any) -> Array:
        """Return some rows, by a slice or by their numbers (r,). They travel to this process, so they should be few."""

    @abstractmethod
    def take(self, numbers: RowNumbers) -> RemoteRows:
        """Return some of the rows, given in ascending order. They stay where they are."""

    @abstractmethod
    def largest(self) -> float:
        """Return the largest size of a value. Rows that cannot be read are an `InputError` that names file and row."""

    def map_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[Rows],
        shared: object,
        own: Sequence[Any] | None = None,
    ) -> Iterator[Any]:
        """Apply a function to blocks of rows; yield its results in the order of the blocks. Parameters are in `RowPass`."""
        return self.map_pass(RowPass(function, blocks, shared, own))

    def sum_blocks(
        self,
        function: BlockFunction,
        blocks: Sequence[Rows],
        shared: object,
        own: Sequence[Any] | None = None,
    ) -> tuple[Array, ...]:
        """Return the sums of the arrays that a function returns for blocks, added up as `RunSum` does."""
        return self.sum_pass(RowPass(function, blocks, shared, own))

    @abstractmethod
    def map_pass(self, row_pass: RowPass) -> Iterator[Any]:
        """Do what `map_blocks` says."""

    @abstractmethod
    def sum_pass(self, row_pass: RowPass) -> tuple[Array, ...]:
        """Do what `sum_blocks` says."""
