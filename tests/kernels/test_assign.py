"""Assignment: the same codes as the NumPy twin, exact where it promises to be, never worse than its start."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supquant.kernels import native, reference

EPS = np.finfo(np.float32).eps


def cost(problem, codes):
    """f(b) in float64, (n,), and the size of its parts, which bounds what float32 may round away."""
    unary, cross, product, mu, eps, _ = problem
    M = codes.shape[1]
    K = len(cross) // M
    flat = codes.astype(int) + K * np.arange(M)
    off_diagonal = ~np.eye(M, dtype=bool)
    pairs = [
        table[flat[:, :, None], flat[:, None, :]][:, off_diagonal].astype(float) for table in (cross, product)
    ]
    single = np.take_along_axis(unary, flat, axis=1).astype(float)
    off = pairs[1].sum(axis=1) - eps
    value = single.sum(axis=1) + pairs[0].sum(axis=1) + mu * off**2
    size_e = np.abs(pairs[1]).sum(axis=1) + abs(eps)
    size = np.abs(single).sum(axis=1) + np.abs(pairs[0]).sum(axis=1) + mu * size_e**2
    return value, size


def neighbours(codes, K, moved):
    """All codes that differ from `codes` (n, M) in the codebooks `moved`."""
    for choice in itertools.product(range(K), repeat=len(moved)):
        other = codes.copy()
        other[:, moved] = choice
        yield other


def assert_no_move_improves(problem, codes, K, n_moved):
    value, size = cost(problem, codes)
    # Sums of M terms, a few of them in a row, and a square that doubles their relative error.
    slack = 8 * codes.shape[1] * EPS * size
    for moved in itertools.combinations(range(codes.shape[1]), n_moved):
        for other in neighbours(codes, K, list(moved)):
            assert (cost(problem, other)[0] >= value - slack).all()


@settings(max_examples=30)
@given(
    n=st.sampled_from([0, 1, 15, 16, 17, 64, 65]),
    M=st.sampled_from([1, 2, 3, 8, 16]),
    K=st.sampled_from([2, 16, 255, 256]),
    seed=st.integers(0, 2**16),
    whole=st.booleans(),
    sweeps=st.sampled_from([1, 2, 100]),
)
def test_native_gives_the_codes_of_its_twin(draw_problem, n, M, K, seed, whole, sweeps):
    if M * K > 2048:
        K = 16
    problem = draw_problem(n, M, K, seed, whole_numbers=whole)
    want = reference.assign(*problem, sweeps)
    for n_threads in (1, 2, 3):
        np.testing.assert_array_equal(native.assign(*problem, sweeps, n_threads=n_threads), want)


@pytest.mark.parametrize("K", [2, 16, 255, 256])
@pytest.mark.parametrize("M", [1, 2, 3, 8])
def test_every_level_gives_the_codes_of_the_twin(level, draw_problem, M, K):
    problem = draw_problem(33, M, K)
    np.testing.assert_array_equal(native.assign(*problem, 50), reference.assign(*problem, 50))


@pytest.mark.parametrize("K", [2, 15, 16, 17])
def test_two_codebooks_are_searched_exactly(level, draw_problem, K):
    problem = draw_problem(21, 2, K)
    found = native.assign(*problem, 1)
    value, size = cost(problem, found)
    lowest = np.min([cost(problem, other)[0] for other in neighbours(found, K, [0, 1])], axis=0)
    assert (value <= lowest + 8 * EPS * size).all()


def test_two_codebooks_keep_the_current_pair_among_equals_and_else_take_the_first(level, draw_problem):
    problem = draw_problem(200, 2, 16, whole_numbers=True)
    pairs = list(itertools.product(range(16), repeat=2))
    # (256, n), exact
    values = np.array([cost(problem, np.tile(np.uint8(pair), (200, 1)))[0] for pair in pairs])
    first, last = values.argmin(axis=0), 255 - values[::-1].argmin(axis=0)
    assert (first != last).any()
    for start, want in ((last, last), (values.argmax(axis=0), first)):
        found = native.assign(*problem[:-1], np.array(pairs, dtype=np.uint8)[start], 1)
        np.testing.assert_array_equal(found, np.array(pairs)[want])


def test_one_codebook_takes_the_lowest(level, draw_problem):
    problem = draw_problem(65, 1, 255)
    np.testing.assert_array_equal(native.assign(*problem, 1)[:, 0], problem[0].argmin(axis=1))


@given(M=st.sampled_from([3, 4, 8]), K=st.sampled_from([2, 16]), seed=st.integers(0, 2**16))
def test_cost_never_rises_and_no_single_move_is_left(draw_problem, M, K, seed):
    problem = draw_problem(16, M, K, seed)
    start = problem[-1]
    before, _ = cost(problem, start)
    for sweeps in (1, 2, 500):
        found = native.assign(*problem, sweeps)
        after, _ = cost(problem, found)
        moved = (found != start).any(axis=1)
        # The two are compared in float64 from the same float32 tables, mu and eps rounded to float32.
        assert (after[moved] <= before[moved] * (1 + 1e-6 * np.sign(before[moved])) + 1e-6).all()
    assert_no_move_improves(problem, found, K, 1)


def test_search_from_its_own_answer_stays_there(level, draw_problem):
    problem = draw_problem(50, 8, 16)
    found = native.assign(*problem, 500)
    np.testing.assert_array_equal(native.assign(*problem[:-1], found, 500), found)


def test_blocks_of_a_codebook_with_itself_are_ignored(level, draw_problem):
    unary, cross, product, mu, eps, codes = draw_problem(20, 3, 16)
    want = native.assign(unary, cross, product, mu, eps, codes, 50)
    for m in range(3):
        own = slice(16 * m, 16 * (m + 1))
        cross[own, own] = np.nan
        product[own, own] = np.nan
    np.testing.assert_array_equal(native.assign(unary, cross, product, mu, eps, codes, 50), want)


def test_the_start_is_left_alone(draw_problem):
    problem = draw_problem(20, 4, 16)
    start = problem[-1].copy()
    for array in (problem[0], problem[1], problem[2], problem[-1]):
        array.flags.writeable = False
    assert (native.assign(*problem, 50) != start).any()
    np.testing.assert_array_equal(problem[-1], start)
