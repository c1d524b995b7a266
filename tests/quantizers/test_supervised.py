"""The estimator: what it learns, how it treats its input, what an interrupt leaves behind."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, ProductQuantizer, SupervisedQuantizer
from supquant.errors import FileFormatError, InputError
from supquant.parallel import BLOCK_ROWS
from supquant.quantizers import alternating, supervised
from supquant.quantizers.training import RELATIVE_PROJECTION_RIDGE
from supquant.rows import LocalRows
from supquant.statistics import Penalties

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}
TERMS = ["classification", "ridge", "quantization", "constraint"]


@parametrize_with_checks(
    [
        SupervisedQuantizer(2, n_codewords=4, max_iter=2),
        SupervisedQuantizer(1, n_codewords=4, max_iter=2, features=None, solver="alternating"),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def indicator(clusters):
    """Several labels a row, some rows with none: (300, 4)."""
    X, y = clusters
    Y = np.stack([y == 0, y == 1, y == 2, X[:, 0] > 0], axis=1).astype(np.int64)
    Y[:5] = 0
    Y.flags.writeable = False
    return Y


@pytest.fixture(params=["joint", "alternating"])
def solver(request):
    return request.param


@pytest.fixture(params=["one label", "several labels"])
def target(request, clusters, indicator):
    return clusters[1] if request.param == "one label" else indicator


@pytest.fixture(scope="module")
def fitted(clusters):
    return SupervisedQuantizer(2, **SMALL).fit(*clusters)


def assert_same_model(one, other):
    for name in ("codebooks", "projection", "classifier", "classes"):
        np.testing.assert_array_equal(getattr(one.codec_, name), getattr(other.codec_, name), strict=True)
    assert one.codec_.constant == other.codec_.constant
    np.testing.assert_array_equal(one.training_codes_, other.training_codes_)
    assert one.objective_ == other.objective_


# what is learned ------------------------------------------------------------------------------------------------------


def test_shapes_and_dtypes_are_those_of_the_contract(fitted, clusters):
    X = clusters[0][:10]
    assert (fitted.encode(X).shape, fitted.encode(X).dtype) == ((10, 2), np.uint8)
    assert (fitted.transform(X).shape, fitted.transform(X).dtype) == ((10, 8), np.float32)
    assert (fitted.tables(X).shape, fitted.tables(X).dtype) == ((10, 2, 8), np.float32)
    assert fitted.decode(fitted.encode(X)).shape == (10, 8)
    assert fitted.decision_function(X).shape == (10, 3)
    assert (fitted.training_codes_.shape, fitted.training_codes_.dtype) == ((300, 2), np.uint8)
    assert fitted.n_features_in_ == 8
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])


@pytest.mark.parametrize("n_codebooks", [2, 3])
@pytest.mark.parametrize("weights", [(1e-5, 0.1), (1e-1, 1.0)], ids=str)
def test_objective_has_four_terms_and_never_rises(clusters, solver, target, weights, n_codebooks):
    quantizer = SupervisedQuantizer(
        n_codebooks,
        **SMALL,
        solver=solver,
        quantization_weight=weights[0],
        constraint_weight=weights[1],
        tol=0.0,
    )
    record = quantizer.fit(clusters[0], target).objective_
    for entry in record:
        assert entry["total"] == pytest.approx(sum(entry[name] for name in TERMS), rel=1e-12)
    totals = [entry["total"] for entry in record]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))
    assert totals[-1] < 0.9 * totals[0]
    assert quantizer.n_iter_ == 3 * (n_codebooks - 1)
    assert {entry["codebooks"] for entry in record} == set(range(2, n_codebooks + 1))
    steps = {entry["step"] for entry in record}
    if solver == "joint":
        assert steps == {"start", "solve", "codes"}
    else:
        assert steps == {"start", "classifier", "projection", "constant", "codebooks", "codes"}


def assert_objective_is_of_the_stored_model(quantizer, X, target, psi_terms):
    codec, X = quantizer.codec_, X.astype(np.float64)
    delta = RELATIVE_PROJECTION_RIDGE * (X**2).sum() / X.shape[1]
    weights = Penalties(
        quantizer.quantization_weight, quantizer.constraint_weight, quantizer.classifier_ridge, delta
    )
    want = psi_terms(
        X,
        target if target.ndim == 2 else np.eye(3)[target],
        quantizer.training_codes_,
        *(array.astype(np.float64) for array in (codec.codebooks, codec.classifier, codec.projection)),
        codec.constant,
        weights,
    )
    found = {name: quantizer.objective_[-1][name] for name in TERMS}
    assert found == pytest.approx(want, rel=1e-4, abs=1e-4)  # the codec is float32


def test_last_objective_is_that_of_the_stored_model(clusters, solver, target, psi_terms):
    X = clusters[0]
    quantizer = SupervisedQuantizer(2, **SMALL, solver=solver, quantization_weight=0.1).fit(X, target)
    assert_objective_is_of_the_stored_model(quantizer, X, target, psi_terms)


def test_codes_separate_the_classes(clusters, solver, target):
    quantizer = SupervisedQuantizer(2, **SMALL, solver=solver).fit(clusters[0], target)
    decoded = quantizer.decode(quantizer.training_codes_)
    scores = decoded @ quantizer.codec_.classifier
    if target.ndim == 1:
        assert (scores.argmax(axis=1) == target).mean() > 0.95
    else:
        assert ((scores > 0.5) == target).mean() > 0.9


def test_learned_codes_tell_more_of_the_labels_than_unsupervised_ones(digits):
    X, y = digits[0][:500], digits[1][:500]
    ours = SupervisedQuantizer(2, n_codewords=16, max_iter=5, random_state=0).fit(X, y)
    theirs = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)

    def share_of_nearest(quantizer, codes):
        Q, labels = digits[0][500:700], digits[1][500:700]
        tables = quantizer.tables(Q)
        sums = sum(tables[:, m, codes[:, m]] for m in range(2))
        nearest = np.argsort(sums, axis=1, kind="stable")[:, :20]
        return (y[nearest] == labels[:, None]).mean()

    assert (
        share_of_nearest(ours, ours.training_codes_) > share_of_nearest(theirs, theirs.training_codes_) + 0.1
    )
    assert share_of_nearest(ours, ours.training_codes_) > 0.85


def test_predictions_are_labels_as_they_were_given(clusters, indicator):
    X, y = clusters
    names = np.array(["bird", "cat", "dog"])[y]
    quantizer = SupervisedQuantizer(2, **SMALL).fit(X, names)
    assert quantizer.predict(X).dtype == names.dtype
    assert (quantizer.predict(X) == names).mean() > 0.7
    best = quantizer.decision_function(X).argmax(axis=1)
    np.testing.assert_array_equal(quantizer.predict(X), quantizer.classes_[best])
    several = SupervisedQuantizer(2, **SMALL).fit(X, indicator)
    assert (several.predict(X).shape, several.predict(X).dtype) == ((300, 4), np.uint8)
    np.testing.assert_array_equal(several.predict(X), several.decision_function(X) > 0.5)


def test_labels_steer_the_codes(fitted, clusters):
    X, y = clusters
    wrong = (y + 1) % 3
    right_scores, wrong_scores = (
        fitted.decode(fitted.encode(X, labels)) @ fitted.codec_.classifier for labels in (y, wrong)
    )
    assert (right_scores.argmax(axis=1) == y).mean() > 0.95
    assert (wrong_scores.argmax(axis=1) == wrong).mean() > 0.95


def test_encoding_the_training_rows_with_their_labels_gives_codes_no_worse_than_learned(fitted, clusters):
    X, y = clusters
    again = fitted.encode(X, y)
    assert (again == fitted.training_codes_).all(axis=1).mean() > 0.95


def test_one_codebook_is_enough(clusters, solver):
    quantizer = SupervisedQuantizer(1, **SMALL, solver=solver).fit(*clusters)
    assert quantizer.encode(clusters[0]).shape == (300, 1)
    assert quantizer.codec_.constant == 0
    assert all(entry["constraint"] == 0 for entry in quantizer.objective_)


@pytest.mark.parametrize(("n_components", "p"), [(2, 8), (1, 8), (256, 2), (256, 1)])
def test_more_codebooks_than_dimensions_are_learned(clusters, n_components, p):
    X, y = clusters
    quantizer = SupervisedQuantizer(3, **SMALL, n_components=n_components).fit(X[:, :p], y)
    assert quantizer.encode(X[:, :p]).shape == (300, 3)
    totals = [entry["total"] for entry in quantizer.objective_]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))


def test_components_are_as_many_as_asked_for_and_there_are(clusters):
    assert SupervisedQuantizer(2, **SMALL, n_components=5).fit(*clusters).transform(clusters[0]).shape[1] == 5
    assert (
        SupervisedQuantizer(2, **SMALL, n_components=500).fit(*clusters).transform(clusters[0]).shape[1] == 8
    )


def test_auto_features_are_anchors_for_narrow_vectors_and_none_for_wide_ones(clusters, monkeypatch):
    quantizer = SupervisedQuantizer(1, **SMALL | {"features": "auto", "max_iter": 1})
    assert quantizer.fit(*clusters).codec_.feature_map.anchors.shape == (75, 8)  # a quarter of the rows
    monkeypatch.setattr(supervised, "WIDE", 8)
    assert quantizer.fit(*clusters).codec_.feature_map is not None
    monkeypatch.setattr(supervised, "WIDE", 7)
    assert quantizer.fit(*clusters).codec_.feature_map is None


def test_given_features_are_fitted_on_a_copy(clusters):
    kernel = AnchorKernel(30, bandwidth=2.0)
    quantizer = SupervisedQuantizer(2, **SMALL | {"features": kernel}).fit(*clusters)
    assert not hasattr(kernel, "anchors_")
    assert kernel.random_state is None
    assert quantizer.codec_.feature_map.anchors.shape == (30, 8)
    assert quantizer.codec_.feature_map.bandwidth == 2.0


def test_features_learned_inside_are_those_of_a_pipeline(clusters):
    X, y = clusters
    kernel = AnchorKernel(30, random_state=3)
    inside = SupervisedQuantizer(2, **SMALL | {"features": kernel}).fit(X, y)
    outside = make_pipeline(clone(kernel), SupervisedQuantizer(2, **SMALL)).fit(X, y)
    np.testing.assert_array_equal(inside.predict(X), outside.predict(X))
    np.testing.assert_array_equal(inside.training_codes_, outside[-1].training_codes_)


def test_progress_is_reported_after_every_iteration(clusters, solver):
    events = []
    quantizer = SupervisedQuantizer(2, **SMALL, solver=solver, tol=0.0, callback=events.append).fit(*clusters)
    assert [(event.stage, event.step, event.total) for event in events] == [
        (f"{solver}, 2 codebooks", step, 3) for step in (1, 2, 3)
    ]
    assert events[-1].values["objective"] == quantizer.objective_[-1]["total"]


def test_verbose_logs_and_never_prints(clusters, caplog, capsys):
    SupervisedQuantizer(2, **SMALL, verbose=1).fit(*clusters)
    assert "joint, 2 codebooks 1/3" in caplog.text
    assert capsys.readouterr() == ("", "")


# the same seed -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_whatever_the_threads(rng, solver):
    X = rng.normal(size=(BLOCK_ROWS + 300, 6)).astype(np.float32)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)
    settings = {"n_codewords": 8, "features": AnchorKernel(12), "max_iter": 2, "solver": solver}
    settings |= {"max_turns": 2, "quantization_weight": 1e-2}
    one, two, other = (
        SupervisedQuantizer(3, **settings, n_jobs=n_jobs, random_state=seed).fit(X, y)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    assert_same_model(one, two)
    np.testing.assert_array_equal(one.encode(X), two.encode(X))
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_a_generator_serves_as_random_state(clusters):
    settings = SMALL | {"random_state": np.random.default_rng(4)}
    one = SupervisedQuantizer(2, **settings).fit(*clusters)
    settings = SMALL | {"random_state": np.random.default_rng(4)}
    assert_same_model(one, SupervisedQuantizer(2, **settings).fit(*clusters))


# a longer code from a shorter one ------------------------------------------------------------------------------------


@pytest.fixture
def start_of(monkeypatch):
    """Return a function that fits and gives what the solver started from."""

    def start_of(quantizer, X, y):
        seen = {}
        name = f"{quantizer.solver}_steps"
        steps = getattr(supervised, name)

        def spy(start, **settings):
            seen[len(start.codebooks)] = start, np.concatenate(list(start.rows.codes())).copy()
            return steps(start, **settings)

        with monkeypatch.context() as patch:
            patch.setattr(supervised, name, spy)
            quantizer.fit(X, y)
        return seen[quantizer.n_codebooks]

    return start_of


def test_longer_code_starts_from_the_shorter_one(clusters, solver, start_of):
    X, y = clusters
    settings = SMALL | {"solver": solver, "quantization_weight": 1e-2}
    shorter = SupervisedQuantizer(1, **settings | {"max_iter": 10, "tol": 1e-7}).fit(X, y)
    for n_codebooks in (2, 3):  # 8, 16 and 24 bits
        longer = SupervisedQuantizer(n_codebooks, **settings, init=shorter)
        start, codes = start_of(longer, X, y)
        short = n_codebooks - 1
        np.testing.assert_array_equal(start.codebooks[:short], shorter.codec_.codebooks)
        assert not start.codebooks[short:].any()
        np.testing.assert_array_equal(start.projection, shorter.codec_.projection)
        np.testing.assert_array_equal(codes[:, :short], shorter.training_codes_)
        assert len(np.unique(codes[:, short])) == 8
        # the best W, P and eps for the shorter one's last codes: as good, up to the float32 of the stored codebooks
        before, after = shorter.objective_[-1]["total"], longer.objective_[0]["total"]
        assert after <= before * (1 + 1e-5)
        assert after > 0.9 * before
        assert longer.objective_[-1]["total"] <= after
        assert longer.encode(X).shape == (300, n_codebooks)
        shorter = longer


def test_psi_at_the_start_is_that_of_a_shorter_code_that_has_settled(clusters):
    X, y = clusters
    settings = SMALL | {"quantization_weight": 0.1}
    shorter = SupervisedQuantizer(1, **settings | {"max_iter": 50, "tol": 1e-9}).fit(X, y)
    assert shorter.objective_[-1]["changed"] == 0
    longer = SupervisedQuantizer(2, **settings, init=shorter).fit(X, y)
    for name in TERMS:
        assert longer.objective_[0][name] == pytest.approx(
            shorter.objective_[-1][name], rel=1e-4, abs=1e-5 * shorter.objective_[-1]["total"]
        )


def test_features_are_taken_over_from_the_shorter_one(clusters):
    settings = SMALL | {"features": AnchorKernel(30)}
    shorter = SupervisedQuantizer(1, **settings).fit(*clusters)
    longer = SupervisedQuantizer(2, **settings | {"random_state": 9}, init=shorter).fit(*clusters)
    assert longer.codec_.feature_map is shorter.codec_.feature_map


def test_a_loaded_model_serves_as_init(clusters, tmp_path):
    shorter = SupervisedQuantizer(1, **SMALL).fit(*clusters)
    shorter.save(tmp_path / "model")
    loaded = SupervisedQuantizer.load(tmp_path / "model")  # without training codes: they are made again
    longer = SupervisedQuantizer(2, **SMALL, init=loaded).fit(*clusters)
    assert longer.objective_[0]["total"] <= shorter.objective_[-1]["total"] * (1 + 1e-4)


@pytest.mark.parametrize("n_codebooks", [1, 2])
def test_init_is_left_alone(clusters, n_codebooks):
    shorter = SupervisedQuantizer(1, **SMALL).fit(*clusters)
    codec, codes = shorter.codec_, shorter.training_codes_.copy()
    codebooks = codec.codebooks.copy()
    other = SupervisedQuantizer(n_codebooks, **SMALL, init=shorter, quantization_weight=1.0).fit(*clusters)
    assert (other.training_codes_[:, :1] != codes).any()
    assert shorter.codec_ is codec
    np.testing.assert_array_equal(codec.codebooks, codebooks)
    np.testing.assert_array_equal(shorter.training_codes_, codes)


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"n_codebooks": 1}, 8, r"at most n_codebooks=1 codebooks of n_codewords=8 codewords, got 2 of 8"),
        ({"n_codewords": 16}, 8, r"codebooks of n_codewords=16 codewords, got 2 of 8"),
        ({}, 5, "init was fitted on 8 features, X has 5"),
    ],
)
def test_an_init_that_does_not_fit_is_refused(fitted, clusters, settings, columns, message):
    X, y = clusters
    quantizer = SupervisedQuantizer(3, **SMALL, init=fitted).set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(X[:, :columns], y)
    assert not hasattr(quantizer, "codec_")


def test_an_init_learned_from_other_labels_is_refused(fitted, clusters, indicator):
    X, y = clusters[0][:250], clusters[1][:250]
    for target in (y % 2, indicator[:250], np.array(["a", "b", "c"])[y]):
        with pytest.raises(InputError, match=r"init .*label"):
            SupervisedQuantizer(3, **SMALL, init=fitted).fit(X, target)


def test_an_init_that_is_not_fitted_is_refused(clusters):
    with pytest.raises(NotFittedError):
        SupervisedQuantizer(3, **SMALL, init=SupervisedQuantizer(2, **SMALL)).fit(*clusters)


@pytest.mark.parametrize("init", ["random", 3])
def test_an_init_of_another_kind_is_refused(clusters, init):
    with pytest.raises(InputError, match="init must be"):
        SupervisedQuantizer(3, **SMALL, init=init).fit(*clusters)


def test_a_product_quantizer_is_no_init(clusters):
    init = ProductQuantizer(2, n_codewords=8, random_state=0).fit(clusters[0])
    with pytest.raises(InputError, match="init must be"):
        SupervisedQuantizer(3, **SMALL, init=init).fit(*clusters)


def test_a_long_code_is_learned_from_a_short_one_of_its_own(clusters, solver, start_of):
    X, y = clusters
    quantizer = SupervisedQuantizer(4, **SMALL, solver=solver)
    start, codes = start_of(quantizer, X, y)
    short = SupervisedQuantizer(2, **SMALL, solver=solver).fit(X, y)
    np.testing.assert_array_equal(start.codebooks[:2].astype(np.float32), short.codec_.codebooks)
    assert not start.codebooks[2:].any()
    np.testing.assert_array_equal(codes[:, :2], short.training_codes_)
    assert quantizer.objective_[: len(short.objective_)] == short.objective_


# scikit-learn's ways ------------------------------------------------------------------------------------------------------


def test_parameters_are_read_set_and_cloned(fitted):
    copy = clone(fitted.set_params(features=None))
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "codec_")
    nested = SupervisedQuantizer(features=AnchorKernel(30))
    nested.set_params(features__n_anchors=40, quantization_weight=0.5)
    assert (nested.features.n_anchors, nested.quantization_weight) == (40, 0.5)


def test_the_quantizer_is_the_last_step_of_a_pipeline_or_one_before(clusters):
    X, y = clusters
    quantizer = SupervisedQuantizer(2, **SMALL)
    assert (
        make_pipeline(AnchorKernel(30, random_state=0), clone(quantizer)).fit(X, y).predict(X) == y
    ).mean() > 0.9
    assert (make_pipeline(quantizer, KNeighborsClassifier(3)).fit(X, y).predict(X) == y).mean() > 0.9


class TensorLike:
    """What a torch tensor is to NumPy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


