from dataclasses import replace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.cell import run_cells
from supquant_lab.datasets import load
from supquant_lab.methods import Settings, Training, apply_steps
from supquant_lab.methods.opponents import maps
from supquant_lab.methods.opponents.clusters import semi_supervised_centres
from supquant_lab.methods.opponents.code_alignment import AlignedCodes, alignment_loss
from supquant_lab.methods.opponents.maps import (
    LinearHead,
    RotatedComponents,
    UnitLength,
    WithinClass,
    label_numbers,
    unit_length,
)
from supquant_lab.methods.opponents.methods import OPPONENTS
from supquant_lab.methods.opponents.stores import (
    AdditiveCodes,
    EightBits,
    Floats,
    ProductCodes,
    RaBitQ,
    Reranked,
    Signs,
)
from supquant_lab.methods.opponents.validation import validated
from supquant_lab.problem import pose
from supquant_lab.splits import PROTOCOLS

ROWS = 1500


@pytest.fixture(scope="module")
def problem():
    return pose(load("digits").sample(ROWS), protocol="open")


@pytest.fixture(scope="module")
def vectors(problem):
    X = unit_length(problem.X)
    X.setflags(write=False)
    return X[:300], X[300:320]


def cosines(queries, items):
    return unit_length(queries) @ unit_length(items).T


def fitted(name, training, bits=64, **parameters):
    return OPPONENTS[name](training, Settings(parameters=parameters, n_jobs=1)).fitted(bits)


# stores


def test_floats_are_scored_by_their_cosine(vectors):
    X, queries = vectors
    np.testing.assert_allclose(Floats().score(Floats().encoded(X))(queries), -cosines(queries, X), atol=1e-6)
    assert Floats().bytes_per_item(X) == 256


@pytest.mark.parametrize("width", [64, 1])
def test_product_codes_are_scored_by_decoded_vectors(vectors, width):
    X, queries = (rows[:, 20 : 20 + width] for rows in vectors)
    store = ProductCodes("pq", 16, seed=0, n_jobs=1).fit(X)
    codes = store.encoded(X)
    decoded = store.estimator.decode(codes)[:, :width]
    expected = np.square(queries[:, None] - decoded).sum(axis=2) / 2
    found = store.score(codes)(queries)
    found += (expected - found).mean(axis=1, keepdims=True)  # up to a constant for each query
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert store.bytes_per_item(codes) == 2


@pytest.mark.parametrize("kind", ["ResidualQuantizer", "LocalSearchQuantizer"])
def test_additive_codes_are_near_their_vectors(vectors, kind):
    X, queries = vectors
    store = AdditiveCodes(kind, 16, seed=0).fit(X)
    codes = store.encoded(X)
    assert codes.shape == (300, 2)
    scores = store.score(codes)(queries)
    assert np.corrcoef(scores.ravel(), -cosines(queries, X).ravel())[0, 1] > 0.9


def test_eight_bits_round_to_levels_between_the_extremes(vectors):
    X, queries = vectors
    store = EightBits().fit(X)
    items = store.encoded(X)
    assert items.dtype == np.int8
    assert items.min() == -128
    assert items.max() == 127
    step = np.ptp(X, axis=0).max() / 255
    error = np.abs(store.score(items)(queries) + cosines(queries, X)).max()
    assert 0 < error < step / 2 * np.abs(queries).sum(axis=1).max()
    assert store.bytes_per_item(items) == 64
    np.testing.assert_array_equal(store.encoded(X - 9)[0], -128)  # beyond the extremes


def test_signs_are_compared_with_floats_or_with_signs(vectors):
    X, queries = vectors
    signs = np.where(X.mean(axis=0) < X, 1, -1)
    for float_queries in (True, False):
        store = Signs(centred=True, float_queries=float_queries).fit(X)
        items = store.encoded(X)
        assert store.bytes_per_item(items) == 8
        of_query = queries - X.mean(axis=0)
        if not float_queries:
            of_query = np.where(of_query > 0, 1, -1)
        above = store.score(items)(queries) + of_query @ signs.T
        if float_queries:
            np.testing.assert_allclose(above, 0, atol=1e-5)
        else:  # of which equal distances are in a random order
            assert (above > -1e-5).all()
            assert (above < 1 + 1e-5).all()


