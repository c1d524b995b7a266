"""Scores become probabilities: scaling, curves, and scores of rows that were left out."""

import numpy as np
import pytest
from scipy.special import expit, softmax
from supquant.published.fit import left_out_scores

from supquant import AnchorKernel, CodeIndex, LabelKernel, PublishedQuantizer, SupervisedQuantizer, kernels
from supquant.estimators import calibration
from supquant.estimators.calibration import fit_curve, fit_scaling
from supquant.inputs.labels import read_labels
from supquant.model import calibration as model_calibration
from supquant.parallel import single_blas
from supquant.published.projections import LearnedProjection
from supquant.published.training import Training


def test_a_temperature_is_found_again(rng):
    scores = rng.normal(size=(20_000, 5)).astype(np.float32)
    p = softmax(3.0 * scores, axis=1)
    y = (p.cumsum(axis=1) > rng.random((len(p), 1))).argmax(axis=1)
    scaling = fit_scaling(scores, read_labels(y))
    np.testing.assert_allclose(scaling[0], 3.0, rtol=0.05)
    np.testing.assert_array_equal(scaling[1], 0)


def test_every_one_of_several_labels_gets_its_own_line(rng):
    scores = rng.normal(size=(20_000, 3)).astype(np.float32)
    slopes, shifts = np.array([1.0, 2.0, 4.0]), np.array([-1.0, 0.0, 2.0])
    y = (rng.random(scores.shape) < expit(slopes * scores + shifts)).astype(int)
    scaling = fit_scaling(scores, read_labels(y))
    np.testing.assert_allclose(scaling, [slopes, shifts], rtol=0.1, atol=0.1)


def test_a_label_that_no_row_or_every_row_carries_gets_a_finite_line(rng):
    scores = rng.normal(size=(50, 3)).astype(np.float32)
    y = np.zeros((50, 3), dtype=int)
    y[:, 1] = 1
    y[:20, 0] = 1
    labels = read_labels(y, classes=np.arange(3), multilabel=True)
    scaling = fit_scaling(scores, labels)
    assert np.isfinite(scaling).all()
    assert scaling[1, 2] < -3 < 3 < scaling[1, 1]


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


def test_left_out_scores_are_those_of_a_projection_learned_without_the_row(clusters):
    X, y = clusters
    quantizer = PublishedQuantizer(
        2, n_codewords=8, features=AnchorKernel(20, random_state=0), max_iter=2, random_state=0
    ).fit(X, y)
    codec = quantizer.codec_
    with single_blas():
        training = Training(X, read_labels(y), codec.feature_map, 8, np.random.default_rng(0), 1)
        training.begin_from(codec, quantizer.training_codes_)
        rows = np.array([3, 77, 250])
        solver = training.start(1.0, 0.0, 1.0).solver()
        scores, kept = left_out_scores(codec, solver, X[rows], quantizer.training_codes_[rows])
    assert kept.all()
    phi = codec.features(X.astype(np.float32)).astype(np.float64)
    S, W = codec.decode(quantizer.training_codes_).astype(np.float64), codec.classifier
    ridge = LearnedProjection.ridge(training.moments) * np.eye(phi.shape[1])
    for row, found in zip(rows, scores, strict=True):
        others = np.delete(np.arange(len(X)), row)
        P = np.linalg.solve(phi[others].T @ phi[others] + ridge, phi[others].T @ S[others])
        np.testing.assert_allclose(found, phi[row] @ P @ W, rtol=1e-3, atol=1e-4)
        assert not np.allclose(found, codec.decision_function(X[[row]])[0], rtol=1e-3, atol=1e-4)


# the estimator ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["labels", "published"])
def features(request):
    return LabelKernel(100) if request.param == "labels" else AnchorKernel(100)


@pytest.fixture(scope="module")
def fitted(features, digits):
    X, y = digits
    return SupervisedQuantizer(2, n_codewords=32, features=features, max_iter=3, random_state=0).fit(
        X[:1200], y[:1200]
    )


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


