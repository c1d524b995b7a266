"""Kernels of a GPU give what those of the CPU give, bit for bit."""

import inspect

import numpy as np
import pytest
from scan_cases import KINDS, assert_same_bits, by_cells, draw_codes, draw_tables, grouped, in_order, plain

from supquant.kernels import GROUP, Scanned, native, pack_rows
from supquant.kernels.protocol import Kernels
from supquant.kernels.selection import ROOM

NAMES = ["assign", "beam", "decode", "gaussian", "products", "table_sums", "scan", "scan_within"]


def test_functions_have_the_signatures_of_the_protocol(gpu):
    for name in NAMES:
        want = list(inspect.signature(getattr(Kernels, name)).parameters.values())[1:]
        have = inspect.signature(getattr(gpu, name)).parameters.values()
        assert [(p.name, p.default) for p in have] == [(p.name, p.default) for p in want], name


@pytest.mark.parametrize("n", [1, 16, 77, 128, 129, 1500])
@pytest.mark.parametrize("d", [1, 4, 15, 16, 255, 256, 257, 384, 784])
@pytest.mark.parametrize("q", [0, 1, 127, 130, 300])
def test_products(gpu, rng, q, d, n):
    x, y = rng.normal(size=(q, d)).astype(np.float32), pack_rows(rng.normal(size=(n, d)).astype(np.float32))
    assert_same_bits([gpu.products(x, y)], [native.products(x, y, 2)])


@pytest.mark.parametrize("scale", [-1e-3, -0.5, -50.0])
def test_gaussian(gpu, rng, scale):
    x, anchors = rng.normal(size=(333, 48)).astype(np.float32), rng.normal(size=(70, 48)).astype(np.float32)
    x[5] = 1e30  # infinitely far
    x[7] = anchors[3]
    norms = np.pad(np.einsum("ij,ij->i", anchors, anchors), (0, -len(anchors) % GROUP))
    arguments = x, pack_rows(anchors), norms, scale
    assert_same_bits([gpu.gaussian(*arguments)], [native.gaussian(*arguments)])


@pytest.mark.parametrize(("M", "K"), [(1, 256), (2, 17), (8, 256), (16, 3), (64, 255)])
def test_sums_over_codes(gpu, rng, M, K):
    codes, tables = draw_codes(1000, M, K, rng), draw_tables("normal", 3, M, K, rng)
    assert_same_bits([gpu.table_sums(codes, tables)], [native.table_sums(codes, tables)])
    for dtype in (np.float32, np.float64):
        codebooks = rng.normal(size=(M, K, 37)).astype(dtype)
        assert_same_bits([gpu.decode(codes, codebooks)], [native.decode(codes, codebooks)])


@pytest.fixture(scope="session")
def draw_costs():
    def draw(n, M, K, *, whole=False, mu=0.7):
        rng = np.random.default_rng(M * K)
        if whole:  # ties everywhere
            unary = rng.integers(-3, 4, size=(n, M * K))
            cross, product = (half + half.T for half in rng.integers(-2, 3, size=(2, M * K, M * K)))
        else:
            codewords, unary = rng.normal(size=(M * K, 6)), rng.normal(size=(n, M * K))
            cross = codewords @ codewords.T + codewords[:, :1] @ codewords[:, :1].T
            product = codewords @ codewords.T
        arrays = [np.ascontiguousarray(array, dtype=np.float32) for array in (unary, cross, product)]
        return (*arrays, mu, 0.5, rng.integers(0, K, size=(n, M), dtype=np.uint8))

    return draw


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("width", [1, 4, 8, 64])
@pytest.mark.parametrize(("M", "K"), [(1, 256), (2, 16), (3, 255), (8, 256), (16, 20), (64, 2), (33, 8)])
def test_beam(gpu, draw_costs, M, K, width, whole):
    unary, cross, *_ = draw_costs(65, M, K, whole=whole)
    np.testing.assert_array_equal(gpu.beam(unary, cross, K, width), native.beam(unary, cross, K, width))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("mu", [0.0, 0.7])
@pytest.mark.parametrize("sweeps", [1, 2, 50])
@pytest.mark.parametrize(
    ("M", "K"), [(1, 256), (2, 16), (2, 256), (3, 255), (4, 1), (8, 256), (16, 20), (64, 2), (33, 8)]
)
def test_assign(gpu, draw_costs, M, K, sweeps, mu, whole):
    problem = draw_costs(65, M, K, whole=whole, mu=mu)
    np.testing.assert_array_equal(gpu.assign(*problem, sweeps), native.assign(*problem, sweeps))


def assert_scans_like_the_cpu(gpu, space, tables, *ks):
    for k in ks:
        assert_same_bits(gpu.scan(space, tables, k), native.scan(space, tables, k, n_threads=2))
    first = native.scan(space, tables, ks[0], n_threads=2)[0]
    limits = first[:, -1].copy() if first.size else np.zeros(len(tables), dtype=np.float32)
    assert_same_bits(
        gpu.scan_within(space, tables, limits), native.scan_within(space, tables, limits, n_threads=2)
    )