def test_equal_hamming_distances_do_not_keep_the_order_of_rows(vectors):
    X, queries = vectors
    store = Signs(float_queries=False).fit(X)
    scores = store.score(store.encoded(np.repeat(X[:1], 200, axis=0)))(queries)
    first_ones = scores.argsort(axis=1)[:, :100]
    assert (abs(first_ones.mean(axis=1) - 99.5) < 15).all()


def test_rabitq_estimates_distances_in_the_order_of_the_items(vectors):
    X, queries = vectors
    rotated = RotatedComponents(32, 0).fit(Training(X, np.arange(300)))
    store = RaBitQ().fit(rotated(X))
    codes = store.encoded(rotated(X))
    assert store.bytes_per_item(codes) == 32 / 8 + 8  # with two floats
    scores = store.score(codes)(rotated(queries))
    assert np.corrcoef(scores.ravel(), -cosines(rotated(queries), rotated(X)).ravel())[0, 1] > 0.9


def test_the_first_items_are_ranked_again_by_their_cosine(vectors):
    X, queries = vectors
    store = Reranked(Signs(centred=True), width=16, first=40).fit(X)
    items = store.encoded(X)
    scores, by_code = (
        store.score(items)(queries),
        store.codes.score(items[0])(np.ascontiguousarray(queries[:, :16])),
    )
    for row in range(len(queries)):
        order = np.argsort(scores[row], kind="stable")
        assert (np.diff(-cosines(queries, X)[row, order[:40]]) > -1e-6).all()
        assert by_code[row, order[:40]].max() <= by_code[row, order[40:]].min()
        assert (np.diff(by_code[row, order[40:]]) > -1e-5).all()
    assert store.bytes_per_item(items) == 2 + 256


# maps


def test_whitening_makes_classes_round(problem):
    whitening = WithinClass(0.0, discriminant=False)
    rows = Training(problem.X[:, 10:20], problem.y)
    mapped = rows.X @ whitening.fit(rows)._matrix.T
    residuals = np.concatenate(
        [mapped[rows.y == c] - mapped[rows.y == c].mean(axis=0) for c in np.unique(rows.y)]
    )
    np.testing.assert_allclose(np.cov(residuals.T, ddof=0), np.eye(10), atol=1e-3)


def test_full_shrinkage_leaves_cosines_as_they_are(problem):
    mapped = WithinClass(1.0, discriminant=False).fit(problem.training)(problem.X)
    centred = problem.X - problem.training.every_row.mean(axis=0)
    np.testing.assert_allclose(mapped @ mapped.T, cosines(centred, centred), atol=1e-4)


def test_discriminants_are_those_of_scikit_learn(problem):
    from scipy.linalg import subspace_angles
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rows = Training(problem.X[:, 10:30], problem.y)
    ours = WithinClass(1e-6, discriminant=True).fit(rows)._matrix
    assert ours.shape == (len(np.unique(problem.y)) - 1, 20)
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(rows.X, rows.y).scalings_[:, : len(ours)]
    assert subspace_angles(ours.T, theirs).max() < 1e-2


def test_rotated_components_share_the_variance(problem):
    rotated = RotatedComponents(8, 0).fit(problem.training)
    plain = (problem.X - rotated._mean) @ rotated._matrix.T
    np.testing.assert_allclose(rotated._matrix @ rotated._matrix.T, np.eye(8), atol=1e-5)
    assert plain.var(axis=0).max() < 10 * plain.var(axis=0).min()
    whole = RotatedComponents(8, 0, keep_all=True).fit(problem.training)
    np.testing.assert_array_equal(whole._matrix[:8], rotated._matrix)
    centred = problem.X - whole._mean
    np.testing.assert_allclose(whole(problem.X) @ whole(problem.X).T, cosines(centred, centred), atol=1e-4)


def test_a_head_draws_classes_together_unless_it_must_not_change(problem):
    start = LinearHead(0.1, 1e6).fit(problem.training)
    free = LinearHead(0.1, 0.01).fit(problem.training)
    centred = problem.X - problem.training.every_row.mean(axis=0)
    np.testing.assert_allclose(start(problem.X) @ start(problem.X).T, cosines(centred, centred), atol=1e-2)
    same = problem.y[:, None] == problem.y

    def contrast(head):
        found = head(problem.X) @ head(problem.X).T
        return found[same].mean() - found[~same].mean()

    assert contrast(free) > contrast(start) + 0.3


