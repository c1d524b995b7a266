"""Scores become probabilities: curves, and the calibrated scores of both models."""

import numpy as np
import pytest
from sklearn.base import clone

from supquant import AnchorKernel, CodeIndex, LabelKernel, PublishedQuantizer, SupervisedQuantizer
from supquant.estimators import calibration
from supquant.estimators.calibration import fit_curve
from supquant.inputs.labels import read_labels


def test_a_curve_says_how_often_products_are_relevant(rng):
    products = rng.random(400_000)
    relevant = rng.random(len(products)) < products**2
    curve = fit_curve(products, relevant)
    assert (np.diff(curve) >= 0).all()
    at = np.linspace(0.05, 0.99, 30)
    np.testing.assert_allclose(np.interp(at, *curve), at**2, atol=0.02)


def test_a_curve_of_equal_products_is_their_rate():
    curve = fit_curve(np.zeros(10), np.arange(10) < 3)
    np.testing.assert_allclose(curve[1], 0.3)
    assert curve.shape == (2, 2)


def test_first_answers_with_equal_scores_are_not_all_of_one_class():
    labels = read_labels(np.repeat([0, 1], 500))  # rows in order of their class, all with the same code
    codes, tables = np.zeros((1000, 2), dtype=np.uint8), np.zeros((2, 2, 4), dtype=np.float32)
    products, relevant = calibration.first_answers(tables, read_labels([0, 1]), codes, labels)
    assert products.shape == relevant.shape == (2, 2 * calibration.ANSWERS)
    first = relevant[:, : calibration.ANSWERS]
    assert 0.25 < first[0].mean() < 0.75
    np.testing.assert_array_equal(first[0], ~first[1])


def test_first_items_are_the_best_ones_and_some_from_all_over(rng):
    codes = rng.integers(8, size=(1000, 3), dtype=np.uint8)
    tables = rng.normal(size=(20, 3, 8)).astype(np.float32)
    products, items = calibration.first_items(tables, codes, 2)
    sums = tables[:, np.arange(3), codes].sum(axis=2, dtype=np.float64)  # (20, 1000)
    np.testing.assert_allclose(products, -np.take_along_axis(sums, items, axis=1), rtol=1e-5, atol=1e-5)
    k = calibration.ANSWERS
    np.testing.assert_allclose(products[:, :k], -np.sort(sums, axis=1)[:, :k], rtol=1e-5, atol=1e-5)
    assert (items[:, k:] == items[0, k:]).all()
    assert 400 < items[0, k:].mean() < 600
    again = calibration.first_items(tables, codes, 1)
    np.testing.assert_array_equal(again[0], products)
    np.testing.assert_array_equal(again[1], items)


def test_a_curve_of_probabilities_is_their_mean(rng):
    products = rng.random(100_000)
    at = np.linspace(0.05, 0.95, 20)
    np.testing.assert_allclose(np.interp(at, *fit_curve(products, products**2)), at**2, atol=0.01)


# the estimators ---------------------------------------------------------------------------------------------------------


SETTINGS = {"n_codewords": 32, "random_state": 0}


@pytest.fixture(scope="module", params=["default", "published"])
def quantizer(request):
    """An estimator whose scores are calibrated, not fitted."""
    if request.param == "default":
        return SupervisedQuantizer(2, features=LabelKernel(100), max_iter=3, **SETTINGS)
    return PublishedQuantizer(2, features=AnchorKernel(100), max_iter=3, **SETTINGS)


@pytest.fixture(scope="module")
def fitted(quantizer, digits):
    X, y = digits
    return clone(quantizer).fit(X[:1200], y[:1200])


def expected_error(probabilities, relevant, bins=15):
    """Mean difference between what scores say and what happens, over bins of equal mass."""
    order = np.argsort(probabilities, kind="stable")
    parts = np.array_split(order, bins)
    return sum(abs(probabilities[part].mean() - relevant[part].mean()) * len(part) for part in parts) / len(
        order
    )


def test_scores_of_the_first_answers_are_probabilities(fitted, digits):
    X, y = digits
    index = CodeIndex(fitted).add(X[:1200], y=y[:1200])
    scores, ids = index.search(X[1200:], k=50)
    relevant = y[ids] == y[1200:, None]
    assert expected_error(scores.ravel(), relevant.ravel()) < 0.05
    assert np.square(scores - relevant).mean() < relevant.mean() * (1 - relevant.mean())


def test_items_without_labels_are_ranked_by_label_too(fitted, digits):
    X, y = digits
    _, ids = CodeIndex(fitted).add(X[:1200]).search(X[1200:], k=50)
    assert (y[ids] == y[1200:, None]).mean() > 0.85


def test_calibration_does_not_depend_on_threads_and_survives_a_file(fitted, quantizer, digits, tmp_path):
    X, y = digits
    again = clone(quantizer).set_params(n_jobs=1).fit(X[:1200], y[:1200])
    np.testing.assert_array_equal(again.codec_.tables(X[1200:]), fitted.codec_.tables(X[1200:]))
    np.testing.assert_array_equal(again.codec_.codebooks, fitted.codec_.codebooks)
    fitted.save(tmp_path / "model")
    read = type(quantizer).load(tmp_path / "model")
    np.testing.assert_array_equal(read.codec_.tables(X[1200:]), fitted.codec_.tables(X[1200:]))
    np.testing.assert_array_equal(read.encode(X[1200:]), fitted.encode(X[1200:]))


def test_a_longer_code_starts_from_the_features_of_the_shorter_one(fitted, digits):
    X, y = digits
    longer = type(fitted)(4, init=fitted, max_iter=2, **SETTINGS).fit(X[:1200], y[:1200])
    assert longer.codec_.feature_map is fitted.codec_.feature_map
    assert longer.objective_[-1]["total"] <= fitted.objective_[-1]["total"] * (1 + 1e-9)
    np.testing.assert_allclose(longer.predict_proba(X[:5]).sum(axis=1), 1, rtol=1e-5)
