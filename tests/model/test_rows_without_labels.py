"""Fits to rows of which some have no label: what they find out about classes that nobody has labelled."""

import numpy as np
import pytest
from planted_classes import plant_classes

from supquant import CodeIndex, SupervisedQuantizer, kernels, load_model
from supquant.model import features
from supquant.model.vectors import FeatureParts
from supquant.model.words import LABEL_WORD

N_CLASSES, N_KNOWN = 10, 8
N_LABELLED, N_ROWS = 500, 1500  # rows of a fit; those after the labelled ones have no label


@pytest.fixture(scope="module")
def drawn():
    """Vectors of ten classes in sixteen dimensions: rows to fit, and queries."""
    return plant_classes(N_CLASSES, N_KNOWN, N_LABELLED, N_ROWS)


def fit(X, labels, **parameters):
    settings = {"n_codewords": 32, "missing_label": -1, "random_state": 0, **parameters}
    return SupervisedQuantizer(4, **settings).fit(X, labels)


@pytest.fixture(scope="module")
def fitted(drawn):
    """A model that found classes, two of which have no labelled row."""
    model = fit(drawn.X[:N_ROWS], drawn.labels)
    assert model.codec_.map.clusters is not None
    return model


def mean_precision(model, drawn, queries, items, labels=None):
    """Return the MAP of queries over items, given by their row numbers."""
    found = drawn.y[items][
        CodeIndex(model).add(drawn.X[items], labels).search(drawn.X[queries], len(items))[1]
    ]
    hits = found == drawn.y[queries, None]
    precision = hits.cumsum(axis=1) / np.arange(1, len(items) + 1)
    return float(((precision * hits).sum(axis=1) / hits.sum(axis=1)).mean())


# classes that are there ----------------------------------------------------------------------------------------------


def test_classes_that_nobody_labelled_look_new(fitted, drawn):
    known, new = fitted.novelty(drawn.X[drawn.known]), fitted.novelty(drawn.X[drawn.new])
    assert new.mean() > 0.85
    assert known.mean() < 0.2
    assert np.quantile(new, 0.1) > np.quantile(known, 0.9)


def test_items_of_classes_that_nobody_labelled_are_found_first(fitted, drawn):
    assert mean_precision(fitted, drawn, drawn.new, drawn.items) > 0.95
    blind = fit(drawn.X[:N_ROWS], drawn.labels, new_classes=0)
    assert (
        mean_precision(blind, drawn, drawn.new, drawn.items) < 0.5
    )  # without them, the test would prove nothing
    seen = mean_precision(fitted, drawn, drawn.known, drawn.items)
    assert seen > mean_precision(blind, drawn, drawn.known, drawn.items) - 0.02


def test_two_new_classes_are_told_apart(fitted, drawn):
    parts = FeatureParts.of(fitted.codec_.features(drawn.X[drawn.new]), fitted.codec_.map)
    alike = parts.likeness @ parts.likeness.T
    same = drawn.y[drawn.new][:, None] == drawn.y[drawn.new]
    assert alike[same].mean() > 3 * alike[~same].mean()


def test_labelled_items_keep_the_words_of_their_labels(fitted, drawn):
    codec, labelled = fitted.codec_, drawn.labels >= 0
    words = codec.words[0] == LABEL_WORD
    codes, of_label = fitted.training_codes_, np.flatnonzero(words)
    np.testing.assert_array_equal(codes[labelled, 0], of_label[drawn.labels[labelled]])
    np.testing.assert_array_equal(
        fitted.encode(drawn.X[drawn.new], np.full(len(drawn.new), 3))[:, 0], of_label[3]
    )
    n_meaning = N_KNOWN + codec.map.n_likeness
    np.testing.assert_array_equal(
        codec.decode(codes[labelled])[:, :n_meaning], np.eye(n_meaning)[drawn.labels[labelled]]
    )
    assert not codec.any_unlabelled(codes[labelled])
    assert codec.any_unlabelled(codes[~labelled])


def test_an_item_of_a_new_class_finds_others_by_its_code(fitted, drawn):
    codes, y = fitted.encode(drawn.X[drawn.items]), drawn.y[drawn.items]
    asking = np.flatnonzero(y >= N_KNOWN)[:50]
    sums = kernels.active().table_sums(codes, fitted.codec_.item_tables(codes[asking]).tables)
    nearest = np.argsort(sums, axis=1, kind="stable")[:, :50]
    assert (y[nearest] == y[asking][:, None]).mean() > 0.9