@pytest.mark.parametrize(
    "container", [TensorLike, np.ndarray.tolist, np.asfortranarray, lambda X: X.astype(np.float64)]
)
def test_vectors_in_any_container_give_the_same_codes(fitted, clusters, container):
    X, y = clusters
    found = SupervisedQuantizer(2, **SMALL).fit(container(X), y)
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)
    np.testing.assert_array_equal(found.encode(container(X)), fitted.encode(X))


def test_data_frames_are_taken(fitted, clusters):
    pandas = pytest.importorskip("pandas")
    X, y = clusters
    found = SupervisedQuantizer(2, **SMALL).fit(pandas.DataFrame(X), pandas.Series(y, name="label"))
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8])
def test_narrow_dtypes_give_the_codes_of_float32(digits, dtype):
    X, y = (digits[0][:200] * 16).astype(dtype), digits[1][:200]
    found = SupervisedQuantizer(2, **SMALL).fit(X, y)
    want = SupervisedQuantizer(2, **SMALL).fit(X.astype(np.float32), y)
    assert_same_model(found, want)


def test_a_read_only_memory_map_is_not_copied(digits, tmp_path, monkeypatch):
    X, y = digits[0][:300], digits[1][:300]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    given = []

    def spy(X, *arguments, **settings):
        given.append(X)
        return LocalRows(X, *arguments, **settings)

    monkeypatch.setattr("supquant.quantizers.training.LocalRows", spy)
    found = SupervisedQuantizer(2, **SMALL).fit(mapped, y)
    assert np.shares_memory(given[0], mapped)
    monkeypatch.undo()
    assert_same_model(found, SupervisedQuantizer(2, **SMALL).fit(X, y))


