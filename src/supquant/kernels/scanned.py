"""The codes that a scan reads: in blocks of 64 rows, with their cells if they are sorted."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCK_ROWS", "Bytes", "Cells", "Scanned", "blocks_of", "zero_blocks"]

BLOCK_ROWS = 64
"""Number of rows in a block of codes."""

MIN_ALIGNED = 1 << 16
"""Blocks are aligned if they have at least this number of bytes. Smaller ones are scanned in microseconds."""

Bytes = NDArray[np.uint8]


def blocks_of(codes: Bytes) -> Bytes:
    """Return codes (n, M) in blocks (ceil(n / 64), M, 64), with zeros after the last code.

    Examples
    --------
    >>> blocks_of(np.array([[1, 2], [3, 4]], dtype=np.uint8))[:, :, :3]
    array([[[1, 3, 0],
            [2, 4, 0]]], dtype=uint8)
    """
    n, M = codes.shape
    # for row in range(n): blocks[row // 64, :, row % 64] = codes[row]
    blocks = zero_blocks(n, M)
    full = n // BLOCK_ROWS
    blocks[:full] = codes[: full * BLOCK_ROWS].reshape(full, BLOCK_ROWS, M).transpose(0, 2, 1)
    if full < len(blocks):
        blocks[full, :, : n % BLOCK_ROWS] = codes[full * BLOCK_ROWS :].T
    return blocks


def zero_blocks(n: int, M: int) -> Bytes:
    """Return blocks (ceil(n / 64), M, 64) of zeros. If there are many, they begin at a multiple of 64 bytes.

    A kernel reads 64 bytes at a time. If these lie in two cache lines, a scan takes a twentieth longer.

    Examples
    --------
    >>> zero_blocks(65, 2).shape
    (2, 2, 64)
    """
    shape = -(-n // BLOCK_ROWS), M, BLOCK_ROWS
    size = math.prod(shape)
    if size < MIN_ALIGNED:
        return np.zeros(shape, dtype=np.uint8)
    memory = np.zeros(size + BLOCK_ROWS, dtype=np.uint8)
    first = -memory.__array_interface__["data"][0] % BLOCK_ROWS
    return memory[first : first + size].reshape(shape)


@dataclass(frozen=True)
class Cells:
    """The cells of codes that are sorted by some leading codebooks: runs of codes with the same leading codewords.

    A cell of level 0 is a run of codes with the same codeword of codebook ``lead[0]``. A cell of level 1 is a run of these with
    the same codeword of codebook ``lead[1]``, and so on. A scan skips cells that hold no answer.

    Parameters
    ----------
    lead : sequence of 1 to 4 int
        The leading codebooks.
    starts : sequence of ndarray (c + 1,) uint32
        For each level of c cells: cell i has the cells ``starts[level][i]`` up to ``starts[level][i + 1]`` of the next level. At
        the last level these are codes.
    words : sequence of ndarray (c,) uint8
        For each level, the codeword of codebook ``lead[level]`` that the codes of each cell have.
    used : ndarray (M, 256) uint8
        1 for each codeword that some code has, else 0.
    """

    lead: Sequence[int]
    starts: Sequence[NDArray[np.uint32]]
    words: Sequence[Bytes]
    used: Bytes

    @property
    def nbytes(self) -> int:
        """The number of bytes of all arrays."""
        arrays: tuple[NDArray[Any], ...] = (*self.starts, *self.words, self.used)
        return sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Scanned:
    """The codes that a scan reads, and the rows that it may return.

    Parameters
    ----------
    blocks : ndarray (b, M, 64) uint8
    n : int
        Number of codes in the blocks.
    starts : ndarray (n + 1,) uint32, optional
    members : ndarray (N,) uint32, optional
        A code may stand for several rows: code i stands for the rows ``members[starts[i]:starts[i + 1]]``, which
        ascend. Without `starts`, code i is row ``members[i]``, and N = n. Without both, code i is row i.
    eligible : ndarray (ceil(N / 64),) uint64, optional
        Row i may be returned if bit ``i % 64`` of word ``i // 64`` is set. By default every row may. Bits after the
        last row are zero.
    cells : Cells, optional
        The cells of the codes, if they are sorted. The maker of the codes keeps them right. They do not change an answer.
    """

    blocks: Bytes
    n: int
    starts: NDArray[np.uint32] | None = None
    members: NDArray[np.uint32] | None = None
    eligible: NDArray[np.uint64] | None = None
    cells: Cells | None = None
    prepared: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What kernels made of the codes at their first scan, for the next ones."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "prepared": {}}  # what kernels prepare belongs to this process