@pytest.mark.parametrize("M", [*range(1, 17), 31, 32, 63, 64])
def test_scan_of_any_number_of_codebooks(gpu, rng, M):
    for q in (1, 2, 3, 20):
        for kind in ("normal", "whole"):
            space, tables = plain(draw_codes(40_007, M, 256, rng)), draw_tables(kind, q, M, 256, rng)
            assert_scans_like_the_cpu(gpu, space, tables, 10, 100)


@pytest.mark.parametrize("K", [1, 2, 3, 16, 17, 255, 256])
@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 64, 65, 1000, 16_384, 16_385, 200_003])
def test_scan_of_any_size(gpu, rng, n, K):
    space = plain(draw_codes(n, 4, K, rng))
    for q in (0, 1, 6):
        assert_scans_like_the_cpu(gpu, space, draw_tables("normal", q, 4, K, rng), 1, 7, 2048, n + 5)


@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
@pytest.mark.parametrize("kind", KINDS)
def test_scan_of_tables_of_any_kind_in_any_order(gpu, rng, kind, order):
    for M, K in ((1, 256), (3, 40), (8, 4)):
        table = draw_tables(kind, 1, M, K, rng)
        tables = np.concatenate([table / np.float32(2 ** (i % 3)) for i in range(9)])
        space = plain(in_order(draw_codes(150_000, M, K, rng), table[0], order))
        for some in (tables[:1], tables):
            assert_scans_like_the_cpu(gpu, space, some, 20, 700)


@pytest.mark.parametrize("density", [0.0, 1e-5, 1e-3, 0.5, 1.0])
def test_scan_of_some_rows(gpu, rng, density):
    codes = draw_codes(300_001, 5, 256, rng)
    for q in (1, 9):
        space = plain(codes, rng.random(len(codes)) < density)
        assert_scans_like_the_cpu(gpu, space, draw_tables("normal", q, 5, 256, rng), 10, 300)


def test_scan_of_grouped_and_sorted_codes(gpu, rng):
    for density in (None, 0.3):
        space = grouped(draw_codes(5000, 4, 16, rng), rng, 90_000, density)
        assert_scans_like_the_cpu(gpu, space, draw_tables("whole", 5, 4, 16, rng), 50, 400)
        sorted_ = by_cells(draw_codes(50_000, 4, 16, rng), [2, 0])
        assert_scans_like_the_cpu(gpu, sorted_, draw_tables("whole", 5, 4, 16, rng), 50, 400)


def test_more_rows_within_bounds_than_there_is_room_for(gpu, rng):
    """The best rows are few, and in no sample; all others are equally bad, and first among them are the last ones."""
    n = 4 * ROOM
    codes = np.full((n, 2), 255, dtype=np.uint8)
    mask = np.ones(n, dtype=bool)
    mask[: n // 2] = rng.random(n // 2) < 1e-4
    tables = np.tile(np.arange(256, dtype=np.float32), (5, 2, 1))
    codes[n // 2 :, 0] = np.linspace(255, 0, n - n // 2).astype(np.uint8)
    for some in (tables[:1], tables):
        assert_scans_like_the_cpu(gpu, plain(codes, mask), some, 100, 2048)


def test_tables_that_cannot_be_scanned(gpu, rng):
    space, tables = plain(draw_codes(100, 2, 4, rng)), draw_tables("normal", 2, 2, 4, rng)
    tables[1, 0, 0] = np.nan
    for scan in (gpu.scan, native.scan):
        with pytest.raises(ValueError, match="sums of table 1 must be finite"):
            scan(space, tables, 3)


def test_codes_leave_the_gpu_with_the_arrays_that_they_were_made_from(gpu, rng):
    gpu.forget_codes()
    space = plain(draw_codes(64_000, 8, 256, rng))
    gpu.scan(space, draw_tables("normal", 1, 8, 256, rng), 3)
    assert gpu.resident_bytes() == 8 * 64_000
    del space
    assert gpu.resident_bytes() == 0


def test_codes_that_are_too_many_for_the_gpu(gpu, rng):
    blocks = np.broadcast_to(np.zeros((1, 64, 64), dtype=np.uint8), (2**32 // 64 - 1, 64, 64))
    space = Scanned(blocks, len(blocks) * 64)
    object.__setattr__(space, "blocks", blocks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("supquant.kernels.arguments.check_scanned", lambda scanned: (64, scanned.n))
        with pytest.raises(MemoryError, match="need 274,877,902,848 bytes of memory of the GPU"):
            gpu.scan(space, draw_tables("normal", 1, 64, 256, rng), 3)
    small = plain(draw_codes(100, 8, 256, rng))
    assert gpu.scan(small, draw_tables("normal", 1, 8, 256, rng), 3)[1].shape == (1, 3)
