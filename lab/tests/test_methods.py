from dataclasses import replace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant.model.quantizer import SupervisedQuantizer
from supquant_lab.datasets import load
from supquant_lab.methods import METHODS, EstimatorMethod, KeptFits, Settings, Training, apply_steps
from supquant_lab.splits import split_rows

QUICK = Settings(anchors=60, parameters={"max_iter": 1})


@pytest.fixture(scope="module")
def training():
    data = load("digits").sample(600)
    return Training(data.prepare(data.X)(data.X), data.y)


@pytest.fixture(scope="module")
def several_labels(training):
    y = np.stack([training.y % 2 == 0, training.y > 4, training.y < 3], axis=1).astype(np.uint8)
    y[y.sum(axis=1) == 0, 0] = 1
    return Training(training.X, y)


@pytest.fixture(scope="module")
def partly_labelled(training):
    return Training(training.X[:300], training.y[:300], training.X[300:])


@pytest.mark.parametrize("y", [np.array([3, 1, 3]), np.array(["b", "a", "b"]), np.eye(3, dtype=np.uint8)])
def test_labels_that_are_not_known_are_masked(y):
    training = Training(np.zeros((3, 2), np.float32), y, np.ones((4, 2), np.float32))
    labels = training.every_label
    assert labels.shape == (7, *y.shape[1:])
    np.testing.assert_array_equal(labels.data[:3], y)
    assert not labels.mask[:3].any()
    assert labels.mask[3:].all()
    assert labels.dtype == y.dtype
    assert set(labels.data.ravel().tolist()) == set(y.ravel().tolist())  # no class is made up
    np.testing.assert_array_equal(training.every_row[:, 0], [0, 0, 0, 1, 1, 1, 1])


def test_rows_and_labels_without_others_are_not_copied(training):
    assert training.every_row is training.X
    assert training.every_label is training.y


@pytest.mark.parametrize(("name", "told"), [("pq", {}), ("opq", {"max_iter": 2}), ("cq", {"max_iter": 1})])
def test_methods_that_need_no_labels_learn_from_all_rows(training, partly_labelled, name, told):
    fitted = METHODS[name](partly_labelled, Settings(parameters=told)).fitted(16)
    whole = METHODS[name](training, Settings(parameters=told)).fitted(16)
    np.testing.assert_array_equal(fitted.estimator.codec_.codebooks, whole.estimator.codec_.codebooks)
    np.testing.assert_array_equal(fitted.learned(), whole.learned()[:300])


@pytest.mark.parametrize("name", ["sq", "sdh", "classifier", "cca-itq", "classifier-scores"])
def test_other_methods_learn_from_the_labelled_rows_alone(partly_labelled, name):
    settings = Settings(anchors=60, parameters={"max_iter": 1} if name == "sq" else {})
    fitted, alone = (
        METHODS[name](rows, settings).fitted(16) for rows in (partly_labelled, partly_labelled.labelled())
    )
    X = partly_labelled.unlabelled
    np.testing.assert_array_equal(fitted.encoded(X), alone.encoded(X))


class Remembering:
    """An estimator that only records what it is fitted to."""

    def __init__(self):
        self.training_codes_ = np.arange(600)[:, None]

    def get_params(self, deep=True):
        return {}

    def set_params(self, **_):
        return self

    def fit(self, X, y):
        self.X, self.y = X, y


@pytest.mark.parametrize(("ranking", "anchors"), [("label", None), ("label", 60), ("euclidean", None)])
def test_the_default_model_gets_rows_without_labels(partly_labelled, ranking, anchors, monkeypatch):
    monkeypatch.setattr(METHODS["sq"], "make", lambda *_: Remembering())
    fitted = METHODS["sq"](partly_labelled, Settings(ranking=ranking, anchors=anchors)).fitted(16)
    if ranking == "label" and anchors is None:
        np.testing.assert_array_equal(fitted.estimator.X, partly_labelled.every_row)
        np.testing.assert_array_equal(fitted.estimator.y.mask, np.arange(600) >= 300)
        np.testing.assert_array_equal(fitted.estimator.y.compressed(), partly_labelled.y)
    else:
        assert fitted.estimator.X is partly_labelled.X
        assert fitted.estimator.y is partly_labelled.y
    np.testing.assert_array_equal(fitted.learned()[:, 0], np.arange(300))  # of the labelled rows


