"""Small work on blocks of codes and on bitmaps of rows: the same as the NumPy twins, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.kernels import native, reference
from supquant.kernels.scanned import MIN_ALIGNED, zero_blocks

SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000]
sizes = st.one_of(st.sampled_from(SIZES), st.integers(0, 400))
seeds = st.integers(0, 2**16)


def assert_same_bits(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


@given(n=sizes, n_blocks=st.integers(1, 5), M=st.sampled_from([1, 2, 3, 8, 16, 64]), seed=seeds)
def test_take(n, n_blocks, M, seed):
    """Rows in any order, and some of them twice."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(1, 256, size=(n_blocks, M, 64), dtype=np.uint8)
    rows = rng.integers(0, 64 * n_blocks, size=n, dtype=np.uint32)
    assert_same_bits(native.take(blocks, rows), reference.take(blocks, rows))


def test_many_blocks_begin_at_a_cache_line():
    kept = [zero_blocks(n, 3) for n in (MIN_ALIGNED // 3 + 64, 50_001, 60_000, 70_013)]
    assert all(blocks.ctypes.data % 64 == 0 and not blocks.any() for blocks in kept)


@pytest.mark.parametrize("implementation", [native, reference])
def test_taken_rows_keep_their_codes_and_what_follows_them_is_zero(implementation, rng):
    codes = rng.integers(1, 256, size=(128, 3), dtype=np.uint8)
    blocks = np.ascontiguousarray(codes.reshape(2, 64, 3).transpose(0, 2, 1))
    rows = rng.integers(0, 128, size=70, dtype=np.uint32)
    taken = implementation.take(blocks, rows).transpose(0, 2, 1).reshape(128, 3)
    np.testing.assert_array_equal(taken[:70], codes[rows])
    assert not taken[70:].any()


@pytest.mark.parametrize("implementation", [native, reference])
def test_take_refuses_rows_that_are_not_there(implementation):
    blocks = np.zeros((2, 3, 64), dtype=np.uint8)
    assert implementation.take(blocks[:0], np.empty(0, dtype=np.uint32)).shape == (0, 3, 64)
    with pytest.raises(ValueError, match="rows must be below 128, got 128"):
        implementation.take(blocks, np.array([5, 128], dtype=np.uint32))
    with pytest.raises(ValueError, match="rows must be below 0, got 0"):
        implementation.take(blocks[:0], np.zeros(1, dtype=np.uint32))
    with pytest.raises(ValueError, match="rows must be an array of uint32, got int64"):
        implementation.take(blocks, np.array([5]))
    with pytest.raises(ValueError, match=r"blocks must have shape \(any, any, 64\), got \(2, 3, 32\)"):
        implementation.take(np.zeros((2, 3, 32), dtype=np.uint8), np.zeros(1, dtype=np.uint32))


@given(n=sizes, density=st.sampled_from([0.0, 0.02, 0.5, 0.98, 1.0]), seed=seeds)
def test_a_mask_becomes_bits_and_bits_become_rows(n, density, seed):
    mask = np.random.default_rng(seed).random(n) < density
    words = native.pack_mask(mask)
    assert_same_bits(words, reference.pack_mask(mask))
    rows = native.set_bits(words)
    assert_same_bits(rows, reference.set_bits(words))
    np.testing.assert_array_equal(rows, np.flatnonzero(mask))


@pytest.mark.parametrize("n", SIZES)
def test_every_single_bit_has_its_place(n):
    for row in range(n):
        mask = np.arange(n) == row
        words = native.pack_mask(mask)
        assert [int(word) for word in words] == [
            1 << (row - 64 * w) if row // 64 == w else 0 for w in range(len(words))
        ]
        assert native.set_bits(words).tolist() == [row]


def test_any_words_are_read(rng):
    words = rng.integers(0, 2**64, size=50, dtype=np.uint64)
    words[[3, 4, 20]] = 0, 2**64 - 1, 2**63
    assert_same_bits(native.set_bits(words), reference.set_bits(words))


@pytest.mark.parametrize("implementation", [native, reference])
def test_masks_and_words_of_other_kinds_are_refused(implementation):
    with pytest.raises(ValueError, match="mask must be an array of bool, got uint8"):
        implementation.pack_mask(np.ones(3, dtype=np.uint8))
    with pytest.raises(ValueError, match=r"mask must have shape \(any\), got \(1, 3\)"):
        implementation.pack_mask(np.ones((1, 3), dtype=bool))
    with pytest.raises(ValueError, match="mask must be C-contiguous"):
        implementation.pack_mask(np.ones(6, dtype=bool)[::2])
    with pytest.raises(ValueError, match="words must be an array of uint64, got int64"):
        implementation.set_bits(np.zeros(3, dtype=np.int64))


@given(n=sizes, M=st.sampled_from([1, 2, 7, 8, 9, 16]), K=st.sampled_from([1, 2, 3, 256]), seed=seeds)
def test_equal_codes_are_grouped(n, M, K, seed):
    codes = np.random.default_rng(seed).integers(0, K, size=(n, M), dtype=np.uint8)
    expected = reference.group(codes)
    n_distinct = len(expected[0])
    for given_number in (None, n_distinct):
        for implementation in (native, reference):
            for mine, other in zip(implementation.group(codes, given_number), expected, strict=True):
                assert_same_bits(mine, other)
    for wrong in (n_distinct + 1, *([n_distinct - 1] if n_distinct else [])):
        for implementation in (native, reference):
            with pytest.raises(ValueError, match=f"codes must have {wrong} distinct ones"):
                implementation.group(codes, wrong)


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 5000, (1 << 20) + 3])
@pytest.mark.parametrize("lead", [[0], [2, 0], [1, 3, 2], [3, 1, 0, 2]])
def test_codes_are_sorted_and_laid_out(n, lead):
    codes = np.random.default_rng(n).integers(0, 5, size=(n, 4), dtype=np.uint8)
    rows = native.sort_by(codes, lead)
    assert_same_bits(rows, reference.sort_by(codes, lead))
    expected = reference.arrange(codes, rows)
    for n_threads in (1, 3):
        assert_same_bits(native.arrange(codes, rows, n_threads), expected)
    if n:
        np.testing.assert_array_equal(expected[0, :, 0], codes[rows[0]])