@pytest.mark.parametrize(
    "labels",
    [
        lambda y: y.tolist(),
        lambda y: np.array(["bird", "cat", "dog"])[y],
        lambda y: np.array(["bird", "cat", "dog"], dtype=object)[y],
        lambda y: y.astype(np.float64),
        lambda y: y - 7,
    ],
    ids=["list", "strings", "objects", "floats", "negative"],
)
def test_class_labels_of_any_kind_give_the_same_codes(fitted, clusters, labels):
    X, y = clusters
    found = SupervisedQuantizer(2, **SMALL).fit(X, labels(y))
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)
    np.testing.assert_array_equal(found.encode(X, labels(y)), fitted.encode(X, y))


def test_an_indicator_matrix_may_be_sparse(clusters, indicator):
    X = clusters[0]
    dense = SupervisedQuantizer(2, **SMALL).fit(X, indicator)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        sparse = SupervisedQuantizer(2, **SMALL).fit(X, kind(indicator))
        assert_same_model(sparse, dense)
        np.testing.assert_array_equal(sparse.encode(X, kind(indicator)), dense.encode(X, indicator))


def test_refitting_leaves_an_old_codec_alone(clusters):
    X, y = clusters
    quantizer = SupervisedQuantizer(2, **SMALL).fit(X, y)
    codec, codes, tables = quantizer.codec_, quantizer.encode(X), quantizer.tables(X[:5])
    quantizer.set_params(random_state=1, quantization_weight=1.0).fit(X[::-1] * 2, y[::-1])
    assert quantizer.codec_ is not codec
    np.testing.assert_array_equal(codec.encode(X), codes)
    np.testing.assert_array_equal(codec.tables(X[:5]), tables)


