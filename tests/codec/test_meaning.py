"""Ranking by meaning: products of label vectors, their probabilities, and files."""

from dataclasses import replace

import numpy as np
import pytest

from supquant import AdditiveCodec, CodeIndex
from supquant.codec.interface import QueryTables
from supquant.codec.probabilities import check_curve, least_product
from supquant.codec.registry import load_codec
from supquant.errors import InputError

CURVE = np.float32([[-1, 0, 0.5, 0.5001, 2], [0, 0.1, 0.4, 0.4, 0.9]])


def codec_of(*, multilabel=False, M=3, K=8, r=5, seed=0):
    """A codec of 4 labels for 6 features."""
    rng = np.random.default_rng(seed)
    scaling = rng.normal(size=(2, 4)).astype(np.float32)
    return AdditiveCodec(
        codebooks=rng.normal(size=(M, K, r)).astype(np.float32),
        projection=rng.normal(size=(6, r)).astype(np.float32),
        classifier=rng.normal(size=(r, 4)).astype(np.float32),
        classes=np.arange(4),
        multilabel=multilabel,
        constraint_weight=0.1,
        scaling=scaling,
        curve=CURVE,
    )


@pytest.fixture(params=[False, True], ids=["one label", "several labels"])
def multilabel(request):
    return request.param


@pytest.fixture
def codec(multilabel):
    return codec_of(multilabel=multilabel)


@pytest.fixture
def queries(rng):
    return rng.random((20, 6)).astype(np.float32)


def query_vectors_by_hand(codec, Q):
    scores = Q.astype(np.float64) @ codec.projection @ codec.classifier
    powers = np.exp(scores * codec.scaling[0] + codec.scaling[1])
    p = powers / (1 + powers) if codec.multilabel else powers / powers.sum(axis=1, keepdims=True)
    return -np.log(1 - p) if codec.multilabel else p


def test_label_scores_are_products_with_the_label_vector_of_the_decoded_code(codec, queries, rng):
    codes = rng.integers(codec.n_codewords, size=(50, codec.n_codebooks)).astype(np.uint8)
    expected = query_vectors_by_hand(codec, queries) @ (codec.decode(codes) @ codec.classifier).T
    plain = replace(codec, curve=np.float32([[-100, 100], [-100, 100]]))
    scores, ids = CodeIndex(plain).add_codes(codes).search(queries, k=50, ranking="label")
    np.testing.assert_allclose(scores, np.take_along_axis(expected, ids, 1), rtol=1e-4, atol=1e-4)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_label_is_the_default_ranking_of_a_codec_learned_from_labels(codec, queries):
    assert codec.rankings == ("label", "euclidean")
    np.testing.assert_array_equal(codec.tables(queries), codec.tables(queries, "label"))
    assert replace(codec, scaling=None, curve=None).rankings == ("euclidean",)


def test_euclidean_tables_do_not_depend_on_label_scaling(codec, queries):
    without = replace(codec, scaling=None, curve=None)
    scaled, plain = codec.query_tables(queries, "euclidean"), without.query_tables(queries)
    np.testing.assert_array_equal(scaled.tables, plain.tables)
    np.testing.assert_array_equal(scaled.offsets, plain.offsets)
    assert scaled.curve is None
    assert not scaled.descending


def test_tables_are_made_in_three_steps(codec, queries):
    steps = codec.tables_of(codec.prepare(codec.features(queries), "label"), "label")
    np.testing.assert_allclose(codec.tables(queries), steps, rtol=1e-5, atol=1e-5)


def test_a_query_has_the_same_label_tables_alone_and_in_a_batch(codec, queries):
    together = codec.tables(queries)
    for row in (0, 7, 19):
        np.testing.assert_array_equal(codec.tables(queries[row : row + 1])[0], together[row])


def test_scores_follow_the_curve(codec, queries, rng):
    codes = rng.integers(codec.n_codewords, size=(30, codec.n_codebooks)).astype(np.uint8)
    made = codec.query_tables(queries)
    sums = rng.normal(size=(20, 30)).astype(np.float32)
    np.testing.assert_array_equal(made.scores(sums), np.interp(-sums, *CURVE).astype(np.float32))
    scores, _ = CodeIndex(codec).add_codes(codes).search(queries, k=30)
    assert scores.min() >= 0
    assert scores.max() <= np.float32(0.9)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.05, 0.1, 0.25, 0.4, 0.40001, 0.7, 0.9, 0.91, 2.0])
