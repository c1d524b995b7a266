"""Report: checks of answers against a brute force, before they are timed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from supquant.arrays import Codes, Float32, RowNumbers

if TYPE_CHECKING:
    from collections.abc import Iterator


class WrongAnswersError(Exception):
    """A search did not find what a brute force finds."""


def check_sums(case: object, tables: Float32, codes: Codes, sums: Float32, rows: RowNumbers) -> None:
    """Raise an error if answers (q, k) are not those of all sums of tables (q, M, K) at codes (n, M).

    There are two checks. Rows and sums must equal those of float32 sums in codebook order, where equal sums are ordered by row.
    The float64 sum at each rank must equal the exact one at that rank, within the rounding of float32.

    Examples
    --------
    >>> tables = np.array([[[3, 1]]], dtype=np.float32)
    >>> codes = np.array([[0], [1]], dtype=np.uint8)
    >>> check_sums("two rows", tables, codes, np.array([[1, 3]], np.float32), np.array([[1, 0]]))
    >>> check_sums("two rows", tables, codes, np.array([[1, 3]], np.float32), np.array([[0, 1]]))
    Traceback (most recent call last):
        ...
    supquant_lab.bench.search.answers.WrongAnswersError: two rows: query 0 has other answers than float32 sums
    """
    unit = (
        tables.shape[1] * np.finfo(np.float32).eps
    )  # two sums of M parts, each with an error of at most half of it
    rounding = unit * np.abs(tables).max(axis=2).sum(axis=1, dtype=np.float64)  # (q,)
    for query, (single, double) in enumerate(_all_sums(tables, codes)):
        expected = smallest(single, rows.shape[1])
        if not np.array_equal(rows[query], expected) or not np.array_equal(sums[query], single[expected]):
            raise WrongAnswersError(f"{case}: query {query} has other answers than float32 sums")
        best = double[smallest(double, rows.shape[1])]
        if np.abs(double[rows[query]] - best).max(initial=0) > rounding[query]:
            raise WrongAnswersError(f"{case}: query {query} has other answers than float64 sums")


def smallest(values: npt.NDArray[np.floating], k: int) -> RowNumbers:
    """Return the places of the k smallest values, equal values in their order.

    Examples
    --------
    >>> smallest(np.array([2.0, 1.0, 2.0, 0.0]), 3)
    array([3, 1, 0])
    """
    limit = np.partition(values, k - 1)[k - 1] if 0 < k < len(values) else np.inf
    candidates = np.flatnonzero(values <= limit)
    return candidates[values[candidates].argsort(kind="stable")[:k]]


def check_same(case: object, what: str, found: RowNumbers, expected: RowNumbers) -> None:
    """Raise an error if two ways to ask the same question have different answers."""
    if not np.array_equal(found, expected):
        raise WrongAnswersError(f"{case}: {what} gives other answers")


def _all_sums(tables: Float32, codes: Codes) -> Iterator[tuple[Float32, npt.NDArray[np.float64]]]:
    """Yield the sums of all codes for each table: (n,) float32 in codebook order, and (n,) float64."""
    columns = [np.ascontiguousarray(column) for column in codes.T]
    for table in tables:
        single = table[0][columns[0]]
        double = single.astype(np.float64)
        for entries, column in zip(table[1:], columns[1:], strict=True):
            part = entries[column]
            single += part
            double += part
        yield single, double
