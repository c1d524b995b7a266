"""The estimator of the triplet formulation: what it learns, what it refuses, what an interrupt leaves."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, ProductQuantizer, SupervisedQuantizer
from supquant.errors import FileFormatError, InputError
from supquant_lab.triplets import TripletQuantizer
from supquant_lab.triplets import quantizer as triplet_solver

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "triplets_per_row": 4, "random_state": 0}
TERMS = ["triplet", "quantization", "constraint"]


@parametrize_with_checks([TripletQuantizer(2, n_codewords=4, max_iter=2, triplets_per_row=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clusters):
    return TripletQuantizer(2, **SMALL).fit(*clusters)


def assert_same(one, other):
    for name in ("codebooks", "projection"):
        np.testing.assert_array_equal(getattr(one.codec_, name), getattr(other.codec_, name), strict=True)
    assert one.codec_.constant == other.codec_.constant
    np.testing.assert_array_equal(one.training_codes_, other.training_codes_)
    assert one.objective_ == other.objective_


# what is learned ------------------------------------------------------------------------------------------------------


def test_shapes_and_dtypes_are_those_of_the_contract(fitted, clusters):
    X = clusters[0][:10]
    assert (fitted.encode(X).shape, fitted.encode(X).dtype) == ((10, 2), np.uint8)
    assert (fitted.transform(X).shape, fitted.transform(X).dtype) == ((10, 8), np.float32)
    assert (fitted.codec_.tables(X).shape, fitted.codec_.tables(X).dtype) == ((10, 2, 8), np.float32)
    assert fitted.decode(fitted.encode(X)).shape == (10, 8)
    assert (fitted.training_codes_.shape, fitted.training_codes_.dtype) == ((300, 2), np.uint8)
    assert fitted.n_features_in_ == 8


@pytest.mark.parametrize("n_codebooks", [1, 2, 3])
@pytest.mark.parametrize("weights", [(1e-2, 0.0), (1.0, 1.0)], ids=str)
def test_psi_never_rises_while_the_triplets_stay(clusters, target, n_codebooks, weights):
    quantizer = TripletQuantizer(
        n_codebooks, **SMALL, quantization_weight=weights[0], constraint_weight=weights[1], tol=0.0
    )
    record = quantizer.fit(clusters[0], target).objective_
    for entry in record:
        assert entry["total"] == pytest.approx(sum(entry[name] for name in TERMS), rel=1e-12)
    iterations = itertools.groupby(record, key=lambda entry: (entry["codebooks"], entry["iteration"]))
    for _, entries in iterations:
        names, totals = zip(*((entry["step"], entry["total"]) for entry in entries), strict=True)
        assert names[0] == "triplets"
        assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))
    assert record[1]["total"] < record[0]["total"]
    assert quantizer.n_iter_ == sum(entry["step"] == "codes" for entry in record)
    assert {entry["codebooks"] for entry in record} == {min(2, n_codebooks), n_codebooks}


def test_the_last_objective_is_that_of_the_stored_model(clusters, monkeypatch):
    losses = []
    loss_type = triplet_solver.TripletLoss
    monkeypatch.setattr(
        triplet_solver, "TripletLoss", lambda *given: losses.append(loss_type(*given)) or losses[-1]
    )
    X, y = clusters
    quantizer = TripletQuantizer(2, **SMALL, tol=0.0).fit(X, y)
    codec, last = quantizer.codec_, quantizer.objective_[-1]
    S = quantizer.decode(quantizer.training_codes_).astype(np.float64)
    words = [codec.codebooks[m][quantizer.training_codes_[:, m]] for m in range(2)]
    e = 2 * (words[0] * words[1]).sum(axis=1)
    error = ((S - X.astype(np.float64) @ codec.projection) ** 2).sum()
    assert last["triplet"] == pytest.approx(losses[-1].value(S), rel=1e-3, abs=1e-3)
    assert last["quantization"] == pytest.approx(quantizer.quantization_weight * error, rel=1e-3)
    assert last["constraint"] == pytest.approx(
        quantizer.constraint_weight * ((e - codec.constant) ** 2).sum(), rel=1e-3, abs=1e-4
    )


def share_of_nearest(quantizer, codes, y, Q, labels):
    nearest = quantizer.rank(Q, codes)[:, :80]  # as many as there are of a class
    return (y[nearest] == labels[:, None]).mean()


def test_learned_codes_predict_labels_better_than_unsupervised_ones(digits):
    X, y = digits[0][:800], digits[1][:800]
    queries = digits[0][800:1000], digits[1][800:1000]
    ours = TripletQuantizer(2, n_codewords=16, max_iter=6, random_state=0).fit(X, y)
    theirs = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    learned = share_of_nearest(ours, ours.training_codes_, y, *queries)
    assert learned > share_of_nearest(theirs, theirs.training_codes_, y, *queries) + 0.1
    assert learned > 0.85
    assert share_of_nearest(ours, ours.encode(X), y, *queries) > 0.5  # chance is .1


def test_several_labels_are_learned_from(clusters, indicator):
    quantizer = TripletQuantizer(2, **SMALL | {"max_iter": 8}).fit(clusters[0], indicator)
    S = quantizer.decode(quantizer.training_codes_)
    distances = ((S[:, None] - S) ** 2).sum(axis=2)
    similar = indicator @ indicator.T > 0
    near = np.argsort(distances[5:], axis=1, kind="stable")[:, :20]
    assert np.take_along_axis(similar[5:], near, axis=1).mean() > similar[5:].mean() + 0.1


def test_a_fit_ends_once_new_triplets_are_violated_no_less(clusters):
    quantizer = TripletQuantizer(2, **SMALL | {"max_iter": 20}, tol=1.0).fit(*clusters)
    assert quantizer.n_iter_ == triplet_solver.PATIENCE
    assert quantizer.objective_[-1]["step"] == "triplets"


@pytest.mark.parametrize(("n_components", "p"), [(2, 8), (256, 1)])
def test_more_codebooks_than_dimensions_are_learned(clusters, n_components, p):
    X, y = clusters
    quantizer = TripletQuantizer(3, **SMALL, n_components=n_components).fit(X[:, :p], y)
    assert quantizer.encode(X[:, :p]).shape == (300, 3)


def test_rows_without_triplets_are_still_quantized(clusters):
    quantizer = TripletQuantizer(2, **SMALL).fit(clusters[0], np.arange(300))
    assert quantizer.objective_[-1]["triplet"] == 0
    assert quantizer.encode(clusters[0]).shape == (300, 2)


def test_the_same_seed_gives_the_same_model_whatever_the_threads(digits):
    X, y = digits[0][:700], digits[1][:700]
    settings = SMALL | {"features": AnchorKernel(30), "max_iter": 2}
    one, two, other = (
        TripletQuantizer(3, **settings | {"random_state": seed}, n_jobs=n_jobs).fit(X, y)
        for seed, n_jobs in ((0, 1), (0, 2), (1, 1))
    )
    assert_same(one, two)
    np.testing.assert_array_equal(one.encode(X), two.encode(X))
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_parameters_are_read_set_and_cloned(fitted):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "codec_")


# longer codes -------------------------------------------------------------------------------------------------------------


def test_longer_code_starts_from_the_shorter_one(clusters, monkeypatch):
    X, y = clusters
    shorter = TripletQuantizer(1, **SMALL | {"features": AnchorKernel(30)}).fit(X, y)
    codec, codes = shorter.codec_, shorter.training_codes_.copy()
    starts = []
    steps = triplet_solver.triplet_steps

    def spy(training, *arguments, **settings):
        starts.append((training.codebooks, training.rows.codes))
        return steps(training, *arguments, **settings)

    monkeypatch.setattr("supquant_lab.triplets.quantizer.triplet_steps", spy)
    longer = TripletQuantizer(3, **SMALL, init=shorter).fit(X, y)
    ((codebooks, begun),) = starts
    np.testing.assert_array_equal(codebooks[:1], codec.codebooks)
    assert not codebooks[1:].any()
    np.testing.assert_array_equal(begun[:, :1], codes)
    assert len(np.unique(begun[:, 1:], axis=0)) > 8
    assert longer.codec_.feature_map is codec.feature_map
    assert longer.training_codes_.shape == (300, 3)
    assert shorter.codec_ is codec
    np.testing.assert_array_equal(shorter.training_codes_, codes)


def test_a_long_code_is_learned_from_a_short_one_of_its_own(clusters):
    short = TripletQuantizer(2, **SMALL).fit(*clusters)
    long = TripletQuantizer(4, **SMALL).fit(*clusters)
    assert long.objective_[: len(short.objective_)] == short.objective_
    assert long.objective_[-1]["codebooks"] == 4


def test_a_loaded_model_serves_as_init(fitted, clusters, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = TripletQuantizer.load(tmp_path / "model")
    assert TripletQuantizer(3, **SMALL, init=loaded).fit(*clusters).training_codes_.shape == (300, 3)


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"n_codebooks": 1}, 8, r"at most n_codebooks=1 codebooks of n_codewords=8 codewords, got 2 of 8"),
        ({"n_codewords": 16}, 8, r"codebooks of n_codewords=16 codewords, got 2 of 8"),
        ({}, 5, "init was fitted on 8 features, X has 5"),
        ({"init": "random"}, 8, "init must be a fitted TripletQuantizer or None"),
        ({"init": SupervisedQuantizer(2)}, 8, "init must be a fitted TripletQuantizer or None"),
    ],
)
def test_an_init_that_does_not_fit_is_refused(fitted, clusters, settings, columns, message):
    X, y = clusters
    with pytest.raises(InputError, match=message):
        TripletQuantizer(3, **SMALL, init=fitted).set_params(**settings).fit(X[:, :columns], y)


def test_an_init_that_is_not_fitted_is_refused(clusters):
    with pytest.raises(NotFittedError):
        TripletQuantizer(3, **SMALL, init=TripletQuantizer(2, **SMALL)).fit(*clusters)


# what is refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"margin": 0}, "margin must be a finite number above 0, got 0"),
        ({"margin": np.inf}, "margin"),
        ({"quantization_weight": 0}, "quantization_weight must be a finite number above 0, got 0"),
        ({"constraint_weight": -0.1}, r"constraint_weight must be a finite number, 0 or above, got -0\.1"),
        ({"triplets_per_row": 0}, "triplets_per_row must be an integer of at least 1, got 0"),
        ({"triplets_per_row": 2.5}, "triplets_per_row"),
        ({"features": "gist"}, "features must be 'auto', an AnchorKernel or None, got 'gist'"),
        ({"n_codebooks": 65}, "n_codebooks must be an integer from 1 to 64, got 65"),
        ({"n_codewords": 257}, "n_codewords must be an integer from 2 to 256, got 257"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "seed"}, "random_state"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, fitted, settings, message):
    quantizer = clone(fitted)
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(*clusters)
    assert vars(quantizer) == before | settings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[:7], y[:7]), "n_samples=7 should be >= n_codewords=8"),
        (lambda X, y: (X, y[:299]), "each of the 300 rows of X, got 299"),
        (lambda X, y: (X, np.zeros(300)), "single class"),
        (lambda X, y: (X, None), "requires y to be passed"),
        (lambda X, y: (np.where(X[7, 3] == X, np.nan, X), y), "Input X contains NaN"),
    ],
    ids=["few rows", "short y", "one class", "no y", "NaN"],
)
def test_bad_data_are_refused(clusters, change, message):
    with pytest.raises(InputError, match=message):
        TripletQuantizer(2, **SMALL).fit(*change(*clusters))


def test_labels_cannot_be_encoded(fitted, clusters):
    X, y = clusters
    with pytest.raises(TypeError, match="positional"):
        fitted.encode(X, y)
    with pytest.raises(InputError, match="without labels"):
        fitted.codec_.encode_items(X, y)


def test_use_before_fit_is_refused(clusters):
    with pytest.raises(NotFittedError, match="not fitted"):
        TripletQuantizer(2).encode(clusters[0])


# files and interrupts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", [None, AnchorKernel(30)])
def test_a_saved_model_works_as_before(clusters, tmp_path, features):
    X, y = clusters
    quantizer = TripletQuantizer(3, **SMALL | {"features": features}).fit(X, y)
    quantizer.save(tmp_path / "model")
    loaded = TripletQuantizer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(X), quantizer.encode(X))
    np.testing.assert_array_equal(loaded.codec_.tables(X), quantizer.codec_.tables(X))
    assert loaded.objective_ == quantizer.objective_
    assert (loaded.n_iter_, loaded.n_features_in_) == (quantizer.n_iter_, 8)
    for name in (
        "n_codebooks",
        "n_codewords",
        "margin",
        "quantization_weight",
        "triplets_per_row",
        "max_iter",
    ):
        assert loaded.get_params()[name] == quantizer.get_params()[name]
    with pytest.raises(FileFormatError, match="holds a 'triplet-quantizer'"):
        SupervisedQuantizer.load(tmp_path / "model")


def test_an_interrupt_leaves_the_last_model_and_is_raised_again(clusters):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    quantizer = TripletQuantizer(2, **SMALL | {"max_iter": 20, "tol": 0.0}, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert quantizer.n_iter_ == 2
    assert_same(quantizer, TripletQuantizer(2, **SMALL | {"max_iter": 2, "tol": 0.0}).fit(*clusters))


@pytest.mark.parametrize("at", ["sweep", "__init__"])
def test_an_interrupt_among_the_codes_leaves_the_codebooks_before_them_in_the_length_asked_for(
    clusters, monkeypatch, at
):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(triplet_solver.CodeDescent, at, interrupt)
    quantizer = TripletQuantizer(4, **SMALL)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(*clusters)
    assert [entry["step"] for entry in quantizer.objective_] == ["triplets", "codebooks"]
    assert quantizer.codec_.codebooks.shape[:2] == (4, 8)
    assert quantizer.training_codes_.shape == (300, 4)
    assert quantizer.encode(clusters[0]).shape == (300, 4)


def test_progress_is_reported_after_every_iteration(clusters):
    seen = []
    quantizer = TripletQuantizer(3, **SMALL | {"tol": 0.0}, callback=seen.append).fit(*clusters)
    assert len(seen) == quantizer.n_iter_
    assert {progress.stage for progress in seen} == {"triplets, 2 codebooks", "triplets, 3 codebooks"}
    assert seen[0].values["objective"] == quantizer.objective_[3]["total"]
