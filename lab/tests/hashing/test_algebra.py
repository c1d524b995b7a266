"""What several hashing methods compute, compared with NumPy."""

import numpy as np
import pytest

from supquant_lab.hashing.rows import add_ridge, signs, top_eigenvectors


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_signs_of_numbers_and_flags_are_one_and_minus_one(dtype, rng):
    values = np.append(rng.normal(size=9), 0.0)
    expected = [1 if value > 0 else -1 for value in values]
    for given in (values, values > 0):
        found = signs(given, dtype)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)


def test_a_ridge_is_in_units_of_the_mean_diagonal(rng):
    A = rng.normal(size=(20, 4))
    squares = A.T @ A
    found = add_ridge(np.zeros((4, 4)), 0.25, squares)
    np.testing.assert_allclose(found, 0.25 * np.trace(squares) / 4 * np.eye(4))
    np.testing.assert_array_equal(add_ridge(np.zeros((4, 4)), 0.25, np.zeros((4, 4))), 0.25 * np.eye(4))


def test_top_eigenvectors_are_those_of_the_largest_eigenvalues(rng):
    A = rng.normal(size=(6, 6))
    vectors = np.linalg.eigh(A + A.T)[1]
    found = top_eigenvectors(A + A.T, 2)
    np.testing.assert_allclose(np.abs(np.sum(found * vectors[:, [5, 4]], axis=0)), 1)
