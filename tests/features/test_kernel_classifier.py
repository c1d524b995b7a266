"""The solver of label features: sums, least squares, logistic regression."""

import warnings
from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from supquant.codec import label_probabilities
from supquant.errors import InputError
from supquant.features import least_squares
from supquant.features.gaussian_map import GaussianMap
from supquant.features.kernel_classifier import (
    curvature_bound,
    learn_classifier,
    logistic_steps,
    recorded,
    steps_of_all,
)
from supquant.features.kernel_rows import KernelRows, NormalEquations
from supquant.features.least_squares import calibrate, log_loss, ridge_path
from supquant.labels import read_labels
from supquant.rows import FeatureCache


def rows_of(X, y, n_blocks=2, kernel=None, cache_bytes=0):
    blocks = np.array_split(np.arange(len(X)), n_blocks)
    return KernelRows(X, read_labels(y), kernel, blocks, FeatureCache(cache_bytes), 1)


@pytest.mark.parametrize("multilabel", [False, True])
def test_the_gradient_is_that_of_the_log_loss(rng, multilabel):
    X = rng.normal(size=(40, 3))
    rows = rows_of(X, rng.integers(0, 2, (40, 4)) if multilabel else np.arange(40) % 4)
    W = rng.normal(size=(4, 4))
    gradient = rows.gradient(W)

    def loss(weights):
        return log_loss(rows.logits(weights), rows.all_indicators(), multilabel=multilabel)

    for i in range(4):
        for j in range(4):
            step = np.zeros((4, 4))
            step[i, j] = 1e-2
            slope = (loss(W + step) - loss(W - step)) / 2e-2
            assert gradient[i, j] == pytest.approx(slope, abs=5e-3)


def test_log_loss_is_that_of_the_probabilities(rng):
    scores = rng.normal(size=(20, 5))
    Y = np.eye(5)[rng.integers(0, 5, 20)]
    want = -np.log((label_probabilities(scores, multilabel=False) * Y).sum(axis=1)).sum()
    assert log_loss(scores, csr_array(Y), multilabel=False) == pytest.approx(want)
    p = label_probabilities(scores, multilabel=True)
    want = -(Y * np.log(p) + (1 - Y) * np.log(1 - p)).sum()
    assert log_loss(scores, csr_array(Y), multilabel=True) == pytest.approx(want)


@pytest.mark.parametrize("multilabel", [False, True])
def test_of_many_scores_a_temperature_is_chosen_by_some_and_judged_by_all(rng, multilabel, monkeypatch):
    scores = rng.normal(size=(60, 5)).astype(np.float32)
    Y = csr_array((rng.uniform(size=(60, 5)) < 0.3) if multilabel else np.eye(5)[scores.argmax(axis=1)])
    monkeypatch.setattr(least_squares, "CALIBRATION_SCORES", 100)
    chosen, loss = calibrate(scores, Y, multilabel=multilabel)
    logits = scores * np.float32(chosen.temperature) - np.float32(chosen.shift)
    assert loss == pytest.approx(log_loss(logits, Y, multilabel=multilabel) / 60)
    assert chosen == calibrate(scores[::3], Y[::3], multilabel=multilabel)[0]


def test_large_logits_overflow_nowhere():
    scores = np.array([[3e4, -3e4, 0]], dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for multilabel in (False, True):
            found = label_probabilities(scores, multilabel=multilabel)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, [[1, 0, 0.5 if multilabel else 0]])
            assert np.isfinite(log_loss(scores, csr_array([[1.0, 0, 0]]), multilabel=multilabel))


def test_sums_are_those_of_all_rows_whether_features_are_kept_or_not(rng):
    X, y = rng.normal(size=(50, 3)).astype(np.float32), np.arange(50) % 3
    phi = np.hstack([X, np.ones((50, 1))])
    for cache_bytes in (0, 450, 1 << 20):  # none, one block of 25 rows, all
        rows = rows_of(X, y, cache_bytes=cache_bytes)
        for _ in range(2):
            sums = rows.normal_equations()
            np.testing.assert_allclose(sums.gram, phi.T @ phi, atol=1e-4)
            np.testing.assert_allclose(sums.products, phi.T @ np.eye(3)[y], atol=1e-4)


