"""Codes of items with labels that have words of their own."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from supquant import SupervisedQuantizer
from supquant.assignment import ItemSearch
from supquant.inputs.labels import read_labels
from supquant.model.words import LABELLED, POSITION_WORD, LabelSearch, allowed_words, item_search


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
    widths = codec.map.spelling.n_columns, codec._n_meaning
    return item_search(codec.codebooks, codec.words, *widths, LABELLED, codec.weights[LABELLED])


def assert_labels_are_exact(codec, codes, spelled):
    """Check that codes (n, M) decode to spelled labels (n, r), and to no likeness."""
    meaning = codec.decode(codes)[:, : codec._n_meaning]
    np.testing.assert_array_equal(meaning[:, : spelled.shape[1]], spelled)
    np.testing.assert_array_equal(meaning[:, spelled.shape[1] :], 0)


def test_the_words_of_labels_are_the_codes_with_the_least_error(codec, many_classes):
    X, y = many_classes
    spelled, items = items_with_labels(codec, X, y)
    found = labelled_search(codec)
    assert isinstance(found, LabelSearch)
    searched = ItemSearch.of(
        codec.codebooks, codec._n_meaning, codec.weights[LABELLED], allowed_words(codec.words, LABELLED)
    )
    np.testing.assert_array_equal(found.search(items), searched.search(items))
    assert_labels_are_exact(codec, found.search(items), spelled)


def test_the_code_of_an_item_does_not_depend_on_its_batch(codec, many_classes):
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


@pytest.fixture(scope="module", params=[None, 0.0])
def with_position(many_classes, request):
    """Forty labels of two words each, in codes of four bytes, the last two of which say where an item lies."""
    model = SupervisedQuantizer(4, n_codewords=16, new_classes=request.param, random_state=0)
    codec = model.fit(*many_classes).codec_
    order = np.random.default_rng(0).permutation(16)  # position words need not be the first ones
    shuffled = (np.concatenate([each[:2], each[2:, order]]) for each in (codec.codebooks, codec.words))
    return replace(codec, **dict(zip(("codebooks", "words"), shuffled, strict=True)))


def items_with_labels(codec, X, y):
    spelled = codec.map.spelling.of_labels(read_labels(y), 0, len(y))
    return spelled, codec.item_vectors(codec.features(X), spelled)


def test_codes_with_a_position_hold_the_words_of_labels_and_the_nearest_words_of_position(
    with_position, many_classes
):
    codec, n = with_position, with_position._n_meaning
    spelled, items = items_with_labels(codec, *many_classes)
    codes = labelled_search(codec).search(items)
    assert_labels_are_exact(codec, codes, spelled)
    # Two codebooks are searched exactly: compare with every pair of position words.
    first, second = (np.flatnonzero(codec.words[m] == POSITION_WORD) for m in (2, 3))
    assert set(codes[:, 2]) <= set(first)
    assert set(codes[:, 3]) <= set(second)
    assert (len(np.unique(codes, axis=0)) > 40) == (len(first) > 1)
    pairs = (codec.codebooks[2, first][:, None] + codec.codebooks[3, second])[:, :, n:]
    of_labels = codec.codebooks[0, codes[:, 0]] + codec.codebooks[1, codes[:, 1]]
    left = (items - of_labels)[:, n:]
    errors = np.square(left[:, None, None] - pairs).sum(axis=3).min(axis=(1, 2))
    found = np.square((items - codec.decode(codes))[:, n:]).sum(axis=1)
    np.testing.assert_allclose(found, errors, rtol=1e-4)


def test_a_search_for_positions_starts_from_given_codes(with_position, many_classes):
    _, items = items_with_labels(with_position, *many_classes)
    search = labelled_search(with_position)
    codes = search.search(items)
    np.testing.assert_array_equal(search.search(items, codes), codes)
    standing = SimpleNamespace(search=lambda vectors, codes: codes)  # takes the codes that it starts from
    unmoved = replace(search, positions=replace(search.positions, search_=standing))
    other = codes[np.random.default_rng(0).permutation(len(codes))]
    np.testing.assert_array_equal(unmoved.search(items, other)[:, 2:], other[:, 2:])


def test_words_that_do_not_match_the_columns_are_searched(codec):
    words = codec.words.copy()
    words[1, np.flatnonzero(words[1])[-1]] = 0
    widths = codec.map.spelling.n_columns, codec._n_meaning
    assert isinstance(item_search(codec.codebooks, words, *widths, LABELLED, codec.weights[0]), ItemSearch)
