"""Codes of meaning and position: scores, items with and without labels, files."""

import copy
import pickle

import numpy as np
import pytest

from supquant import CodeIndex, SupervisedQuantizer, load_model
from supquant.codec.registry import load_codec
from supquant.errors import InputError
from supquant.model.codec import SupervisedCodec
from supquant.model.vectors import FeatureParts, item_novelty, item_positions
from supquant.model.words import LABEL_WORD


@pytest.fixture(scope="module")
def fitted(digits):
    X, y = digits
    kept = np.flatnonzero(y[:1200] < 8)  # two digits are new
    return SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[kept], y[kept])


def test_a_score_is_the_product_with_the_decoded_vector(fitted, digits):
    X, y = digits
    codec = fitted.codec_
    labels = [None if label > 7 else label for label in y[1200:1300].tolist()]
    codes = codec.encode_items(X[1200:1300], labels)
    for ranking in codec.rankings:
        vectors = codec.prepare(codec.features(X[1300:1308].astype(np.float32)), ranking)
        tables = codec.tables(X[1300:1308], ranking)
        sums = tables[:, np.arange(4), codes].sum(axis=2)
        np.testing.assert_allclose(-sums, vectors @ codec.decode(codes).T, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("more_labels", [False, True])
def test_a_query_gives_the_same_bits_alone_and_in_a_batch(fitted, digits, more_labels):
    X, y = digits
    codec = fitted.codec_
    if more_labels:
        codec = codec.extended(X[y > 7][:20], y[y > 7][:20])
    whole = codec.query_tables(X[1200:1400])
    for row in (0, 1, 2, 100, 127, 128, 199):
        alone = codec.query_tables(X[1200 + row : 1201 + row], n_jobs=1)
        np.testing.assert_array_equal(alone.tables[0], whole.tables[row], strict=True)
        assert alone.curve_of[0] == whole.curve_of[row]


@pytest.mark.parametrize("ranking", ["label", "position"])
@pytest.mark.parametrize("given", [{}, {"all_labelled": True}, {"novelty": 0.4}])
def test_tables_in_one_call_are_those_of_the_steps(fitted, digits, ranking, given):
    X = digits[0][1200:1330].astype(np.float32)
    codec = fitted.codec_
    made = codec.query_tables(X, ranking, **given)
    all_labelled = given.get("all_labelled", False)
    features = codec.query_features(X, novelty=given.get("novelty", 0.0 if all_labelled else None))
    steps = codec.tables_of(codec.prepare(features, ranking, all_labelled=all_labelled), ranking)
    np.testing.assert_array_equal(made.tables, steps, strict=True)
    if ranking == "label":
        curve_of = codec.curves_of(features, all_labelled=all_labelled)
        np.testing.assert_array_equal(made.curve_of, curve_of, strict=True)
        assert len(np.unique(curve_of)) > 1 or given


def test_a_codec_that_made_tables_can_be_copied(fitted, digits):
    X = digits[0][1200:1202]
    want = fitted.codec_.query_tables(X).tables
    for twin in (copy.deepcopy(fitted.codec_), pickle.loads(pickle.dumps(fitted.codec_))):
        np.testing.assert_array_equal(twin.query_tables(X).tables, want, strict=True)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_queries_that_are_not_finite_are_refused(fitted, digits, wrong):
    Q = digits[0][:3].astype(np.float32)
    Q[1, 5] = wrong
    with pytest.raises(InputError, match=r"Input Q contains .* \(first in row 1\)"):
        fitted.codec_.query_tables(Q)


def test_codewords_are_kept_in_half_precision(fitted):
    codebooks = fitted.codec_.codebooks
    np.testing.assert_array_equal(codebooks.astype(np.float16).astype(np.float32), codebooks)
    assert len(fitted.codec_._packed_codebooks.halves)


def test_items_with_labels_hold_them_and_the_position_of_items_without(fitted, digits):
    X, y = digits
    codec = fitted.codec_
    features = codec.features(X[:20].astype(np.float32))
    Y = np.eye(8)[np.minimum(y[:20], 7)]
    Y[::2] = np.nan
    with_labels, without = codec.item_vectors(features, Y), codec.item_vectors(features)
    place = 8 + codec.map.n_likeness
    np.testing.assert_array_equal(with_labels[1::2, :8], Y[1::2])
    np.testing.assert_array_equal(with_labels[1::2, 8:place], 0)
    np.testing.assert_array_equal(with_labels[::2], without[::2])
    for each in (with_labels, without):
        z = item_positions(each, codec.map)
        np.testing.assert_allclose(z, FeatureParts.of(features, codec.map).z, rtol=1e-3, atol=1e-5)


def test_items_without_labels_hold_probabilities_and_likeness_by_how_new_they_look(fitted, digits):
    codec = fitted.codec_
    parts = FeatureParts.of(codec.features(digits[0][1200:1300]), codec.map)
    m, E, z = np.split(codec.transform(digits[0][1200:1300]), [8, 8 + codec.map.n_likeness], axis=1)
    assert 0 < parts.u.min() + 1e-6 < 0.3 < parts.u.max()
    np.testing.assert_allclose(m, (1 - parts.u) * parts.s, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(E, parts.u * parts.likeness, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(z, (1 + codec.map.stretch * parts.u) * parts.z, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(item_novelty(m, codec.map), parts.u, atol=1e-5)


@pytest.mark.parametrize("all_labelled", [False, True])
def test_without_new_classes_items_are_ordered_by_label_and_then_by_cosine(fitted, digits, all_labelled):
    X, _ = digits
    codec = fitted.codec_
    features = codec.features(X[1300:1310].astype(np.float32))
    features[:, 8] = 0
    query = codec.prepare(features, all_labelled=all_labelled)
    place = 8 + codec.map.n_likeness
    np.testing.assert_allclose(query[:, :8], features[:, :8])
    np.testing.assert_array_equal(query[:, 8:place], 0)
    weight = 0.01 if all_labelled else 0.05
    np.testing.assert_allclose(
        query[:, place:], weight * codec.prepare(features, "position")[:, place:], rtol=1e-6
    )


def test_an_item_keeps_its_label_exactly_and_differs_from_one_without(fitted, digits):
    X, y = digits
    codec = fitted.codec_
    own = np.flatnonzero(y[1200:] < 8) + 1200
    codes = codec.encode_items(X[own], y[own])
    n_meaning = 8 + codec.map.n_likeness
    np.testing.assert_array_equal(codec.decode(codes)[:, :n_meaning], np.eye(n_meaning)[y[own]])
    assert not codec.any_unlabelled(codes)
    assert codec.any_unlabelled(codec.encode_items(X[own]))


@pytest.mark.parametrize("several", [True, False])
def test_without_label_words_the_first_word_shows_whether_the_label_is_known(digits, several):
    X, y = digits[0][:600], digits[1][:600]
    labels = np.column_stack([np.eye(10)[y], y % 2]) if several else y + 10 * (np.arange(600) % 3)
    n_codewords = (
        32 if several else 2
    )  # two words of two places spell too few labels, even if labels share them
    codec = SupervisedQuantizer(2, n_codewords=n_codewords, random_state=0).fit(X, labels).codec_
    assert (codec.words != LABEL_WORD).all()
    codes = codec.encode_items(X[:200], labels[:200])
    assert not codec.any_unlabelled(codes)
    for each in codec.encode_items(X[:200]):
        assert codec.any_unlabelled(each[None])
    index = CodeIndex(codec).add(X[:200], labels[:200])
    expected = index.search(X[200:210], k=5, novelty=0)
    np.testing.assert_array_equal(index.search(X[200:210], k=5)[1], expected[1])


def test_within_a_class_the_nearest_vectors_come_first(digits):
    X, y = digits
    quantizer = SupervisedQuantizer(8, n_codewords=64, new_classes=0.2, random_state=0).fit(
        X[:1500], y[:1500]
    )
    codec = quantizer.codec_
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    query = codec.query_vectors(X[1500:1600], novelty=0.0)
    scores = query @ codec.decode(quantizer.training_codes_).T
    found = []
    for row, label in enumerate(y[1500:1600]):
        own = np.flatnonzero(y[:1500] == label)
        near = own[np.argsort(-(unit[own] @ unit[1500 + row]))[:10]]
        first = own[np.argsort(-scores[row, own], kind="stable")[:10]]
        found.append(len(np.intersect1d(near, first)) / 10)
    assert np.mean(found) > 0.6


def test_rows_without_labels_teach_what_is_new(digits):
    X, y = digits
    partly = np.where((y[:1500] > 6) | (np.arange(1500) % 2 == 0), np.nan, y[:1500])
    quantizer = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[:1500], partly)
    new = y[1500:] > 6
    u = quantizer.novelty(X[1500:])
    assert quantizer.codec_.map.clusters is not None
    assert quantizer.codec_.map.novelty[1] > 0  # clusterings count
    assert u[new].mean() > 0.8
    assert u[~new].mean() < 0.25


@pytest.fixture(scope="module")
def partly_labelled(digits):
    """A model of digits of which three have no label, an index of the rows without labels, and the digits of these rows."""
    X, y = digits
    partly = np.where((y[:1200] > 6) | (np.arange(1200) % 2 == 0), np.nan, y[:1200])
    quantizer = SupervisedQuantizer(4, n_codewords=64, random_state=0).fit(X[:1200], partly)
    unlabelled = np.flatnonzero(np.isnan(partly))
    return quantizer, CodeIndex(quantizer).add(X[unlabelled]), y[unlabelled]


@pytest.mark.parametrize("which", ["known", "new"])
def test_scores_among_items_without_labels_are_probabilities(partly_labelled, digits, which):
    X, y = digits
    _, index, y_items = partly_labelled
    asking = np.flatnonzero((y[1200:] > 6) == (which == "new")) + 1200
    scores, ids = index.search(X[asking], 20)
    assert abs(scores.mean() - (y_items[ids] == y[asking, None]).mean()) < 0.12


def test_a_range_among_items_without_labels_holds_all_of_at_least_that_probability(partly_labelled, digits):
    X, index = digits[0][1200:], partly_labelled[1]
    limits, found, _ = index.range_search(X, 0.5)
    assert (found >= 0.5).all()
    every = np.concatenate([each for each, _ in index.rank(X)])
    np.testing.assert_array_equal(np.diff(limits), (every >= 0.5).sum(axis=1))


def test_new_classes_look_new(fitted, digits):
    X, y = digits
    new = y[1200:] > 7
    u = fitted.novelty(X[1200:])
    order = np.argsort(u)
    ranks = np.empty(len(u))
    ranks[order] = np.arange(len(u))
    area = (ranks[new].mean() - (new.sum() - 1) / 2) / (~new).sum()
    assert area > 0.9
    assert u[new].mean() > 0.5 > 2 * u[~new].mean()


def test_new_digits_without_any_label_are_found(digits):
    X, y = digits
    partly = [
        None if label > 7 else label for label in y[:1200].tolist()
    ]  # codebooks and the fraction of new rows are learned from these rows
    fitted = SupervisedQuantizer(8, n_codewords=32, random_state=0).fit(X[:1200], partly)
    items, queries = slice(0, 1200), np.flatnonzero(y[1200:] > 7) + 1200
    index = CodeIndex(fitted).add(X[items])
    _, ids = index.search(X[queries], k=10)
    found = (y[ids] == y[queries][:, None]).mean()
    _, ids = index.search(X[queries], k=10, novelty=0)
    assert found > 0.8
    assert found > (y[ids] == y[queries][:, None]).mean() + 0.1


def test_nothing_is_new_if_no_new_classes_are_expected(digits):
    X, y = digits
    fitted = SupervisedQuantizer(2, n_codewords=16, new_classes=0, random_state=0).fit(X[:600], y[:600])
    np.testing.assert_array_equal(fitted.novelty(X), 0)


def test_no_query_is_new_to_an_index_whose_items_all_have_labels(fitted, digits):
    X, y = digits
    kept = y < 8
    index = CodeIndex(fitted).add(X[kept][:500], y[kept][:500])
    scores, ids = index.search(X[1200:1300], k=5)
    expected = index.search(X[1200:1300], k=5, novelty=0)
    np.testing.assert_array_equal(ids, expected[1])
    np.testing.assert_array_equal(scores, expected[0])
    index.add(X[1000:1100])
    assert not np.array_equal(
        index.search(X[1200:1300], k=5, novelty=0)[1], index.search(X[1200:1300], k=5)[1]
    )


def test_novelty_can_be_given_for_each_query(fitted, digits):
    X, _ = digits
    index = CodeIndex(fitted).add(X[:300])
    both = index.search(X[1200:1202], k=5, novelty=[0, 1])[1]
    np.testing.assert_array_equal(index.search(X[1200:1202], k=5, novelty=np.array([0.0, 1.0]))[1], both)
    np.testing.assert_array_equal(both[0], index.search(X[1200:1201], k=5, novelty=0)[1][0])
    np.testing.assert_array_equal(both[1], index.search(X[1201:1202], k=5, novelty=1)[1][0])
    for wrong in (1.5, -0.1, [0, 1, 0], np.nan):
        with pytest.raises(InputError, match="novelty must be a probability"):
            index.search(X[1200:1202], novelty=wrong)


def test_the_ranking_by_position_finds_the_nearest_vectors(digits):
    X, y = digits
    fitted = SupervisedQuantizer(16, n_codewords=64, random_state=0).fit(X[:1200], y[:1200])
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    nearest = np.argsort(-(units[1200:1300] @ units[:1200].T), axis=1)[:, :10]
    for labels in (None, y[:1200]):
        _, ids = CodeIndex(fitted).add(X[:1200], labels).search(X[1200:1300], k=10, ranking="position")
        recall = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(nearest, ids, strict=True)])
        assert recall > 0.7


def test_masked_values_do_not_matter(digits):
    X, y = digits[0][:500], digits[1][:500]
    mask = np.arange(500) % 3 == 0
    codes = []
    for hidden in (0, 77):
        masked = np.ma.masked_array(np.where(mask, hidden, y), mask)
        fitted = SupervisedQuantizer(2, n_codewords=16, random_state=0).fit(X, masked)
        assert fitted.n_unlabelled_ == mask.sum()
        codes.append(fitted.training_codes_)
    np.testing.assert_array_equal(*codes)
    marked = SupervisedQuantizer(2, n_codewords=16, random_state=0, missing_label=-1).fit(
        X, np.where(mask, -1, y)
    )
    np.testing.assert_array_equal(marked.training_codes_, codes[0])
    np.testing.assert_array_equal(marked.encode(X[:9], np.where(mask, -1, y)[:9]), codes[0][:9])


def test_more_classes_than_codewords_and_a_class_of_one_row(digits):
    X, y = digits[0][:400], np.arange(400) % 40
    y[0] = 40
    fitted = SupervisedQuantizer(2, n_codewords=8, random_state=0).fit(X, y)
    assert fitted.training_codes_.shape == (400, 2)
    assert len(fitted.classes_) == 41


def test_a_file_holds_all_of_it(fitted, digits, tmp_path):
    X, _ = digits
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded.codec_, SupervisedCodec)
    for ranking in fitted.codec_.rankings:
        np.testing.assert_array_equal(
            loaded.codec_.tables(X[:9], ranking), fitted.codec_.tables(X[:9], ranking)
        )
    np.testing.assert_array_equal(loaded.encode(X[:50]), fitted.encode(X[:50]))
    np.testing.assert_array_equal(loaded.novelty(X[:50]), fitted.novelty(X[:50]))
    fitted.codec_.save(tmp_path / "codec")
    assert load_codec(tmp_path / "codec").rankings == ("label", "position")
