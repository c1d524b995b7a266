"""The feature map: compiled code agrees with NumPy, and the bits of a row do not depend on other rows."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from supquant.codec.gaussian_map import GaussianMap
from supquant.errors import InputError
from supquant.kernels import native
from supquant.model.clusters import Clusters, unit_positions
from supquant.model.feature_map import SupervisedMap, evidence
from supquant.model.position import principal_directions
from supquant.model.spelling import Spelling
from supquant.model.vectors import (
    FeatureParts,
    item_positions,
    item_vectors,
    label_queries,
    position_queries,
    query_rule,
)

P, H, K, LIKENESS = 9, 37, 5, 3
ENDS = np.array([7, 9, 30])  # of three clusterings
KINDS = [
    "one label",
    "several labels",
    "spelled labels",
    "no kernel",
    "nothing new",
    "clusters",
    "clusters, spelled labels",
]


def draw_clusters(rng):
    """Return clusterings with random centres."""
    centres = unit_positions(rng.normal(size=(ENDS[-1], K)).astype(np.float32))
    return Clusters(GaussianMap(centres, 20**-0.5), rng.normal(size=ENDS[-1]).astype(np.float32), ENDS)


def draw_map(kind, rng):
    """Return a map with random arrays."""
    words = np.arange(6, dtype=np.int32)[:, None]
    if "spelled labels" in kind:
        words = np.array([[0, 3], [1, 3], [2, 3], [0, 4], [1, 4], [2, 4]], dtype=np.int32)
    spelling, L = Spelling(words), len(words)
    clustered = "clusters" in kind

    def normal(*shape):
        return rng.normal(size=shape).astype(np.float32)

    return SupervisedMap(
        kernel=None if kind == "no kernel" else GaussianMap(normal(H, P), 2.5),
        weights=normal((P if kind == "no kernel" else H) + 1, L),
        mean=normal(P) / 9,
        metric=normal(P, K),
        cosine=normal(P, K),
        clusters=draw_clusters(rng) if clustered else None,
        likeness=normal(ENDS[-1], LIKENESS) if clustered else np.zeros((0, 0), dtype=np.float32),
        novelty=np.float32([0, 0, -200] if kind == "nothing new" else [-1.6, 0.3, 7.4]),
        nearness=np.float32([0.7, 0, 0] if clustered else [0.7, 2.5, 0.3]),
        scatter=np.eye(K, dtype=np.float32),
        means=normal(L, K),
        unnamed=normal(0, K),
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
    want = feature_map.from_logits(feature_map._logits(x), x)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_some_of_the_drawn_rows_look_new_and_others_do_not(drawn):
    feature_map, x = drawn
    u = FeatureParts.of(feature_map(x), feature_map).u
    assert ((u >= 0) & (u <= 1)).all()
    if feature_map.novelty[2] < 0:
        assert not u.any()
    else:
        assert feature_map.multilabel or (u.min() < 0.3 and u.max() > 0.7)


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
    logits = feature_map._logits(x)
    apart = logits.max(axis=1, keepdims=True) - logits
    assert ((apart > 88) & (apart < 103)).any()  # whose exponentials are subnormal in float32
    for found in (feature_map(x), feature_map.from_logits(feature_map._logits(x), x)):
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
    by_position = native.query_vectors(
        features, query_rule(feature_map, "position", all_labelled=all_labelled)
    )
    wanted = position_queries(FeatureParts.of(features, feature_map), feature_map)
    np.testing.assert_allclose(by_position, wanted, rtol=1e-4, atol=1e-6)
    got = native.query_vectors(features, query_rule(feature_map, "label", all_labelled=all_labelled))
    parts = FeatureParts.of(features, feature_map)
    want = label_queries(parts, feature_map, None, all_labelled=all_labelled)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


def test_a_copy_has_compiled_code_of_its_own(drawn):
    feature_map, x = drawn
    want = feature_map(x)
    for twin in (copy.deepcopy(feature_map), pickle.loads(pickle.dumps(feature_map))):
        np.testing.assert_array_equal(twin(x), want, strict=True)


WRONG_PARTS = {
    "metric": lambda map_: {"metric": map_.metric[:-1]},
    "likeness": lambda map_: {"likeness": map_.likeness[:-1]},
    "novelty": lambda map_: {"novelty": map_.novelty[:-1]},
    "centres": lambda map_: {
        "clusters": replace(map_.clusters, kernel=GaussianMap(np.zeros((30, K + 1), np.float32), 1.0))
    },
    "ratios": lambda map_: {"clusters": replace(map_.clusters, ratios=map_.clusters.ratios[:-1])},
    "ends": lambda map_: {"clusters": replace(map_.clusters, ends=np.array([7, 9, 31]))},
    "order of ends": lambda map_: {"clusters": replace(map_.clusters, ends=np.array([9, 7, 30]))},
}


@pytest.mark.parametrize("which", WRONG_PARTS)
def test_parts_that_do_not_fit_never_reach_compiled_code(which, rng):
    feature_map = draw_map("clusters", rng)
    wrong = replace(feature_map, **WRONG_PARTS[which](feature_map))
    with pytest.raises(ValueError, match=r"must (have|ascend)"):
        _ = wrong.compiled


@pytest.mark.parametrize("kind", KINDS)
def test_a_map_is_read_from_its_arrays(kind, rng):
    feature_map, x = draw_map(kind, rng), rng.normal(size=(7, P)).astype(np.float32)
    twin = SupervisedMap.from_arrays(feature_map.arrays())
    np.testing.assert_array_equal(twin(x), feature_map(x), strict=True)
    np.testing.assert_array_equal(
        twin.from_logits(twin._logits(x), x), feature_map.from_logits(feature_map._logits(x), x)
    )


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("clusters.ends", np.array([7, 7, 30]), "ends of clusterings"),
        ("clusters.ends", np.array([7, 9, 29]), "ends of clusterings"),
        ("clusters.ends", np.zeros(0, dtype=np.int64), "ends of clusterings"),
        ("clusters.ends", np.array([7.0, 9.0, 30.0]), "ends of clusterings"),
        ("clusters.ratios", np.zeros(29, dtype=np.float32), "ends of clusterings"),
        ("clusters.anchors", np.zeros((30, K + 1), dtype=np.float32), "centres must have the shape"),
        ("likeness", np.zeros((29, 2), dtype=np.float32), "made from 29 numbers, expected 30"),
        ("novelty", np.zeros(2, dtype=np.float32), "novelty"),
        ("nearness", np.zeros(1, dtype=np.float32), "nearness"),
    ],
)
def test_arrays_of_clusterings_that_do_not_fit_are_refused(name, array, message, rng):
    arrays = draw_map("clusters", rng).arrays()
    assert name in arrays
    with pytest.raises(InputError, match=message):
        SupervisedMap.from_arrays(arrays | {name: array})


def test_likenesses_without_clusterings_are_refused(rng):
    arrays = draw_map("one label", rng).arrays()
    with pytest.raises(InputError, match="made from 6 numbers, expected 0"):
        SupervisedMap.from_arrays(arrays | {"likeness": np.zeros((K + 1, 2), dtype=np.float32)})


def by_both(feature_map, x):
    """Return the features of rows as compiled code makes them, and as NumPy does."""
    return feature_map(x), feature_map.from_logits(feature_map._logits(x), x)


def test_novelty_is_a_logistic_function_of_evidence_and_of_what_clusterings_say(rng):
    feature_map, x = draw_map("clusters", rng), rng.normal(size=(50, P)).astype(np.float32)
    says = feature_map._memberships(feature_map.positions(x)) @ feature_map.clusters.ratios
    logits = feature_map.novelty @ [evidence(feature_map._logits(x)), says, np.ones(50)]
    for found in by_both(feature_map, x):
        u = FeatureParts.of(found, feature_map).u[:, 0]
        np.testing.assert_allclose(u, 1 / (1 + np.exp(-logits)), atol=1e-5)


def test_without_clusterings_novelty_depends_on_the_evidence_alone(rng):
    feature_map, x = draw_map("one label", rng), rng.normal(size=(50, P)).astype(np.float32)
    logits = feature_map.novelty[0] * evidence(feature_map._logits(x)) + feature_map.novelty[2]
    for found in by_both(feature_map, x):
        u = FeatureParts.of(found, feature_map).u[:, 0]
        np.testing.assert_allclose(u, 1 / (1 + np.exp(-logits)), atol=1e-5)


@pytest.mark.parametrize(("shift", "expected"), [(-200, 0), (200, 1)])
def test_a_logit_too_far_from_zero_for_an_exponential_is_a_sure_answer(shift, expected, rng):
    feature_map = replace(draw_map("one label", rng), novelty=np.float32([0, 0, 10 * shift]))
    for found in by_both(feature_map, rng.normal(size=(3, P)).astype(np.float32)):
        np.testing.assert_array_equal(FeatureParts.of(found, feature_map).u, expected)


def test_no_row_is_new_if_nothing_can_be(rng):
    feature_map, x = draw_map("nothing new", rng), rng.normal(size=(50, P)).astype(np.float32)
    for found in by_both(feature_map, x):
        np.testing.assert_array_equal(FeatureParts.of(found, feature_map).u, 0)


def test_positions_of_items_are_longer_the_newer_they_look_but_not_if_their_label_is_known(rng):
    feature_map, x = draw_map("one label", rng), rng.normal(size=(50, P)).astype(np.float32)
    parts = FeatureParts.of(feature_map(x), feature_map)
    own = np.eye(6)[rng.integers(6, size=50)]
    own[::2] = np.nan
    blind, told = item_vectors(parts, feature_map), item_vectors(parts, feature_map, own)
    np.testing.assert_allclose(blind[:, 6:], (1 + 2.5 * parts.u) * parts.z, rtol=1e-6)
    np.testing.assert_array_equal(told[::2], blind[::2])
    np.testing.assert_array_equal(told[1::2, 6:], parts.z[1::2])
    for each in (blind, told):
        np.testing.assert_allclose(item_positions(each, feature_map), parts.z, rtol=1e-4, atol=1e-6)


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