# files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [None, AnchorKernel(30)])
def test_a_saved_model_works_as_before(clusters, target, tmp_path, features):
    X = clusters[0]
    quantizer = SupervisedQuantizer(2, **SMALL | {"features": features}).fit(X, target)
    quantizer.save(tmp_path / "model")
    loaded = SupervisedQuantizer.load(tmp_path / "model")
    for missing in ("predict", "drop"):
        np.testing.assert_array_equal(
            loaded.encode(X, missing_labels=missing), quantizer.encode(X, missing_labels=missing)
        )
    np.testing.assert_array_equal(loaded.encode(X, target), quantizer.encode(X, target))
    np.testing.assert_array_equal(loaded.predict(X), quantizer.predict(X))
    np.testing.assert_array_equal(loaded.tables(X), quantizer.tables(X))
    assert loaded.objective_ == quantizer.objective_
    assert (loaded.n_iter_, loaded.n_features_in_) == (quantizer.n_iter_, 8)
    for name in ("n_codebooks", "n_codewords", "solver", "quantization_weight", "max_iter", "random_state"):
        assert loaded.get_params()[name] == quantizer.get_params()[name]


@pytest.mark.parametrize("classes", [[False, True], [10, 20], ["no", "yes"], [0.0, 1.0]], ids=str)
def test_class_labels_survive_saving(clusters, tmp_path, classes):
    X, y = clusters
    y = np.array(classes)[y % 2]
    quantizer = SupervisedQuantizer(1, **SMALL).fit(X, y)
    quantizer.save(tmp_path / "model")
    loaded = SupervisedQuantizer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.classes_, quantizer.classes_, strict=True)
    np.testing.assert_array_equal(loaded.predict(X), quantizer.predict(X), strict=True)