def test_least_squares_does_not_penalise_the_intercept(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3 // 2  # a third of the rows carries label 1
    rows = rows_of(X - X.mean(axis=0), y)
    factor = rows.normal_equations().factor(1e9)
    np.testing.assert_allclose(factor.solve(rows.normal_equations().products)[-1], [2 / 3, 1 / 3], atol=1e-5)


@pytest.mark.parametrize(
    "ridges", [(100.0, 10.0, 1.0, 1e-2, 1e-4, 1e-6), (10.0, 1.0, 1e-2, 1e-4, 1e-6, 1e-7, 1e-8)]
)
def test_the_ridge_is_the_largest_one_that_is_nearly_best(digits, ridges):
    X, y = digits
    kept, held = rows_of(X[:1000], y[:1000]), rows_of(X[1000:], y[1000:])
    sums = kept.normal_equations()
    path, factor = ridge_path(sums, held, ridges)
    losses = [ridge_path(sums, held, (ridge,))[0][0].loss for ridge in ridges]
    clear = [after <= (1 - least_squares.LEAST_GAIN) * before for before, after in pairwise(losses)]
    assert factor.ridge == ridges[clear.index(False)]
    assert path[0].ridge == ridges[len(ridges) // 2]  # the first one that is tried
    assert 1 < len(path) < len(ridges)


def test_a_factor_is_float32_only_where_the_ridge_exceeds_its_rounding(digits):
    X, y = digits
    sums = rows_of(X, y).normal_equations()
    quick, exact = sums.factor(1e-2), sums.factor(1e-9)
    assert (quick.lower.dtype, exact.lower.dtype) == (np.float32, np.float64)
    matrix = sums.gram.copy()
    matrix[np.arange(64), np.arange(64)] += 1e-2 * matrix.diagonal()[:64].mean()
    want = np.linalg.solve(matrix, sums.products)
    np.testing.assert_allclose(quick.solve(sums.products), want, atol=2e-4)


def test_of_many_rows_some_make_the_sums(rng, monkeypatch):
    monkeypatch.setattr("supquant.features.kernel_rows.FEWEST_GRAM_ROWS", 32)
    X, y = rng.normal(size=(96, 3)).astype(np.float32), np.arange(96) % 4
    rows = rows_of(X, y)
    assert rows.gram_stride == 3  # 96 rows for 32 that are wanted: every third of a block
    sums = rows.normal_equations(rows.gram_stride)
    chosen = np.concatenate([np.arange(0, 48, 3), np.arange(48, 96, 3)])
    phi = np.hstack([X, np.ones((96, 1))])[chosen]
    np.testing.assert_allclose(sums.gram, 3 * phi.T @ phi, atol=1e-4)
    np.testing.assert_allclose(sums.products, 3 * phi.T @ np.eye(4)[y[chosen]], atol=1e-4)


def test_a_ridge_that_cannot_be_factored_is_skipped(rng):
    rows = rows_of(rng.normal(size=(40, 2)), np.arange(40) % 2)
    sums = rows.normal_equations()
    indefinite = NormalEquations(sums.gram - 0.05 * sums.gram[0, 0] * np.eye(3), sums.products)
    indefinite.gram[0, 0] = -1.0
    path, _ = ridge_path(indefinite, rows, (1.0, 1e-4, 1e-5))
    assert [each.ridge for each in path] == [1.0]
    assert indefinite.safe_factor(1e-2).ridge > 1e-2
    with pytest.raises(InputError, match="ridge of 0\\.0001 of the mean diagonal"):
        ridge_path(indefinite, rows, (1e-4, 1e-5))


@pytest.mark.parametrize("multilabel", [False, True])
def test_logistic_steps_reach_a_point_without_slope(rng, multilabel):
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    rows = rows_of(X, np.stack([y, 1 - y, rng.integers(0, 2, 200)], axis=1) if multilabel else y)
    factor = rows.normal_equations().factor(0.1)
    start = np.zeros((3, rows.labels.n_labels))
    steps = logistic_steps(rows.gradient, start, factor, curvature_bound(rows))
    weights = next(islice(steps, 199, None))
    assert np.abs(rows.gradient(weights)).max() < 1e-3 * np.abs(rows.gradient(start)).max()
    assert np.abs(weights).max() > 0.1


def test_steps_of_all_rows_visit_held_out_rows_alone_if_rows_have_features_of_their_own(digits, monkeypatch):
    X, y = digits
    kernel = GaussianMap(X[:600], 1.5)
    kept, held, every = (
        rows_of(X[part], y[part], kernel=kernel) for part in (slice(600), slice(600, 750), slice(750))
    )
    sums, of_all = kept.normal_equations(), every.normal_equations()
    start, start_of_all = (4 * each.factor(1e-3).solve(each.products) for each in (sums, of_all))
    slopes = []
    first = logistic_steps(recorded(kept, slopes), start, sums.factor(1e-3), curvature_bound(kept))
    before = next(islice(first, 3, None))
    exact = logistic_steps(every.gradient, start_of_all, of_all.factor(1e-3), curvature_bound(every))
    exact = next(islice(exact, 3, None))
    monkeypatch.setattr(KernelRows, "gradient", forbidden_beyond(len(held), KernelRows.gradient))
    found = next(islice(steps_of_all(kept, held, slopes, start_of_all, of_all.factor(1e-3)), 3, None))
    new = rows_of(X[750:], y[750:], kernel=kernel)
    far, far_before = (np.abs(new.logits(each) - new.logits(exact)).mean() for each in (found, before))
    assert far < 0.2 * far_before
    with pytest.raises(AssertionError):  # with a larger ridge all rows are visited
        next(steps_of_all(kept, held, slopes, start_of_all, of_all.factor(1e-2)))


def forbidden_beyond(most, gradient):
    """Return a gradient that may only be computed for so many rows."""

    def checked(rows, weights):
        assert len(rows) <= most
        return gradient(rows, weights)

    return checked


def test_a_classifier_tells_how_far_it_is_during_the_sums_and_after_every_pass(rng):
    X, y = rng.normal(size=(400, 5)), np.arange(400) % 3
    kept, held = rows_of(X[:300], y[:300], n_blocks=20), rows_of(X[300:], y[300:])
    told = []
    learned = learn_classifier(kept, held, told.append)
    during_sums = np.array(told[:8]) / told[7]
    assert np.allclose(during_sums, [0.15, 0.25, 0.4, 0.5, 0.65, 0.75, 0.9, 1])  # eight times, for 20 blocks
    passes = sum("iteration" in loss for loss in learned.losses)
    assert passes > 0
    assert len(told) == 8 + 1 + passes  # the factors are told once
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1
