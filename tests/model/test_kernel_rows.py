"""The kernel of large blocks that classifiers learn from."""

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.model.kernel_rows import UNIT, BlockMap, block_map


def flat_rows(rng, n, p, r, noise=0.01):
    """Draw rows near a space of r dimensions."""
    basis = np.linalg.qr(rng.normal(size=(p, r)))[0]
    return (rng.normal(size=(n, r)) @ basis.T + noise * rng.normal(size=(n, p)) + 3).astype(np.float32)


@pytest.mark.parametrize("n_rows", [100, 1100])
def test_features_are_those_of_the_kernel(rng, n_rows):
    """The rows are a part of a tile, or more than one; all lie far from zero."""
    X = flat_rows(rng, 1300, 64, 60)
    near = block_map(GaussianMap(X[:200], 3.0))
    assert isinstance(near, BlockMap)
    values = np.empty((n_rows, 200), dtype=np.float32)
    near.fill(X[200:][:n_rows], values)
    squares = np.square(X[200:, None][:n_rows].astype(np.float64) - X[:200]).sum(axis=2)
    np.testing.assert_allclose(values, np.exp(squares / -18), atol=1e-5)
    np.testing.assert_array_equal(near(X[:50]), GaussianMap(X[:200], 3.0)(X[:50]))


def test_a_row_infinitely_far_has_features_of_zero(rng):
    X = flat_rows(rng, 200, 64, 8)
    near = block_map(GaussianMap(X, 3.0))
    far = X[:3].copy()
    far[1] = 1e30
    values = np.empty((3, 200), dtype=np.float32)
    with np.errstate(over="ignore"):
        near.fill(far, values)
    assert np.isfinite(values).all()
    assert (values[1] == 0).all()
    assert (values[[0, 2]].max(axis=1) > 0.9).all()


def test_the_kernel_is_unchanged_if_lengths_overflow(rng):
    kernel = GaussianMap(flat_rows(rng, 200, 64, 8) * np.float32(1e25), 3.0)
    assert block_map(kernel) is kernel


@pytest.mark.parametrize("n_anchors", [15, 16, 200])
def test_counts_are_the_features_in_units(rng, n_anchors):
    """Features are followed by a one, then by zeros that fill the last group; the rows are more than a tile."""
    X = flat_rows(rng, 1300, 64, 8)
    X[5] = 1e30
    near = block_map(GaussianMap(X[-n_anchors:], 3.0))
    values = np.empty((1100, n_anchors), dtype=np.float32)
    with np.errstate(over="ignore"):
        near.fill(X[:1100], values)
        counts = near.counts(X[:1100])
    assert counts.dtype == np.uint16
    assert counts.shape == (1100, -(-(n_anchors + 1) // 16) * 16)
    np.testing.assert_allclose(counts[:, :n_anchors] * UNIT, values, atol=UNIT)
    assert (counts[5, :n_anchors] == 0).all()
    assert (counts[:, n_anchors] * UNIT == 1).all()
    assert (counts[:, n_anchors + 1 :] == 0).all()
