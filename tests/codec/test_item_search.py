"""Codes of items with labels, where every codebook has words of labels."""

import numpy as np
import pytest

from supquant import SupervisedQuantizer
from supquant.assignment import ItemSearch
from supquant.codec.item_search import LabelSearch, item_search
from supquant.codec.words import LABELLED, allowed_words
from supquant.labels import read_labels


@pytest.fixture(scope="module")
def many_classes():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(40), rng.integers(40, size=1160)])
    X = 2 * rng.normal(size=(40, 12))[y] + rng.normal(size=(1200, 12))
    return X.astype(np.float32), y


@pytest.fixture(scope="module", params=[None, 0.0])
def codec(many_classes, request):
    """Forty labels of two words each, in codes of two bytes."""
    model = SupervisedQuantizer(2, n_codewords=16, new_classes=request.param, random_state=0)
    return model.fit(*many_classes).codec_


def labelled_search(codec):
    return item_search(codec.codebooks, codec.words, codec._n_meaning, LABELLED, codec.weights[LABELLED])


def test_the_words_of_labels_are_the_codes_of_least_error(codec, many_classes):
    X, y = many_classes
    spelled = codec.map.spelling.of_labels(read_labels(y), 0, len(y))
    items = codec.item_vectors(codec.features(X), spelled)
    found = labelled_search(codec)
    assert isinstance(found, LabelSearch)
    searched = ItemSearch.of(
        codec.codebooks, codec._n_meaning, codec.weights[LABELLED], allowed_words(codec.words, LABELLED)
    )
    np.testing.assert_array_equal(found.search(items), searched.search(items))
    np.testing.assert_array_equal(codec.decode(found.search(items))[:, : codec._n_meaning - 1], spelled)


def test_an_item_has_the_same_code_among_any_others(codec, many_classes):
    X, y = many_classes
    labels = y.astype(object)
    labels[::3] = None
    mixed = codec.encode_items(X, labels)
    np.testing.assert_array_equal(mixed[labels != None], codec.encode_items(X, y)[labels != None])  # noqa: E711
    unlabelled = codec.encode_items(X)[::3]
    assert (mixed[::3] == unlabelled).all(axis=1).mean() > 0.99  # rounding depends on the number of rows


def test_an_item_with_an_added_label_is_searched(codec, many_classes):
    X, y = many_classes
    extended = codec.extended(X[:5] + 9, [40] * 5)
    codes = extended.encode_items(np.vstack([X[:20] + 9, X[:20]]), [40] * 20 + y[:20].tolist())
    np.testing.assert_array_equal(codes[20:], codec.encode_items(X[:20], y[:20]))
    assert len(np.unique(codes[:20], axis=0)) > 1 or codec.any_unlabelled(codes[:20])


def test_codes_with_a_position_are_searched(many_classes):
    codec = SupervisedQuantizer(3, n_codewords=16, random_state=0).fit(*many_classes).codec_
    assert isinstance(labelled_search(codec), ItemSearch)
    X, y = many_classes
    assert len(np.unique(codec.encode_items(X, y), axis=0)) > 40


def test_words_that_do_not_match_the_columns_are_searched(codec):
    words = codec.words.copy()
    words[1, np.flatnonzero(words[1])[-1]] = 0
    n = codec._n_meaning
    assert isinstance(item_search(codec.codebooks, words, n, LABELLED, codec.weights[0]), ItemSearch)
