"""Labels spelled with a few words each: words are distinct if there are enough, and short codes keep them exactly."""

import numpy as np
import pytest
import scipy.sparse

from supquant import CodeIndex, SupervisedQuantizer, load_model
from supquant.inputs.labels import read_labels
from supquant.model.spelling import (
    MIN_PROBABILITY,
    MIN_PROBABILITY_ALL_LABELLED,
    Spelling,
    spell_labels,
)


@pytest.mark.parametrize(
    ("n_labels", "n_words", "length"),
    [
        (2, 7, 1),
        (7, 7, 1),
        (8, 7, 2),
        (49, 7, 2),
        (50, 7, 3),
        (3000, 224, 2),
        (64, 8, 2),  # more than the square of the largest prime
        (512, 8, 4),  # more than its third power: a fourth word
        (4, 2, 2),
        (65_536, 256, 2),
    ],
)
def test_every_label_has_words_of_its_own_and_as_few_as_possible(n_labels, n_words, length):
    words = spell_labels(n_labels, n_words, np.random.default_rng(0)).words
    assert words.shape == (n_labels, length)
    assert len(np.unique(words, axis=0)) == n_labels
    for place in range(length):
        within = words[:, place] - words[:, place].min()
        assert within.max() < n_words
        assert words[:, place].min() > words[:, :place].max(initial=-1)
        used = np.bincount(within)
        assert used.max() <= -(-n_labels // len(used)) + n_labels // len(used) // 4 + 1


def test_some_labels_share_a_spelling_if_words_are_too_few(rng):
    words = spell_labels(120, 7, rng, most=2).words
    assert words.shape == (120, 2)
    _, sharing = np.unique(words, axis=0, return_counts=True)
    assert len(sharing) == 49
    assert sharing.max() == 3


def test_labels_share_as_few_words_as_possible(rng):
    words = spell_labels(1000, 23, rng).words  # three words; the last digit is nearly always 0
    alike = (words[:, None] == words).sum(axis=2)[np.triu_indices(1000, 1)]
    assert words.shape[1] == 3
    assert alike.max() == 2
    by_chance = 3 / 23**2 * (22 / 23)
    assert (alike == 2).mean() < 1.3 * by_chance


def test_labels_and_certain_probabilities_have_the_same_vectors(rng):
    spelling = spell_labels(50, 8, rng)
    y = rng.integers(50, size=30)
    labels = read_labels(y, classes=np.arange(50))
    vectors = spelling.of_labels(labels, 5, 30)
    np.testing.assert_array_equal(vectors, spelling.of_probabilities(np.eye(50, dtype=np.float32)[y[5:]]))
    np.testing.assert_allclose(vectors.sum(axis=1), 1)


def test_unknown_labels_are_nan_and_added_labels_have_a_column():
    spelling = Spelling(np.array([[0, 2], [1, 2]], dtype=np.int32))
    labels = read_labels(["a", None, "c"], classes=np.array(["a", "b", "c"]), missing=True)
    np.testing.assert_array_equal(
        spelling.of_labels(labels, 0, 3), [[0.5, 0, 0.5, 0], [np.nan] * 4, [0, 0, 0, 1]]
    )
    several = read_labels(scipy.sparse.csr_array([[1, 1, 0], [0, 0, 1]]))
    np.testing.assert_array_equal(spelling.of_labels(several, 0, 2), [[0.5, 0.5, 0.5, 0], [0, 0, 0, 1]])


@pytest.fixture(scope="module")
def many():
    """Sixty Gaussian classes that hardly overlap, and a model whose codebooks have seven label words."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(60, 16)) * 2
    y = rng.integers(60, size=3000)
    X = (means[y] + rng.normal(size=(3000, 16))).astype(np.float32)
    names = np.array([f"class {c}" for c in range(60)])
    return X, names[y], SupervisedQuantizer(2, n_codewords=9, random_state=0).fit(X[:2400], names[y[:2400]])


def test_more_classes_than_codewords_keep_codes_of_their_own(many):
    X, y, model = many
    codes = model.encode(X, y)
    distinct, first = np.unique(codes, axis=0, return_index=True)
    assert len(distinct) == 60
    assert len(np.unique(y[first])) == 60
    for label in np.unique(y):
        assert len(np.unique(codes[y == label], axis=0)) == 1


def test_short_codes_of_many_classes_rank_as_stored_labels_do(many):
    X, y, model = many
    found = CodeIndex(model).add(X[:2400], y[:2400]).search(X[2400:], 10)[1]
    precision = (y[found] == y[2400:, None]).mean()
    p = model.predict_proba(X[2400:])
    assert p.shape == (600, 60)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    right = (model.classes_[p.argmax(axis=1)] == y[2400:]).mean()
    assert right > 0.9
    assert precision > right - 0.02


def test_a_model_with_spelled_labels_comes_back_from_its_file(many, tmp_path):
    X, y, model = many
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(X[:50], y[:50]), model.encode(X[:50], y[:50]))
    np.testing.assert_array_equal(loaded.predict_proba(X[:50]), model.predict_proba(X[:50]))


def test_words_count_by_their_probability(rng):
    spelling = spell_labels(40, 7, rng)
    s = spelling.of_probabilities(rng.dirichlet(np.full(40, 0.1), size=5).astype(np.float32))
    np.testing.assert_allclose(spelling.weights(0.1 * s), 0.1 * spelling.weights(s), rtol=1e-4)
    certain = spelling.of_labels(read_labels(np.arange(40)), 0, 40)
    np.testing.assert_allclose(spelling.weights(certain), 2 * certain, rtol=1e-6)


def test_less_likely_words_count_if_all_items_have_labels(many):
    X, _, model = many
    spelling = Spelling(np.array([[0, 2], [1, 3], [0, 4]], dtype=np.int32))
    s = spelling.of_probabilities(np.float32([[0.99, 0.01, 0]]))
    for least, unlikely_first in ((MIN_PROBABILITY, False), (MIN_PROBABILITY_ALL_LABELLED, True)):
        scores = spelling.weights(s, least)[:, spelling.words].sum(axis=2)[0]
        assert (scores[1] > scores[2]) == unlikely_first  # the third label shares a word with the likely one
    codec = model.codec_
    features = codec.query_features(X[:20], novelty=0.0)
    r = codec.map.spelling.n_columns
    for all_labelled, least in ((False, MIN_PROBABILITY), (True, MIN_PROBABILITY_ALL_LABELLED)):
        prepared = codec.prepare(features, all_labelled=all_labelled)
        np.testing.assert_allclose(prepared[:, :r], codec.map.spelling.weights(features[:, :r], least))
    told = codec.query_tables(X[:20], all_labelled=True).tables
    np.testing.assert_array_equal(told, codec.tables_of(prepared))


def test_added_labels_have_columns_after_the_spelled_ones(many):
    X, y, model = many
    rng = np.random.default_rng(1)
    place = rng.normal(size=16) * 2
    few, asking = (place + rng.normal(size=(rows, 16)).astype(np.float32) for rows in (20, 40))
    codec = model.codec_.extended(few, ["late"] * 20)
    p = codec.predict_proba(asking)
    assert p.shape == (40, 61)
    assert (p.argmax(axis=1) == 60).mean() > 0.5
    np.testing.assert_array_equal(codec.encode_items(X[:50], y[:50]), model.encode(X[:50], y[:50]))


def test_labels_share_codes_evenly_if_there_are_too_few_codes(many):
    X, y, _ = many
    model = SupervisedQuantizer(2, n_codewords=6, random_state=0).fit(
        X[:2400], y[:2400]
    )  # 25 pairs of label words
    codes = model.encode(X, y)
    assert all(len(np.unique(codes[y == label], axis=0)) == 1 for label in np.unique(y))
    assert len(np.unique(codes, axis=0)) == 25
    found = CodeIndex(model).add(X[:2400], y[:2400]).search(X[2400:], 10)[1]
    assert (y[found] == y[2400:, None]).mean() > 0.3  # two or three labels per code