def test_the_slope_of_a_head_is_that_of_its_loss(problem, monkeypatch):
    class FoundError(Exception):
        pass

    def stop(loss, first, **_):
        raise FoundError(loss, first)

    monkeypatch.setattr(maps, "minimize", stop)
    with pytest.raises(FoundError) as raised:
        LinearHead(0.5, 3.0).fit(problem.training)
    loss, first = raised.value.args
    rng = np.random.default_rng(0)
    at = first + 0.1 * rng.standard_normal(len(first))
    _, slope = loss(at)
    n_map = len(first) - 7 * 64
    for part in (slice(0, n_map), slice(n_map, None)):  # the map, the class vectors
        along = np.zeros_like(at)
        along[part] = slope[part] / np.linalg.norm(slope[part])
        rise = (loss(at + 1e-2 * along)[0] - loss(at - 1e-2 * along)[0]) / 2e-2
        assert rise == pytest.approx(slope @ along, rel=1e-2)


# methods


@pytest.fixture(scope="module")
def classified(problem):
    return fitted("label-cosine", problem.training, soft=True, weight=0.5)


def test_labels_and_cosines_are_added(problem, classified):
    items = classified.encoded(problem.database)
    assert items.labels.shape == (len(problem.database), 7)
    np.testing.assert_allclose(items.labels.sum(axis=1), 1, rtol=1e-5)
    queries = problem.queries[:9]
    p = classified.encoded(queries).labels
    expected = -(p @ items.labels.T) - 0.5 * cosines(queries, problem.database)
    np.testing.assert_allclose(apply_steps(classified.steps(items, "label"), queries), expected, atol=1e-5)
    assert classified.bytes_per_item(items) == 4 * 7 + 4 * 64


def test_known_labels_are_stored_as_labels(problem, classified):
    items = classified.learned()
    np.testing.assert_array_equal(items.labels, np.unique(problem.y, return_inverse=True)[1])
    p = classified.encoded(problem.queries).labels
    scores = apply_steps(classified.weighted(0.0).steps(items, "label"), problem.queries)
    np.testing.assert_allclose(scores, -p[:, items.labels], atol=1e-6)
    assert classified.weighted(3.0).parameters["weight"] == 3.0
    assert classified.parameters["weight"] == 0.5
    assert classified.bytes_per_item(items) == 1 + 256


def test_label_pq_has_one_byte_of_label(problem):
    found = fitted("label-pq", problem.training, bits=24)
    items = found.encoded(problem.database)
    assert items.vectors.shape[1] == 2
    assert found.bytes_per_item(items) == 3
    p = fitted("label-cosine", problem.training).encoded(problem.database).labels
    np.testing.assert_array_equal(items.labels, p.argmax(axis=1))
    with pytest.raises(InputError, match="label-pq needs at least 16 bits for 7 labels, got 8"):
        fitted("label-pq", problem.training, bits=8)


def test_items_of_the_cluster_of_a_query_come_first_and_then_the_nearest(problem):
    found = fitted("semi-kmeans", problem.training, n_clusters=10)
    items = found.encoded(problem.database)
    assert len(np.unique(items.labels)) == 10
    of_query = found.encoded(problem.queries).labels
    scores = apply_steps(found.steps(items, "label"), problem.queries)
    similar = cosines(problem.queries, problem.database)
    for row, cluster in enumerate(of_query):
        inside = items.labels == cluster
        assert scores[row, inside].max() < scores[row, ~inside].min()
        for rows in (inside, ~inside):
            order = np.argsort(scores[row, rows], kind="stable")
            assert (np.diff(similar[row, rows][order]) < 1e-5).all()
    np.testing.assert_array_equal(found.learned().labels, np.unique(problem.y, return_inverse=True)[1])


def test_rows_with_labels_stay_in_their_cluster_and_new_clusters_are_found():
    rng = np.random.default_rng(0)
    blobs = [centre + 0.1 * rng.standard_normal((40, 2)) for centre in ([0, 0], [9, 0], [0, 9])]
    X, numbers = np.vstack([blobs[0][:20], blobs[1][:20]]), np.repeat([0, 1], 20)
    unlabelled = np.vstack([blobs[0][20:], blobs[2]])
    centres = semi_supervised_centres(X, numbers, unlabelled, 3, rng)
    np.testing.assert_allclose(centres, [[0, 0], [9, 0], [0, 9]], atol=0.1)
    assert len(semi_supervised_centres(X, numbers, unlabelled[:0], 3, rng)) == 2


