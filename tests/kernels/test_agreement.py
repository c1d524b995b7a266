"""The compiled kernels give what their NumPy twins give, bit for bit, for every number of threads."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax

from supquant import kernels
from supquant.kernels import GROUP, Packed, native, pack_rows, reference
from supquant.kernels.protocol import Kernels, Scans

ROWS = [0, 1, 15, 16, 17, 64, 65]
CODEWORDS = [2, 16, 255, 256]
CODEBOOKS = [1, 2, 3, 8, 16]

rows = st.sampled_from(ROWS)
codewords = st.sampled_from(CODEWORDS)
codebooks = st.sampled_from(CODEBOOKS)
few_codebooks = st.sampled_from([1, 2, 3, 8])
seeds = st.integers(0, 2**16)


def draw_codes(n, M, K, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, K, size=(n, M), dtype=np.uint8), rng


def assert_same_bits(got, want):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def test_both_implementations_have_every_kernel_with_the_signature_of_the_protocol():
    functions = {**vars(Scans), **vars(Kernels)}
    names = [name for name, value in functions.items() if inspect.isfunction(value) and name[0] != "_"]
    assert {"assign", "scan"} <= set(names)
    for name in names:
        want = list(inspect.signature(getattr(Kernels, name)).parameters.values())[1:]
        for implementation in (native, reference):
            have = inspect.signature(getattr(implementation, name)).parameters.values()
            assert [(p.name, p.default) for p in have] == [(p.name, p.default) for p in want], name


def test_the_door_opens_to_the_compiled_kernels():
    assert kernels.active() is native
    assert kernels.isa() in native.available_levels()


@given(q=rows, points=st.sampled_from([1, 2, 64]), descending=st.booleans(), seed=seeds)
def test_scores(q, points, descending, seed):
    rng = np.random.default_rng(seed)
    # small whole numbers: sums meet the points of curves, and some points of a curve lie above each other
    sums, offsets = rng.integers(-9, 9, (q, 7)) / 2, rng.integers(-3, 3, q)
    curves = np.sort(rng.integers(-8, 8, (3, 2, points)), axis=2).astype(np.float32)
    sums, offsets = sums.astype(np.float32), offsets.astype(np.float32)
    which = rng.integers(3, size=q)
    for shape in (None, None), (curves, None), (curves, which):
        want = reference.scores(sums, offsets, descending, *shape)
        assert_same_bits(native.scores(sums, offsets, descending, *shape), want)


def test_a_curve_that_is_not_there_is_refused():
    sums, curves = np.zeros((2, 3), np.float32), np.zeros((1, 2, 4), np.float32)
    for kernel in (native, reference):
        for wrong in (1, -1):
            with pytest.raises(ValueError, match="numbers of curves"):
                kernel.scores(sums, np.zeros(2, np.float32), False, curves, np.array([0, wrong]))
        with pytest.raises(ValueError, match="one entry for each of 2 queries"):
            kernel.scores(sums, np.zeros(3, np.float32))


@given(n=rows, M=few_codebooks, K=codewords, d=st.sampled_from([1, 31, 64, 65, 129]), seed=seeds)
def test_code_sums(n, M, K, d, seed):
    codes, rng = draw_codes(n, M, K, seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    want = reference.code_sums(codes, X, K)
    for n_threads in (1, 2, 3):
        assert_same_bits(native.code_sums(codes, X, K, n_threads=n_threads), want)


def test_code_sums_of_more_rows_than_one_block(level):
    codes, rng = draw_codes(5000, 3, 7, 1)
    X = rng.normal(size=(5000, 70)).astype(np.float32)
    assert_same_bits(native.code_sums(codes, X, 7, n_threads=3), reference.code_sums(codes, X, 7))


def test_code_sums_in_two_parts_are_the_sums_in_one(level):
    codes, rng = draw_codes(100, 4, 16, 2)
    X = rng.normal(size=(100, 33)).astype(np.float32)
    sums = native.code_sums(codes[:37], X[:37], 16)
    assert native.code_sums(codes[37:], X[37:], 16, out=sums) is sums
    assert_same_bits(sums, native.code_sums(codes, X, 16))


def test_code_sums_are_the_product_with_the_indicator_matrix(level):
    codes, rng = draw_codes(50, 3, 4, 3)
    X = rng.integers(-9, 9, size=(50, 5)).astype(np.float32)
    B = (codes[:, :, None] == np.arange(4)).reshape(50, 12).astype(float)
    np.testing.assert_array_equal(native.code_sums(codes, X, 4), B.T @ X)
    np.testing.assert_array_equal(native.pair_counts(codes, 4), B.T @ B)


@given(n=rows, M=few_codebooks, K=st.sampled_from([2, 16, 255]), seed=seeds, weights=st.sampled_from("1nf"))
def test_pair_counts(n, M, K, seed, weights):
    codes, rng = draw_codes(n, M, K, seed)
    counts = {"1": None, "n": rng.integers(1, 9, size=n), "f": rng.normal(size=n)}[weights]
    want = reference.pair_counts(codes, K, counts)
    for n_threads in (1, 2, 3):
        assert_same_bits(native.pair_counts(codes, K, counts, n_threads=n_threads), want)
    np.testing.assert_array_equal(want, want.T)


@given(n=rows, M=few_codebooks, K=st.sampled_from([2, 16, 255]), seed=seeds)
def test_interaction(n, M, K, seed):
    codes, rng = draw_codes(n, M, K, seed)
    codewords = rng.normal(size=(M * K, 4))
    counts, gram = rng.integers(1, 9, size=n).astype(float), codewords @ codewords.T
    want = reference.interaction(codes, counts, gram, 0.4)
    for n_threads in (1, 2, 3):
        got = native.interaction(codes, counts, gram, 0.4, n_threads=n_threads)
        assert got[:2] == want[:2]
        assert_same_bits(got[2], want[2])


def test_interaction_means_what_its_formula_says(level):
    M, K = 3, 5
    codes, rng = draw_codes(20, M, K, 4)
    codewords = rng.normal(size=(M * K, 4))
    counts, gram, eps = rng.uniform(size=20), codewords @ codewords.T, 0.25

    def terms(gram):
        flat = codes + K * np.arange(M)
        e = np.array([sum(gram[f[a], f[b]] for a in range(M) for b in range(M) if a != b) for f in flat])
        return counts @ e, counts @ (e - eps) ** 2

    sum_e, sum_sq, derivative = native.interaction(codes, counts, gram, eps)
    np.testing.assert_allclose([sum_e, sum_sq], terms(gram), rtol=1e-12)
    change = rng.normal(size=gram.shape)
    change += change.T
    slope = (terms(gram + 1e-6 * change)[1] - terms(gram - 1e-6 * change)[1]) / 2e-6
    np.testing.assert_allclose((derivative * change).sum(), slope, rtol=1e-7)


@given(n=rows, M=codebooks, K=codewords, q=st.sampled_from([0, 1, 5]), seed=seeds)
def test_table_sums(n, M, K, q, seed):
    codes, rng = draw_codes(n, M, K, seed)
    tables = rng.normal(size=(q, M, K)).astype(np.float32)
    want = reference.table_sums(codes, tables)
    for n_threads in (1, 2, 3):
        assert_same_bits(native.table_sums(codes, tables, n_threads=n_threads), want)


def test_table_sums_are_those_of_float64_up_to_rounding(level):
    codes, rng = draw_codes(65, 8, 16, 5)
    tables = rng.normal(size=(3, 8, 16)).astype(np.float32)
    each = tables[:, np.arange(8), codes].astype(float)  # (q, n, M)
    bound = 7 * np.finfo(np.float32).eps * np.abs(each).sum(axis=2)  # M - 1 additions
    assert (np.abs(native.table_sums(codes, tables) - each.sum(axis=2)) <= bound).all()


@given(n=rows, M=codebooks, K=codewords, r=st.sampled_from([1, 3, 16, 17]), seed=seeds)
def test_decode(n, M, K, r, seed):
    codes, rng = draw_codes(n, M, K, seed)
    for dtype in (np.float32, np.float64):
        codebooks = rng.normal(size=(M, K, r)).astype(dtype)
        want = reference.decode(codes, codebooks)
        for n_threads in (1, 2, 3):
            assert_same_bits(native.decode(codes, codebooks, n_threads=n_threads), want)


@given(n=rows, M=codebooks, K=st.sampled_from([2, 3, 256]), seed=seeds)
def test_distinct(n, M, K, seed):
    codes, _ = draw_codes(n, M, K, seed)
    rows, counts = native.distinct(codes)
    want_rows, want_counts = np.unique(codes, axis=0, return_counts=True)
    np.testing.assert_array_equal(rows, want_rows)
    np.testing.assert_array_equal(counts, want_counts)
    assert rows.dtype == np.uint8
    assert counts.dtype == np.int64


@pytest.mark.parametrize("implementation", [native, reference])
def test_wrong_arguments_are_refused(implementation, draw_problem):
    codes = np.zeros((4, 2), dtype=np.uint8)
    X = np.zeros((4, 3), dtype=np.float32)
    gram = np.zeros((8, 8))
    with pytest.raises(ValueError, match="codes must be an array of uint8, got int64"):
        implementation.code_sums(codes.astype(np.int64), X, 4)
    with pytest.raises(ValueError, match=r"codes must be below K = 4, got 4"):
        implementation.code_sums(codes + np.uint8(4), X, 4)
    with pytest.raises(ValueError, match="K must be between 1 and 256, got 257"):
        implementation.code_sums(codes, X, 257)
    with pytest.raises(ValueError, match=r"X must have shape \(4, any\), got \(3, 3\)"):
        implementation.code_sums(codes, X[:3], 4)
    with pytest.raises(ValueError, match="X must be an array of float32, got float64"):
        implementation.code_sums(codes, X.astype(float), 4)
    with pytest.raises(ValueError, match="X must be C-contiguous"):
        implementation.code_sums(codes, np.asfortranarray(X), 4)
    with pytest.raises(ValueError, match="out must have shape"):
        implementation.code_sums(codes, X, 4, out=np.zeros((8, 4)))
    with pytest.raises(ValueError, match="n_threads must be at least 1, got 0"):
        implementation.pair_counts(codes, 4, n_threads=0)
    with pytest.raises(ValueError, match=r"counts must have shape \(4\), got \(5,\)"):
        implementation.pair_counts(codes, 4, np.ones(5))
    with pytest.raises(ValueError, match="gram must have a multiple of 2 columns"):
        implementation.interaction(codes, np.ones(4), gram[:7, :7].copy(), 0.0)
    with pytest.raises(ValueError, match="tables must be an array of float32, got list"):
        implementation.table_sums(codes, [[[0.0]]])
    with pytest.raises(ValueError, match=r"codes must have shape \(any, 3\)"):
        implementation.decode(codes, np.zeros((3, 4, 5)))
    problem = draw_problem(4, 2, 4)
    with pytest.raises(ValueError, match="max_sweeps must be at least 1, got 0"):
        implementation.assign(*problem, 0)
    with pytest.raises(ValueError, match="unary must have shape"):
        implementation.assign(problem[0][:3], *problem[1:], 5)


@given(
    n=rows,
    M=few_codebooks,
    K=codewords,
    width=st.sampled_from([1, 2, 5, 16, 17, 64]),
    whole=st.booleans(),  # small whole numbers: costs are equal everywhere
    seed=seeds,
    n_threads=st.sampled_from([1, 3]),
)
def test_beams_agree(n, M, K, width, whole, seed, n_threads):
    rng = np.random.default_rng(seed)
    draw = (lambda *size: rng.integers(-2, 3, size=size)) if whole else (lambda *size: rng.normal(size=size))
    unary, half = (draw(*size).astype(np.float32) for size in ((n, M * K), (M * K, M * K)))
    cross = half + half.T
    got = native.beam(unary, cross, K, width, n_threads=n_threads)
    assert_same_bits(got, reference.beam(unary, cross, K, width))


def test_a_wide_beam_finds_the_best_of_all_codes(rng):
    M, K = 3, 4
    unary = rng.normal(size=(20, M * K)).astype(np.float32)
    half = rng.normal(size=(M * K, M * K)).astype(np.float32)
    cross = half + half.T
    every = np.stack(np.meshgrid(*[np.arange(K)] * M, indexing="ij"), axis=-1).reshape(-1, M)
    flat = every + K * np.arange(M)
    pairs = sum(cross[flat[:, a], flat[:, b]] for a in range(M) for b in range(a))
    costs = unary[:, flat].sum(axis=2) + 2 * pairs  # (20, 64)
    np.testing.assert_array_equal(native.beam(unary, cross, K, 64), every[costs.argmin(axis=1)])


def test_a_beam_of_costs_that_are_no_numbers_gives_codes(level):
    unary = np.full((3, 12), np.nan, dtype=np.float32)
    assert (native.beam(unary, np.zeros((12, 12), dtype=np.float32), 4, 5) < 4).all()


def test_greedy_start_takes_the_best_codeword_given_those_before(rng):
    M, K = 3, 4
    unary = rng.normal(size=(20, M * K)).astype(np.float32)
    half = rng.normal(size=(M * K, M * K)).astype(np.float32)
    cross = half + half.T
    for row, codes in zip(unary, native.beam(unary, cross, K), strict=True):
        for m in range(M):
            costs = [
                row[m * K + k] + 2 * sum(cross[b * K + codes[b], m * K + k] for b in range(m))
                for k in range(K)
            ]
            assert codes[m] == np.argmin(costs)


@given(n=rows, sizes=st.lists(st.sampled_from([1, 2, 7, 256]), min_size=1, max_size=5), seed=seeds)
def test_interaction_of_codebooks_of_different_sizes_agrees(n, sizes, seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, size=n, dtype=np.uint8) for size in sizes], axis=1)
    counts = rng.integers(1, 5, size=n).astype(np.float64)
    half = rng.normal(size=(sum(sizes), sum(sizes)))
    gram = half + half.T
    got = native.interaction(codes, counts, gram, 0.3, sizes=sizes, n_threads=2)
    want = reference.interaction(codes, counts, gram, 0.3, sizes=sizes)
    assert got[:2] == want[:2]
    assert_same_bits(got[2], want[2])


def test_interaction_refuses_codes_beyond_the_size_of_their_codebook():
    codes = np.array([[0, 1]], dtype=np.uint8)
    with pytest.raises(ValueError, match="below the sizes"):
        native.interaction(codes, np.ones(1), np.eye(3), 0.0, sizes=[2, 1])


@given(
    q=rows,
    n=st.sampled_from([0, 1, 15, 16, 17, 65, 130]),
    d=st.sampled_from([0, 1, 7, 33, 256, 257, 600]),
    scale=st.sampled_from([1.0, 1e-22, 1e18]),
    half=st.booleans(),
    seed=seeds,
)
@settings(max_examples=25)
def test_products_and_gaussians_of_rows(q, n, d, scale, half, seed):
    rng = np.random.default_rng(seed)
    x = (scale * rng.normal(size=(q, d))).astype(np.float32)
    y = rng.normal(size=(n, d)).astype(np.float16 if half else np.float32).astype(np.float32)
    packed = pack_rows(y)
    assert len(packed.halves) == half * packed.d * -(-n // GROUP) * GROUP
    np.testing.assert_array_equal(packed.rows(), y)
    norms = np.zeros(-(-n // GROUP) * GROUP, dtype=np.float32)
    norms[:n] = np.einsum("ij,ij->i", y, y)
    products, values = reference.products(x, packed), reference.gaussian(x, packed, norms, -0.7)
    before = native.level()
    try:
        for level in native.available_levels():
            native.force_level(level)
            for n_threads in (1, 3):
                assert_same_bits(native.products(x, packed, n_threads=n_threads), products)
                assert_same_bits(native.gaussian(x, packed, norms, -0.7, n_threads=n_threads), values)
            for row in range(min(q, 3)):
                assert_same_bits(native.products(x[row : row + 1], packed), products[row : row + 1])
    finally:
        native.force_level(before)


@given(
    n=st.sampled_from([0, 1, 3, 4, 5, 31, 33, 70]),
    n_labels=st.sampled_from([1, 2, 5, 7, 10, 16]),
    d=st.sampled_from([0, 16, 48, 64, 80, 144]),
    several=st.booleans(),
    seed=seeds,
)
@settings(max_examples=40)
def test_products_and_slopes_of_counts(n, n_labels, d, several, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2**15 + 1, size=(n, d)).astype(np.uint16)
    weights = rng.normal(scale=2**-15, size=(n_labels, d)).astype(np.float32)
    targets = rng.integers(0, 2, size=(n, n_labels)).astype(np.float32)
    start = rng.normal(size=(n_labels, d)).astype(np.float32)
    products, slopes = reference.count_products(x, weights), start.copy()
    reference.count_slopes(x, weights, targets, slopes, several=several)
    exact = x.astype(np.float64) @ weights.T.astype(np.float64)
    np.testing.assert_allclose(products, exact, atol=1e-5)
    p = expit(exact) if several else softmax(exact, axis=1)
    np.testing.assert_allclose(slopes, start + (p - targets).T @ x, rtol=1e-4, atol=1)
    before = native.level()
    try:
        for level in native.available_levels():
            native.force_level(level)
            assert_same_bits(native.count_products(x, weights), products)
            got = start.copy()
            native.count_slopes(x, weights, targets, got, several=several)
            assert_same_bits(got, slopes)
    finally:
        native.force_level(before)


@pytest.mark.parametrize("several", [False, True])
def test_slopes_of_large_scores_are_finite(level, several):
    x = np.full((6, 16), 2**15, dtype=np.uint16)
    weights = np.repeat(np.float32([[1e3], [-1e3], [0]]), 16, axis=1)
    targets = np.repeat(np.float32([[1, 0, 0]]), 6, axis=0)
    slopes = np.zeros((3, 16), dtype=np.float32)
    native.count_slopes(x, weights, targets, slopes, several=several)
    np.testing.assert_array_equal(slopes / 2**15, np.repeat([[0], [0], [3.0 if several else 0]], 16, axis=1))


def test_counts_are_exponentials_in_units(rng, level):
    exponents = np.concatenate([-rng.exponential(3, 300), [0, 5, -87, -200, -np.inf, -1e-9, -10.4, -10.3]])
    exponents = np.pad(exponents, (0, 12)).reshape(-1, 32).astype(np.float32)
    counts, wanted = (np.empty(exponents.shape, dtype=np.uint16) for _ in range(2))
    native.counted_exponentials(exponents, counts)
    reference.counted_exponentials(exponents, wanted)
    assert_same_bits(counts, wanted)
    exact = np.exp(np.minimum(exponents.astype(np.float64), 0)) * 2**15
    assert np.abs(counts - exact).max() <= 0.5 + 2**-7


def test_gaussians_are_those_of_float64(rng, level):
    x, anchors = rng.normal(size=(20, 30)).astype(np.float32), rng.normal(size=(50, 30)).astype(np.float32)
    x[3] = 1e30  # its squared length is infinite in float32
    norms = np.pad(np.einsum("ij,ij->i", anchors, anchors), (0, 14))
    distances = np.square(x[:, None].astype(np.float64) - anchors).sum(axis=2)
    for scale in (0.0, -0.01, -0.5, -2.0):
        got = native.gaussian(x, pack_rows(anchors), norms, scale)
        # A squared distance is off by a few units in the last place of the lengths, which are below 200.
        np.testing.assert_allclose(
            got, np.exp(scale * distances) * (distances < 1e30), rtol=5e-5 * max(1, -scale), atol=1e-37
        )


def test_products_are_of_one_rounding_each(level):
    """Where a product and what it is added to nearly cancel, a product that was rounded first gives something else."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)).astype(np.float32)
    y = rng.normal(size=(1, 1)).astype(np.float32)
    rounded = (x * y)[:, 0]
    pairs = np.hstack([-rounded[:, None], x])
    left = native.products(pairs, pack_rows(np.array([[1, y[0, 0]]], dtype=np.float32)))[:, 0]
    exact = x[:, 0].astype(np.float64) * y[0, 0] - rounded
    assert np.count_nonzero(left) > 150
    np.testing.assert_array_equal(left, exact.astype(np.float32))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_rows_of_large_tasks_are_those_of_single_rows(rng, level, n_threads):
    x, y = (rng.normal(size=(n, 20)).astype(np.float32) for n in (331, 70))
    norms = np.pad(np.einsum("ij,ij->i", y, y), (0, 10))
    for multiply in (
        lambda rows, threads: native.products(rows, pack_rows(y), threads),
        lambda rows, threads: native.gaussian(rows, pack_rows(y), norms, -0.02, threads),
    ):
        alone = np.concatenate([multiply(row[None], 1) for row in x])
        assert_same_bits(multiply(x, n_threads), alone)