def test_parameters_given_as_numpy_numbers_survive_saving(clusters, tmp_path):
    settings = SMALL | {"quantization_weight": np.float64(0.5), "n_codewords": np.int64(8)}
    SupervisedQuantizer(np.int64(2), **settings).fit(*clusters).save(tmp_path / "model")
    loaded = SupervisedQuantizer.load(tmp_path / "model")
    assert (loaded.n_codebooks, loaded.n_codewords, loaded.quantization_weight) == (2, 8, 0.5)


def test_a_truncated_altered_or_foreign_file_is_refused(fitted, clusters, tmp_path):
    path = tmp_path / "model"
    fitted.save(path)
    content = path.read_bytes()
    altered = bytearray(content)
    altered[len(content) // 2] ^= 1
    for bad in (content[:-1], content[:100], bytes(altered), b"", b"PK\x03\x04 not ours"):
        path.write_bytes(bad)
        with pytest.raises(FileFormatError, match=str(path)):
            SupervisedQuantizer.load(path)
    ProductQuantizer(2, n_codewords=8).fit(clusters[0]).save(path)
    with pytest.raises(
        FileFormatError, match="holds a 'product-quantizer', expected a 'supervised-quantizer'"
    ):
        SupervisedQuantizer.load(path)
    fitted.codec_.save(path, kind="supervised-quantizer")
    with pytest.raises(FileFormatError, match="parameters"):
        SupervisedQuantizer.load(path)
    fitted.codec_.save(path, kind="supervised-quantizer", settings={"parameters": {}})
    with pytest.raises(FileFormatError, match=str(path)):
        SupervisedQuantizer.load(path)
    with pytest.raises(FileNotFoundError):
        SupervisedQuantizer.load(tmp_path / "nowhere")


def test_a_full_disk_leaves_the_old_file(fitted, clusters, tmp_path, monkeypatch):
    path = tmp_path / "model"
    fitted.save(path)
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="nothing was changed: No space left on device") as raised:
        SupervisedQuantizer(1, **SMALL).fit(*clusters).save(path)
    assert raised.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# bad input ---------------------------------------------------------------------------------------------------------------


