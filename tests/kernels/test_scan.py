"""Scans give what their NumPy twins give, bit for bit: for every instruction set, number of threads and way of pruning.

A kernel reads `LIST` rows at a time. Bytes rule rows out only once k rows are known, so `scan` needs more rows than that
to come to it; `scan_within` does from its first row on.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_cases import (
    KINDS,
    LARGEST,
    LIST,
    PIECE,
    assert_finds_what_the_twin_finds_within,
    assert_scans_like_the_twin,
    draw_codes,
    draw_tables,
    grouped,
    in_order,
    kth_sums,
    plain,
)

from supquant.kernels import native, reference


@pytest.mark.parametrize("implementation", [native, reference])
def test_rows_come_by_the_sum_of_their_table_entries_and_then_by_number(implementation, rng):
    codes, tables = draw_codes(20, 3, 4, rng), draw_tables("whole", 2, 3, 4, rng)
    space = grouped(codes, rng, 70, density=0.7)
    rows = {
        int(row): code
        for code, start, end in zip(codes, space.starts[:-1], space.starts[1:], strict=True)
        for row in space.members[start:end]
        if int(space.eligible[row // 64]) >> int(row % 64) & 1
    }
    assert 20 < len(rows) < 70
    for i, table in enumerate(tables):
        want = sorted((sum(float(table[m, code[m]]) for m in range(3)), row) for row, code in rows.items())
        sums, found = implementation.scan(space, tables, 100)
        assert list(zip(sums[i].tolist(), found[i].tolist(), strict=True)) == want
        starts, sums, found = implementation.scan_within(space, tables, np.zeros(2, dtype=np.float32))
        part = slice(starts[i], starts[i + 1])
        within = [pair for pair in want if pair[0] <= 0]
        assert list(zip(sums[part].tolist(), found[part].tolist(), strict=True)) == within


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 63, 64, 65, 1000, LIST, LIST + 1, 2 * LIST])
def test_any_number_of_rows(level, rng, n):
    for M, K, q in (
        (1, 256, 1),
        (2, 256, 20),
        (3, 5, 1),
        (4, 2, 7),
        (8, 256, 1),
        (8, 17, 5),
        (16, 3, 1),
        (16, 256, 40),
    ):
        space, tables = plain(draw_codes(n, M, K, rng)), draw_tables("normal", q, M, K, rng)
        assert_scans_like_the_twin(space, tables, 1, 10, 100, n + 5)
        assert_finds_what_the_twin_finds_within(space, tables, kth_sums(space, tables, 10))


@pytest.mark.parametrize(("M", "K", "q"), [(1, 256, 1), (2, 256, 4), (8, 256, 2), (16, 16, 5), (64, 2, 1)])
def test_a_hundred_thousand_rows(level, rng, M, K, q):
    space, tables = plain(draw_codes(100_003, M, K, rng)), draw_tables("normal", q, M, K, rng)
    assert_scans_like_the_twin(space, tables, 1, 10, 1000, 100_010, n_threads=(1, 3))
    assert_finds_what_the_twin_finds_within(space, tables, kth_sums(space, tables, 100))


@pytest.mark.parametrize("M", [*range(1, 17), 64])
def test_any_number_of_codebooks(level, rng, M):
    for kind, q in (("normal", 1), ("whole", 1), ("normal", 20), ("whole", 20)):
        space, tables = plain(draw_codes(3 * LIST + 7, M, 256, rng)), draw_tables(kind, q, M, 256, rng)
        assert_scans_like_the_twin(space, tables, 1, 100)
        assert_finds_what_the_twin_finds_within(space, tables, kth_sums(space, tables, 10))


@pytest.mark.parametrize("K", [1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 128, 129, 200, 255, 256])
def test_any_number_of_codewords(level, rng, K):
    for q in (1, 6):
        space, tables = plain(draw_codes(4 * LIST, 4, K, rng)), draw_tables("normal", q, 4, K, rng)
        assert_scans_like_the_twin(space, tables, 5, 50)
        assert_finds_what_the_twin_finds_within(space, tables, kth_sums(space, tables, 5))


@pytest.mark.parametrize("q", [0, 1, 3, 4, 5, 6, 11, 12, 13, 15, 16, 17, 31, 32, 33, 70])
def test_any_number_of_queries(level, rng, q):
    """On both sides of the numbers from which on queries are searched together, and of whole vectors of them."""
    space = plain(draw_codes(4 * LIST, 4, 64, rng))
    normal = draw_tables("normal", q, 4, 64, rng)
    mixed = np.concatenate([draw_tables(kind, 7, 4, 64, rng) for kind in KINDS])[rng.permutation(77)[:q]]
    for tables in (normal, mixed):
        assert_scans_like_the_twin(space, tables, 1, 30, n_threads=(1, 2, 3, 7))
        limits = kth_sums(space, tables, 30)
        assert_finds_what_the_twin_finds_within(space, tables, limits, n_threads=(1, 3))


@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_any_kind_in_any_order(level, rng, kind, order):
    for M, K in ((1, 256), (3, 40), (8, 4)):
        table = draw_tables(kind, 1, M, K, rng)
        tables = np.concatenate(
            [table / np.float32(2 ** (i % 3)) for i in range(6)]
        )  # all have the order of the first
        space = plain(in_order(draw_codes(6 * LIST + 3, M, K, rng), table[0], order))
        for some in (tables[:1], tables):
            assert_scans_like_the_twin(space, some, 1, 20, 700)
            assert_finds_what_the_twin_finds_within(space, some, kth_sums(space, some, 20))


def near_rows(n, M, every, rng):
    """Codes whose sum of table (M, 256) is far for all rows but one in `every`; those come nearer row by row."""
    table = np.sort(rng.uniform(0.0, 1.0, size=(M, 256)), axis=1)[:, ::-1].astype(np.float32)
    table[:, 0] = 1e3
    codes = np.zeros((n, M), dtype=np.uint8)
    near = np.arange(every // 2, n, every)
    codes[near] = np.linspace(1, 255, len(near)).astype(np.uint8)[:, None]
    return codes, table


@pytest.mark.parametrize("M", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("q", [1, 8])
def test_bounds_follow_a_cut_that_falls_all_the_time(level, rng, M, q):
    """Few rows come through, so that bytes stay in use, and each of them is just below the cut."""
    codes, table = near_rows(12 * LIST, M, 23, rng)
    tables = np.repeat(table[None], q, axis=0) * np.arange(1, q + 1, dtype=np.float32)[:, None, None]
    assert_scans_like_the_twin(plain(codes), tables, 1, 3, 40)


@pytest.mark.parametrize("M", [2, 3, 8, 16, 64])
@pytest.mark.parametrize("q", [1, 8])
def test_bounds_allow_for_the_worst_rounding(level, M, q):
    """Next to 2^27 float32 takes 7.99 for nothing and 8.01 for 16: rows with equal sums but for a hundredth are 16 apart."""
    tables = np.tile(np.float32([7.99, 8.01]), (q, M, 1))
    tables[:, 0] = 2.0**27
    codes = np.zeros((4 * LIST, M), dtype=np.uint8)
    codes[:, -1] = 1
    codes[-100::7] = 0
    assert_scans_like_the_twin(plain(codes), tables, 5, 15, 40)
    assert reference.scan(plain(codes), tables, 5)[1][0].min() > 3 * LIST
    assert_finds_what_the_twin_finds_within(plain(codes), tables, np.full(q, 2.0**27, dtype=np.float32))


@pytest.mark.parametrize("q", [1, 4, 20])
def test_rows_are_not_lost_where_bytes_rule_out_too_little(level, rng, q):
    """Most rows are as low as the worst one kept, so that bytes are given up more than once; a few better rows come between."""
    n = 50 * LIST
    codes = (rng.random((n, 2)) < 0.2).astype(np.uint8)
    codes[77::500] = 2
    tables = np.tile(np.float32([1, 2, 0]), (q, 2, 1)) + np.arange(q, dtype=np.float32)[:, None, None]
    assert_scans_like_the_twin(plain(codes), tables, 1000)
    assert_scans_like_the_twin(plain(codes, rng.random(n) < 0.6), tables, 1000)


def test_a_crowd_after_rare_rows_and_before_them(level, rng):
    """Ways of ruling rows out are given up in the crowd and taken up again behind it."""
    codes = draw_codes(60 * LIST, 3, 256, rng)
    codes[10 * LIST : 20 * LIST] = 7
    for kind in ("normal", "whole"):
        tables = draw_tables(kind, 5, 3, 256, rng)
        tables[:, :, 7] = np.quantile(tables, 0.03)
        for some in (tables[:1], tables):
            assert_scans_like_the_twin(plain(codes), some, 10, 600)


@pytest.mark.parametrize("n", [1, 63, 65, 1000, LIST + 1, 3 * LIST - 1, 3 * LIST + 40])
@pytest.mark.parametrize("q", [1, 5, 13])
def test_what_fills_up_the_last_block_is_never_found(level, rng, n, q):
    tables = np.abs(draw_tables("normal", q, 3, 9, rng)) + np.float32(1)
    tables[:, :, 0] = 0  # the codes of rows that do not exist are the nearest
    for codes in (draw_codes(n, 3, 9, rng), draw_codes(n, 3, 8, rng) + np.uint8(1)):
        space = plain(codes)
        assert_scans_like_the_twin(space, tables, 1, 7, n)
        assert_finds_what_the_twin_finds_within(space, tables, np.full(q, 4.0, dtype=np.float32))
        everywhere = np.full(q, np.inf, dtype=np.float32)
        assert_finds_what_the_twin_finds_within(space, tables, everywhere)


@pytest.mark.parametrize("kind", ["normal", "whole"])
@pytest.mark.parametrize("n", [65, 1000, 25 * LIST + 3])
def test_only_eligible_rows_are_found(level, rng, n, kind):
    """Blocks with none, with a few and with many of them, apart and side by side."""
    row = np.arange(n)
    masks = [rng.random(n) < density for density in (0.002, 0.03, 0.07, 0.98)]
    masks += [rng.random(n) < rng.choice([0.0, 0.02, 0.5], size=n // 64 + 1)[row // 64]]
    masks += [row < 0, row >= 0, row == n - 1, row % 64 == 63, (row > n // 3) & (row < n // 2)]
    codes = draw_codes(n, 4, 32, rng)
    for q in (1, 9):
        tables = draw_tables(kind, q, 4, 32, rng)
        for mask in masks:
            space = plain(codes, mask)
            assert_scans_like_the_twin(space, tables, 1, 10, 2000, n_threads=(1, 2))
            assert_finds_what_the_twin_finds_within(space, tables, kth_sums(space, tables, 10))


@pytest.mark.parametrize("kind", ["normal", "whole", "zeros", "absorbed"])
@pytest.mark.parametrize("density", [None, 0.0, 0.01, 0.6, 1.0])
def test_a_code_stands_for_all_its_rows(level, rng, kind, density):
    """Rows do not come in ascending order here, so that equal sums have to be looked at again."""
    for n, n_rows in ((1, 3), (65, 0), (70, 500), (3 * LIST + 9, 9000)):
        space = grouped(draw_codes(n, 3, 20, rng), rng, n_rows, density)
        for q in (1, 9):
            tables = draw_tables(kind, q, 3, 20, rng)
            assert_scans_like_the_twin(space, tables, 1, 10, 300, 10_000, n_threads=(3,))
            limits = kth_sums(space, tables, 50)
            assert_finds_what_the_twin_finds_within(space, tables, limits, n_threads=(3,))


@pytest.mark.parametrize("M", [1, 2, 3, 8, 15, 16, 31, 32, 33, 64])
def test_hamming_distances_with_and_without_the_bits_of_the_queries(level, rng, M):
    """Up to 512: more than a byte holds."""
    popcounts = np.array([code.bit_count() for code in range(256)], dtype=np.float32)
    for q in (1, 8):
        bits = draw_codes(q, M, 256, rng)
        tables = popcounts[bits[:, :, None] ^ np.arange(256, dtype=np.uint8)]  # (q, M, 256)
        far = ~np.repeat(bits[:1], 3 * LIST, axis=0)  # as far from the first query as can be
        far[np.arange(LIST, 3 * LIST), rng.integers(0, M, size=2 * LIST)] ^= 1 << rng.integers(
            0, 8, 2 * LIST
        ).astype(np.uint8)
        for codes in (draw_codes(3 * LIST + 5, M, 256, rng), far):
            for space in (
                plain(codes),
                plain(codes, rng.random(len(codes)) < 0.3),
                grouped(codes, rng, 6000),
            ):
                assert_scans_like_the_twin(space, tables, 1, 100, 2500, bits=bits, n_threads=(2,))
                for limits in (kth_sums(space, tables, 20), np.float32([3.5] * q), np.float32([-1e-9] * q)):
                    assert_finds_what_the_twin_finds_within(space, tables, limits, bits=bits)


@pytest.mark.parametrize("kind", ["normal", "whole"])
def test_threads_share_the_rows_of_a_query(level, rng, kind):
    codes = draw_codes(3 * PIECE + 71, 2, 256, rng)
    spaces = [plain(codes), plain(codes, rng.random(len(codes)) < 0.1), grouped(codes, rng, len(codes) + 9)]
    for q, some in ((1, spaces), (2, spaces[:1]), (5, spaces[:1])):
        tables = draw_tables(kind, q, 2, 256, rng)
        for space in some:
            assert_scans_like_the_twin(space, tables, 1, 100, n_threads=(1, 2, 3, 7), prune=(True,))
    limits = kth_sums(spaces[0], tables, 50)
    assert_finds_what_the_twin_finds_within(spaces[0], tables, limits, n_threads=(1, 2, 3, 7))


def test_zero_has_no_sign(level, rng):
    space, tables = plain(draw_codes(300, 2, 8, rng)), draw_tables("zeros", 6, 2, 8, rng)
    sums, rows = native.scan(space, tables, 300)
    assert not np.signbit(sums).any()
    np.testing.assert_array_equal(rows, np.tile(np.arange(300), (6, 1)))
    for zero in (0.0, -0.0):
        starts, sums, _ = native.scan_within(space, tables, np.full(6, zero, dtype=np.float32))
        assert starts[-1] == 6 * 300
        assert not np.signbit(sums).any()


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_any_size(level, rng, kind):
    space = plain(draw_codes(2 * LIST, 3, 16, rng))
    for q in (1, 8):
        tables = draw_tables(kind, q, 3, 16, rng)
        at = kth_sums(space, tables, 40)
        below, above = (np.nextafter(at, np.float32(side)) for side in (-np.inf, np.inf))
        ends = [np.full(q, value, dtype=np.float32) for value in (np.inf, -np.inf, LARGEST, -LARGEST)]
        mixed = np.where(np.arange(q) % 2, at, np.float32(np.inf))
        for limits in (at, below, above, *ends, mixed):
            assert_finds_what_the_twin_finds_within(space, tables, limits)


def test_without_queries_nothing_is_looked_at(level, rng):
    codes = draw_codes(9, 2, 4, rng)
    for space in (plain(codes), plain(codes, np.zeros(9, dtype=bool)), grouped(codes, rng, 30, 0.0)):
        assert_scans_like_the_twin(space, draw_tables("normal", 0, 2, 4, rng), 1, 5, 40)


@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # the level stays as it is
@given(
    n=st.one_of(st.integers(0, 200), st.integers(LIST - 2, 4 * LIST)),
    M=st.integers(1, 17),
    K=st.one_of(st.integers(1, 8), st.integers(1, 256)),
    q=st.integers(0, 20),
    k=st.one_of(st.integers(1, 20), st.integers(1, 3000)),
    kind=st.sampled_from(KINDS),
    order=st.sampled_from(["random", "ascending", "descending"]),
    density=st.sampled_from([None, None, 0.05, 0.7]),
    n_rows=st.one_of(st.none(), st.integers(0, 4000)),
    n_threads=st.integers(1, 4),
    seed=st.integers(0, 2**16),
)
def test_anything_at_once(level, n, M, K, q, k, kind, order, density, n_rows, n_threads, seed):
    rng = np.random.default_rng(seed)
    tables = draw_tables(kind, q, M, K, rng)
    codes = draw_codes(n, M, K, rng)
    if q:
        codes = in_order(codes, tables[0], order)
    if n_rows is None or n == 0:
        space = plain(codes, None if density is None else rng.random(n) < density)
    else:
        space = grouped(codes, rng, n_rows, density)
    assert_scans_like_the_twin(space, tables, k, n_threads=(n_threads,))
    limits = kth_sums(space, tables, k)
    assert_finds_what_the_twin_finds_within(space, tables, limits, n_threads=(n_threads,))


@pytest.fixture
def busy_scan(rng):
    """A function that scans with three threads and says whether the answer is right."""
    space = plain(draw_codes(3 * PIECE, 2, 64, rng))
    tables = draw_tables("normal", 5, 2, 64, rng)
    cases = [(some, reference.scan(space, some, 20)) for some in (tables[:1], tables)]

    def answers_are_right():
        found = [native.scan(space, some, 20, n_threads=3) for some, _ in cases]
        return all(
            have.tobytes() == wanted.tobytes()
            for got, (_, want) in zip(found, cases, strict=True)
            for have, wanted in zip(got, want, strict=True)
        )

    return answers_are_right


def test_a_forked_child_can_scan(busy_scan, works_in_child):
    def scan():
        assert busy_scan()

    scan()  # the parent's pool has threads now, which the child does not inherit
    assert works_in_child(scan)
    scan()


def test_scans_may_run_in_several_threads_at_once(busy_scan):
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: busy_scan(), range(40)))
    assert answers == [True] * 40
