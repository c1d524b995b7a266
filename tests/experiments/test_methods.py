import numpy as np
import pytest

from supquant.datasets import load
from supquant.evaluation import split_rows
from supquant.experiments.methods import METHODS, Settings, Training, apply_steps
from supquant.labels import read_labels


@pytest.fixture(scope="module")
def training():
    data = load("digits").sample(600)
    return Training(data.prepare(data.X)(data.X), data.y, read_labels(data.y))


@pytest.fixture(scope="module")
def several_labels(training):
    y = np.stack([training.y % 2 == 0, training.y > 4, training.y < 3], axis=1).astype(np.uint8)
    y[y.sum(axis=1) == 0, 0] = 1
    return Training(training.X, y, read_labels(y))


def test_a_longer_code_starts_from_the_shorter_one_and_chains_are_fitted_once(training):
    stages = []
    method = METHODS["sq"](
        training, Settings(anchors=60, max_iter=1), lambda event: stages.append(event.step)
    )
    shorter = method.fitted(16)
    before = len(stages)
    longer = method.fitted(32)
    assert longer.quantizer.init is shorter.quantizer
    assert len(stages) > before
    assert method.fitted(16) is shorter
    assert longer.chain_seconds == pytest.approx(longer.fit_seconds + shorter.fit_seconds)


@pytest.mark.parametrize("name", ["pq", "sq"])
def test_steps_give_the_scores_of_tables(training, name):
    fitted = METHODS[name](training, Settings(anchors=60, max_iter=1)).fitted(16)
    codes = fitted.encoded(training.X[:50])
    queries = training.X[50:60]
    tables = fitted.quantizer.tables(queries)
    expected = tables[:, 0, codes[:, 0]] + tables[:, 1, codes[:, 1]]
    np.testing.assert_allclose(
        apply_steps(fitted.steps(codes, "euclidean"), queries), expected, rtol=1e-4, atol=1e-4
    )


def test_quantization_error_is_relative_to_the_variance(training):
    fitted = METHODS["pq"](training, Settings()).fitted(16)
    codes = fitted.encoded(training.X)
    error = np.square(training.X - fitted.quantizer.decode(codes)).sum()
    variance = np.square(training.X - training.X.mean(axis=0)).sum()
    assert fitted.quantization_error(training.X, codes) == pytest.approx(error / variance, rel=1e-4)


def test_classifier_is_least_squares_with_a_small_ridge_and_no_intercept(training):
    fitted = METHODS["classifier"](training, Settings(anchors=0)).fitted(16)
    X = training.X.astype(np.float64)
    ridge = 1e-6 * np.trace(X.T @ X) / 64
    W = np.linalg.solve(X.T @ X + ridge * np.eye(64), X.T @ training.labels.dense(0, len(X)))
    np.testing.assert_array_equal(fitted.encoded(training.X).indices, (X @ W).argmax(axis=1))
    scores = apply_steps(fitted.steps(fitted.learned(), "euclidean"), training.X[:5])
    np.testing.assert_allclose(scores, -(X[:5] @ W)[:, training.labels.indices], atol=1e-4)


def test_classifier_uses_the_anchors_of_sq(training):
    settings = Settings(anchors=60, max_iter=1, seed=4)
    classifier = METHODS["classifier"](training, settings).fitted(16)
    quantizer = METHODS["sq"](training, settings).fitted(16).quantizer
    np.testing.assert_array_equal(
        classifier.steps(training.labels, "euclidean")["features"](training.X[:9]),
        quantizer.codec_.features(training.X[:9]),
    )


def test_classifier_with_several_labels_stores_label_sets_or_scores(several_labels):
    fitted = METHODS["classifier"](several_labels, Settings(anchors=60)).fitted(16)
    learned, encoded = fitted.learned(), fitted.encoded(several_labels.X)
    assert fitted.bytes_per_item(learned) == 1
    assert fitted.distinct(learned) == len(np.unique(several_labels.y, axis=0))
    assert encoded.shape == (600, 3)
    assert fitted.bytes_per_item(encoded) == 12
    scores = apply_steps(fitted.steps(learned, "euclidean"), several_labels.X[:4])
    np.testing.assert_allclose(scores, -encoded[:4] @ several_labels.y.T, atol=1e-5)


def test_items_are_as_large_as_they_say(training):
    assert METHODS["euclidean"](training, Settings()).fitted(16).bytes_per_item(training.X) == 256
    classifier = METHODS["classifier"](training, Settings(anchors=60)).fitted(16)
    assert classifier.bytes_per_item(classifier.learned()) == 1


def test_halves_of_the_unlabelled_protocol_can_be_learned_from(training):
    split = split_rows(len(training.X), protocol="unlabelled")
    half = Training(
        training.X[split.training], training.y[split.training], training.labels.take(split.training)
    )
    fitted = METHODS["classifier"](half, Settings(anchors=60)).fitted(16)
    predicted = fitted.encoded(training.X[split.database])
    assert np.mean(predicted.indices == training.labels.take(split.database).indices) > 0.9
