"""Scans of several runs of rows, merged into one answer: by sum, and rows of equal sums by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.errors import InputError
from supquant.index.bitmaps import Words
from supquant.index.segments import Segment
from supquant.kernels import Scanned

__all__ = ["Positions", "Sums", "View", "find_lowest", "find_within", "merge_answers"]

Sums = NDArray[np.float32]
Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class View:
    """A run of rows, as a search reads it.

    Parameters
    ----------
    segment : Segment
        The codes.
    scanned : Scanned
        The codes as a scan reads them.
    first : int
        The position of row 0 in the snapshot.
    rows : ndarray (n,) uint32, default=None
        The rows of the run that `segment` holds, in ascending order. None if it holds all of them.
    """

    segment: Segment
    scanned: Scanned
    first: int
    rows: NDArray[np.uint32] | None = None

    @classmethod
    def of(
        cls, segment: Segment, first: int, eligible: Words | None, rows: NDArray[np.uint32] | None
    ) -> Self:
        """Return the view of the codes of a segment that are eligible, as bits. None stands for all codes."""
        return cls(segment, segment.scanned(eligible), first, rows)

    def positions(self, found: Positions) -> Positions:
        """Return the positions in the snapshot of rows that a scan of `scanned` found."""
        if self.rows is not None:
            return self.rows[found] + np.int64(self.first)
        return found + self.first if self.first else found


def find_lowest(
    views: Sequence[View], tables: Sums, bits: NDArray[np.uint8] | None, k: int, n_threads: int
) -> tuple[Sums, Positions]:
    """Find the k rows with the lowest sums for every query.

    Parameters
    ----------
    views : sequence of View
        The rows to search. A view begins where the one before it begins, and has other rows of the same run, or after all of its
        rows.
    tables : ndarray (q, M, K) float32
        The look-up tables of the queries.
    bits : ndarray (q, M) uint8 or None
        The codes of the queries, if the sums are Hamming distances.
    k : int
        The number of rows to find.
    n_threads : int
        The number of threads.

    Returns
    -------
    sums : ndarray (q, k') float32
        In ascending order. k' is k, or the number of rows if that is smaller.
    positions : ndarray (q, k') int64
    """
    scan = kernels.active().scan
    found = []
    for view in views:
        view.segment.check_before_scan()
        try:
            sums, rows = scan(view.scanned, tables, k, bits, n_threads=n_threads)
        except ValueError as error:
            raise InputError(f"these queries cannot be ranked: {error}") from error
        found.append((sums, view.positions(rows)))
    return merge_answers(found, k, len(tables), mixed=len(views) > 1 and _are_mixed(views))


def _are_mixed(views: Sequence[View]) -> bool:
    """Return whether the positions of some views lie between those of others, because rows were updated."""
    return any(one.first == other.first for one, other in pairwise(views))


def merge_answers(
    found: Sequence[tuple[Sums, Positions]], k: int, n_queries: int, *, mixed: bool = False
) -> tuple[Sums, Positions]:
    """Merge answers to the same queries, and keep the k lowest sums of each.

    Parameters
    ----------
    found : sequence of (sums, positions), both (q, ...)
        Answers in ascending order of the sums, and of the positions where sums are equal.
    k : int
        The number of rows to keep.
    n_queries : int
        q.
    mixed : bool, default=False
        Whether later answers may have lower positions.

    Returns
    -------
    sums, positions : ndarray (q, k')

    Examples
    --------
    >>> left = np.array([[1, 3]], np.float32), np.array([[0, 1]])
    >>> right = np.array([[1, 2]], np.float32), np.array([[5, 4]])
    >>> merge_answers([left, right], 3, 1)
    (array([[1., 1., 2.]], dtype=float32), array([[0, 5, 4]]))
    """
    if len(found) == 1:
        return found[0]
    if not found:
        return np.empty((n_queries, 0), dtype=np.float32), np.empty((n_queries, 0), dtype=np.int64)
    sums, positions = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
    # The sort is stable: rows of equal sums stay in order of position, unless answers are mixed.
    order = np.lexsort((positions, sums)) if mixed else sums.argsort(axis=1, kind="stable")
    order = order[:, :k]
    return np.take_along_axis(sums, order, axis=1), np.take_along_axis(positions, order, axis=1)


def find_within(
    views: Sequence[View], tables: Sums, bits: NDArray[np.uint8] | None, limits: Sums, n_threads: int
) -> tuple[Positions, Sums, Positions]:
    """Find all rows whose sum is at most the limit of the query.

    Parameters
    ----------
    views, tables, bits, n_threads
        As in `find_lowest`.
    limits : ndarray (q,) float32
        The limit of every query.

    Returns
    -------
    queries : ndarray (n,) int64
        The number of the query, in ascending order.
    sums : ndarray (n,) float32
        In ascending order for each query.
    positions : ndarray (n,) int64
    """
    scan = kernels.active().scan_within
    found = []
    for view in views:
        view.segment.check_before_scan()
        try:
            starts, sums, rows = scan(view.scanned, tables, limits, bits, n_threads=n_threads)
        except ValueError as error:
            raise InputError(f"these queries cannot be ranked: {error}") from error
        found.append((np.repeat(np.arange(len(tables)), np.diff(starts)), sums, view.positions(rows)))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)
    queries, sums, positions = (np.concatenate(each) for each in zip(*found, strict=True))
    # The sort is stable: rows of equal sums stay in order of position, unless rows were updated.
    order = np.lexsort((positions, sums, queries) if _are_mixed(views) else (sums, queries))
    return queries[order], sums[order], positions[order]