def test_halves_are_every_number_of_half_precision(level):
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    y = every[np.isfinite(every)].astype(np.float32)[:, None]
    packed = pack_rows(y)
    assert len(packed.halves)
    for x in (np.ones((1, 1)), np.ones((3, 1))):  # a row alone, and rows together
        assert_same_bits(native.products(x.astype(np.float32), packed)[:1] + 0, y.T + 0)


@given(
    d=st.sampled_from([0, 1, 15, 16, 17, 40, 64]),
    r=st.sampled_from([0, 1, 9, 300]),
    t=st.sampled_from([1, 2]),
    kind=st.sampled_from([np.int8, np.float16]),
    seed=seeds,
)
@settings(max_examples=30)
def test_products_of_chosen_rows(d, r, t, kind, seed):
    rng = np.random.default_rng(seed)
    x = (100 * rng.normal(size=(20, d))).clip(-128, 127).astype(kind)
    rows, asking = rng.integers(20, size=r), rng.integers(3, size=r)
    factors = rng.normal(size=(3, t, d)).astype(np.float32)
    expected = reference.row_dots(x, rows, asking, factors)
    exact = np.einsum("rd,rtd->rt", x[rows].astype(np.float64), factors[asking])
    np.testing.assert_allclose(expected, exact, atol=1e-2)
    before = native.level()
    try:
        for level in native.available_levels():
            native.force_level(level)
            for n_threads in (1, 3):
                assert_same_bits(native.row_dots(x, rows, asking, factors, n_threads), expected)
    finally:
        native.force_level(before)