def test_a_longer_code_keeps_the_clusterings_of_the_shorter_one(fitted, drawn):
    longer = SupervisedQuantizer(6, n_codewords=32, missing_label=-1, init=fitted, random_state=0)
    longer.fit(drawn.X[:N_ROWS], drawn.labels)
    assert longer.codec_.map is fitted.codec_.map
    np.testing.assert_array_equal(longer.codec_.words[:4], fitted.codec_.words)
    assert mean_precision(longer, drawn, drawn.new, drawn.items) > 0.95


def test_no_query_over_items_with_labels_is_new(fitted, drawn):
    own = np.arange(N_LABELLED)
    assert mean_precision(fitted, drawn, drawn.known, own, drawn.y[own]) > 0.95


def test_a_given_share_of_new_classes_is_taken(fitted, drawn):
    more = fit(drawn.X[:N_ROWS], drawn.labels, new_classes=0.7)
    assert more.novelty(drawn.X[drawn.known]).mean() > fitted.novelty(drawn.X[drawn.known]).mean() + 0.05


def test_new_rows_of_one_row_each_are_no_error(drawn):
    X = drawn.X[:N_ROWS].copy()
    X[N_LABELLED:] = 9 * np.random.default_rng(0).normal(size=(N_ROWS - N_LABELLED, 16))
    model = fit(X, drawn.labels)
    assert np.isfinite(model.codec_.tables(X[:4])).all()


