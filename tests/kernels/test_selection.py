"""The bounds of scans on a GPU lose no row: their logic, with visits in NumPy."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.kernels import reference, selection
from supquant.kernels.selection import GROUP_QUERIES, NO_BOUND, group_entries, keys_of, lowest_keys, samples


class Rows:
    """Keys (q, n) that visits find, and how many visits there were of all rows."""

    def __init__(self, keys):
        self.keys, self.n_whole = keys, 0

    def visit(self, every, bounds, room):
        self.n_whole += every == 1
        visited = self.keys[:, ::every]
        within = [line[line <= bound] for line, bound in zip(visited, bounds, strict=True)]
        kept = np.full((len(within), room), 12345, dtype=np.uint64)  # those after the last one are anything
        for line, found in zip(kept, within, strict=True):
            line[: len(found)] = found[:room]
        return kept, np.array([len(found) for found in within], dtype=np.uint32)

    @staticmethod
    def first(keys, counts, k):
        found = np.full((len(keys), k), NO_BOUND, dtype=np.uint64)
        for line, own, count in zip(found, keys, counts, strict=True):
            lowest = np.sort(own[: min(int(count), len(own))])[:k]
            line[: len(lowest)] = lowest
        return found, found[:, -1]

    def lowest(self, k):
        bounds = np.full(len(self.keys), NO_BOUND, dtype=np.uint64)
        return lowest_keys(self.visit, self.first, bounds, self.keys.shape[1], k)


@pytest.fixture
def small(monkeypatch):
    """Samples and room for a few rows."""
    for name, value in {"FIRST_ROWS": 64, "EXPECTED_ROWS": 64, "MAX_EXPECTED": 128, "ROOM": 512}.items():
        monkeypatch.setattr(selection, name, value)


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "equal"])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 9000])
@pytest.mark.parametrize("k", [1, 5, 8])
def test_the_lowest_keys_are_found_in_any_order(small, n, k, order):
    rng = np.random.default_rng(0)
    sums = rng.normal(size=(3, n)).astype(np.float32)
    sums = {
        "random": sums,
        "ascending": np.sort(sums),
        "descending": np.sort(sums)[:, ::-1],
        "equal": sums * 0,
    }[order]
    keys = keys_of(sums, np.tile(np.arange(n), (3, 1)))
    np.testing.assert_array_equal(Rows(keys).lowest(k), np.sort(keys, axis=1)[:, :k])


def test_one_visit_of_all_rows_is_enough_for_rows_in_any_common_order(small):
    keys = keys_of(np.random.default_rng(0).normal(size=(2, 9000)).astype(np.float32), np.arange(9000))
    rows = Rows(keys)
    rows.lowest(8)
    assert rows.n_whole == 1


def test_rows_that_no_sample_saw_are_found(small):
    """More rows than there is room for are within the bound, again and again."""

    class Unseen(Rows):
        def visit(self, every, bounds, room):
            if every == 1:
                return super().visit(every, bounds, room)
            return np.zeros((1, room), dtype=np.uint64), np.zeros(1, dtype=np.uint32)

    rows = Unseen(np.arange(9000, 0, -1, dtype=np.uint64)[None])
    np.testing.assert_array_equal(rows.lowest(5), [[1, 2, 3, 4, 5]])
    assert rows.n_whole > 10


@given(n=st.integers(1, 2**32), k=st.integers(1, 2048))
def test_every_sample_is_about_as_much_larger_as_rows_are_expected(n, k):
    distances = [*samples(n, k), 1]
    assert distances == sorted(distances, reverse=True)
    assert n / distances[0] <= selection.FIRST_ROWS
    for larger, smaller in itertools.pairwise(distances):
        assert k * larger / smaller <= selection.ROOM / 2


@given(
    q=st.sampled_from([1, 7, 8, 9]),
    M=st.sampled_from([1, 2, 8, 33]),
    K=st.sampled_from([1, 2, 37]),
    spread=st.sampled_from([0.0, 1e-20, 1.0, 1e6, 1e30]),
    within=st.sampled_from([0.0, 0.01, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_no_row_within_its_bound_is_above_it_in_entries_of_16_bits(q, M, K, spread, within, seed):
    rng = np.random.default_rng(seed)
    tables = (rng.normal(size=(q, M, K)) * spread + rng.normal(size=(q, 1, 1)) * 1e3).astype(np.float32)
    codes = rng.integers(0, K, size=(200, M), dtype=np.uint8)
    sums = reference.table_sums(codes, tables)  # (q, 200)
    limits = np.sort(sums, axis=1)[:, int(within * 199)]
    bounds = keys_of(limits, np.full(q, 2**32 - 1))
    entries, starts = group_entries(tables, bounds)
    assert entries.shape == (-(-q // GROUP_QUERIES), M, K, GROUP_QUERIES)
    for query in range(len(entries) * GROUP_QUERIES):
        own = entries[query // GROUP_QUERIES, :, :, query % GROUP_QUERIES].astype(np.int64)
        added = starts.ravel()[query] + own[np.arange(M), codes].sum(axis=1)
        assert added.max() < 2**16
        if query < q:
            assert (added[sums[query] <= limits[query]] < 2**15).all()
        else:
            assert (added >= 2**15).all()


def test_few_rows_above_the_bound_come_through():
    rng = np.random.default_rng(0)
    tables, codes = (
        rng.normal(size=(1, 8, 256)).astype(np.float32),
        rng.integers(0, 256, (100_000, 8), dtype=np.uint8),
    )
    sums = reference.table_sums(codes, tables)[0]
    limit = np.sort(sums)[100]
    entries, starts = group_entries(tables, keys_of(limit[None], np.array([0])))
    added = starts[0, 0] + entries[0, :, :, 0][np.arange(8), codes].sum(axis=1)
    assert 101 <= (added < 2**15).sum() <= 110


def test_keys_are_in_the_order_of_answers():
    sums = np.float32([-np.inf, -2, -1e-45, -0.0, 0.0, 1e-45, 3, np.inf])
    keys = keys_of(np.repeat(sums, 2), np.tile([0, 2**32 - 1], 8))
    distinct = np.delete(keys, [8, 9])  # those of 0.0 are those of -0.0
    assert (np.diff(distinct) > 0).all()
    np.testing.assert_array_equal(keys[8:10], keys[6:8])


def test_keys_keep_sums_but_for_the_sign_of_zero():
    sums = np.float32([-3e38, -1, -1e-45, -0.0, 0.0, 1e-45, 1, 3e38])
    got = selection.sums_of(keys_of(sums, np.arange(8)))
    assert got.tobytes() == (sums + np.float32(0)).tobytes()
