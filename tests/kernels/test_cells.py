"""Scans that skip cells of sorted codes find what scans of all codes find, bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scan_cases import (
    KINDS,
    assert_finds_what_the_twin_finds_within,
    assert_same_bits,
    assert_scans_like_the_twin,
    by_cells,
    draw_codes,
    draw_tables,
    grouped,
    kth_sums,
    plain,
    twins,
)

from supquant.kernels import native, reference


def skewed_codes(n, M, K, rng):
    """Codes as trained ones are: some codewords are frequent, and later ones depend on the first."""
    first = np.minimum(rng.geometric(min(1, 4 / K), size=n) - 1, K - 1)
    later = (first[:, None] + rng.integers(0, max(1, K // 4), size=(n, M - 1))) % K
    return np.column_stack([first, later]).astype(np.uint8)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)  # the level stays as it is
@given(
    n=st.one_of(st.integers(1, 200), st.integers(900, 3000)),
    M=st.integers(1, 9),
    K=st.sampled_from([1, 2, 16, 255, 256]),
    depth=st.integers(1, 4),
    q=st.sampled_from([1, 2, 20]),
    k=st.one_of(st.integers(1, 20), st.integers(1, 4000)),
    kind=st.sampled_from(KINDS),
    skewed=st.booleans(),
    density=st.sampled_from([None, None, 0.02, 0.7]),
    n_rows=st.one_of(st.none(), st.integers(0, 4000)),
    n_threads=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_any_cells_at_once(level, n, M, K, depth, q, k, kind, skewed, density, n_rows, n_threads, seed):
    rng = np.random.default_rng(seed)
    tables = draw_tables(kind, q, M, K, rng)
    codes = (skewed_codes if skewed else draw_codes)(n, M, K, rng)
    lead = rng.permutation(M)[:depth].tolist()
    mask = None if density is None else rng.random(n) < density
    space = plain(codes, mask) if n_rows is None else grouped(codes, rng, n_rows, density)
    cells = by_cells(codes, lead, space)
    assert_same_bits(*(twins.of(reference.scan, each, tables, k) for each in (cells, space)))
    assert_scans_like_the_twin(cells, tables, k, n_threads=(n_threads,))
    assert_finds_what_the_twin_finds_within(cells, tables, kth_sums(cells, tables, k), n_threads=(n_threads,))


@pytest.mark.parametrize("K", [1, 256])
@pytest.mark.parametrize("changed", [None, (700, 0), (0, 3), (1999, 1)])
def test_rows_of_equal_sums_come_by_number_whatever_their_cells(level, rng, K, changed):
    codes = np.zeros((2000, 4), dtype=np.uint8)
    if changed is not None:
        codes[changed] = K - 1
    for values in (np.zeros, np.ones):
        tables = values((3, 4, K), dtype=np.float32)
        assert_scans_like_the_twin(by_cells(codes, [0, 1]), tables, 1, 10, 1999, 2000)
    tables = -rng.random((3, 4, K), dtype=np.float32)
    assert_scans_like_the_twin(by_cells(codes, [0, 1, 3]), tables, 1, 10, 2000)


def test_cells_that_hold_no_answer_are_not_read(level, rng):
    """A code in a cell that is out of reach is changed behind the back of its cell, and is not found although it is the best."""
    codes = skewed_codes(20_000, 3, 16, rng)
    tables = rng.random((1, 3, 16), dtype=np.float32)
    tables[0, 0, :5] += 10  # three codes in four
    space = by_cells(codes, [0])
    far = int(np.flatnonzero(codes[space.members, 0] < 5)[-1])
    space.blocks[far // 64, :, far % 64] = tables[0].argmin(axis=1)
    row = space.members[far]
    assert row in reference.scan(space, tables, 20_000)[1][0, :2000]
    assert row not in native.scan(space, tables, 10)[1]
    assert row not in native.scan_within(space, tables, np.array([3], dtype=np.float32))[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lead": [3]}, "codebooks below 3"),
        ({"lead": []}, "1 to 4 levels"),
        ({"lead": [0, 1]}, "1 to 4 levels"),
        ({"used": np.ones((2, 256), np.uint8)}, "used"),
        ({"words": [np.zeros(3, np.uint8)]}, "starts"),
        ({"starts": [np.zeros(3, np.int32)]}, "starts"),
    ],
)
@pytest.mark.parametrize("implementation", [native, reference])
def test_cells_that_do_not_fit_are_refused(rng, implementation, changes, message):
    space = by_cells(draw_codes(100, 3, 4, rng), [0])
    forged = replace(space, cells=replace(space.cells, **changes))
    with pytest.raises(ValueError, match=message):
        implementation.scan(forged, np.zeros((1, 3, 4), dtype=np.float32), 5)
