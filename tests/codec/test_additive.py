"""The codec of sums of codewords: encoding, tables, bad input."""

import itertools
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from additive_sizes import D, K, L, M, P, R

from supquant import AdditiveCodec
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.parallel import BLOCK_ROWS


def projected_by_hand(codec, X):
    anchors = codec.feature_map.anchors.astype(np.float64)
    squares = ((X[:, None].astype(np.float64) - anchors) ** 2).sum(axis=2)
    return np.exp(-squares / (2 * codec.feature_map.bandwidth**2)) @ codec.projection


def every_code():
    return np.array(list(itertools.product(range(K), repeat=M)), dtype=np.uint8)  # (K^M, M)


def costs_by_hand(codec, Z, Y, way):
    """The cost (n, K^M) of every code for projections Z and labels Y."""
    first, second = codec.codebooks.astype(np.float64)
    codes = every_code()
    S = first[codes[:, 0]] + second[codes[:, 1]]
    e = 2 * (first[codes[:, 0]] * second[codes[:, 1]]).sum(axis=1)
    cost = codec.constraint_weight * (e - codec.constant) ** 2
    off = Z[:, None] - S  # (n, K^M, r)
    cost = cost + codec.quantization_weight * (off**2).sum(axis=2)
    W = codec.classifier.astype(np.float64)
    if way == "labels":
        cost = cost + ((Y[:, None] - S @ W) ** 2).sum(axis=2)
    if way == "predict":
        cost = cost + ((off @ W) ** 2).sum(axis=2)
    return cost


@pytest.mark.parametrize("way", ["labels", "predict", "drop"])
def test_two_codebooks_encode_to_the_code_of_lowest_cost(codec, vectors, rng, way):
    y = codec.classes[rng.integers(0, L, size=30)]
    labels = read_labels(y, classes=codec.classes)
    codes = codec.encode(vectors, labels) if way == "labels" else codec.encode(vectors, missing_labels=way)
    costs = costs_by_hand(codec, projected_by_hand(codec, vectors), labels.dense(0, 30), way)
    reached = costs[np.arange(30), codes[:, 0].astype(int) * K + codes[:, 1]]
    np.testing.assert_allclose(reached, costs.min(axis=1), rtol=1e-4, atol=1e-4)


def test_the_three_ways_to_encode_differ(codec, vectors):
    labels = read_labels(["bird"] * 30, classes=codec.classes)
    ways = [
        codec.encode(vectors, labels),
        codec.encode(vectors),
        codec.encode(vectors, missing_labels="drop"),
    ]
    for one, other in itertools.combinations(ways, 2):
        assert (one != other).any()


def test_given_labels_are_used_whatever_missing_labels_says(codec, vectors):
    labels = read_labels(["bird"] * 30, classes=codec.classes)
    np.testing.assert_array_equal(
        codec.encode(vectors, labels, missing_labels="drop"), codec.encode(vectors, labels)
    )


def test_transform_is_the_projection_of_the_features(codec, vectors):
    found = codec.transform(vectors)
    assert (found.shape, found.dtype) == ((30, R), np.float32)
    np.testing.assert_allclose(found, projected_by_hand(codec, vectors), atol=1e-5)


def test_decision_function_scores_the_labels_of_the_projection(codec, vectors):
    want = projected_by_hand(codec, vectors) @ codec.classifier
    np.testing.assert_allclose(codec.decision_function(vectors), want, atol=1e-5)


def test_decode_adds_up_the_codewords(codec):
    codes = every_code()
    found = codec.decode(codes)
    assert found.dtype == np.float32
    for code, vector in zip(codes, found, strict=True):
        np.testing.assert_allclose(vector, sum(codec.codebooks[m, code[m]] for m in range(M)), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.uint16])
def test_codes_of_any_whole_number_type_are_decoded(codec, dtype):
    codes = every_code()
    np.testing.assert_array_equal(codec.decode(codes.astype(dtype)), codec.decode(codes))
    np.testing.assert_array_equal(codec.decode(codes.tolist()), codec.decode(codes))


