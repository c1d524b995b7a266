"""The kernel in fewer dimensions that classifiers of many rows learn from."""

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.model import label_kernel
from supquant.model.kernel_classifier import learn_classifier
from supquant.model.label_kernel import LabelKernel
from supquant.model.near_map import UNIT, NearMap, near_map


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
        (10, 8),  # to find the directions would take longer
        (1_000_000, 60),  # all directions are needed
    ],
)
def test_where_nothing_is_saved_all_dimensions_stay(rng, n_rows, r):
    X = flat_rows(rng, 300, 64, r)
    near = near_map(GaussianMap(X[:200], 3.0), n_rows)
    assert near.basis is None
    values = np.empty((100, 200), dtype=np.float32)
    near.fill(X[200:], values)
    squares = np.square(X[200:, None].astype(np.float64) - X[:200]).sum(axis=2)
    np.testing.assert_allclose(values, np.exp(squares / -18), atol=1e-5)


def test_where_lengths_overflow_the_kernel_stays(rng):
    kernel = GaussianMap(flat_rows(rng, 200, 64, 8) * np.float32(1e25), 3.0)
    assert near_map(kernel, 1_000_000) is kernel


@pytest.mark.parametrize("n_rows", [10, 1_000_000])
@pytest.mark.parametrize("n_anchors", [15, 16, 200])
def test_counts_are_the_features_in_units(rng, n_rows, n_anchors):
    """A feature of one follows them, then zeros up to whole groups; rows are more than a tile."""
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


def test_a_classifier_learns_the_same_from_it(digits, monkeypatch):
    """Weights are for the kernel itself, and so are the logits of held-out rows."""
    X, y = digits
    exact = LabelKernel(300, random_state=0)
    exact.fit_weights(X, y)
    learned = []

    def learn(*arguments, **options):
        learned.append(learn_classifier(*arguments, **options))
        return learned[-1]

    monkeypatch.setattr(label_kernel, "learn_classifier", learn)
    monkeypatch.setattr(label_kernel, "near_map", lambda kernel, n_rows: near_map(kernel, 1_000_000))
    found = LabelKernel(300, random_state=0)
    rows = found.fit_weights(X, y)
    assert isinstance(rows.kernel, NearMap)
    kernel = found.map_.kernel
    assert type(kernel) is GaussianMap
    correct = [(each.transform(X)[:, :10].argmax(axis=1) == y).mean() for each in (exact, found)]
    assert correct[1] > correct[0] - 0.005
    weights = learned[0].held_weights
    want = kernel(X[found.held_rows_].astype(np.float32)) @ weights[:-1] + weights[-1]
    rounding = UNIT * np.abs(weights).sum(axis=0)  # at the most, if features are kept as counts
    assert (np.abs(found.held_logits_ - want) <= rounding).all()


def test_features_of_training_rows_are_exact_where_they_are_returned(digits, monkeypatch):
    monkeypatch.setattr(label_kernel, "near_map", lambda kernel, n_rows: near_map(kernel, 1_000_000))
    kernel = LabelKernel(300, random_state=0)
    np.testing.assert_allclose(kernel.fit_transform(*digits), kernel.transform(digits[0]), atol=1e-4)
