"""Kept fits give the same results without new training, and a fit is never taken for another one."""

from dataclasses import replace

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.cell import run_cells
from supquant_lab.datasets import load
from supquant_lab.methods import METHODS, EstimatorMethod, KeptFits, Settings, Training
from supquant_lab.methods.kept import fingerprint

QUICK = Settings(anchors=60, parameters={"max_iter": 2})
PARAMETERS = {
    "cq": {"max_iter": 2},
    "ksh": {"max_iter": 20},
    "fasthash": {"n_trees": 5},
    "mlh": {"n_epochs": 1},
    "bre": {"max_iter": 3},
    "sq-triplet": {"max_iter": 1},
}
MEASURED = (
    "map",
    "map_learned",
    "map_encoded",
    "distinct_codes",
    "quantization_error",
    "precision_at_recall",
)


@pytest.fixture(scope="module")
def data():
    return load("digits").sample(500)


@pytest.fixture
def kept(tmp_path):
    return KeptFits(tmp_path / "fits")


def no_fit(*_):
    raise AssertionError("this was to be kept")


@pytest.mark.parametrize(
    "name", [name for name, kind in METHODS.items() if issubclass(kind, EstimatorMethod)]
)
def test_a_kept_fit_measures_the_same_without_training(data, kept, monkeypatch, name):
    settings = Settings(anchors=60, parameters=PARAMETERS.get(name, {}))
    (first,) = run_cells(data, method=name, settings=settings, kept=kept)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    (again,) = run_cells(data, method=name, settings=replace(settings, n_jobs=1), kept=kept)
    for field in (*MEASURED, "fit_seconds", "truncated", "parameters"):
        assert getattr(again, field) == getattr(first, field)
    np.testing.assert_array_equal(np.array(again.convergence), np.array(first.convergence))


def test_a_longer_code_continues_from_a_kept_one_with_the_same_result(data, kept):
    (whole,) = run_cells(data, bits=(32,), settings=QUICK)
    list(run_cells(data, bits=(16,), settings=QUICK, kept=kept))
    (resumed,) = run_cells(data, bits=(32,), settings=QUICK, kept=kept)
    for field in MEASURED:
        assert getattr(resumed, field) == getattr(whole, field)


@pytest.mark.parametrize(
    "other",
    [
        Settings(anchors=61, parameters={"max_iter": 2}),
        Settings(anchors=60, parameters={"max_iter": 3}),
        Settings(anchors=60, parameters={"max_iter": 2}, seed=1),
        Settings(anchors=60, parameters={"max_iter": 2}, bandwidth=2.0),
        Settings(anchors=60, parameters={"max_iter": 2}, time_limit=1.0),
    ],
)
def test_other_settings_are_another_fit(data, kept, monkeypatch, other):
    training = Training(data.X, data.y)
    METHODS["sq"](training, QUICK, None, kept).fitted(16)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    METHODS["sq"](training, QUICK, None, kept).fitted(16)
    with pytest.raises(AssertionError, match="kept"):
        METHODS["sq"](training, other, None, kept).fitted(16)


def test_every_method_has_fits_of_its_own(data):
    training = Training(data.X, data.y)
    methods = [kind(training, Settings(anchors=60)) for kind in METHODS.values()]
    names = [m._fit_name(m.estimator(16), 16) for m in methods if isinstance(m, EstimatorMethod)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("change", ["rows", "labels", "length"])
def test_other_rows_are_another_fit(data, kept, monkeypatch, change):
    METHODS["pq"](Training(data.X, data.y), Settings(), None, kept).fitted(16)
    X, y = data.X.copy(), data.y.copy()
    if change == "rows":
        X[3, 30] += 1
    elif change == "labels":
        y[3] = (y[3] + 1) % 10
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    with pytest.raises(AssertionError, match="kept"):
        METHODS["pq"](Training(X, y), Settings(), None, kept).fitted(32 if change == "length" else 16)


@pytest.mark.parametrize("change", ["values", "number", "all", None])
def test_other_rows_without_labels_are_another_fit(data, kept, monkeypatch, change):
    X, y, others = data.X[:300], data.y[:300], data.X[300:]
    METHODS["pq"](Training(X, y, others), Settings(), None, kept).fitted(16)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    changed = {"values": others + (np.arange(64) == 30), "number": others[:-1], "all": others[:0]}
    method = METHODS["pq"](Training(X, y, changed.get(change, others)), Settings(), None, kept)
    if change is None:
        method.fitted(16)
    else:
        with pytest.raises(AssertionError, match="kept"):
            method.fitted(16)


def test_rows_without_labels_make_no_other_fit_of_a_method_that_does_not_use_them(data, kept, monkeypatch):
    METHODS["sdh"](Training(data.X, data.y), Settings(anchors=60), None, kept).fitted(16)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    METHODS["sdh"](Training(data.X, data.y, data.X[:9]), Settings(anchors=60), None, kept).fitted(16)


def test_the_name_of_a_fit_without_such_rows_is_the_one_that_it_had():
    training = Training(np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0, 1, 0]))
    assert fingerprint(training, "told") == "4b32e2575ed17db0"


def test_fits_of_an_earlier_recipe_are_made_again(data, kept, monkeypatch):
    METHODS["pq"](Training(data.X, data.y), Settings(), None, kept).fitted(16)
    monkeypatch.setattr("supquant_lab.methods.kept.RECIPE", 10_000)
    monkeypatch.setattr(EstimatorMethod, "_fit_now", no_fit)
    with pytest.raises(AssertionError, match="kept"):
        METHODS["pq"](Training(data.X, data.y), Settings(), None, kept).fitted(16)


def test_a_fit_that_was_killed_before_its_record_is_no_fit(data, kept):
    METHODS["pq"](Training(data.X, data.y), Settings(), None, kept).fitted(16)
    (record,) = kept.folder.glob("*.json")
    assert kept.find(record.stem) is not None
    record.unlink()
    assert kept.find(record.stem) is None


@pytest.mark.parametrize("kind", ["json", "safetensors", "codes.npy"])
def test_a_damaged_fit_is_refused_by_its_name(data, kept, kind):
    METHODS["pq"](Training(data.X, data.y), Settings(), None, kept).fitted(16)
    (record,) = kept.folder.glob("*.json")
    path = kept.folder / f"{record.stem}.{kind}"
    path.write_bytes(path.read_bytes()[:10])
    with pytest.raises(InputError, match=record.stem):
        kept.find(record.stem)