def test_wrong_products_of_chosen_rows_are_refused():
    x, factors = np.zeros((4, 3), dtype=np.int8), np.zeros((2, 1, 3), dtype=np.float32)
    rows = np.array([0, 3])
    for implementation in (native, reference):
        for wrong in (np.array([0, 4]), np.array([-1, 0])):
            with pytest.raises(ValueError, match="rows must be below 4"):
                implementation.row_dots(x, wrong, rows * 0, factors)
            with pytest.raises(ValueError, match="asking must be below 2"):
                implementation.row_dots(x, rows, wrong, factors)
        with pytest.raises(ValueError, match="x must be an array of int8 or float16"):
            implementation.row_dots(x.astype(np.uint8), rows, rows * 0, factors)
        with pytest.raises(ValueError, match="1 or 2 of each query, got 3"):
            implementation.row_dots(x, rows, rows * 0, np.repeat(factors, 3, axis=1))
        with pytest.raises(ValueError, match="factors must have shape"):
            implementation.row_dots(x[:, :2].copy(), rows, rows * 0, factors)


def test_products_of_wrong_arrays_are_refused():
    x = np.zeros((3, 4), dtype=np.float32)
    for implementation in (native, reference):
        with pytest.raises(ValueError, match="y must be a packed matrix, got ndarray"):
            implementation.products(x, x)
        with pytest.raises(ValueError, match="x must have shape"):
            implementation.products(x, pack_rows(x[:, :2]))
        with pytest.raises(ValueError, match="scale must be at most 0, got 1"):
            implementation.gaussian(x, pack_rows(x), np.zeros(16, dtype=np.float32), 1)
        counts, of_labels = np.zeros((3, 16), dtype=np.uint16), np.zeros((2, 16), dtype=np.float32)
        with pytest.raises(ValueError, match="x must have a multiple of 16 columns, got 4"):
            implementation.count_products(counts[:, :4].copy(), of_labels[:, :4].copy())
        with pytest.raises(ValueError, match="weights must have shape"):
            implementation.count_products(counts, x)
        with pytest.raises(ValueError, match="targets must have shape"):
            implementation.count_slopes(counts, of_labels, x, of_labels, several=False)
        with pytest.raises(ValueError, match="out must have shape"):
            implementation.count_slopes(counts, of_labels, x[:, :2].copy(), x, several=False)
        many = np.zeros((17, 16), dtype=np.float32)
        with pytest.raises(ValueError, match="at most 16 labels, got 17"):
            implementation.count_slopes(counts, many, np.zeros((3, 17), np.float32), many, several=False)
        with pytest.raises(ValueError, match="counts must have shape"):
            implementation.counted_exponentials(of_labels, counts)
    with pytest.raises(ValueError, match="expected 64 floats or 64 halves, got 1 and 0"):
        Packed(np.zeros(1, dtype=np.float32), np.zeros(0, dtype=np.uint16), 3, 4)
