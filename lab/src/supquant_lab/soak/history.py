"""Soak: a random history of one index, each step of which is mirrored by a plain model and checked."""

from __future__ import annotations

import copy
import pickle
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from supquant import AdditiveCodec, CodeIndex, SupervisedQuantizer
from supquant.index.ids import read_ids
from supquant.model.feature_map import unit_rows
from supquant_lab.soak.children import end_of, start_child

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from supquant.arrays import Codes, Float32, RowNumbers
    from supquant.index.filters import Filter
    from supquant.model import SupervisedCodec

M, K = 3, 16
"""Bytes of a code, and number of values of each byte: so few that many codes are equal."""

NUMBER = "number"
"""Name of the metadata column."""

MAX_KEPT_ERROR = 0.04
"""Largest error of a number of a unit vector that an index keeps: 3.2 scales of int8."""

QUERIES = 64
"""Number of queries of one comparison."""


def make_codec() -> AdditiveCodec:
    """Return the codec of all indexes of a soak. Searches bring their own tables, so its vectors are all zero."""
    return AdditiveCodec(np.zeros((M, K, 1), dtype=np.float32))


@cache
def make_exact_codec() -> SupervisedCodec:
    """Return the codec of indexes with vectors: a model of a few random rows of three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = rng.normal(size=(3, M))[y] + rng.normal(scale=0.5, size=(200, M))
    return SupervisedQuantizer(M, n_codewords=K, max_iter=1, random_state=0, n_jobs=1).fit(X, y).codec_


def vectors_of(codes: Codes) -> Float32:
    """Return the vectors (n, M) that rows with these codes (n, M) have: whoever mixes up codes and vectors is caught."""
    return np.asarray(codes, dtype=np.float32) + 1


def with_vectors(index: CodeIndex, codes: Codes) -> dict[str, Float32]:
    """Return the argument `vectors` of rows with these codes, if an index keeps vectors."""
    return {} if index.vectors is None else {"vectors": vectors_of(codes)}


def kept_units(index: CodeIndex, ids: Collection[int]) -> Float32:
    """Return the unit vectors (n, M) that an index keeps of rows."""
    snapshot = index._snapshot
    kept = np.empty((len(ids), M), dtype=np.float32)
    for part, here, rows in snapshot._split(snapshot.locate(read_ids(list(ids)))):
        vectors = part.coded(rows).vectors
        assert vectors is not None
        kept[here] = vectors.decoded()[0]
    return kept


def draw_codes(rng: np.random.Generator, n: int) -> Codes:
    """Return random codes (n, M)."""
    return rng.integers(0, K, size=(n, M)).astype(np.uint8)


def draw_tables(rng: np.random.Generator, n_queries: int = QUERIES) -> Float32:
    """Return tables (q, M, K) with few distinct values, so that many rows have the same sum."""
    return rng.integers(0, 5, size=(n_queries, M, K)).astype(np.float32)


def numbers_in(index: CodeIndex, ids: Collection[int]) -> list[int | None]:
    """Return the values of the column `NUMBER` of rows of an index. The column exists as soon as a row has a value."""
    return [row.get(NUMBER) for row in index.get(ids).to_pylist()]


@dataclass
class PlainIndex:
    """Codes by id, in order of insertion, and the numbers that some rows have in a column. An updated row keeps its position."""

    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    def put(self, ids: Collection[int], codes: Codes, numbers: NDArray[np.int64] | None = None) -> None:
        """Add rows, or replace them in place. Rows that get no number keep theirs."""
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
            if index.vectors is not None:
                expected = unit_rows(vectors_of(np.array([self.rows[each] for each in some])))
                assert np.abs(kept_units(index, some) - expected).max() < MAX_KEPT_ERROR, (
                    "vectors of other rows"
                )
                _, ids = index.search(expected[:2], 3, refine=20, n_jobs=n_jobs)
                assert set(ids.ravel().tolist()) <= self.rows.keys(), "refined answers of other rows"
        tables, k = draw_tables(rng), int(rng.integers(1, 40))
        self.compare(index.search_tables(tables, k, n_jobs=n_jobs), tables, k)
        return QUERIES

    def compare(
        self, found: tuple[Float32, RowNumbers], tables: Float32, k: int, among: Collection[int] | None = None
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


MAX_ADDED = 400
"""Maximum number of rows that one step adds, updates or removes."""

MAX_NUMBER = 10
"""Numbers in the metadata column are smaller than this."""

MAX_FILTERS = 4
"""Maximum number of filters that are kept for later steps."""


def as_column(numbers: NDArray[np.int64] | None) -> dict[str, NDArray[np.int64]] | None:
    """Return the metadata of rows with these numbers."""
    return None if numbers is None else {NUMBER: numbers}


@dataclass
class History:
    """One index, its folder, and what both must hold."""

    folder: Path
    rng: np.random.Generator
    counts: Counter[str]
    index: CodeIndex = field(default_factory=lambda: CodeIndex(make_codec()))
    plain: PlainIndex = field(default_factory=PlainIndex)
    saved: PlainIndex | None = None  # the content of the folder; None before the first save
    filters: list[tuple[Filter, set[int]]] = field(default_factory=list)
    next_id: int = 0

    def run(self, n_steps: int) -> None:
        """Take random steps, and check the index after each."""
        steps = self.steps()
        names = list(steps)
        weights = np.array([weight for weight, _ in steps.values()], dtype=float)
        for name in self.rng.choice(names, size=n_steps, p=weights / weights.sum()):
            steps[name][1]()
            self.counts[name] += 1
            self.counts["searches"] += self.plain.check(self.index, self.rng, int(self.rng.integers(1, 4)))

    def steps(self) -> dict[str, tuple[float, Callable[[], None]]]:
        """Return how often each step is taken, and the step, by its name."""
        return {
            "adds": (6, self.add),
            "updates": (6, self.update),
            "removes": (4, self.remove),
            "filters": (3, self.make_filter),
            "filtered searches": (8, self.search_filtered),
            "conditions": (1, self.search_where),
            "range searches": (4, self.search_range),
            "saves": (4, self.save),
            "loads": (2, self.load),
            "reloads": (1, self.reload),
            "copies": (1, self.copy),
            "pickles": (1, self.pickle),
            "compactions": (1, self.compact),
            "forks": (1, self.fork),
            "searches during writes": (1, self.search_during_writes),
        }

    # changes -------------------------------------------------------------------------------------------------------------

    def draw_numbers(self, n: int) -> NDArray[np.int64] | None:
        """Return n numbers for the metadata column, or None half of the time."""
        return self.rng.integers(0, MAX_NUMBER, size=n) if self.rng.random() < 0.5 else None

    def some_ids(self) -> list[int]:
        """Return the ids of some rows, in any order, or of none."""
        ids = np.array(list(self.plain.rows), dtype=np.int64)
        n = min(len(ids), int(self.rng.integers(0, MAX_ADDED)))
        return self.rng.choice(ids, size=n, replace=False).tolist() if n else []

    def add(self) -> None:
        """Add rows with new ids in random order."""
        n = int(self.rng.integers(0, MAX_ADDED))
        ids = (self.next_id + self.rng.permutation(n)).tolist()
        self.next_id += n
        codes, numbers = draw_codes(self.rng, n), self.draw_numbers(n)
        self.index.add_codes(codes, ids=ids, metadata=as_column(numbers), **with_vectors(self.index, codes))
        self.plain.put(ids, codes, numbers)

    def update(self) -> None:
        """Give rows other codes, and other numbers or none."""
        ids = self.some_ids()
        codes, numbers = draw_codes(self.rng, len(ids)), self.draw_numbers(len(ids))
        self.index.update_codes(ids, codes, metadata=as_column(numbers), **with_vectors(self.index, codes))
        self.plain.put(ids, codes, numbers)

    def remove(self) -> None:
        """Remove rows, from filters as well."""
        ids = self.some_ids()
        self.index.remove(ids)
        self.plain.remove(ids)
        for _, among in self.filters:
            among.difference_update(ids)

    def compact(self) -> None:
        """Copy all rows into one segment."""
        self.index.compact()

    # searches ------------------------------------------------------------------------------------------------------------

    def make_filter(self) -> None:
        """Prepare a search among some rows, by ids or by a mask, and keep it."""
        ids = set(self.some_ids())
        mask = np.array([each in ids for each in self.plain.rows], dtype=bool)
        chosen = mask if self.rng.random() < 0.5 else np.array(sorted(ids), dtype=np.int64)
        self.filters.append((self.index.filter(chosen), ids))
        del self.filters[:-MAX_FILTERS]

    def search_filtered(self) -> None:
        """Search among the rows of a kept filter."""
        if self.filters:
            where, among = self.filters[int(self.rng.integers(len(self.filters)))]
            tables, k = draw_tables(self.rng), int(self.rng.integers(1, 30))
            self.plain.compare(self.index.search_tables(tables, k, where=where), tables, k, among)
            self.counts["searches"] += QUERIES

    def search_where(self) -> None:
        """Search among the rows whose number is small: by a condition in SQL, or by an expression."""
        if self.plain.numbers:
            limit = int(self.rng.integers(0, MAX_NUMBER + 1))
            among = {row_id for row_id, number in self.plain.numbers.items() if number < limit}
            where = f"{NUMBER} < {limit}" if self.rng.random() < 0.5 else pc.field(NUMBER) < limit
            tables, k = draw_tables(self.rng), int(self.rng.integers(1, 30))
            self.plain.compare(self.index.search_tables(tables, k, where=where), tables, k, among)
            self.counts["searches"] += QUERIES

    def search_range(self) -> None:
        """Search all rows within a threshold, which takes all rows or none.

        All vectors of the codec are zero, or scores are probabilities.
        """
        exact = self.index.vectors is not None
        threshold = float(self.rng.choice([-1.0, 2.0]))
        Q = np.zeros((2, self.index.codec.n_inputs), dtype=np.float32)
        limits, _, ids = self.index.range_search(Q, threshold, n_jobs=2)
        expected = list(self.plain.rows) if (threshold > 0) != exact else []
        found = np.sort(ids.reshape(2, -1), axis=1) if exact else ids.reshape(2, -1)
        assert found.tolist() == 2 * [sorted(expected) if exact else expected], "other ids in a range"
        assert limits.tolist() == [0, len(expected), 2 * len(expected)], "other limits"
        self.counts["searches"] += 2

    def search_during_writes(self) -> None:
        """Let another thread add and remove the same rows while this one searches: it sees all of them or none."""
        before, after = self.plain.copy(), self.plain.copy()
        codes = draw_codes(self.rng, 50)
        ids = list(range(self.next_id, self.next_id + 50))
        self.next_id += 50
        after.put(ids, codes)

        def write() -> None:
            for _ in range(10):
                self.index.add_codes(codes, ids=ids, **with_vectors(self.index, codes))
                self.index.remove(ids)

        writer = threading.Thread(target=write)
        writer.start()
        tables, wrong = draw_tables(self.rng, 8), 0
        while writer.is_alive():
            found = self.index.search_tables(tables, 20, n_jobs=2)
            for expected in (before, after):
                try:
                    expected.compare(found, tables, 20)
                    break
                except AssertionError:
                    continue
            else:
                wrong += 1
            self.counts["searches"] += len(tables)
        writer.join()
        assert not wrong, f"{wrong} searches during writes saw neither state"

    # files and copies ----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Save, and compare what another index reads from the folder."""
        self.index.save(self.folder)
        self.saved = self.plain.copy()
        self.counts["searches"] += self.saved.check(CodeIndex.load(self.folder), self.rng)

    def load(self) -> None:
        """Continue with the content of the folder, mapped or in memory. Filters belong to the old index."""
        if self.saved is not None:
            self._continue(CodeIndex.load(self.folder, mapped=bool(self.rng.random() < 0.5)), self.saved)

    def reload(self) -> None:
        """Let another index change the folder, and bring this one to its state."""
        if self.saved is not None:
            other, plain = CodeIndex.load(self.folder), self.saved.copy()
            codes, ids = draw_codes(self.rng, 10), list(range(self.next_id, self.next_id + 10))
            self.next_id += 10
            other.add_codes(codes, ids=ids, **with_vectors(other, codes)).save(self.folder)
            plain.put(ids, codes)
            self._continue(CodeIndex.load(self.folder), plain)
            codes = draw_codes(self.rng, 10)
            other = CodeIndex.load(self.folder)
            other.update_codes(ids, codes, **with_vectors(other, codes)).save(self.folder)
            plain.put(ids, codes)
            self.index.reload()
            self.saved = plain.copy()
            self._continue(self.index, plain)

    def copy(self) -> None:
        """Continue with a copy, whose changes do not affect the original."""
        original, plain = self.index, self.plain.copy()
        copied = copy.deepcopy(original) if self.rng.random() < 0.5 else copy.copy(original)
        self._continue(copied, plain)
        before = plain.copy()
        self.add()
        self.remove()
        self.counts["searches"] += before.check(original, self.rng)

    def pickle(self) -> None:
        """Continue with a pickled copy of the index."""
        self._continue(pickle.loads(pickle.dumps(self.index)), self.plain)  # our own bytes

    def fork(self) -> None:
        """Let a forked child change and check the index that it inherits."""

        def work() -> None:
            self.add()
            self.remove()
            self.plain.check(self.index, self.rng, 2)

        assert end_of(start_child(work)) == 0, "a forked child failed"

    def _continue(self, index: CodeIndex, plain: PlainIndex) -> None:
        if index is not self.index:
            self.filters.clear()
        self.index, self.plain = index, plain.copy()
