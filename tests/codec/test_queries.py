"""Products of rows do not depend on the other rows, and queries are taken in blocks."""

import numpy as np
import pytest

from supquant import AdditiveCodec
from supquant.codec.queries import QUERY_ROWS, pack_rows, row_products


@pytest.mark.parametrize("n", [0, 1, QUERY_ROWS, QUERY_ROWS + 1, 10 * QUERY_ROWS - 1])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_sees_all_rows_in_blocks(n, n_jobs):
    X = np.arange(3 * n, dtype=np.uint8).reshape(n, 3)
    seen = []

    def double(block):
        seen.append((len(block), block.dtype))
        return 2 * block, block[:, 0]

    doubled, first = np.empty((n, 3)), np.empty(n)
    codec = AdditiveCodec(np.zeros((1, 2, 3), np.float32))  # its features are the vectors
    codec._by_queries(X, n_jobs, (doubled, first), double)
    np.testing.assert_array_equal(doubled, 2.0 * X)
    np.testing.assert_array_equal(first, X[:, 0])
    assert sum(rows for rows, _ in seen) == n
    assert all(rows <= QUERY_ROWS and dtype == np.float32 for rows, dtype in seen)


@pytest.mark.parametrize("d", [0, 1, 15, 16, 17, 384, 1001])
def test_products_are_correct_and_the_same_for_a_row_alone(rng, d):
    x, y = (rng.normal(size=(rows, d)).astype(np.float32) for rows in (QUERY_ROWS + 1, 50))
    want = x.astype(np.float64) @ y.T
    packed = pack_rows(y)
    whole = row_products(x, packed)
    np.testing.assert_allclose(whole, want, rtol=0, atol=2e-6 * max(d, 1))
    alone = ((row, row + 1) for row in range(len(x)))
    for first, last in (*alone, (5, 8), (1, QUERY_ROWS)):
        np.testing.assert_array_equal(row_products(x[first:last], packed), whole[first:last], strict=True)


def test_rows_that_are_not_contiguous_are_multiplied(rng):
    x, y = rng.normal(size=(6, 40)).astype(np.float32), pack_rows(rng.normal(size=(5, 20)).astype(np.float32))
    np.testing.assert_array_equal(row_products(x[:, ::2], y), row_products(x[:, ::2].copy(), y), strict=True)
