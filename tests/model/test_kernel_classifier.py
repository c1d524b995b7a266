"""The classifier of labels: sums, least squares, logistic regression."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from supquant.codec.gaussian_map import GaussianMap
from supquant.codec.probabilities import label_probabilities
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.model import kernel_classifier
from supquant.model.kernel_classifier import (
    STEP_SHARE,
    calibrate,
    descend,
    gradient_of_all,
    learn_classifier,
    log_loss,
    retrace,
    ridge_path,
)
from supquant.model.kernel_rows import KernelRows, NormalEquations, block_map
from supquant.row_sums import FeatureCache


def rows_of(X, y, n_blocks=2, kernel=None, cache_bytes=0):
    blocks = np.array_split(np.arange(len(X)), n_blocks)
    return KernelRows(X, read_labels(y), kernel, blocks, FeatureCache(cache_bytes), 1)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("multilabel", [False, True])
def test_the_gradient_is_that_of_the_log_loss(rng, multilabel, counted):
    X = rng.normal(size=(40, 3)).astype(np.float32)
    kernel = block_map(GaussianMap(X[:3], 1.0)) if counted else None
    rows = rows_of(X, rng.integers(0, 2, (40, 4)) if multilabel else np.arange(40) % 4, kernel=kernel)
    assert (rows.counts(rows.blocks[0]) is not None) == counted
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


@pytest.mark.parametrize("multilabel", [False, True])
def test_features_kept_as_counts_give_the_sums_of_floats(rng, multilabel, monkeypatch):
    X = rng.normal(size=(90, 5)).astype(np.float32)
    y = rng.integers(0, 2, (90, 4)) if multilabel else np.arange(90) % 4
    rows = rows_of(X, y, kernel=block_map(GaussianMap(X[:20], 2.0)), cache_bytes=1 << 20)
    W = rng.normal(size=(21, 4))

    def sums():
        equations = rows.normal_equations()
        return rows.logits(W), rows.gradient(W), np.triu(equations.gram), equations.products

    counted = sums()
    counts = rows.counts(rows.blocks[0])
    assert (counts.dtype, counts.shape) == (np.uint16, (45, 32))
    assert (counts[:, 20] == 2**15).all()
    assert (counts[:, 21:] == 0).all()
    monkeypatch.setattr("supquant.model.kernel_rows.FEW_LABELS", 3)  # fewer than there are
    rows = replace(rows, cache=FeatureCache(1 << 20))
    assert rows.counts(rows.blocks[0]) is None
    for got, want in zip(counted, sums(), strict=True):
        np.testing.assert_allclose(got, want, atol=90 * 2**-13)


def test_log_loss_is_that_of_the_probabilities(rng):
    scores = rng.normal(size=(20, 5))
    Y = np.eye(5)[rng.integers(0, 5, 20)]
    want = -np.log((label_probabilities(scores, multilabel=False) * Y).sum(axis=1)).sum()
    assert log_loss(scores, csr_array(Y), multilabel=False) == pytest.approx(want)
    p = label_probabilities(scores, multilabel=True)
    want = -(Y * np.log(p) + (1 - Y) * np.log(1 - p)).sum()
    assert log_loss(scores, csr_array(Y), multilabel=True) == pytest.approx(want)


@pytest.mark.parametrize("multilabel", [False, True])
def test_the_temperature_is_chosen_on_a_sample_of_scores_and_judged_on_all(rng, multilabel, monkeypatch):
    scores = rng.normal(size=(60, 5)).astype(np.float32)
    Y = csr_array((rng.uniform(size=(60, 5)) < 0.3) if multilabel else np.eye(5)[scores.argmax(axis=1)])
    monkeypatch.setattr(kernel_classifier, "CALIBRATION_SCORES", 100)
    chosen, loss = calibrate(scores, Y, multilabel=multilabel)
    logits = scores * np.float32(chosen.temperature) - np.float32(chosen.shift)
    assert loss == pytest.approx(log_loss(logits, Y, multilabel=multilabel) / 60)
    assert chosen == calibrate(scores[::3], Y[::3], multilabel=multilabel)[0]


def test_large_logits_do_not_overflow():
    scores = np.array([[3e4, -3e4, 0]], dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for multilabel in (False, True):
            found = label_probabilities(scores, multilabel=multilabel)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, [[1, 0, 0.5 if multilabel else 0]])
            assert np.isfinite(log_loss(scores, csr_array([[1.0, 0, 0]]), multilabel=multilabel))


def test_sums_are_those_of_all_rows_whether_features_are_kept_or_not(rng):
    X, y = rng.normal(size=(50, 7)).astype(np.float32), np.arange(50) % 3
    phi = np.hstack([X, np.ones((50, 1))])
    for cache_bytes in (0, 850, 1 << 20):  # none, one block of 25 rows, all
        rows = rows_of(X, y, cache_bytes=cache_bytes)
        for _ in range(2):
            sums = rows.normal_equations()
            np.testing.assert_allclose(np.triu(sums.gram), np.triu(phi.T @ phi), atol=1e-4)
            np.testing.assert_allclose(sums.products, phi.T @ np.eye(3)[y], atol=1e-4)


def test_least_squares_does_not_penalise_the_intercept(rng):
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3 // 2  # a third of the rows carry label 1
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
    clear = [after <= (1 - kernel_classifier.MIN_GAIN) * before for before, after in pairwise(losses)]
    assert factor.ridge == ridges[clear.index(False)]
    assert path[0].ridge == ridges[len(ridges) // 2]  # tried first
    assert 1 < len(path) < len(ridges)


def test_a_factor_is_float32_only_where_the_ridge_exceeds_its_rounding(digits):
    X, y = digits
    sums = rows_of(X, y).normal_equations()
    quick, exact = sums.factor(1e-2), sums.factor(1e-9)
    assert (quick.lower.dtype, exact.lower.dtype) == (np.float32, np.float64)
    matrix = np.triu(sums.gram) + np.triu(sums.gram, 1).T
    matrix[np.arange(64), np.arange(64)] += 1e-2 * matrix.diagonal()[:64].mean()
    want = np.linalg.solve(matrix, sums.products)
    np.testing.assert_allclose(quick.solve(sums.products), want, atol=2e-4)


def test_sums_over_many_rows_are_taken_over_a_sample(rng, monkeypatch):
    monkeypatch.setattr("supquant.model.kernel_rows.MIN_GRAM_ROWS", 32)
    X, y = rng.normal(size=(96, 3)).astype(np.float32), np.arange(96) % 4
    monkeypatch.setattr("supquant.model.kernel_rows.GRAM_ROWS", 20)
    rows = rows_of(X, y).sample_first()
    chosen = np.arange(0, 96, 3)  # 32 of 96 rows are wanted
    assert (rows.n_sampled, sum(map(len, rows.blocks[:2]))) == (2, 32)
    np.testing.assert_array_equal(np.concatenate(rows.blocks[:2]), chosen)
    np.testing.assert_array_equal(np.sort(np.concatenate(rows.blocks)), np.arange(96))
    sums = rows.normal_equations()
    phi = np.hstack([X, np.ones((96, 1))])[chosen]
    np.testing.assert_allclose(np.triu(sums.gram), 3 * np.triu(phi.T @ phi), atol=1e-4)
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


def rows_of_two_columns(rng, *, multilabel):
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    return rows_of(X, np.stack([y, 1 - y, rng.integers(0, 2, 200)], axis=1) if multilabel else y)


def mean_loss(rows, weights):
    multilabel = rows.labels.multilabel
    return log_loss(rows.logits(weights), rows.all_indicators(), multilabel=multilabel) / len(rows)


@pytest.mark.parametrize("multilabel", [False, True])
def test_a_descent_reaches_a_stationary_point(rng, multilabel, monkeypatch):
    monkeypatch.setattr("supquant.model.kernel_classifier.MIN_PASS_GAIN", -1)  # it never ends early
    rows = rows_of_two_columns(rng, multilabel=multilabel)
    factor = rows.normal_equations().factor(0.1)
    start = np.zeros((3, rows.labels.n_labels))
    found = descend(rows.gradient, start, mean_loss(rows, start), factor, 200, rows, 100)
    slope = rows.gradient(found.weights)
    assert np.abs(slope).max() < 1e-3 * np.abs(rows.gradient(start)).max()
    assert np.abs(found.weights).max() > 0.1
    again = retrace(rows.gradient, start, factor, found.lengths)
    np.testing.assert_allclose(again, found.weights, atol=1e-5)


@pytest.mark.parametrize("multilabel", [False, True])
@pytest.mark.parametrize("most_scores", [50, 1 << 20])
def test_judging_rows_choose_the_length_of_a_step(rng, multilabel, most_scores, monkeypatch):
    monkeypatch.setattr(kernel_classifier, "CALIBRATION_SCORES", most_scores)
    rows, judges = (rows_of_two_columns(rng, multilabel=multilabel) for _ in range(2))
    factor = rows.normal_equations().factor(0.1)
    start = rng.normal(size=(3, rows.labels.n_labels))
    found = descend(rows.gradient, start, mean_loss(judges, start), factor, 200, judges, 1)
    assert found.losses == pytest.approx([mean_loss(judges, each) for each in (start, found.weights)])
    every = judges.labels.n_labels * len(judges) // most_scores or 1
    shown = replace(judges, blocks=[np.arange(0, len(judges), every)])
    step = factor.solve(-rows.gradient(start))
    np.testing.assert_allclose(found.weights, start + found.lengths[0] * step)
    chosen = mean_loss(shown, start + found.lengths[0] / STEP_SHARE * step)
    assert all(chosen < mean_loss(shown, start + t * step) + 1e-4 for t in np.geomspace(0.5, 256, 100))


def test_a_descent_stops_when_a_step_gains_little_and_drops_it_if_the_loss_grew(digits):
    X, y = digits
    kept, held = rows_of(X[:400], y[:400]), rows_of(X[400:], y[400:])
    sums = kept.normal_equations()
    factor = sums.factor(1e-4)
    start = 4 * factor.solve(sums.products)
    found = descend(kept.gradient, start, mean_loss(held, start), factor, 400, held, 50)
    gains = [1 - after / before for before, after in pairwise(found.losses)]
    assert 1 < len(gains) < 50
    assert gains[-1] < 0.003 <= min(gains[:-1])
    assert len(found.lengths) == np.argmin(found.losses)
    assert mean_loss(held, found.weights) == pytest.approx(min(found.losses))
    nobody = replace(held, blocks=[])
    assert descend(kept.gradient, start, 1.0, factor, 400, nobody, 50).lengths == []


def test_rows_that_are_learned_by_heart_take_no_long_steps(digits):
    X, y = digits
    kernel = GaussianMap(X[:300], 1.5)
    kept, held = (rows_of(X[part], y[part], kernel=kernel) for part in (slice(300), slice(300, 400)))
    sums = kept.normal_equations()
    factor = sums.factor(1e-4)
    start = 32 * factor.solve(sums.products)
    assert mean_loss(kept, start) < 1e-3 < mean_loss(held, start)
    few, many = (descend(kept.gradient, start, 1.0, factor, n, held, 1).lengths for n in (300, 3000))
    assert few[0] <= STEP_SHARE * 8 < many[0] <= STEP_SHARE * 80
    # The classifier of all rows takes the same steps and still recognises its rows.
    assert mean_loss(kept, learn_classifier(kept, held).weights) < 0.01


def test_the_final_steps_visit_only_held_out_rows_if_rows_have_features_of_their_own(digits, monkeypatch):
    X, y = digits
    kernel = GaussianMap(X[:600], 1.5)
    kept, held, every, new = (
        rows_of(X[part], y[part], kernel=kernel)
        for part in (slice(600), slice(600, 750), slice(750), slice(750, None))
    )
    lengths, gradients = [8.0, 8.0, 4.0], []
    (factor, start), (factor_of_all, start_of_all) = (
        (factor, 4 * factor.solve(sums.products))
        for sums in (kept.normal_equations(), every.normal_equations())
        for factor in [sums.factor(1e-3)]
    )

    def gradient_at(weights):
        gradients.append(kept.gradient(weights).astype(np.float32))
        return gradients[-1]

    before = retrace(gradient_at, start, factor, lengths)
    exact = retrace(every.gradient, start_of_all, factor_of_all, lengths)
    monkeypatch.setattr(KernelRows, "gradient", forbidden_beyond(len(held), KernelRows.gradient))
    found = retrace(gradient_of_all(kept, held, gradients, 1e-3), start_of_all, factor_of_all, lengths)
    far, far_before = (np.abs(new.logits(each) - new.logits(exact)).mean() for each in (found, before))
    assert far < 0.2 * far_before
    with pytest.raises(AssertionError):  # with a larger ridge all rows are visited
        retrace(gradient_of_all(kept, held, gradients, 1e-2), start_of_all, factor_of_all, lengths)


def test_the_cache_keeps_held_out_rows_first(digits):
    X, y = digits
    kernel, cache = GaussianMap(X[:50], 1.5), FeatureCache(4 * 51 * 100)  # as much as 100 rows need
    labels = read_labels(y)
    kept = KernelRows(X, labels, kernel, [np.arange(100, 200), np.arange(200, 300)], cache, 1)
    held = KernelRows(X, labels, kernel, [np.arange(100)], cache, 1)
    learn_classifier(kept, held)

    def not_there():
        raise AssertionError

    cache.get(0, not_there)
    with pytest.raises(AssertionError):
        cache.get(100, not_there)


def forbidden_beyond(most, gradient):
    """Return a gradient that may only be computed for so many rows."""

    def checked(rows, weights):
        assert len(rows) <= most
        return gradient(rows, weights)

    return checked


def test_sums_over_few_rows_take_all_of_them(rng):
    rows = rows_of(rng.normal(size=(96, 3)), np.arange(96) % 4)
    assert rows.sample_first() is rows
    assert rows.n_sampled == 0


def test_with_a_sample_the_metric_of_the_kept_rows_also_serves_all_rows(digits, monkeypatch):
    """The held-out rows still count: their gradients are in the steps of the last classifier."""
    monkeypatch.setattr("supquant.model.kernel_rows.MIN_GRAM_ROWS", 300)
    X, y = digits
    kernel = GaussianMap(X[:60], 1.5)
    kept, held = (rows_of(X[part], y[part], kernel=kernel) for part in (slice(1000), slice(1000, 1200)))
    kept = kept.sample_first()
    assert kept.n_sampled
    found = learn_classifier(kept, held)
    new = rows_of(X[1200:], y[1200:], kernel=kernel)
    Y = new.all_indicators()
    of_all, of_kept = (
        log_loss(new.logits(each), Y, multilabel=False) for each in (found.weights, found.held_weights)
    )
    assert found.n_iter > 0
    assert not np.array_equal(found.weights, found.held_weights)
    assert of_all < 1.02 * of_kept