def constant_product_codec(rng, e):
    """Codebooks that share one dimension, in which all products are equal: every code has e_i = e."""
    codebooks = np.zeros((3, K, R))
    codebooks[:, :, 0] = np.sqrt(e / 6)  # six ordered pairs of three codebooks
    for m, columns in enumerate(([1], [2, 3], [4])):
        codebooks[m][:, columns] = rng.normal(size=(K, len(columns)))
    return AdditiveCodec(codebooks.astype(np.float32), constant=e)


@pytest.mark.parametrize("e", [0.0, 2.5])
def test_tables_and_offsets_sum_to_squared_distances_if_e_is_constant(rng, e):
    codec = constant_product_codec(rng, e)
    Q = rng.normal(size=(7, R)).astype(np.float32)
    codes = rng.integers(0, K, size=(50, 3))
    tables = codec.tables(Q)
    assert (tables.shape, tables.dtype) == ((7, 3, K), np.float32)
    sums = sum(tables[:, m, codes[:, m]] for m in range(3)) + codec.offsets_of(codec.project(Q))[:, None]
    want = ((Q[:, None] - codec.decode(codes)) ** 2).sum(axis=2)
    np.testing.assert_allclose(sums, want, atol=1e-4)


def test_tables_are_made_in_the_three_steps(codec, vectors):
    steps = codec.tables_of(codec.project(codec.features(vectors)))
    np.testing.assert_allclose(codec.tables(vectors), steps, atol=1e-6)


def test_scores_of_query_tables_are_squared_distances_if_e_is_constant(rng):
    codec = constant_product_codec(rng, 2.5)
    Q = rng.normal(size=(7, R)).astype(np.float32)
    codes = rng.integers(0, K, size=(50, 3))
    made = codec.query_tables(Q)
    sums = sum(made.tables[:, m, codes[:, m]] for m in range(3))
    want = ((Q[:, None] - codec.decode(codes)) ** 2).sum(axis=2)
    np.testing.assert_allclose(made.scores(sums), want, atol=1e-4)
    assert (made.descending, made.bits) == (False, None)


def test_query_tables_are_euclidean_by_default(codec, vectors):
    assert codec.rankings == ("euclidean",)
    made = codec.query_tables(vectors)
    np.testing.assert_array_equal(made.tables, codec.query_tables(vectors, "euclidean").tables)
    np.testing.assert_array_equal(made.tables, codec.tables(vectors))
    np.testing.assert_allclose(made.offsets, codec.offsets_of(codec.transform(vectors)), rtol=1e-5)


def test_items_are_encoded_with_raw_labels(codec, vectors, rng):
    y = codec.classes[rng.integers(0, L, size=30)]
    want = codec.encode(vectors, read_labels(y, classes=codec.classes))
    assert (want != codec.encode(vectors)).any()
    for given in (y, y.tolist()):
        np.testing.assert_array_equal(codec.encode_items(vectors, given), want)
    several = replace(codec, classes=np.arange(L), multilabel=True)
    np.testing.assert_array_equal(several.encode_items(vectors, y[:, None] == codec.classes), want)


def test_items_without_labels_are_encoded_like_plain_vectors(codec, vectors):
    np.testing.assert_array_equal(codec.encode_items(vectors), codec.encode(vectors))
    np.testing.assert_array_equal(
        codec.encode_items(vectors, missing_labels="drop"), codec.encode(vectors, missing_labels="drop")
    )


def test_labels_that_do_not_fit_the_codec_are_refused(codec, vectors):
    with pytest.raises(InputError, match="fish"):
        codec.encode_items(vectors, ["fish"] * 30)
    with pytest.raises(InputError, match="30"):
        codec.encode_items(vectors, ["bird"] * 29)
    with pytest.raises(InputError):  # an indicator matrix, where single labels were learned
        codec.encode_items(vectors, np.eye(L)[[0] * 30])
    with pytest.raises(InputError, match="learned without labels: encode its items without y"):
        replace(codec, classifier=None, classes=None).encode_items(vectors, ["bird"] * 30)