def test_a_range_holds_exactly_the_rows_of_at_least_that_probability(codec, queries, rng, threshold):
    codes = rng.integers(codec.n_codewords, size=(200, codec.n_codebooks)).astype(np.uint8)
    index = CodeIndex(codec).add_codes(codes)
    scores, ids = index.search(queries, k=200)
    limits, found, where = index.range_search(queries, threshold)
    within = scores >= np.float32(threshold)
    assert np.diff(limits).tolist() == within.sum(axis=1).tolist()
    np.testing.assert_array_equal(found, scores[within])
    np.testing.assert_array_equal(where, ids[within])


def test_products_below_the_least_product_stay_below_the_probability():
    for probability in np.linspace(-0.1, 1.0, 50):
        least = least_product(CURVE, probability)
        under = np.nextafter(np.float32(least), np.float32(-np.inf)) if np.isfinite(least) else None
        if under is not None:
            assert np.interp(under, *CURVE) < np.float32(probability)
        elif least < 0:
            assert CURVE[1, 0] >= np.float32(probability)
        else:
            assert CURVE[1, -1] < np.float32(probability)


def test_codes_of_items_are_the_best_for_their_labels_or_for_their_scores(multilabel, rng):
    codec = codec_of(multilabel=multilabel, M=2, K=16)
    X = rng.random((40, 6)).astype(np.float32)
    y = (rng.random((40, 4)) < 0.5).astype(int) if multilabel else rng.integers(4, size=40)
    dense = np.asarray(y, dtype=float) if multilabel else np.eye(4)[y]
    assert_best_code(codec, X, codec.encode_items(X, y), dense)
    assert_best_code(codec, X, codec.encode_items(X), codec.decision_function(X))
    assert not np.array_equal(codec.encode_items(X), codec.encode_items(X, missing_labels="drop"))


def assert_best_code(codec, X, codes, wanted):
    """Assert that no other code has a lower cost."""
    every = np.stack(np.meshgrid(*2 * [np.arange(codec.n_codewords)], indexing="ij"), -1).reshape(-1, 2)
    decoded = codec.decode(every).astype(np.float64)
    first, second = codec.codebooks.astype(np.float64)
    e = 2 * (first[every[:, 0]] * second[every[:, 1]]).sum(axis=1)
    costs = ((wanted[:, None] - decoded @ codec.classifier) ** 2).sum(axis=2)
    costs += codec.quantization_weight * ((codec.transform(X)[:, None] - decoded) ** 2).sum(axis=2)
    costs += codec.constraint_weight * (e - codec.constant) ** 2
    chosen = costs[np.arange(len(X)), codes[:, 0].astype(int) * codec.n_codewords + codes[:, 1]]
    np.testing.assert_allclose(chosen, costs.min(axis=1), rtol=1e-4)


def test_predicted_probabilities_are_those_in_query_vectors(codec, queries):
    p = codec.predict_proba(queries)
    assert p.shape == (20, 4)
    vectors = query_vectors_by_hand(codec, queries)
    np.testing.assert_allclose(p, 1 - np.exp(-vectors) if codec.multilabel else vectors, rtol=1e-4)


def test_a_saved_codec_ranks_and_encodes_as_before(codec, queries, tmp_path):
    codec.save(tmp_path / "codec")
    found = load_codec(tmp_path / "codec")
    np.testing.assert_array_equal(found.curve, CURVE)
    np.testing.assert_array_equal(found.tables(queries), codec.tables(queries))
    np.testing.assert_array_equal(found.encode_items(queries), codec.encode_items(queries))


@pytest.mark.parametrize("curve", [[[0, 1], [1, 0]], [[1, 0], [0, 1]], [[0], [0]]])
def test_a_curve_that_falls_or_is_a_point_is_refused(curve):
    with pytest.raises(InputError, match="curve"):
        check_curve(np.float32(curve))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classifier": None}, "must have a classifier"),
        ({"classes": None}, "must have a classifier and classes"),
        ({"classes": np.arange(5)}, r"classifier must be float32 of shape \(5, 5\)"),
        ({"scaling": np.ones((2, 3), np.float32)}, r"scaling must be float32 of shape \(2, 4\)"),
        ({"scaling": None}, "both a scaling and a curve, or neither"),
        ({"curve": None}, "both a scaling and a curve, or neither"),
    ],
    ids=str,
)
def test_parts_of_a_label_ranking_that_do_not_fit_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        replace(codec_of(), **change)


def test_without_a_curve_scores_are_sums():
    made = QueryTables(np.zeros((1, 1, 2), np.float32), np.float32([2]), descending=True)
    np.testing.assert_array_equal(made.scores(np.float32([[0.5]])), [[1.5]])
