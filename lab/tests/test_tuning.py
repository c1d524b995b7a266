import json
import threading

import numpy as np
import pytest

from supquant import AnchorKernel, ProductQuantizer, PublishedQuantizer, SupervisedQuantizer
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import ClassifierBits
from supquant_lab.tuning import Tuning, tune

QUANTIZER = PublishedQuantizer(2, n_codewords=16, features=None, max_iter=1)
GRID = {"quantization_weight": [1e-5, 1e-3], "constraint_weight": [0.1, 1.0]}
SETTINGS = {"max_rows": 300, "random_state": 0, "n_jobs": 1}
PROCESSES = SETTINGS | {"n_jobs": 2}  # only where they matter: each has to import everything first


def test_best_point_of_the_grid_is_chosen(digits):
    events = []
    quantizer = PublishedQuantizer(2, n_codewords=16, features=AnchorKernel(50), max_iter=1)
    found = tune(quantizer, GRID, *digits, callback=events.append, **PROCESSES)
    assert [tuple(point.parameters.values()) for point in found.points] == [
        (gamma, mu) for gamma in (1e-5, 1e-3) for mu in (0.1, 1.0)
    ]
    best = np.argmax([point.map for point in found.points])
    assert found.parameters == found.points[best].parameters
    assert found.fit_seconds == sum(point.fit_seconds for point in found.points) > 0
    assert [event.step for event in events] == [1, 2, 3, 4]
    assert sorted(event.values["map"] for event in events) == sorted(point.map for point in found.points)
    assert not hasattr(quantizer, "codec_")  # the given estimator is not fitted


@pytest.mark.parametrize("codes", ["learned", "encoded"])
def test_map_is_that_of_validation_queries_among_all_rows(digits, codes):
    X, y = digits
    model = ClassifierBits(8, features=None)
    (point,) = tune(
        model, {"ridge": [1e-3]}, X[:200], y[:200], codes=codes, n_validation=40, random_state=3, n_jobs=1
    ).points
    rng = np.random.default_rng(3)
    rows = rng.permutation(200)
    model.set_params(ridge=1e-3, random_state=int(rng.integers(2**31))).fit(X[rows], y[rows])
    items = model.training_codes_ if codes == "learned" else model.encode(X[rows])
    labels = read_labels(y[rows])
    queries = labels.take(np.arange(40))
    assert point.map == evaluate_tables(model.codec_.tables(X[rows[:40]]), items, queries, labels).map


def test_a_fit_that_takes_too_long_ends_and_says_so(digits):
    quantizer = PublishedQuantizer(2, n_codewords=16, features=None, max_iter=5)
    grid = {"quantization_weight": [1e-5]}
    (cut,) = tune(quantizer, grid, *digits, time_limit=0.0, **SETTINGS).points
    (whole,) = tune(quantizer, grid, *digits, time_limit=600.0, **SETTINGS).points
    (first,) = tune(quantizer.set_params(max_iter=1), grid, *digits, **SETTINGS).points
    assert (cut.truncated, whole.truncated, first.truncated) == (True, False, False)
    assert cut.map == first.map != whole.map


class Listener:
    """A callback that can be neither copied nor sent to another process."""

    def __init__(self):
        self.lock = threading.Lock()

    def hear(self, event):
        with self.lock:
            pass


def test_the_callback_of_the_estimator_stays_where_it_is(digits):
    hear = Listener().hear
    model = ClassifierBits(8, features=None, callback=hear)
    assert len(tune(model, {"ridge": [1e-3, 1e-2]}, *digits, **PROCESSES).points) == 2
    assert model.callback is hear


def test_estimators_without_features_are_tuned_too(digits):
    found = tune(ProductQuantizer(2, n_codewords=16), {"max_iter": [1, 20]}, *digits, **SETTINGS)
    assert found.parameters == {"max_iter": 20}


