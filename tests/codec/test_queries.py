"""Groups of queries have one size, whatever comes."""

import numpy as np
import pytest

from supquant.codec.queries import GROUP_ROWS, by_groups


@pytest.mark.parametrize("n", [0, 1, GROUP_ROWS, GROUP_ROWS + 1, 10 * GROUP_ROWS - 1])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_function_always_sees_as_many_rows(n, n_jobs):
    X = np.arange(3 * n, dtype=np.uint8).reshape(n, 3)
    seen = []

    def double(group):
        seen.append((group.shape, group.dtype))
        return 2 * group, group[:, 0]

    doubled, first = np.empty((n, 3)), np.empty(n)
    by_groups(double, X, (doubled, first), n_jobs)
    np.testing.assert_array_equal(doubled, 2.0 * X)
    np.testing.assert_array_equal(first, X[:, 0])
    assert seen == [((GROUP_ROWS, 3), np.float32)] * -(-n // GROUP_ROWS)
