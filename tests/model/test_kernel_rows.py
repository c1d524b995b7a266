"""The kernel in fewer dimensions that classifiers of many rows learn from."""

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.inputs.labels import read_labels
from supquant.model import label_kernel
from supquant.model.kernel_rows import UNIT, NearMap, near_map
from supquant.model.label_kernel import LabelKernel


def flat_rows(rng, n, p, r, noise=0.01):
    """Draw rows near a space of r dimensions."""
    basis = np.linalg.qr(rng.normal(size=(p, r)))[0]
    return (rng.normal(size=(n, r)) @ basis.T + noise * rng.normal(size=(n, p)) + 3).astype(np.float32)


def test_features_are_nearly_those_of_the_kernel(rng):
    X = flat_rows(rng, 900, 64, 8)
    kernel = GaussianMap(X[:200], 3.0)
    near = near_map(kernel, 1_000_000)
    assert isinstance(near, NearMap)
    assert near.basis.shape == (64, 8)
    values = np.empty((700, 201), dtype=np.float32)
    near.fill(X[200:], values[:, :-1])
    np.testing.assert_allclose(values[:, :-1], kernel(X[200:]), atol=0.01)
    np.testing.assert_allclose(near(X[200:]), kernel(X[200:]))  # a call is exact


def test_a_row_infinitely_far_has_features_of_zero(rng):
    X = flat_rows(rng, 200, 64, 8)
    near = near_map(GaussianMap(X, 3.0), 1_000_000)
    far = X[:3].copy()
    far[1] = 1e30
    values = np.empty((3, 200), dtype=np.float32)
    with np.errstate(over="ignore"):
        near.fill(far, values)
    assert np.isfinite(values).all()
    assert (values[1] == 0).all()
    assert (values[[0, 2]].max(axis=1) > 0.9).all()


@pytest.mark.parametrize(
    ("n_rows", "r"),
    [
        (10, 8),  # finding the directions would take longer
        (1_000_000, 60),  # all directions are needed
    ],
)
def test_no_dimension_is_left_out_if_that_saves_no_time(rng, n_rows, r):
    X = flat_rows(rng, 300, 64, r)
    near = near_map(GaussianMap(X[:200], 3.0), n_rows)
    assert near.basis is None
    values = np.empty((100, 200), dtype=np.float32)
    near.fill(X[200:], values)
    squares = np.square(X[200:, None].astype(np.float64) - X[:200]).sum(axis=2)
    np.testing.assert_allclose(values, np.exp(squares / -18), atol=1e-5)


def test_the_kernel_is_unchanged_if_lengths_overflow(rng):
    kernel = GaussianMap(flat_rows(rng, 200, 64, 8) * np.float32(1e25), 3.0)
    assert near_map(kernel, 1_000_000) is kernel


@pytest.mark.parametrize("n_rows", [10, 1_000_000])
@pytest.mark.parametrize("n_anchors", [15, 16, 200])
def test_counts_are_the_features_in_units(rng, n_rows, n_anchors):
    """Features are followed by a one, then by zeros that fill the last group; the rows are more than a tile."""
    X = flat_rows(rng, 1300, 64, 8)
    X[5] = 1e30
    near = near_map(GaussianMap(X[-n_anchors:], 3.0), n_rows)
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


def test_equal_rows_have_no_directions():
    kernel = GaussianMap(np.ones((50, 16), dtype=np.float32), 1.0)
    near = near_map(kernel, 1_000_000)
    values = np.empty((2, 50), dtype=np.float32)
    near.fill(np.ones((2, 16), dtype=np.float32), values)
    np.testing.assert_allclose(values, 1)


def test_a_classifier_learns_the_same_from_fewer_dimensions(digits, monkeypatch):
    """Weights are for the kernel itself, and so are the logits of held-out rows."""
    X, y = digits
    labels = read_labels(y)
    exact, _ = LabelKernel(300, random_state=0).learn(X, labels)
    monkeypatch.setattr(label_kernel, "near_map", lambda kernel, n_rows: near_map(kernel, 1_000_000))
    found, rows = LabelKernel(300, random_state=0).learn(X, labels)
    assert isinstance(rows.kernel, NearMap)
    assert type(found.kernel) is GaussianMap
    correct = [(each.logits(X.astype(np.float32)).argmax(axis=1) == y).mean() for each in (exact, found)]
    assert correct[1] > correct[0] - 0.005
    weights = found.classifier.held_weights
    want = found.kernel(X[found.held_rows].astype(np.float32)) @ weights[:-1] + weights[-1]
    rounding = UNIT * np.abs(weights).sum(axis=0)  # bound, if features are kept as counts
    assert (np.abs(found.held_logits - want) <= rounding).all()