def test_finished_points_are_not_fitted_again(digits, tmp_path):
    file = tmp_path / "grid.json"

    def stop_after_two(event):
        if event.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(QUANTIZER, GRID, *digits, resume=file, callback=stop_after_two, **PROCESSES)
    before = json.loads(file.read_text())["points"]
    found = tune(QUANTIZER, GRID, *digits, resume=file, **SETTINGS)
    after = json.loads(file.read_text())["points"]
    assert 2 <= len(before) < 4
    assert all(point in after for point in before)  # also their seconds: they were not fitted again
    assert [point["parameters"] for point in after] == [dict(point.parameters) for point in found.points]
    assert {point.map for point in found.points} == {point["map"] for point in after}
    assert Tuning.load(file).parameters == found.parameters


def test_points_of_other_settings_are_not_mixed(digits, tmp_path):
    file = tmp_path / "grid.json"
    tune(QUANTIZER, GRID, *digits, resume=file, **SETTINGS)
    longer = PublishedQuantizer(2, n_codewords=16, features=None, max_iter=2)
    for quantizer, other in (
        (longer, {}),
        (QUANTIZER, {"random_state": 1}),
        (QUANTIZER, {"codes": "encoded"}),
    ):
        with pytest.raises(InputError, match="other data or settings"):
            tune(quantizer, GRID, *digits, resume=file, **SETTINGS | other)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"points": []}', '{"fingerprint": "", "points": [{"map": 1}]}']
)
def test_foreign_file_of_points_is_refused(digits, tmp_path, content):
    file = tmp_path / "grid.json"
    file.write_text(content)
    with pytest.raises(InputError, match="is not a file of grid points"):
        tune(QUANTIZER, GRID, *digits, resume=file, **SETTINGS)


def test_several_labels_per_row_are_accepted(digits):
    X, y = digits
    indicator = np.stack([y % 2 == 0, y > 4, y == 3], axis=1).astype(int)
    indicator[indicator.sum(axis=1) == 0, 0] = 1
    assert len(tune(QUANTIZER, {"quantization_weight": [1e-5, 1e-3]}, X, indicator, **SETTINGS).points) == 2


@pytest.mark.parametrize(
    ("grid", "wrong", "message"),
    [
        ({}, {}, "at least one parameter"),
        ({"quantization_weight": []}, {}, "at least one value"),
        ({"quantization_weight": [0.0]}, {}, "quantization_weight"),
        ({"gamma": [1.0]}, {}, "no parameter 'gamma'"),
        (GRID, {"n_validation": 301}, "n_validation"),
        (GRID, {"max_rows": 1}, "max_rows"),
        (GRID, {"codes": "both"}, "codes"),
    ],
)
def test_impossible_settings_are_refused(digits, grid, wrong, message):
    with pytest.raises(InputError, match=message):
        tune(QUANTIZER, grid, *digits, **SETTINGS | wrong)


@pytest.mark.parametrize("ranking", ["label", "position"])
def test_points_are_compared_by_the_ranking_asked_for_with_the_estimators_own_features(digits, ranking):
    X, y = digits[0][:300], digits[1][:300] // 2 + np.arange(300) % 2  # labels that are hard to predict
    model = SupervisedQuantizer(2, n_codewords=16, max_iter=1)
    settings = {"n_validation": 50, "random_state": 3, "n_jobs": 1}
    (point,) = tune(model, {"tol": [1e-3]}, X, y, ranking=ranking, **settings).points
    rng = np.random.default_rng(3)
    rows = rng.permutation(300)
    model.set_params(tol=1e-3, random_state=int(rng.integers(2**31))).fit(X[rows], y[rows])
    labels = read_labels(y[rows])
    tables = model.codec_.tables(X[rows[:50]], ranking)
    found = evaluate_tables(tables, model.training_codes_, labels.take(np.arange(50)), labels)
    assert point.map == found.map
    other = model.codec_.tables(X[rows[:50]], {"label": "position", "position": "label"}[ranking])
    assert point.map != evaluate_tables(other, model.training_codes_, labels.take(np.arange(50)), labels).map
