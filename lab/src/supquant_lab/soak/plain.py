"""Soak: the plain model that an index is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from supquant import AdditiveCodec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from supquant import CodeIndex
    from supquant.arrays import Codes, Float32, RowNumbers

M, K = 3, 16
"""Bytes of a code, and the number of values of each: so few that many codes are equal."""

NUMBER = "number"
"""The name of the column beside codes."""

QUERIES = 64
"""The number of queries of one comparison."""


def make_codec() -> AdditiveCodec:
    """Return the codec of all indexes of a soak. Searches are made with tables of their own, so it has no vectors to speak of."""
    return AdditiveCodec(np.zeros((M, K, 1), dtype=np.float32))


def draw_tables(rng: np.random.Generator, n_queries: int = QUERIES) -> Float32:
    """Return tables (q, M, K) of few different values, so that many rows have the same sum."""
    return rng.integers(0, 5, size=(n_queries, M, K)).astype(np.float32)


def numbers_in(index: CodeIndex, ids: Collection[int]) -> list[int | None]:
    """Return the values of the column `NUMBER` of rows of an index. The column is there as soon as a row has a value."""
    return [row.get(NUMBER) for row in index.get(ids).to_pylist()]


@dataclass
class PlainIndex:
    """Codes by id, in order of insertion, and the numbers that some rows have in a column. An updated row keeps its place."""

    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def put(self, ids: Collection[int], codes: Codes, numbers: NDArray[np.int64] | None = None) -> None:
        """Add rows, or replace them where they are. Rows that get no number keep theirs."""
        for row_id, code in zip(ids, codes.tolist(), strict=True):
            self.rows[row_id] = tuple(code)
        if numbers is not None:
            self.numbers.update(zip(ids, numbers.tolist(), strict=True))

    def remove(self, ids: Iterable[int]) -> None:
        """Remove rows."""
        for row_id in ids:
            del self.rows[row_id]
            self.numbers.pop(row_id, None)

    def copy(self) -> PlainIndex:
        """Return an independent copy."""
        return PlainIndex(dict(self.rows), dict(self.numbers))

    def numbers_of(self, ids: Iterable[int]) -> list[int | None]:
        """Return the numbers of rows, None for those without one."""
        return [self.numbers.get(row_id) for row_id in ids]

    def check(self, index: CodeIndex, rng: np.random.Generator, n_jobs: int = 1) -> int:
        """Compare the rows of an index and its answers to random queries with these; return the number of queries.

        Raises
        ------
        AssertionError
            If anything differs.
        """
        assert len(index) == len(self.rows), f"{len(index)} rows, expected {len(self.rows)}"
        assert index.ids.tolist() == list(self.rows), "other ids, or in another order"
        if self.rows:
            some = rng.choice(np.array(list(self.rows)), size=min(20, len(self.rows)), replace=False).tolist()
            assert index.codes(some).tolist() == [list(self.rows[each]) for each in some], "other codes"
            assert numbers_in(index, some) == self.numbers_of(some), "other values of a column"
        tables, k = draw_tables(rng), int(rng.integers(1, 40))
        self.compare(index.search_tables(tables, k, n_jobs=n_jobs), tables, k)
        return QUERIES

    def compare(
        self,
        found: tuple[Float32, RowNumbers],
        tables: Float32,
        k: int,
        among: Collection[int] | None = None,
    ) -> None:
        """Compare the answers of a search with those of a sort of all sums, among some ids."""
        ids = np.array([each for each in self.rows if among is None or each in among], dtype=np.int64)
        codes = np.array([self.rows[each] for each in ids.tolist()], dtype=np.intp).reshape(-1, M)
        sums = np.zeros((len(tables), len(ids)), dtype=np.float32)
        for m in range(M):
            sums += tables[:, m, codes[:, m]]
        best = np.argsort(sums, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(found[0], np.take_along_axis(sums, best, axis=1), "other sums")
        np.testing.assert_array_equal(found[1], ids[best], "other ids")
