"""The classifier baselines are compared with scikit-learn and with definitions."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, CodeIndex
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import ClassifierBits, ClassifierLabels


@parametrize_with_checks([ClassifierLabels(features=None)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_scores_are_those_of_least_squares_with_a_ridge_and_no_intercept(digits):
    X, y = digits
    model = ClassifierLabels(ridge=1e-3, features=None).fit(X, y)
    delta = 1e-3 * np.square(X, dtype=np.float64).sum() / X.shape[1]
    expected = Ridge(delta, fit_intercept=False).fit(X.astype(np.float64), np.eye(10)[y])
    np.testing.assert_allclose(model.decision_function(X), expected.predict(X), atol=1e-4)
    np.testing.assert_array_equal(model.transform(X), model.decision_function(X))


def test_no_other_weights_have_a_lower_error(clusters, rng):
    """The objective is compared with that of many weights around the solution."""
    X, y = clusters
    Y = np.eye(3)[y]
    model = ClassifierLabels(features=None).fit(X, y)
    delta = 1e-6 * np.square(X, dtype=np.float64).sum() / X.shape[1]
    W = model.codec_.projection.astype(np.float64)

    def error(weights):
        return np.square(Y - X @ weights).sum() + delta * np.square(weights).sum()

    assert all(error(W + 1e-2 * rng.normal(size=W.shape)) > error(W) for _ in range(100))


def test_an_item_is_its_label_and_a_query_ranks_labels_by_its_scores(digits):
    X, y = digits
    model = ClassifierLabels(features=AnchorKernel(100), random_state=0).fit(X[:1000], y[:1000])
    np.testing.assert_array_equal(model.training_codes_[:, 0], y[:1000])
    np.testing.assert_array_equal(model.encode(X[1000:], y[1000:])[:, 0], y[1000:])
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.encode(X)[:, 0], scores.argmax(axis=1))
    expected = np.argsort(-scores[:5][:, y[:1000]], axis=1, kind="stable")
    np.testing.assert_array_equal(model.rank(X[:5], model.training_codes_), expected)


def test_an_index_scores_items_by_their_labels_highest_first(digits):
    X, y = digits
    model = ClassifierLabels(random_state=0).fit(X[:1000], y[:1000])
    index = CodeIndex(model).add(X[1000:], y[1000:])
    found, ids = index.search(X[:3], k=50)
    scores = model.decision_function(X[:3])
    np.testing.assert_allclose(found, np.take_along_axis(scores, y[1000:][ids], axis=1), rtol=1e-5, atol=1e-6)
    assert (np.diff(found, axis=1) <= 0).all()


def test_labels_and_bits_of_scores_come_close_to_perfect_and_few_bits_stay_behind(digits):
    X, y = digits
    labels = read_labels(y)
    rows = np.random.default_rng(0).permutation(len(X))  # the last digits are by other writers
    train, queries = rows[:1400], rows[1400:]

    def quality(model):
        codes, tables = model.fit(X[train], y[train]).training_codes_, model.codec_.tables(X[queries])
        return evaluate_tables(tables, codes, labels.take(queries), labels.take(train)).map

    stored = quality(ClassifierLabels(features=AnchorKernel(200), random_state=0))
    few, many = (quality(ClassifierBits(n, features=AnchorKernel(200), random_state=0)) for n in (8, 64))
    assert min(stored, many) > 0.95
    assert few < stored - 0.05


def test_several_labels_are_a_bit_each(several_labels):
    X, Y = several_labels
    model = ClassifierLabels(features=AnchorKernel(60), random_state=0).fit(X, Y)
    assert model.training_codes_.shape == (300, 1)
    np.testing.assert_array_equal(model.decode(model.training_codes_), Y)
    scores = model.decision_function(X)
    decoded = model.decode(model.encode(X)).astype(bool)
    expected = scores > 0.5
    expected[np.arange(300), scores.argmax(axis=1)] = True
    np.testing.assert_array_equal(decoded, expected)
    sums = model.codec_.tables(X[:4])[:, 0, model.training_codes_[:, 0]]
    np.testing.assert_allclose(sums, -(scores[:4] @ Y.T), atol=1e-5)


@pytest.mark.parametrize("n_labels", [2, 3, 255, 256, 257, 600])
def test_class_numbers_of_any_size_are_distinguished(n_labels, rng):
    y = np.concatenate([np.arange(n_labels), rng.integers(n_labels, size=100)])
    X = rng.normal(size=(len(y), 5))
    model = ClassifierLabels(features=None).fit(X, y)
    codes = model.training_codes_
    assert codes.shape[1] == (1 if n_labels <= 256 else -(-n_labels // 255))
    np.testing.assert_array_equal(model.decode(codes).argmax(axis=1), y)
    np.testing.assert_array_equal(model.decode(codes).sum(axis=1), 1)
    scores = model.decision_function(X[:7])
    tables = model.codec_.tables(X[:7])
    sums = sum(tables[:, m, codes[:, m]] for m in range(codes.shape[1]))
    np.testing.assert_allclose(sums, -scores[:, y], atol=1e-5)


def test_a_saved_model_scores_as_before(digits, tmp_path):
    X, y = digits
    names = np.array(["nought", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
    model = ClassifierLabels(random_state=0).fit(X, names[y])
    model.save(tmp_path / "model")
    loaded = ClassifierLabels.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.codec_.tables(X[:9]), model.codec_.tables(X[:9]))
    np.testing.assert_array_equal(loaded.encode(X), model.encode(X))
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


def test_bits_of_labels_are_signs_of_random_projections_around_the_mean(clusters):
    X, y = clusters
    model = ClassifierBits(16, features=None, random_state=0).fit(X, y)
    directions = np.random.default_rng(0).normal(size=(3, 16))
    Y = np.eye(3)[y]
    np.testing.assert_array_equal(
        model.training_codes_, np.packbits((Y - Y.mean(axis=0)) @ directions > 0, axis=1)
    )
    scores = ClassifierLabels(features=None).fit(X, y).decision_function(X).astype(np.float64)
    margins = (scores - scores.mean(axis=0)) @ directions
    safe = np.abs(margins) > 1e-4
    np.testing.assert_array_equal((model.transform(X) > 0)[safe], (margins > 0)[safe])


def test_bad_input_is_refused(clusters):
    X, y = clusters
    for model in (ClassifierLabels(ridge=0.0), ClassifierBits(ridge=-1.0)):
        with pytest.raises(InputError, match="ridge"):
            model.fit(X, y)
    with pytest.raises(InputError, match="features"):
        ClassifierLabels(features="raw").fit(X, y)
    model = ClassifierLabels(features=None).fit(X, y)
    with pytest.raises(InputError, match="unknown label"):
        model.encode(X, np.full(300, 9))
    with pytest.raises(InputError, match="codes must lie"):
        model.decode([[3]])
    with pytest.raises(InputError, match="ranking"):
        model.codec_.tables(X, "hamming")
    many = np.arange(70000) % 66000
    with pytest.raises(InputError, match="at most"):
        ClassifierLabels(features=None).fit(np.ones((70000, 1)), many)