def test_sq_learns_from_rows_without_labels(partly_labelled):
    fitted = METHODS["sq"](partly_labelled, Settings(ranking="label")).fitted(16)
    assert len(fitted.estimator.training_codes_) == 600
    assert len(fitted.learned()) == 300
    np.testing.assert_array_equal(fitted.estimator.classes_, np.unique(partly_labelled.y))


def test_a_longer_code_starts_from_the_shorter_one_and_chains_are_fitted_once(training):
    stages = []
    method = METHODS["sq"](training, QUICK, lambda event: stages.append(event.step))
    shorter = method.fitted(16)
    before = len(stages)
    longer = method.fitted(32)
    assert longer.estimator.init is shorter.estimator
    assert len(stages) > before
    assert method.fitted(16) is shorter
    assert longer.chain_seconds == pytest.approx(longer.fit_seconds + shorter.fit_seconds)


@pytest.mark.parametrize(("name", "ranking"), [("pq", "euclidean"), ("sq", "euclidean"), ("sq", "label")])
def test_steps_give_the_scores_of_tables(training, name, ranking):
    fitted = METHODS[name](training, QUICK).fitted(16)
    codes = fitted.encoded(training.X[:50])
    queries = training.X[50:60]
    tables = fitted.estimator.codec_.tables(queries, ranking)
    expected = tables[:, 0, codes[:, 0]] + tables[:, 1, codes[:, 1]]
    np.testing.assert_allclose(
        apply_steps(fitted.steps(codes, ranking), queries), expected, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("n_words", [1, 2])
def test_steps_over_items_with_labels_are_those_of_an_index_of_such_items(training, n_words):
    y = training.y if n_words == 1 else training.y + 10 * (np.arange(600) % 3)
    settings = Settings(ranking="label", parameters={"max_iter": 1, "n_codewords": 16})
    fitted = METHODS["sq"](Training(training.X, y), settings).fitted(16)
    codec, codes = fitted.estimator.codec_, fitted.learned()
    assert codec.map.spelling.length == n_words
    tables = codec.query_tables(training.X[:9], all_labelled=True).tables
    expected = tables[:, np.arange(codes.shape[1]), codes].sum(axis=2)
    found = apply_steps(fitted.steps(codes, "label"), training.X[:9])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ranking", ["label", "position"])
def test_sq_with_the_label_ranking_is_the_default_model_unless_anchors_are_given(training, ranking):
    plain = METHODS["sq"](training, Settings(ranking=ranking, parameters={"max_iter": 1}))
    given = METHODS["sq"](training, Settings(ranking=ranking, anchors=60))
    published = METHODS["sq"](training, Settings(ranking="euclidean"))
    assert plain.estimator(32).features == "auto"
    assert not plain.chained
    assert given.estimator(32).features.n_anchors == 60
    assert published.estimator(32).features.n_anchors == 1000
    assert given.chained
    assert published.chained
    record = plain.fitted(16).parameters
    assert record["features"] == "labels"
    assert record["anchors"] == len(plain.fitted(16).estimator.codec_.feature_map.kernel.anchors)


def test_quantization_error_is_relative_to_the_variance(training):
    fitted = METHODS["pq"](training, Settings()).fitted(16)
    codes = fitted.encoded(training.X)
    error = np.square(training.X - fitted.estimator.decode(codes)).sum()
    variance = np.square(training.X - training.X.mean(axis=0)).sum()
    assert fitted.quantization_error(training.X, codes) == pytest.approx(error / variance, rel=1e-4)


@pytest.mark.parametrize("name", ["classifier", "classifier-bits", "classifier-scores"])
def test_classifier_uses_the_anchors_of_sq(training, name):
    classifier = METHODS[name](training, Settings(anchors=60, seed=4)).fitted(16)
    quantizer = METHODS["sq"](training, replace(QUICK, seed=4)).fitted(16).estimator
    np.testing.assert_array_equal(
        classifier.steps(classifier.encoded(training.X[:9]), "label")["features"](training.X[:9]),
        quantizer.codec_.features(training.X[:9]),
    )


def test_classifier_stores_labels_and_scores_them(several_labels):
    labels = METHODS["classifier"](several_labels, Settings(anchors=60)).fitted(16)
    floats = METHODS["classifier-scores"](several_labels, Settings(anchors=60)).fitted(16)
    stored, scores = labels.learned(), floats.encoded(several_labels.X)
    assert (labels.bytes_per_item(stored), floats.bytes_per_item(scores)) == (1, 12)
    assert labels.distinct(stored) == len(np.unique(several_labels.y, axis=0))
    assert floats.learned() is None
    queries = several_labels.X[:4]
    for_labels = apply_steps(labels.steps(stored, "label"), queries)
    np.testing.assert_allclose(for_labels, -scores[:4] @ several_labels.y.T, atol=1e-5)
    for_scores = apply_steps(floats.steps(scores, "label"), queries)
    np.testing.assert_allclose(for_scores, -scores[:4] @ scores.T, atol=1e-5)


def probabilities(training, **told):
    settings = Settings(anchors=60, seed=3, parameters={"max_iter": 1}, **told)
    return METHODS["probabilities"](training, settings).fitted(64)


def test_probabilities_are_those_of_the_classifier_inside_sq(training):
    fitted = probabilities(training)
    alone = SupervisedQuantizer(2, max_iter=1, random_state=3).fit(training.X, training.y)
    expected = alone.predict_proba(training.X[:50])
    items = fitted.encoded(training.X[:50])
    np.testing.assert_array_equal(items, expected)
    assert items.dtype == np.float32
    queries = training.X[50:60]
    scores = apply_steps(fitted.steps(items, "label"), queries)
    np.testing.assert_allclose(scores, -alone.predict_proba(queries) @ expected.T, rtol=1e-5)
    assert fitted.bytes_per_item(items) == 40
    assert (fitted.parameters["features"], fitted.parameters["max_iter"]) == ("labels", 1)
    assert fitted.parameters["random_state"] == 3


def test_learned_items_are_label_indicators(training):
    y = np.array(["zebra", "ant", "owl"])[training.y % 3]
    fitted = probabilities(Training(training.X, y))
    np.testing.assert_array_equal(fitted.learned(), y[:, None] == np.array(["ant", "owl", "zebra"]))


def test_probabilities_of_several_labels_are_the_chance_to_share_one(several_labels):
    fitted = probabilities(several_labels)
    items, p = fitted.learned(), fitted.encoded(several_labels.X[:9])
    np.testing.assert_array_equal(items, several_labels.y)
    scores = apply_steps(fitted.steps(items, "label"), several_labels.X[:9])
    none_shared = np.prod(np.where(items[None] > 0, 1 - p[:, None].astype(np.float64), 1), axis=2)  # (9, n)
    sure = p.max(axis=1) < 1 - 2.0**-20
    assert sure.any()
    np.testing.assert_allclose(scores[sure], np.log(none_shared[sure]), rtol=1e-2, atol=1e-3)


def test_probabilities_share_the_kept_fit_of_sq(training, tmp_path, monkeypatch):
    kept = KeptFits(tmp_path)
    settings = Settings(ranking="label", parameters={"max_iter": 1})
    codes = METHODS["sq"](training, settings, None, kept).fitted(16)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", None)
    fitted = METHODS["probabilities"](training, replace(settings, ranking=None), None, kept).fitted(16)
    np.testing.assert_array_equal(fitted.encoded(training.X), codes.estimator.predict_proba(training.X))


def test_steps_of_bits_give_hamming_distances(training):
    fitted = METHODS["classifier-bits"](training, Settings(anchors=60)).fitted(32)
    codes, queries = fitted.encoded(training.X[:50]), training.X[50:60]
    signs = [fitted.estimator.transform(rows) for rows in (queries, training.X[:50])]
    expected = (signs[0][:, None] != signs[1]).sum(axis=2)
    np.testing.assert_array_equal(apply_steps(fitted.steps(codes, "hamming"), queries), expected)


@pytest.mark.parametrize("for_all", [False, True])
def test_cosine_ranks_vectors_by_their_angle(training, for_all):
    fitted = METHODS["cosine"](training, Settings(anchors=60, kernel_for_all=for_all)).fitted(16)
    items, queries = fitted.encoded(training.X[:50]), training.X[50:60]
    asked = fitted.encoded(queries)
    lengths = np.linalg.norm(asked, axis=1)[:, None] * np.linalg.norm(items, axis=1)
    scores = apply_steps(fitted.steps(items, "cosine"), queries)
    np.testing.assert_allclose(scores, -(asked @ items.T) / lengths, atol=1e-5)
    assert fitted.bytes_per_item(items) == 4 * (60 if for_all else 64)
    assert fitted.learned() is None


def test_items_have_the_size_they_report(training):
    assert METHODS["euclidean"](training, Settings()).fitted(16).bytes_per_item(training.X) == 256
    classifier = METHODS["classifier"](training, Settings(anchors=60)).fitted(16)
    assert classifier.bytes_per_item(classifier.learned()) == 1


def test_kernel_goes_to_the_methods_published_with_it_or_to_all(training):
    for name, method in METHODS.items():
        if not issubclass(method, EstimatorMethod):
            continue
        for for_all in (False, True):
            settings = Settings(anchors=60, kernel_for_all=for_all)
            estimator = method(training, settings).estimator(16)
            known = estimator.get_params(deep=False)
            if "features" in known:
                assert (known["features"] is not None) == (method.kernel or for_all), name


@pytest.mark.parametrize("name", ["pq", "cca-itq", "euclidean"])
def test_kernel_for_all_reaches_every_method(training, name):
    settings = Settings(anchors=60, kernel_for_all=True)
    fitted = METHODS[name](training, settings).fitted(16)
    assert (fitted.parameters["anchors"], fitted.parameters["features"]) == (60, "kernel, ours")
    kernel = settings.features().fit(training.X).map_
    queries = training.X[:5]
    items = fitted.encoded(training.X)
    np.testing.assert_allclose(
        fitted.steps(items, "euclidean")["features"](queries), kernel(queries), atol=1e-6
    )
    if name == "pq":
        np.testing.assert_array_equal(items, fitted.estimator.encode(kernel(training.X)))
        np.testing.assert_array_equal(items, fitted.learned())
        assert 0 < fitted.quantization_error(training.X, items) < 1


def test_unknown_parameters_are_refused(training):
    with pytest.raises(InputError, match="the method pq has no parameter 'solver'"):
        METHODS["pq"](training, Settings(parameters={"solver": "joint"})).fitted(16)


def test_halves_of_the_unlabelled_protocol_can_be_learned_from(training):
    labels = read_labels(training.y)
    split = split_rows(labels, protocol="unlabelled")
    half = Training(training.X[split.training], training.y[split.training])
    fitted = METHODS["classifier"](half, Settings(anchors=60)).fitted(16)
    predicted = fitted.encoded(training.X[split.database])
    assert np.mean(predicted[:, 0] == labels.take(split.database).indices) > 0.9


def test_the_bandwidth_of_the_kernel_can_be_given(training):
    fitted = METHODS["sdh"](training, Settings(anchors=60, bandwidth=2.5)).fitted(16)
    assert fitted.estimator.codec_.feature_map.bandwidth == 2.5
    assert fitted.parameters["bandwidth"] == 2.5


@pytest.mark.parametrize(
    "name", [name for name, each in METHODS.items() if issubclass(each, EstimatorMethod)]
)
def test_an_estimator_has_the_published_features_by_default_too(training, name):
    defaults = METHODS[name](training, Settings()).make(16).get_params(deep=False)
    assert (defaults.get("features") is not None) == METHODS[name].kernel