@pytest.mark.parametrize("how", ["equal", "zero", "copies of labelled rows"])
def test_rows_without_labels_that_tell_nothing_are_learned_from(drawn, how):
    X = drawn.X[:N_ROWS].copy()
    X[N_LABELLED:] = {
        "equal": X[N_LABELLED],
        "zero": 0,
        "copies of labelled rows": X[np.arange(N_ROWS - N_LABELLED) // 2],
    }[how]
    model = fit(X, drawn.labels)
    assert np.isfinite(model.codec_.tables(X)).all()
    assert ((model.novelty(X) >= 0) & (model.novelty(X) <= 1)).all()


# nothing new ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_rows_without_labels_do_no_harm_if_all_are_of_known_classes(drawn, seed):
    known = np.flatnonzero(drawn.y[:N_ROWS] < N_KNOWN)
    told = {"random_state": seed}
    found, blind = (
        fit(drawn.X[known], drawn.labels[known], **told, **more) for more in ({}, {"new_classes": 0})
    )
    items = known[drawn.labels[known] < 0]
    assert found.novelty(drawn.X[drawn.known]).mean() < 0.1
    lost = mean_precision(blind, drawn, drawn.known, items) - mean_precision(found, drawn, drawn.known, items)
    assert lost < 0.01


def test_known_classes_do_not_look_new_if_others_have_more_labels(drawn):
    known = np.flatnonzero(drawn.y[:N_ROWS] < N_KNOWN)
    labels, kept = drawn.labels[known], np.arange(len(known)) % 2 == 0
    chosen = (labels < 0) | (labels < 2) | kept  # two classes have twice as many labelled rows as the others
    model = fit(drawn.X[known][chosen], labels[chosen])
    assert model.novelty(drawn.X[drawn.known]).mean() < 0.1


def test_nothing_looks_new_if_no_share_is_new(drawn, monkeypatch):
    monkeypatch.setattr(features, "new_share", lambda *_: 0.0)
    model = fit(drawn.X[:N_ROWS], drawn.labels)
    assert model.codec_.map.clusters is None
    assert model.codec_.map.n_likeness == 0
    np.testing.assert_array_equal(model.novelty(drawn.X[drawn.new]), 0)


def test_all_rows_look_equally_new_if_no_score_tells_new_ones(drawn, monkeypatch):
    monkeypatch.setattr(features, "novelty_weights", lambda *_: (np.zeros(2), np.log(0.25 / 0.75)))
    model = fit(drawn.X[:N_ROWS], drawn.labels)
    np.testing.assert_allclose(model.novelty(drawn.X), 0.25, rtol=1e-5)


@pytest.mark.parametrize(("n_labelled", "n_unlabelled"), [(500, 150), (100, 1000)])
def test_no_classes_are_found_among_few_rows(drawn, n_labelled, n_unlabelled):
    rows = np.concatenate([np.arange(n_labelled), drawn.items[:n_unlabelled]])
    model = fit(drawn.X[rows], drawn.labels[rows])
    assert model.codec_.map.clusters is None
    assert model.novelty(drawn.X[drawn.new]).mean() > 0.1  # classes that were left out show what is new


def test_two_hundred_rows_without_labels_are_enough(drawn):
    rows = np.concatenate([np.arange(500), drawn.items[:200]])
    model = fit(drawn.X[rows], drawn.labels[rows], new_classes=0.2)
    assert model.codec_.map.clusters is not None


# the same answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranking", ["label", "position"])
def test_scores_are_products_of_vectors_of_queries_and_decoded_items(fitted, drawn, ranking):
    codec, Q = fitted.codec_, drawn.X[N_ROWS : N_ROWS + 50]
    codes = np.ascontiguousarray(fitted.training_codes_[::7])
    sums = kernels.active().table_sums(codes, codec.query_tables(Q, ranking).tables)
    products = codec.query_vectors(Q, ranking) @ codec.decode(codes).T
    np.testing.assert_allclose(-sums, products, rtol=1e-3, atol=1e-4)


def test_the_codes_of_items_are_those_of_their_vectors(fitted, drawn):
    decoded, vectors = (
        fitted.decode(fitted.encode(drawn.X[drawn.items])),
        fitted.transform(drawn.X[drawn.items]),
    )
    r, first = N_KNOWN, N_KNOWN + fitted.codec_.map.n_likeness
    for columns, most in ((slice(r), 0.1), (slice(r, first), 0.5)):
        error = np.square((decoded - vectors)[:, columns]).sum()
        assert error < most * np.square(vectors[:, columns]).sum()


def test_vectors_of_items_know_the_labels_that_are_given(fitted, drawn):
    X, y = drawn.X[:300], np.array(drawn.labels[:300], dtype=object)
    y[::3] = None
    vectors, blind = fitted.transform(X, y), fitted.transform(X)
    unknown = np.array([label is None for label in y])
    np.testing.assert_array_equal(vectors[unknown], blind[unknown])
    r = N_KNOWN + fitted.codec_.map.n_likeness
    own = (fitted.classes_ == y[~unknown, None]).astype(np.float32)
    np.testing.assert_array_equal(vectors[~unknown, :N_KNOWN], own)
    assert not vectors[~unknown, N_KNOWN:r].any()
    np.testing.assert_allclose(vectors[~unknown, r:], blind[~unknown, r:], rtol=1e-5, atol=1e-6)


def test_vectors_of_queries_over_labelled_items_score_as_an_index_of_them_does(fitted, drawn):
    X, y = drawn.X[:N_LABELLED], drawn.labels[:N_LABELLED]
    Q = drawn.X[N_ROWS : N_ROWS + 20]
    codes = fitted.encode(X, y)
    tables = fitted.codec_.query_tables(Q, all_labelled=True).tables
    products = fitted.transform_queries(Q, all_labelled=True) @ fitted.decode(codes).T
    np.testing.assert_allclose(-kernels.active().table_sums(codes, tables), products, rtol=1e-3, atol=1e-4)


def test_codes_and_calibration_do_not_depend_on_the_number_of_threads(drawn):
    one, three = (fit(drawn.X[:N_ROWS], drawn.labels, n_jobs=n_jobs) for n_jobs in (1, 3))
    assert one.codec_.map.clusters is not None
    np.testing.assert_array_equal(three.training_codes_, one.training_codes_)
    np.testing.assert_array_equal(three.codec_.codebooks, one.codec_.codebooks, strict=True)
    np.testing.assert_array_equal(three.novelty(drawn.X), one.novelty(drawn.X), strict=True)
    np.testing.assert_array_equal(three.codec_.curves, one.codec_.curves, strict=True)
    assert three.summary_ == one.summary_
    assert one.summary_.map_new is None  # one left-out class of eight says little about others


def test_a_file_holds_the_clusterings(fitted, drawn, tmp_path):
    fitted.save(tmp_path / "model")
    loaded, Q = load_model(tmp_path / "model"), drawn.X[N_ROWS:]
    assert loaded.codec_.map.clusters is not None
    np.testing.assert_array_equal(loaded.novelty(Q), fitted.novelty(Q), strict=True)
    np.testing.assert_array_equal(loaded.transform(Q), fitted.transform(Q), strict=True)
    np.testing.assert_array_equal(loaded.encode(Q), fitted.encode(Q), strict=True)
    for ranking in ("label", "position"):
        mine, theirs = (each.codec_.query_tables(Q, ranking) for each in (loaded, fitted))
        np.testing.assert_array_equal(mine.tables, theirs.tables, strict=True)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_compiled_code_and_numpy_agree_on_a_fitted_map(fitted, drawn):
    map_, x = fitted.codec_.map, drawn.X[N_ROWS:]
    np.testing.assert_allclose(map_(x), map_.from_logits(map_._logits(x), x), rtol=1e-4, atol=1e-5)


def test_the_order_of_rows_changes_little(fitted, drawn):
    order = np.random.default_rng(1).permutation(N_ROWS)
    other = fit(drawn.X[order], drawn.labels[order])
    for queries in (drawn.known, drawn.new):
        mine, theirs = (mean_precision(each, drawn, queries, drawn.items) for each in (fitted, other))
        assert mine == pytest.approx(theirs, abs=0.025)
