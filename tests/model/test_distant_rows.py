"""Vectors that lie far from zero, and columns of unequal size: the model is as good as near zero, or says that it is not."""

import numpy as np
import pytest

from supquant import CodeIndex, SupervisedQuantizer, load_model


@pytest.fixture(scope="module")
def clouds():
    """Rows (900, 20) float64 in eight classes, and their class (900,)."""
    rng = np.random.default_rng(0)
    y = rng.integers(8, size=900)
    X = rng.normal(scale=1.5, size=(8, 20))[y] + rng.normal(size=(900, 20))
    return X, y


def fitted(X, y, **parameters):
    return SupervisedQuantizer(4, n_codewords=64, random_state=0, **parameters).fit(X[:600], y[:600])


def accuracy(quantizer, X, y):
    return float((quantizer.predict(X[600:]) == y[600:]).mean())


@pytest.mark.parametrize("offset", [1e3, 1e4, -1e5, 1e8])
def test_an_offset_does_not_change_what_is_learned(clouds, offset):
    X, y = clouds
    X = X + offset
    quantizer = fitted(X, y)
    assert accuracy(quantizer, X, y) > 0.95
    assert quantizer.summary_.warnings == ()
    index = CodeIndex(quantizer).add(X[:600])
    _, found = index.search(X[600:], k=5)
    assert (y[found] == y[600:, None]).mean() > 0.9
    one_by_one = np.concatenate([index.search(row[None], k=5)[1] for row in X[600:620]])
    assert np.array_equal(one_by_one, found[:20])
    products = quantizer.transform_queries(X[600:]) @ quantizer.transform(X[:600]).T
    assert (y[products.argmax(axis=1)] == y[600:]).mean() > 0.9


def test_whole_numbers_and_float32_far_from_zero_are_told_apart(clouds):
    X, y = clouds
    for far in ((1000 * X).astype(np.int64) + 10**9, (X + 1e4).astype(np.float32)):
        assert accuracy(fitted(far, y), far, y) > 0.95


def test_equal_rows_far_from_zero_are_learned(clouds):
    _, y = clouds
    X = np.full((900, 20), 1e12)
    assert len(np.unique(fitted(X, y).training_codes_, axis=0)) <= 8


def test_rows_near_zero_have_no_centre(clouds):
    X, y = clouds
    assert fitted(X + 10, y).codec_.centre is None


def test_a_file_keeps_the_centre(clouds, tmp_path):
    X, y = clouds
    quantizer = fitted(X + 1e6, y)
    quantizer.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X + 1e6), quantizer.predict_proba(X + 1e6))
    assert np.array_equal(loaded.encode(X + 1e6), quantizer.encode(X + 1e6))


def test_a_longer_code_and_new_classes_keep_the_centre(clouds):
    X, y = clouds
    X, known = X + 1e6, y < 7
    short = SupervisedQuantizer(2, n_codewords=64, random_state=0).fit(X[known], y[known])
    quantizer = SupervisedQuantizer(4, n_codewords=64, random_state=0, init=short).fit(X[known], y[known])
    assert np.array_equal(quantizer.codec_.centre, short.codec_.centre)
    new = np.flatnonzero(~known)
    quantizer.extend(X[new[:20]], y[new[:20]])
    assert (quantizer.predict(X[new[20:]]) == 7).mean() > 0.9
    assert (quantizer.predict(X[known]) == y[known]).mean() > 0.95
    assert quantizer.novelty(X[known]).mean() < 0.3
    assert (quantizer.discover(X) == -1).all()


def test_a_column_a_hundred_times_as_large_leaves_the_others_their_say(clouds):
    X, y = clouds
    scaled = X * np.where(np.arange(20) == 3, 100, 1)
    assert accuracy(fitted(scaled, y), scaled, y) > 0.95


def test_a_column_that_drowns_the_others_gives_a_warning(clouds):
    X, y = clouds
    X = X * np.where(np.arange(20) == 3, 1000, 1)
    assert "Divide every column by its standard deviation" in " ".join(fitted(X, y).summary_.warnings)
    assert fitted(X / X.std(axis=0), y).summary_.warnings == ()


def test_a_warning_is_given_if_queries_lose_digits(clouds, monkeypatch):
    X, y = clouds
    monkeypatch.setattr("supquant.model.quantizer.distant_centre", lambda rows: None)
    summary = fitted(X + 1e4, y).summary_
    assert summary.accuracy < 0.5
    assert any("plain linear classifier" in each for each in summary.warnings)


def test_a_plain_classifier_judges_vectors_of_more_columns_than_rows():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    X = rng.normal(size=(3, 900))[y] + 3 * rng.normal(size=(400, 900))
    summary = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y).summary_
    assert summary.plain_accuracy > 0.95
    assert summary.warnings == ()


def test_copies_of_rows_give_a_warning(clouds):
    X, y = clouds
    rows = np.random.default_rng(0).integers(60, size=600)
    (warning,) = fitted(X[rows], y[rows]).summary_.warnings
    assert "are copies of others" in warning


def test_a_label_that_is_recognised_in_no_row_gives_a_warning():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [1000, 3])
    X = rng.normal(size=(1003, 20)) + 3 * np.eye(20)[y]
    X[:, 5] *= 1e4
    summary = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y).summary_
    assert summary.unlearned == 0.5
    assert any("Of the rarest labels, 50% are recognised in none" in each for each in summary.warnings)


@pytest.mark.parametrize("n_rare", [3, 12])
def test_a_label_with_few_held_out_rows_gives_a_warning(n_rare):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [1000, n_rare, n_rare])
    X = rng.normal(size=(len(y), 20)) + 3 * np.eye(20)[y]
    summary = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, y).summary_
    assert summary.unjudged == pytest.approx(2 / 3)
    assert any("67% of the labels have too few to hold 4 out" in each for each in summary.warnings)
    assert not fitted(*balanced(rng)).summary_.warnings


def test_columns_of_very_different_scales_give_a_warning():
    rng = np.random.default_rng(0)
    X, y = balanced(rng)
    X = np.hstack([X, np.full((len(X), 6), 0.0029)])  # constant columns have no scale
    (warning,) = fitted(X * np.logspace(-2, 2, X.shape[1]), y).summary_.warnings
    assert warning.startswith("The standard deviations of columns differ ")
    assert fitted(X, y).summary_.spread < 5


def balanced(rng):
    """Rows of three classes that are far apart in every column."""
    y = np.arange(600) % 3
    return rng.normal(size=(600, 20)) + 3 * rng.normal(size=(3, 20))[y], y