def test_a_query_gets_the_same_codes_alone_and_in_a_batch(codec, vectors):
    whole = codec.encode(vectors)
    for row in range(0, 30, 7):
        np.testing.assert_array_equal(codec.encode(vectors[row : row + 1])[0], whole[row])


def test_nothing_depends_on_the_number_of_threads(codec, rng):
    X = rng.normal(size=(2 * BLOCK_ROWS + 10, P)).astype(np.float32)
    for way in (codec.encode, codec.transform, codec.tables, codec.decision_function):
        np.testing.assert_array_equal(way(X, n_jobs=1), way(X, n_jobs=2))


def test_labels_of_later_blocks_stay_with_their_rows(codec, rng):
    n = BLOCK_ROWS + 50
    X = rng.normal(size=(n, P)).astype(np.float32)
    labels = read_labels(codec.classes[rng.integers(0, L, size=n)], classes=codec.classes)
    late = np.arange(BLOCK_ROWS, n)
    np.testing.assert_array_equal(
        codec.encode(X, labels)[late], codec.encode(X[late], labels.take(late)), strict=True
    )


def test_no_rows_are_encoded_to_no_codes(codec):
    nothing = np.zeros((0, P))
    assert codec.encode(nothing).shape == (0, M)
    assert codec.transform(nothing).shape == (0, R)
    assert codec.tables(nothing).shape == (0, M, K)
    assert codec.decode(np.zeros((0, M), dtype=np.uint8)).shape == (0, R)


def test_sizes_are_those_of_the_arrays(codec):
    assert (codec.n_codebooks, codec.n_codewords, codec.n_inputs) == (M, K, P)
    assert replace(codec, feature_map=None).n_inputs == D
    assert replace(codec, feature_map=None, projection=None).n_inputs == R


def test_a_codec_cannot_be_changed(codec):
    with pytest.raises(FrozenInstanceError):
        codec.constant = 1.0
    with pytest.raises(FrozenInstanceError):
        codec.feature_map.bandwidth = 1.0


# bad input --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((3, 1), dtype=np.uint8), r"shape \(n, 2\), got uint8 of shape \(3, 1\)"),
        (np.zeros(2, dtype=np.uint8), r"of shape \(2,\)"),
        (np.zeros((3, 2)), "whole numbers .* got float64"),
        (np.full((3, 2), 6), r"lie in 0 \.\. 5, got 6 \.\. 6"),
        (np.full((3, 2), -1), r"lie in 0 \.\. 5, got -1 \.\. -1"),
        (np.full((3, 2), 256), r"lie in 0 \.\. 5, got 256"),
        ("codes", "whole numbers"),
    ],
)
def test_bad_codes_are_refused(codec, codes, message):
    with pytest.raises(InputError, match=message):
        codec.decode(codes)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"codebooks": np.zeros((2, 6, 5))}, r"codebooks must be float32 of shape \(M, K, r\), got float64"),
        ({"codebooks": np.zeros((2, 6), np.float32)}, r"codebooks must .* got float32 of shape \(2, 6\)"),
        ({"codebooks": np.zeros((65, 6, 5), np.float32)}, "number of codebooks .* from 1 to 64, got 65"),
        ({"codebooks": np.zeros((2, 257, 5), np.float32)}, "number of codewords .* from 1 to 256, got 257"),
        (
            {"projection": np.zeros((7, 4), np.float32)},
            r"projection .* \(d, 5\), got float32 of shape \(7, 4\)",
        ),
        (
            {"classifier": np.zeros((4, 3), np.float32)},
            r"classifier .* \(5, L\), got float32 of shape \(4, 3\)",
        ),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(codec, part, message):
    with pytest.raises(InputError, match=message):
        replace(codec, **part)


