"""Scans of several runs of rows, merged into one answer: by sum, equal sums by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.errors import InputError
from supquant.kernels import Scanned

__all__ = ["Positions", "Sums", "View", "merge", "nearest", "within"]

Sums = NDArray[np.float32]
Positions = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class View:
    """A run of rows as a search reads it.

    Parameters
    ----------
    scanned : Scanned
    first : int
        The position of row 0.
    rows : ndarray (n,) uint32, optional
        Where the codes of a few rows were copied: their rows, which ascend. Otherwise rows are those of `scanned`.
    """

    scanned: Scanned
    first: int
    rows: NDArray[np.uint32] | None = None

    def positions(self, found: Positions) -> Positions:
        """Turn what a scan found into positions."""
        if self.rows is not None:
            return self.rows[found] + np.int64(self.first)
        return found + self.first if self.first else found


def nearest(
    views: Sequence[View], tables: Sums, bits: NDArray[np.uint8] | None, k: int, n_threads: int
) -> tuple[Sums, Positions]:
    """Find the k rows of lowest sum for every table (q, M, K): sums and positions (q, min(k, rows))."""
    scan = kernels.active().scan
    found = []
    for view in views:
        try:
            sums, rows = scan(view.scanned, tables, k, bits, n_threads=n_threads)
        except ValueError as error:
            raise InputError(f"these queries cannot be ranked: {error}") from error
        found.append((sums, view.positions(rows)))
    return merge(found, k, len(tables))


def merge(found: Sequence[tuple[Sums, Positions]], k: int, n_queries: int) -> tuple[Sums, Positions]:
    """Merge answers (q, ...) to the same queries, each by sum and then position, later ones of later positions.

    Examples
    --------
    >>> left = np.array([[1, 3]], np.float32), np.array([[0, 1]])
    >>> right = np.array([[1, 2]], np.float32), np.array([[5, 4]])
    >>> merge([left, right], 3, 1)
    (array([[1., 1., 2.]], dtype=float32), array([[0, 5, 4]]))
    """
    if len(found) == 1:
        return found[0]
    if not found:
        return np.empty((n_queries, 0), dtype=np.float32), np.empty((n_queries, 0), dtype=np.int64)
    sums, positions = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
    order = sums.argsort(axis=1, kind="stable")[:, :k]  # stable: equal sums stay in order of position
    return np.take_along_axis(sums, order, axis=1), np.take_along_axis(positions, order, axis=1)


def within(
    views: Sequence[View], tables: Sums, bits: NDArray[np.uint8] | None, limits: Sums, n_threads: int
) -> tuple[Positions, Sums, Positions]:
    """Find all rows whose sum is at most the limit (q,) of its table: query number, sum and position, ordered."""
    scan = kernels.active().scan_within
    found = []
    for view in views:
        try:
            starts, sums, rows = scan(view.scanned, tables, limits, bits, n_threads=n_threads)
        except ValueError as error:
            raise InputError(f"these queries cannot be ranked: {error}") from error
        found.append((np.repeat(np.arange(len(tables)), np.diff(starts)), sums, view.positions(rows)))
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.empty(0, np.int64)
    queries, sums, positions = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.lexsort((sums, queries))  # stable: equal sums stay in order of position
    return queries[order], sums[order], positions[order]
