"""Fits to many labels: their memory, and labels that are rare, strange or nearly as many as the rows."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from supquant import CodeIndex, SupervisedQuantizer
from supquant.inputs.labels import read_labels
from supquant.model import feature_map, features, label_kernel


def drawn(n_rows, n_labels, dimensions=16, seed=0):
    rng = np.random.default_rng(seed)
    means = 2 * rng.normal(size=(n_labels, dimensions))
    y = np.concatenate([np.arange(n_labels), rng.integers(n_labels, size=n_rows - n_labels)])
    rng.shuffle(y)
    return (means[y] + rng.normal(size=(n_rows, dimensions))).astype(np.float32), y


def peak_of_fit(X, y):
    model = SupervisedQuantizer(2, n_codewords=64, random_state=0, n_jobs=1)
    tracemalloc.start()
    try:
        model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_rows_times_labels(monkeypatch):
    monkeypatch.setattr(
        feature_map, "BLOCK_SCORES", 1 << 20
    )  # as few rows at a time as with many more labels
    monkeypatch.setattr(label_kernel, "MAX_HELD_SCORES", 1 << 20)
    monkeypatch.setattr(label_kernel, "MAX_ANCHORED_LABELS", 0)  # weights of anchors are another matter
    monkeypatch.setattr(features, "FEATURE_BYTES", 1 << 20)
    few, many = (peak_of_fit(*drawn(5000, n_labels)) for n_labels in (300, 3000))
    assert many - few < 5000 * 2700 * 4 / 2  # half of one float32 per row and additional label
    more_rows = peak_of_fit(*drawn(10_000, 3000))
    assert more_rows - many < 5000 * 3000 * 4 / 2


def test_several_labels_per_row_stay_sparse(monkeypatch):
    monkeypatch.setattr(feature_map, "BLOCK_SCORES", 1 << 20)
    monkeypatch.setattr(label_kernel, "MAX_HELD_SCORES", 1 << 20)
    rng = np.random.default_rng(0)
    n, L = 4000, 1000
    rows = np.repeat(np.arange(n), 2)
    labels = np.concatenate([np.tile(np.arange(L), 4), rng.integers(L, size=n)])
    Y = scipy.sparse.csr_array((np.ones(2 * n, dtype=bool), (rows, labels)), shape=(n, L))
    X = (Y @ (2 * rng.normal(size=(L, 32)))).astype(np.float32) + rng.normal(size=(n, 32)).astype(np.float32)
    model = SupervisedQuantizer(4, n_codewords=64, random_state=0)
    tracemalloc.start()
    try:
        model.fit(X, Y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6
    found = CodeIndex(model).add(X[:3000], Y[:3000]).search(X[3000:3200], 10)[1]
    shared = np.stack([(Y[[3000 + i]] @ Y[ids].T).toarray()[0] > 0 for i, ids in enumerate(found)])
    assert shared.mean() > 20 * 4 / L  # twenty times better than chance


def test_with_one_column_per_label_answers_are_those_of_one_hot_labels():
    X, y = drawn(2000, 40)
    model = SupervisedQuantizer(2, n_codewords=64, random_state=0, new_classes=0).fit(X, y)
    codec = model.codec_
    labels = read_labels(y)
    spelling = codec.map.spelling
    assert spelling.n_columns == 40
    np.testing.assert_array_equal(spelling.of_labels(labels, 0, 2000), labels.dense(0, 2000))
    features = codec.query_features(X[:50])
    np.testing.assert_array_equal(codec.prepare(features)[:, :40], codec.predict_proba(X[:50]))
    np.testing.assert_array_equal(codec.decode(model.encode(X, y))[:, :40], labels.dense(0, 2000))


@pytest.fixture(scope="module")
def nearly_one_row_a_class():
    X, y = drawn(700, 420)
    names = np.array([f"the class of number {c} " + "and so on " * (c % 9) for c in range(420)])
    return X, names[y], SupervisedQuantizer(2, random_state=0).fit(X, names[y])


def test_single_row_classes_with_long_names_have_codes_of_their_own(nearly_one_row_a_class):
    X, y, model = nearly_one_row_a_class
    assert (np.unique(y, return_counts=True)[1] == 1).sum() > 100
    codes = model.encode(X, y)
    _, first = np.unique(codes, axis=0, return_index=True)
    assert len(np.unique(y[first])) == len(first) == 420
    assert model.classes_.tolist() == sorted(set(y))


def test_rows_of_single_row_classes_find_themselves(nearly_one_row_a_class):
    X, y, model = nearly_one_row_a_class
    p = model.predict_proba(X)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-4)
    found = CodeIndex(model).add(X, y).search(X, 1)[1][:, 0]
    assert (y[found] == model.predict(X)).mean() > 0.95
    assert (y[found] == y).mean() > 0.7


def test_a_class_for_every_row_is_no_error():
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    model = SupervisedQuantizer(2, random_state=0).fit(X, np.arange(300))
    assert np.isfinite(model.predict_proba(X)).all()
    assert len(np.unique(model.encode(X, np.arange(300)), axis=0)) == 300


def test_predictions_of_many_classes_are_made_in_blocks(monkeypatch):
    X, y = drawn(900, 300)
    model = SupervisedQuantizer(2, random_state=0).fit(X, y)
    whole = model.predict(X)
    monkeypatch.setattr("supquant.estimators.base.BLOCK_SCORES", 300 * 7)
    np.testing.assert_array_equal(model.predict(X), whole)
    assert (whole == y).mean() > 0.9
