"""Tests that every hashing method must pass."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import CodeIndex
from supquant.codec.registry import load_codec
from supquant.errors import InputError
from supquant.evaluation import evaluate_tables
from supquant.inputs.labels import read_labels
from supquant_lab import hashing
from supquant_lab.hashing import mlh

QUICK: dict[str, dict] = {
    "FastHash": {"n_trees": 5, "n_pairs": 20},
    "KSH": {"max_iter": 20},
    "MLH": {"n_epochs": 1},
}
"""Parameters by class name that make a fit of 300 rows quick, with 8 bits and no feature map."""

DIGITS = {
    "FastHash": {"n_trees": 10},
    "KSH": {"max_iter": 100},
    "MLH": {"n_epochs": 1},
    "BRE": {"max_iter": 20},
}
"""Parameters by class name that make a fit of 500 digits take less than a second."""

EVERYTHING = [getattr(hashing, name) for name in hashing.__all__]
CLASSES = [
    each
    for each in EVERYTHING
    if issubclass(each, hashing.HashEstimator) and each is not hashing.HashEstimator
]
ALL = [each(8, **{"features": None, "random_state": 0, **QUICK.get(each.__name__, {})}) for each in CLASSES]


def every(function):
    return pytest.mark.parametrize("estimator", ALL, ids=lambda each: type(each).__name__)(function)


@pytest.fixture
def few_pairs(monkeypatch):
    """Let an epoch of MLH have a hundredth of its pairs, for tests that do not ask how good the bits are."""
    monkeypatch.setattr(mlh, "EPOCH_PAIRS", 1000)


@parametrize_with_checks(ALL)
@pytest.mark.usefixtures("few_pairs")
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@every
@pytest.mark.usefixtures("few_pairs")
def test_codes_are_the_signs_of_the_hash_functions_and_the_index_ranks_them_by_hamming(estimator, clusters):
    X, y = clusters
    fitted = clone(estimator).fit(X, y)
    codes = fitted.encode(X)
    assert (codes.shape, codes.dtype) == ((300, 1), np.uint8)
    assert (fitted.training_codes_.shape, fitted.training_codes_.dtype) == ((300, 1), np.uint8)
    signs = fitted.transform(X)
    np.testing.assert_array_equal(np.packbits(signs > 0, axis=1), codes)
    distances = (signs[:4, None] != signs).sum(axis=2)  # (4, n)
    order = distances.argsort(axis=1, kind="stable")
    np.testing.assert_array_equal(fitted.rank(X[:4], codes), order)
    scores, ids = CodeIndex(fitted).add(X).search(X[:4], k=20)
    np.testing.assert_array_equal(ids, order[:, :20])
    np.testing.assert_array_equal(scores, np.take_along_axis(distances, ids, axis=1))


@every
@pytest.mark.usefixtures("few_pairs")
def test_the_same_seed_gives_the_same_codes_whatever_the_threads(estimator, clusters):
    X, y = clusters
    one, two = (clone(estimator).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.training_codes_, two.training_codes_)
    np.testing.assert_array_equal(one.encode(X), two.encode(X))
    assert one.objective_ == two.objective_


@every
@pytest.mark.usefixtures("few_pairs")
def test_a_saved_model_encodes_as_before(estimator, clusters, tmp_path):
    X, y = clusters
    fitted = clone(estimator).fit(X, y)
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(X), fitted.encode(X))
    assert loaded.n_iter_ == fitted.n_iter_
    assert loaded.objective_ == fitted.objective_
    assert loaded.get_params()["n_bits"] == 8
    fitted.codec_.save(tmp_path / "codec")
    np.testing.assert_array_equal(load_codec(tmp_path / "codec").encode_items(X), fitted.encode(X))


@every
def test_several_labels_per_row_are_learned(estimator, several_labels):
    X, Y = several_labels
    fitted = clone(estimator).set_params(n_bits=16).fit(X, Y)
    asked, items = read_labels(Y[::5]), read_labels(Y)
    tables, codes = fitted.codec_.tables(X[::5]), fitted.encode(X)
    found = evaluate_tables(tables, codes, asked, items).map
    chance = evaluate_tables(tables, np.random.default_rng(0).permutation(codes), asked, items).map
    assert found > chance + 0.05


@every
@pytest.mark.usefixtures("few_pairs")
def test_progress_has_as_many_events_as_the_objective_has_entries(estimator, clusters):
    events = []
    fitted = clone(estimator).set_params(callback=events.append).fit(*clusters)
    assert len(events) == len(fitted.objective_) == fitted.n_iter_ > 0
    assert [dict(event.values) for event in events] == fitted.objective_
    total = events[0].total
    assert total is None or len(events) <= total


@every
def test_an_interrupted_fit_leaves_the_model_so_far(estimator, clusters):
    X, y = clusters

    def stop(event):
        raise KeyboardInterrupt

    interrupted = clone(estimator).set_params(callback=stop)
    with pytest.raises(KeyboardInterrupt):
        interrupted.fit(X, y)
    assert interrupted.n_iter_ == 1
    assert interrupted.encode(X).shape == interrupted.training_codes_.shape == (300, 1)


@every
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_bits": 0}, "n_bits"),
        ({"n_bits": 12}, "multiple of 8"),
        ({"n_bits": 8.0}, "n_bits"),
        ({"n_bits": 8192}, "n_bits"),
        ({"features": "kernel"}, "features"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_bad_parameters_are_refused(estimator, parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        clone(estimator).set_params(**parameters).fit(*clusters)


@every
def test_bad_rows_are_refused(estimator, clusters):
    X, y = clusters
    fitted = clone(estimator).fit(X, y)
    with pytest.raises(InputError, match="single class"):
        clone(estimator).fit(X, np.zeros(300))
    with pytest.raises(InputError, match="300 rows"):
        clone(estimator).fit(X, y[:-1])
    with pytest.raises(InputError, match="8 features"):
        fitted.encode(X[:, :7])
    with pytest.raises(InputError, match="NaN"):
        fitted.encode(np.full((1, 8), np.nan))
    with pytest.raises(InputError, match="ranking"):
        fitted.codec_.tables(X, "euclidean")
    with pytest.raises(NotFittedError):
        clone(estimator).encode(X)


@every
@pytest.mark.usefixtures("few_pairs")
def test_vectors_of_any_dtype_and_constant_columns_are_taken(estimator, clusters):
    X, y = clusters
    small = np.column_stack([np.round(4 * (X - X.min())), np.full((300, 2), 7)]).astype(np.uint8)
    codes = [clone(estimator).fit(small.astype(kind), y).encode(small) for kind in (np.uint8, np.float64)]
    np.testing.assert_array_equal(*codes)


@pytest.mark.parametrize(
    "estimator",
    [each for each in ALL if "max_rows" in each.get_params()],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.usefixtures("few_pairs")
def test_rows_are_learned_from_up_to_a_limit_and_all_get_codes(estimator, clusters):
    limited, unlimited, larger = (
        clone(estimator).set_params(max_rows=n).fit(*clusters) for n in (100, None, 300)
    )
    assert limited.training_codes_.shape == (300, 1)
    np.testing.assert_array_equal(unlimited.training_codes_, larger.training_codes_)
    with pytest.raises(InputError, match="max_rows must be an integer of at least 2, got 1"):
        clone(estimator).set_params(max_rows=1).fit(*clusters)


@pytest.mark.parametrize("method", CLASSES)
def test_held_out_digits_are_ranked_better_than_by_unsupervised_bits(method, digits):
    """The unsupervised bits are the signs of principal components."""
    X, y = digits
    train, database, queries = slice(0, 500), slice(500, 1200), slice(1600, None)
    fitted = method(32, random_state=0, **DIGITS.get(method.__name__, {})).fit(X[train], y[train])
    items, asked = read_labels(y[database]), read_labels(y[queries])
    found = evaluate_tables(fitted.codec_.tables(X[queries]), fitted.encode(X[database]), asked, items).map
    centred = X - X[train].mean(axis=0)
    directions = np.linalg.svd(centred[train], full_matrices=False)[2][:32].T
    signs = np.where(centred @ directions > 0, 1.0, -1.0)
    distances = -(signs[queries] @ signs[database].T)
    order = distances.argsort(axis=1, kind="stable")
    relevant = np.take_along_axis(y[queries][:, None] == y[database], order, axis=1)
    precision = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    unsupervised = np.mean((precision * relevant).sum(axis=1) / relevant.sum(axis=1))
    assert found > unsupervised + 0.05
