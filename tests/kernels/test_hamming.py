"""Hamming distances: the compiled kernel gives the bits that differ, at every level and any length of code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.kernels import native, reference


def draw_codes(n, M, seed):
    return np.random.default_rng(seed).integers(0, 256, size=(n, M), dtype=np.uint8)


@given(
    n=st.sampled_from([0, 1, 15, 16, 17, 64, 65]),
    q=st.sampled_from([0, 1, 5]),
    M=st.sampled_from([1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 64]),
    seed=st.integers(0, 2**16),
)
def test_hamming_agrees_with_its_twin(n, q, M, seed):
    codes, queries = draw_codes(n, M, seed), draw_codes(q, M, seed + 1)
    want = reference.hamming(codes, queries)
    assert (want.shape, want.dtype) == ((q, n), np.uint16)
    for n_threads in (1, 2, 3):
        got = native.hamming(codes, queries, n_threads=n_threads)
        assert got.dtype == np.uint16
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("M", [1, 2, 3, 4, 8, 11, 16, 33, 64])
def test_distances_count_the_bits_that_differ(level, M):
    codes, queries = draw_codes(131, M, 0), draw_codes(3, M, 1)
    codes[:2] = queries[0], ~queries[0]  # no bit and every bit
    bits = np.unpackbits(codes, axis=1)
    want = (bits != np.unpackbits(queries, axis=1)[:, None]).sum(axis=2)
    got = native.hamming(codes, queries, n_threads=2)
    np.testing.assert_array_equal(got, want)
    assert (got[0, 0], got[0, 1]) == (0, 8 * M)


def test_distances_are_the_sums_of_tables_of_popcounts(level):
    codes, queries = draw_codes(65, 4, 0), draw_codes(2, 4, 1)
    popcounts = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.float32)
    tables = popcounts[queries[:, :, None] ^ np.arange(256, dtype=np.uint8)]
    np.testing.assert_array_equal(native.hamming(codes, queries), native.table_sums(codes, tables))


@pytest.mark.parametrize("implementation", [native, reference])
def test_wrong_arguments_are_refused(implementation):
    codes = draw_codes(4, 2, 0)
    with pytest.raises(ValueError, match=r"queries must have shape \(any, 2\), got \(4, 1\)"):
        implementation.hamming(codes, codes[:, :1].copy())
    with pytest.raises(ValueError, match="queries must be an array of uint8, got int64"):
        implementation.hamming(codes, codes.astype(np.int64))
    with pytest.raises(ValueError, match="codes must have 1 to 64 columns, got 65"):
        implementation.hamming(draw_codes(1, 65, 0), draw_codes(1, 65, 0))
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        implementation.hamming(codes, codes, n_threads=0)
