"""The feature map: compiled code agrees with NumPy, and the bits of a row do not depend on other rows."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.kernels import native
from supquant.model.feature_map import SupervisedMap
from supquant.model.position import principal_directions
from supquant.model.spelling import Spelling
from supquant.model.vectors import FeatureParts, label_queries, query_rule

P, H, K, OPINIONS = 9, 37, 5, 3
KINDS = ["one label", "several labels", "spelled labels", "no kernel", "no opinion"]


def draw_map(kind, rng):
    """Return a map with random arrays."""
    words = np.arange(6, dtype=np.int32)[:, None]
    if kind == "spelled labels":
        words = np.array([[0, 3], [1, 3], [2, 3], [0, 4], [1, 4], [2, 4]], dtype=np.int32)
    spelling, L = Spelling(words), len(words)
    opinions = 0 if kind == "no opinion" else OPINIONS

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return SupervisedMap(
        kernel=None if kind == "no kernel" else GaussianMap(normal(H, P), 2.5),
        weights=normal((P if kind == "no kernel" else H) + 1, L + 1),
        mean=normal(P) / 9,
        metric=normal(P, K),
        cosine=normal(P, K),
        opinion_mean=rng.random(spelling.n_columns, dtype=np.float32),
        opinion=normal(spelling.n_columns, opinions),
        novelty=normal(3),
        scatter=np.eye(K, dtype=np.float32),
        means=normal(L, K + opinions),
        multilabel=kind == "several labels",
        spelling=spelling,
    )


@pytest.fixture(params=KINDS)
def drawn(request, rng):
    """Return a map and rows, of which one is zero and one is too long for the kernel."""
    x = rng.normal(size=(131, P)).astype(np.float32)
    x[4], x[5] = 0, 1e25
    if request.param == "no kernel":
        x[5] = 1
    return draw_map(request.param, rng), x


def test_compiled_features_are_those_of_numpy(drawn):
    feature_map, x = drawn
    got = feature_map(x)
    want = feature_map.from_logits(feature_map._outputs(x), x)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_items_have_the_bits_of_queries_and_no_cosines(drawn):
    feature_map, x = drawn
    queries, items = feature_map(x), feature_map.of_items(x)
    first = feature_map.n_features - feature_map.n_position
    np.testing.assert_array_equal(items[:, :first], queries[:, :first], strict=True)
    assert not items[:, first:].any()
    assert queries[:, first:].any()


def test_no_probability_is_subnormal(rng):
    feature_map = draw_map("spelled labels", rng)
    feature_map = replace(feature_map, weights=feature_map.weights * 40)  # logits that differ by 100 or more
    x = rng.normal(size=(300, P)).astype(np.float32)
    outputs = feature_map._outputs(x)[:, :6]
    apart = outputs.max(axis=1, keepdims=True) - outputs
    assert ((apart > 88) & (apart < 103)).any()  # whose exponentials are subnormal in float32
    for found in (feature_map(x), feature_map.from_logits(feature_map._outputs(x), x)):
        s = found[:, : feature_map.n_columns]
        assert not ((s > 0) & (s < np.finfo(np.float32).tiny)).any()


def test_rows_have_the_same_bits_alone_in_any_batch_on_any_threads_and_at_every_level(drawn):
    feature_map, x = drawn
    whole = feature_map(x)
    for first, last in ((0, 1), (4, 6), (3, 50), (130, 131)):
        np.testing.assert_array_equal(feature_map(x[first:last]), whole[first:last], strict=True)
    again = np.empty_like(whole)
    before = native.level()
    try:
        for level in native.available_levels():
            native.force_level(level)
            feature_map.compiled.features(x, False, again, 3)
            np.testing.assert_array_equal(again, whole, strict=True)
    finally:
        native.force_level(before)


@pytest.mark.parametrize("all_labelled", [False, True])
def test_compiled_vectors_of_queries_are_those_of_numpy(drawn, all_labelled):
    feature_map, x = drawn
    features = feature_map(x)
    got = native.query_vectors(features, query_rule(feature_map, "label", all_labelled=all_labelled))
    parts = FeatureParts.of(features, feature_map)
    want = label_queries(parts, feature_map, None, all_labelled=all_labelled)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_a_copy_has_compiled_code_of_its_own(drawn):
    feature_map, x = drawn
    want = feature_map(x)
    for twin in (copy.deepcopy(feature_map), pickle.loads(pickle.dumps(feature_map))):
        np.testing.assert_array_equal(twin(x), want, strict=True)


def test_parts_that_do_not_fit_are_refused(rng):
    feature_map = draw_map("one label", rng)
    with pytest.raises(ValueError, match="matrices must have the shapes"):
        replace(feature_map, metric=feature_map.metric[:-1])(np.zeros((1, P), dtype=np.float32))


def test_principal_directions_of_many_rows_are_those_of_every_kth_row_of_a_block(rng, monkeypatch):
    monkeypatch.setattr("supquant.model.position.MAX_ROWS", 3000)
    X = rng.normal(size=(9001, 5)) * [5, 4, 3, 2, 1] + 1
    found = principal_directions(X, 2)
    chosen = np.concatenate([np.arange(start, min(start + 4096, 9001), 3) for start in (0, 4096, 8192)])
    units = X[chosen] / np.linalg.norm(X[chosen], axis=1, keepdims=True)
    np.testing.assert_allclose(found.mean, units.mean(axis=0), atol=1e-6)
    _, vectors = np.linalg.eigh(np.cov(units.T))
    np.testing.assert_allclose(
        abs(found.vectors.T @ vectors[:, ::-1][:, : found.vectors.shape[1]]).diagonal(), 1
    )