def test_the_gradient_of_aligned_codes_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 5))
    parameters = [rng.normal(size=size) for size in ((7, 5), (7,), (3, 7), (3,))]
    _, slopes = alignment_loss(parameters, x, rate=0.7)
    for parameter, slope in zip(parameters, slopes, strict=True):
        for place in np.ndindex(parameter.shape):
            kept = parameter[place]
            around = []
            for moved in (kept + 1e-6, kept - 1e-6):
                parameter[place] = moved
                around.append(alignment_loss(parameters, x, rate=0.7)[0])
            parameter[place] = kept
            assert slope[place] == pytest.approx((around[0] - around[1]) / 2e-6, abs=1e-6)


def test_bits_of_one_class_agree_and_bits_of_two_do_not(problem):
    _, numbers = label_numbers(problem.training)
    bits = AlignedCodes(16, seed=0, epochs=20, rate=0.3).fit(problem.training)(problem.X) > 0
    differing = (bits[:, None] != bits[None]).sum(axis=2)
    same = numbers[:, None] == numbers
    assert differing[same].mean() < 1
    assert differing[~same].mean() > 6
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.35


@pytest.mark.parametrize("name", [name for name in OPPONENTS if "faiss" not in name])
def test_opponents_find_more_than_chance_in_the_bytes_they_report(problem, name):
    found = fitted(name, problem.training)
    items = found.encoded(problem.database)
    scores = apply_steps(found.steps(items, OPPONENTS[name].rankings[0]), problem.queries)
    assert scores.shape == (len(problem.queries), len(problem.database))
    first = np.argsort(scores, axis=1, kind="stable")[:, 0]
    right = problem.query_labels.indices == problem.database_labels.indices[first]
    assert right.mean() > 0.6
    assert (found.bytes_per_item(items) == 8) == (name in SMALL)
    assert found.fit_seconds > 0


SMALL = ("label-pq", "lda-pq", "lda-opq", "linear-head-pq", "hashing-baseline", "signs", "crovca", "binary")


def test_unknown_parameters_and_several_labels_are_refused(problem):
    with pytest.raises(InputError, match="the method int8 has no parameter 'C'; it has none"):
        fitted("int8", problem.training, C=1)
    with pytest.raises(InputError, match="one label per row"):
        fitted("lda-pq", Training(problem.X, np.ones((len(problem.X), 2), np.uint8)))


# validation


def test_rows_without_labels_do_not_change_what_is_chosen(problem):
    training = problem.training
    other = replace(training, unlabelled=np.zeros_like(training.unlabelled))
    found, again = (
        validated(OPPONENTS["lda-pq"], rows, Settings(n_jobs=1), 16, "open") for rows in (training, other)
    )
    assert [point.map for point in found.points] == [point.map for point in again.points]
    assert len({point.map for point in found.points}) > 3


def test_weights_are_tried_with_every_fit(problem):
    kind = OPPONENTS["label-pq"]
    found = validated(kind, problem.training, Settings(n_jobs=1), 64, "open")
    tried = [tuple(point.parameters[name] for name in ("C", "weight")) for point in found.points]
    assert len(set(tried)) == len(tried) == len(kind.grid["C"]) * len(kind.weights)
    assert 0 < found.parameters["weight"] < 30  # neither labels nor vectors alone find both kinds of classes
    known = validated(kind, problem.training, Settings(n_jobs=1), 64, "paper")
    assert known.parameters["weight"] < found.parameters["weight"]


def test_codes_take_over_the_tuning_of_their_map(problem):
    one, other = (
        validated(OPPONENTS[name], problem.training, Settings(n_jobs=1), 64, "open")
        for name in ("lda-pq", "lda-opq")
    )
    assert one.parameters == other.parameters
    assert validated(OPPONENTS["int8"], problem.training, Settings(), 64, "open") is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_experiment_tunes_an_opponent_for_its_protocol(protocol):
    data = load("digits").sample(ROWS)
    told = {"method": "binary", "protocol": protocol, "settings": Settings(n_jobs=1)}
    (cell,) = run_cells(data, **told, tuning="validate")
    assert cell.parameters["tuning"]["points"] == 2
    assert cell.parameters["centred"] == cell.parameters["tuning"]["found"]["centred"]
    (plain,) = run_cells(data, **told)
    assert plain.parameters["centred"] is False
    assert cell.index_bytes_per_item == 8


def test_vectors_are_scaled_to_unit_length():
    np.testing.assert_allclose(UnitLength()(np.array([[0.0, 2.0], [0.0, 0.0]])), [[0, 1], [0, 0]])