def with_value(value):
    def change(X, y):
        X = X.copy()
        X[7, 3] = value
        return X, y

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_value(np.nan), r"Input X contains NaN \(first in row 7\)"),
        (with_value(np.inf), r"Input X contains infinity .*\(first in row 7\)"),
        (lambda X, y: (X[:0], y[:0]), "0 sample"),
        (lambda X, y: (X[:7], y[:7]), "n_samples=7 should be >= n_codewords=8: give more rows, or ask for fewer"),
        (lambda X, y: (X[0], y), "Reshape your data"),
        (lambda X, y: (X[:, :0], y), "0 feature"),
        (lambda X, y: (X, y[:299]), "each of the 300 rows of X, got 299"),
        (lambda X, y: (X, np.zeros(300)), "single class"),
        (lambda X, y: (X, np.eye(3, dtype=int)[y * 0]), "single class"),
        (lambda X, y: (X, y + 0.5), "Unknown label type"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (X, np.full(300, np.nan)), "y contains NaN"),
        (lambda X, y: (scipy.sparse.csr_array(X), y), "(?i)sparse"),
        (lambda X, y: (X.astype(complex), y), "(?i)complex"),
    ],
    ids=[
        "NaN", "infinity", "no rows", "few rows", "1d", "no columns", "short y", "one class", "one label",
        "continuous", "no y", "NaN y", "sparse", "complex",
    ],
)  # fmt: skip
def test_bad_data_are_refused_and_change_nothing(clusters, change, message):
    quantizer = SupervisedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))
    with pytest.raises(InputError, match=message):
        quantizer.fit(*change(*clusters))
    assert vars(quantizer) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"quantization_weight": 0}, "quantization_weight must be a finite number above 0, got 0"),
        ({"quantization_weight": -1e-3}, "quantization_weight"),
        ({"quantization_weight": np.nan}, "quantization_weight"),
        ({"constraint_weight": -0.1}, r"constraint_weight must be a finite number, 0 or above, got -0\.1"),
        ({"classifier_ridge": 0}, "classifier_ridge must be a finite number above 0, got 0"),
        ({"solver": "newton"}, "solver must be 'joint' or 'alternating', got 'newton'"),
        ({"features": "gist"}, "features must be 'auto', an AnchorKernel or None, got 'gist'"),
        ({"features": AnchorKernel}, "features must be"),
        ({"features": AnchorKernel(0)}, "n_anchors must be an integer of at least 1, got 0"),
        ({"n_codebooks": 0}, "n_codebooks must be an integer from 1 to 64, got 0"),
        ({"n_codebooks": 2.0}, "n_codebooks"),
        ({"n_codewords": 257}, "n_codewords must be an integer from 2 to 256, got 257"),
        ({"n_codewords": 1}, "n_codewords"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_turns": 0}, "max_turns"),
        ({"tol": -1}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "seed"}, "random_state"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    quantizer = SupervisedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(*clusters)
    assert vars(quantizer) == before | settings


@pytest.mark.parametrize(
    ("X", "y", "settings", "message"),
    [
        (np.full((2, 8), np.nan), None, {}, "NaN"),
        (np.full((2, 8), np.inf), None, {}, "infinity"),
        (np.zeros((2, 5)), None, {}, r"X has 5 features, but .* expecting 8"),
        (np.zeros((2, 5)), [0, 1], {}, r"X has 5 features, but .* expecting 8"),
        (np.zeros((2, 8)), [0, 1, 1], {}, "each of the 2 rows of X, got 3"),
        (np.zeros((2, 8)), [0, 9], {}, "y holds 1 unknown label: 9; the 3 known ones are 0, 1, 2"),
        (np.zeros((2, 8)), ["0", "1"], {}, "2 unknown labels"),
        (np.zeros((2, 8)), [[1, 0, 0], [0, 1, 1]], {}, "1d array of class labels as in fit"),
        (np.zeros((2, 8)), None, {"missing_labels": "ignore"}, "missing_labels must be 'predict' or 'drop'"),
        (np.zeros((2, 8)), [0, 1], {"missing_labels": None}, "missing_labels must be 'predict' or 'drop'"),
    ],
)
def test_what_cannot_be_encoded_is_refused(fitted, X, y, settings, message):
    with pytest.raises(InputError, match=message):
        fitted.encode(X, y, **settings)


def test_labels_of_another_form_are_refused_by_a_model_of_several_labels(clusters, indicator):
    X, y = clusters
    quantizer = SupervisedQuantizer(2, **SMALL).fit(X, indicator)
    with pytest.raises(InputError, match="an indicator matrix as in fit"):
        quantizer.encode(X, y)
    with pytest.raises(InputError, match="4 columns, one per label, got 3"):
        quantizer.encode(X, indicator[:, :3])


def test_an_unknown_ranking_is_refused(fitted, clusters):
    with pytest.raises(InputError, match=r"ranking must be .*got 'manhattan'"):
        fitted.tables(clusters[0], "manhattan")


@pytest.mark.parametrize("codes", [np.zeros((3, 3), np.uint8), np.full((3, 2), 8), np.zeros((3, 2)), "code"])
def test_bad_codes_are_refused(fitted, codes):
    with pytest.raises(InputError, match="codes must"):
        fitted.decode(codes)


def test_use_before_fit_is_refused(clusters, tmp_path):
    X, y = clusters
    quantizer = SupervisedQuantizer(2, **SMALL)
    ways = [
        quantizer.encode,
        quantizer.transform,
        quantizer.predict,
        quantizer.decision_function,
        quantizer.tables,
    ]
    for way in ways:
        with pytest.raises(NotFittedError, match="not fitted"):
            way(X)
    with pytest.raises(NotFittedError):
        quantizer.encode(X, y)
    with pytest.raises(NotFittedError):
        quantizer.decode(np.zeros((1, 2), np.uint8))
    with pytest.raises(NotFittedError):
        quantizer.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    assert not hasattr(quantizer, "classes_")


# Ctrl-C -------------------------------------------------------------------------------------------------------------------


def assert_usable(quantizer, X, y):
    assert (quantizer.predict(X) == y).mean() > 0.5
    assert quantizer.encode(X).shape == quantizer.encode(X, y).shape == (len(X), 2)
    assert quantizer.n_features_in_ == X.shape[1]
    totals = [entry["total"] for entry in quantizer.objective_]
    assert totals[-1] <= min(totals) * (1 + 1e-9)


@pytest.mark.parametrize("again", [False, True], ids=["first fit", "refit"])
def test_an_interrupt_leaves_the_best_model_so_far_and_is_raised_again(clusters, solver, again):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    settings = SMALL | {"max_iter": 20, "tol": 0.0, "solver": solver}
    quantizer = SupervisedQuantizer(2, **settings)
    if again:
        quantizer.set_params(n_codewords=4, max_iter=1).fit(*clusters).set_params(n_codewords=8, max_iter=20)
    quantizer.set_params(callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert_usable(quantizer, *clusters)
    assert quantizer.n_iter_ == 2
    assert_same_model(quantizer, SupervisedQuantizer(2, **settings | {"max_iter": 2}).fit(*clusters))


@pytest.mark.parametrize("at", ["assign", "statistics"])
def test_an_interrupt_within_a_pass_leaves_the_last_finished_step(clusters, solver, monkeypatch, at):
    calls = []
    original = getattr(LocalRows, at)

    def interrupted(self, *arguments):
        calls.append(at)
        if len(calls) == 3 or at == "statistics":
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(LocalRows, at, interrupted)
    quantizer = SupervisedQuantizer(2, **SMALL | {"max_iter": 20, "tol": 0.0, "solver": solver})
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    if at == "assign":  # the start, then two iterations, the second unfinished
        assert_usable(quantizer, *clusters)
        assert quantizer.n_iter_ == 1
        assert quantizer.objective_[-1]["step"] in {"solve", "codebooks"}
    else:  # before the solver's first step there is nothing to leave
        assert not hasattr(quantizer, "codec_")


@pytest.mark.parametrize("at", ["first iteration", "between", "second iteration"])
def test_an_interrupt_on_the_way_to_a_long_code_leaves_a_long_code(clusters, solver, monkeypatch, at):
    """Four codebooks start from two: the interrupt comes while there are two, four, or just before the four begin."""
    calls = []

    def interrupt(progress):
        if (at, progress.stage, progress.step) in {
            ("first iteration", f"{solver}, 2 codebooks", 1),
            ("second iteration", f"{solver}, 4 codebooks", 1),
        }:
            raise KeyboardInterrupt

    def statistics(self):
        calls.append(self)
        if at == "between" and len(calls) == 2:
            raise KeyboardInterrupt
        return original(self)

    original = LocalRows.statistics
    monkeypatch.setattr(LocalRows, "statistics", statistics)
    quantizer = SupervisedQuantizer(4, **SMALL, solver=solver, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    X, y = clusters
    assert quantizer.codec_.codebooks.shape[:2] == (4, 8)
    assert quantizer.training_codes_.shape == (300, 4)
    assert quantizer.encode(X).shape == quantizer.encode(X, y).shape == (300, 4)
    assert quantizer.decode(quantizer.training_codes_).shape == (300, 8)
    scores = quantizer.decode(quantizer.training_codes_) @ quantizer.codec_.classifier
    assert (scores.argmax(axis=1) == y).mean() > 0.7


def test_an_interrupt_between_two_turns_leaves_the_model_of_the_last_record(clusters, monkeypatch, psi_terms):
    calls = []
    minimise = alternating.minimise_codebooks

    def interrupted(*arguments, **settings):
        calls.append("codebooks")
        if len(calls) == 3:
            raise KeyboardInterrupt
        return minimise(*arguments, **settings)

    monkeypatch.setattr(alternating, "minimise_codebooks", interrupted)
    monkeypatch.setattr(alternating, "FEW_CHANGES", 2.0)  # two turns in the second iteration
    quantizer = SupervisedQuantizer(2, **SMALL, solver="alternating", tol=0.0)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert quantizer.objective_[-1]["step"] == "constant"
    assert_objective_is_of_the_stored_model(quantizer, *clusters, psi_terms)


def test_an_interrupt_before_the_solver_begins_leaves_the_old_model(clusters, monkeypatch):
    quantizer = SupervisedQuantizer(2, **SMALL).fit(*clusters)
    before = dict(vars(quantizer))

    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("supquant.quantizers.training.product_start", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert vars(quantizer) == before


PROGRAM = """
import sys
import numpy as np
from supquant import SupervisedQuantizer

rng = np.random.default_rng(0)
y = rng.integers(0, 5, size=6000)
X = (rng.normal(scale=3, size=(5, 20))[y] + rng.normal(size=(6000, 20))).astype(np.float32)
sq = SupervisedQuantizer(
    4, n_codewords=64, features=None, solver=sys.argv[1], quantization_weight=1.0, tol=0.0, max_iter=10_000,
    random_state=0, n_jobs=2, callback=lambda progress: print("step", flush=True),
)
try:
    sq.fit(X, y)
except KeyboardInterrupt:
    print("interrupted", sq.encode(X[:10]).shape, (sq.predict(X) == y).mean() > 0.5, len(sq.objective_) > 1, flush=True)
"""


def test_a_real_interrupt_returns_at_once_with_a_usable_model(solver):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), solver],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        first = process.stdout.readline()
        assert first == "step\n", process.communicate()[1]
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert errors == ""
    assert output.splitlines()[-1] == "interrupted (10, 4) True True"