def test_unknown_choices_are_refused_by_name(codec, vectors):
    with pytest.raises(InputError, match=r"ranking must be 'euclidean'.*, got 'cosine'"):
        codec.tables(vectors, "cosine")
    with pytest.raises(InputError, match="ranking must be"):
        codec.tables_of(codec.transform(vectors), "cosine")
    with pytest.raises(InputError, match="missing_labels must be 'predict' or 'drop', got 'guess'"):
        codec.encode(vectors, missing_labels="guess")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_refused(codec, vectors, value):
    X = vectors.copy()
    X[4, 2] = value
    for way in (codec.encode, codec.transform, codec.tables, codec.decision_function):
        with pytest.raises(InputError, match=r"Input [XQ] contains .*\(first in row 4\)"):
            way(X)


def test_vectors_of_another_width_are_refused(codec):
    with pytest.raises(InputError, match=r"X has 9 features, but .* expecting 4"):
        codec.encode(np.zeros((3, 9)))


def test_labels_cannot_be_predicted_by_a_codec_without_a_classifier(codec, vectors):
    with pytest.raises(InputError, match="learned without labels"):
        replace(codec, classifier=None, classes=None).decision_function(vectors)


def test_a_codec_without_a_classifier_encodes_by_the_quantization_error_alone(codec, vectors):
    unlabelled = replace(codec, classifier=None, classes=None)
    np.testing.assert_array_equal(
        unlabelled.encode(vectors), unlabelled.encode(vectors, missing_labels="drop")
    )


def test_rank_orders_by_the_sums_of_tables_and_keeps_equal_codes_in_order(rng):
    codec = AdditiveCodec(rng.normal(size=(3, 4, 5)).astype(np.float32))
    codes = rng.integers(0, 4, size=(60, 3), dtype=np.uint8)
    codes[30:] = codes[:30]
    Q = rng.normal(size=(7, 5))
    order = codec.rank(Q, codes)
    tables = codec.tables(Q)
    for query, ranked in enumerate(order):
        sums = [sum(tables[query, m, code[m]] for m in range(3)) for code in codes]
        assert ranked.tolist() == sorted(range(60), key=lambda row: (sums[row], row))


def test_rank_refuses_codes_of_another_codec(rng):
    codec = AdditiveCodec(rng.normal(size=(3, 4, 5)).astype(np.float32))
    with pytest.raises(InputError, match=r"\(n, 3\)"):
        codec.rank(np.zeros((1, 5)), np.zeros((2, 2), dtype=np.uint8))


def test_queries_whose_distances_float32_cannot_hold_are_refused(rng):
    codec = AdditiveCodec(rng.normal(size=(2, 4, 3)).astype(np.float32))
    with pytest.raises(InputError, match="row 1 of Q is too far away"):
        codec.query_tables([[0, 0, 0], [1e30, 0, 0]])


def test_arrays_have_the_memory_layout_of_a_file():
    rng = np.random.default_rng(0)
    turned = {name: np.asfortranarray(rng.normal(size=(6, 6)).astype(np.float32)) for name in "PW"}
    codec = AdditiveCodec(rng.normal(size=(2, 4, 6)).astype(np.float32), turned["P"], turned["W"])
    assert codec.projection.flags.c_contiguous
    assert codec.classifier.flags.c_contiguous
    np.testing.assert_array_equal(codec.projection, turned["P"])


def test_the_projection_of_a_row_does_not_depend_on_its_position():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 50)).astype(np.float32)
    codec = AdditiveCodec(
        rng.normal(size=(2, 4, 3)).astype(np.float32), rng.normal(size=(50, 3)).astype(np.float32)
    )
    order = rng.permutation(len(X))
    np.testing.assert_array_equal(codec.transform(X[order]), codec.transform(X)[order])