def test_the_curve_is_fitted_to_the_first_answers_of_held_out_queries(digits, monkeypatch):
    X, y = digits[0][:400], digits[1][:400]
    seen = []
    monkeypatch.setattr(
        model_calibration, "fit_curve", lambda *pairs: seen.append(pairs) or np.float32([[0, 1], [0, 1]])
    )
    kernel = LabelKernel(50, random_state=0)
    quantizer = SupervisedQuantizer(2, n_codewords=16, features=kernel, max_iter=1, random_state=0).fit(X, y)
    held, _ = kernel.learn(X, read_labels(y))
    products, relevant = seen[0]  # among items with labels; the others are for items without
    codec = quantizer.codec_
    outputs = np.column_stack([held.held_logits, np.zeros(len(held.held_logits), np.float32)])
    features = codec.map.from_logits(outputs, X[held.held_rows].astype(np.float32))
    features[:, codec.map.n_labels] = 0  # items all have labels: nothing is new
    sums = -kernels.active().table_sums(quantizer.training_codes_, codec.tables_of(codec.prepare(features)))
    first = np.sort(sums, axis=1)[:, -calibration.ANSWERS :]
    np.testing.assert_allclose(np.sort(products[:, : calibration.ANSWERS], axis=1), first, atol=1e-5)
    # labels are those of the answers: rows that look like the query, and rows from everywhere
    assert relevant[:, : calibration.ANSWERS].mean() > 2 * relevant[:, calibration.ANSWERS :].mean()
    base = (y[held.held_rows][:, None] == y).mean()
    assert relevant[:, calibration.ANSWERS :].mean() == pytest.approx(base, abs=0.03)


def test_of_equal_scores_the_first_answers_are_no_single_class():
    labels = read_labels(np.repeat([0, 1], 500))  # rows in order of their class, all with the same code
    codes, tables = np.zeros((1000, 2), dtype=np.uint8), np.zeros((2, 2, 4), dtype=np.float32)
    products, relevant = calibration.first_answers(tables, read_labels([0, 1]), codes, labels)
    assert products.shape == relevant.shape == (2, 2 * calibration.ANSWERS)
    first = relevant[:, : calibration.ANSWERS]
    assert 0.25 < first[0].mean() < 0.75
    np.testing.assert_array_equal(first[0], ~first[1])


def test_items_without_labels_are_ranked_by_meaning_as_well(fitted, digits):
    X, y = digits
    _, ids = CodeIndex(fitted).add(X[:1200]).search(X[1200:], k=50)
    assert (y[ids] == y[1200:, None]).mean() > 0.85


def test_meaning_does_not_depend_on_threads_and_survives_a_file(fitted, digits, features, tmp_path):
    X, y = digits
    again = SupervisedQuantizer(
        2, n_codewords=32, features=features, max_iter=3, random_state=0, n_jobs=1
    ).fit(X[:1200], y[:1200])
    np.testing.assert_array_equal(again.codec_.tables(X[1200:]), fitted.codec_.tables(X[1200:]))
    np.testing.assert_array_equal(again.codec_.codebooks, fitted.codec_.codebooks)
    fitted.save(tmp_path / "model")
    read = SupervisedQuantizer.load(tmp_path / "model")
    np.testing.assert_array_equal(read.codec_.tables(X[1200:]), fitted.codec_.tables(X[1200:]))
    np.testing.assert_array_equal(read.encode(X[1200:]), fitted.encode(X[1200:]))


def test_a_longer_code_starts_from_the_features_of_the_shorter_one(fitted, digits):
    X, y = digits
    longer = SupervisedQuantizer(4, n_codewords=32, init=fitted, max_iter=2, random_state=0).fit(
        X[:1200], y[:1200]
    )
    assert longer.codec_.feature_map is fitted.codec_.feature_map
    assert longer.objective_[-1]["total"] <= fitted.objective_[-1]["total"] * (1 + 1e-9)
    np.testing.assert_allclose(longer.predict_proba(X[:5]).sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_a_share_of_new_classes_outside_its_range_is_refused(digits, share):
    with pytest.raises(ValueError, match="new_classes must be"):
        SupervisedQuantizer(2, new_classes=share).fit(*digits)