@pytest.mark.parametrize("implementation", [native, reference])
def test_what_cannot_be_sorted_is_refused(implementation):
    codes = np.zeros((3, 2), dtype=np.uint8)
    for lead in ([], [2], [-1], [0, 1, 0, 1, 0]):
        with pytest.raises(ValueError, match="lead must be 1 to 4 columns below 2"):
            implementation.sort_by(codes, lead)
    with pytest.raises(ValueError, match="rows must be below 3, got 3"):
        implementation.arrange(codes, np.array([0, 3], dtype=np.uint32))


@given(n=sizes, M=st.sampled_from([1, 2, 7, 8, 9, 16, 17, 64]), K=st.sampled_from([1, 2, 3, 256]), seed=seeds)
def test_count_distinct(n, M, K, seed):
    codes = np.random.default_rng(seed).integers(0, K, size=(n, M), dtype=np.uint8)
    true = len(np.unique(codes, axis=0))
    for limit in {0, 1, true // 2, max(true - 2, 0), max(true - 1, 0), true, true + 1, n, 10**9, 2**64 - 1}:
        want = min(true, limit + 1)
        assert native.count_distinct(codes, limit) == want
        assert reference.count_distinct(codes, limit) == want


@pytest.mark.parametrize("M", [1, 2, 3, 8, 11, 16])
def test_codes_that_differ_in_one_byte_are_distinct(M):
    codes = np.concatenate([np.eye(M, dtype=np.uint8) * value for value in range(1, 256)])
    codes = np.concatenate([codes, codes[::-1]])
    assert native.count_distinct(codes, len(codes)) == 255 * M


def test_any_two_codes_are_told_apart():
    """Whatever place they have in a table, alone or together, up to its end."""
    for first in range(64):
        for second in range(64):
            codes = np.array([[first], [second], [first]], dtype=np.uint8)
            assert native.count_distinct(codes, 5) == (1 if first == second else 2)


@pytest.mark.parametrize("implementation", [native, reference])
def test_count_distinct_refuses_what_are_no_codes(implementation):
    with pytest.raises(ValueError, match="codes must be an array of uint8, got int64"):
        implementation.count_distinct(np.zeros((3, 2), dtype=np.int64), 5)
    with pytest.raises(ValueError, match="codes must have 1 to 64 columns, got 0"):
        implementation.count_distinct(np.zeros((3, 0), dtype=np.uint8), 5)
    with pytest.raises(ValueError, match="limit must not be negative, got -1"):
        implementation.count_distinct(np.zeros((3, 2), dtype=np.uint8), -1)
