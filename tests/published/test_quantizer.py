"""The estimator: what it learns, from which kinds of input, the same for the same seed."""

import itertools

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, ProductQuantizer, PublishedQuantizer
from supquant.model import kernel_choice as supervised_features
from supquant.parallel import BLOCK_ROWS
from supquant.published.rows import CodedRows

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}
TERMS = ["classification", "ridge", "quantization", "constraint"]


@parametrize_with_checks(
    [
        PublishedQuantizer(2, n_codewords=4, max_iter=2),
        PublishedQuantizer(1, n_codewords=4, max_iter=2, features=None, solver="alternating"),
    ]
)
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


# what is learned ------------------------------------------------------------------------------------------------------


def test_shapes_and_dtypes_are_those_of_the_contract(fitted, clusters):
    X = clusters[0][:10]
    assert (fitted.encode(X).shape, fitted.encode(X).dtype) == ((10, 2), np.uint8)
    assert (fitted.transform(X).shape, fitted.transform(X).dtype) == ((10, 8), np.float32)
    assert (fitted.codec_.tables(X).shape, fitted.codec_.tables(X).dtype) == ((10, 2, 8), np.float32)
    assert fitted.decode(fitted.encode(X)).shape == (10, 8)
    assert fitted.decision_function(X).shape == (10, 3)
    assert (fitted.training_codes_.shape, fitted.training_codes_.dtype) == ((300, 2), np.uint8)
    assert fitted.n_features_in_ == 8
    np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])


@pytest.mark.parametrize("n_codebooks", [2, 3])
@pytest.mark.parametrize("weights", [(1e-5, 0.1), (1e-1, 1.0)], ids=str)
def test_objective_has_four_terms_and_never_rises(clusters, solver, target, weights, n_codebooks):
    quantizer = PublishedQuantizer(
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


def test_last_objective_is_that_of_the_stored_model(clusters, solver, target, assert_last_objective):
    X = clusters[0]
    quantizer = PublishedQuantizer(2, **SMALL, solver=solver, quantization_weight=0.1).fit(X, target)
    assert_last_objective(quantizer, X, target)


def test_codes_separate_the_classes(clusters, solver, target):
    quantizer = PublishedQuantizer(2, **SMALL, solver=solver).fit(clusters[0], target)
    decoded = quantizer.decode(quantizer.training_codes_)
    scores = decoded @ quantizer.codec_.classifier
    if target.ndim == 1:
        assert (scores.argmax(axis=1) == target).mean() > 0.95
    else:
        assert ((scores > 0.5) == target).mean() > 0.9


def test_learned_codes_tell_more_of_the_labels_than_unsupervised_ones(digits):
    X, y = digits[0][:500], digits[1][:500]
    ours = PublishedQuantizer(2, n_codewords=16, max_iter=5, random_state=0).fit(X, y)
    theirs = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)

    def share_of_nearest(quantizer, codes):
        Q, labels = digits[0][500:700], digits[1][500:700]
        tables = quantizer.codec_.tables(Q)
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
    quantizer = PublishedQuantizer(2, **SMALL).fit(X, names)
    assert quantizer.predict(X).dtype == names.dtype
    assert (quantizer.predict(X) == names).mean() > 0.7
    best = quantizer.decision_function(X).argmax(axis=1)
    np.testing.assert_array_equal(quantizer.predict(X), quantizer.classes_[best])
    several = PublishedQuantizer(2, **SMALL).fit(X, indicator)
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
    quantizer = PublishedQuantizer(1, **SMALL, solver=solver).fit(*clusters)
    assert quantizer.encode(clusters[0]).shape == (300, 1)
    assert quantizer.codec_.constant == 0
    assert all(entry["constraint"] == 0 for entry in quantizer.objective_)


@pytest.mark.parametrize(("n_components", "p"), [(2, 8), (1, 8), (256, 2), (256, 1)])
def test_more_codebooks_than_dimensions_are_learned(clusters, n_components, p):
    X, y = clusters
    quantizer = PublishedQuantizer(3, **SMALL, n_components=n_components).fit(X[:, :p], y)
    assert quantizer.encode(X[:, :p]).shape == (300, 3)
    totals = [entry["total"] for entry in quantizer.objective_]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))


def test_components_are_as_many_as_asked_for_and_there_are(clusters):
    assert PublishedQuantizer(2, **SMALL, n_components=5).fit(*clusters).transform(clusters[0]).shape[1] == 5
    assert (
        PublishedQuantizer(2, **SMALL, n_components=500).fit(*clusters).transform(clusters[0]).shape[1] == 8
    )


def test_auto_features_are_labels_by_a_kernel_for_narrow_vectors_and_without_one_for_wide_ones(
    clusters, monkeypatch
):
    quantizer = PublishedQuantizer(1, **SMALL | {"features": "auto", "max_iter": 1})
    assert quantizer.fit(*clusters).codec_.feature_map.kernel.anchors.shape == (200, 8)  # a third is held out
    monkeypatch.setattr(supervised_features, "WIDE", 8)
    assert quantizer.fit(*clusters).codec_.feature_map.kernel is not None
    monkeypatch.setattr(supervised_features, "WIDE", 7)
    assert quantizer.fit(*clusters).codec_.feature_map.kernel is None


def test_given_features_are_fitted_on_a_copy(clusters):
    kernel = AnchorKernel(30, bandwidth=2.0)
    quantizer = PublishedQuantizer(2, **SMALL | {"features": kernel}).fit(*clusters)
    assert not hasattr(kernel, "anchors_")
    assert kernel.random_state is None
    assert quantizer.codec_.feature_map.anchors.shape == (30, 8)
    assert quantizer.codec_.feature_map.bandwidth == 2.0


def test_features_learned_inside_are_those_of_a_pipeline(clusters):
    X, y = clusters
    kernel = AnchorKernel(30, random_state=3)
    inside = PublishedQuantizer(2, **SMALL | {"features": kernel}).fit(X, y)
    outside = make_pipeline(clone(kernel), PublishedQuantizer(2, **SMALL)).fit(X, y)
    np.testing.assert_array_equal(inside.predict(X), outside.predict(X))
    np.testing.assert_array_equal(inside.training_codes_, outside[-1].training_codes_)


def test_progress_is_reported_after_every_iteration(clusters, solver):
    events = []
    quantizer = PublishedQuantizer(2, **SMALL, solver=solver, tol=0.0, callback=events.append).fit(*clusters)
    assert [(event.stage, event.step, event.total) for event in events] == [
        (f"{solver}, 2 codebooks", step, 3) for step in (1, 2, 3)
    ]
    assert events[-1].values["objective"] == quantizer.objective_[-1]["total"]


def test_verbose_logs_and_never_prints(clusters, caplog, capsys):
    PublishedQuantizer(2, **SMALL, verbose=1).fit(*clusters)
    assert "joint, 2 codebooks 1/3" in caplog.text
    assert capsys.readouterr() == ("", "")


# the same seed -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_model_whatever_the_threads(rng, solver, assert_same_model):
    X = rng.normal(size=(BLOCK_ROWS + 300, 6)).astype(np.float32)
    y = (X[:, 0] > 0) + 2 * (X[:, 1] > 0.5)
    settings = {"n_codewords": 8, "features": AnchorKernel(12), "max_iter": 2, "solver": solver}
    settings |= {"max_turns": 2, "quantization_weight": 1e-2}
    one, two, other = (
        PublishedQuantizer(3, **settings, n_jobs=n_jobs, random_state=seed).fit(X, y)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    assert_same_model(one, two)
    np.testing.assert_array_equal(one.encode(X), two.encode(X))
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_a_generator_serves_as_random_state(clusters, assert_same_model):
    settings = SMALL | {"random_state": np.random.default_rng(4)}
    one = PublishedQuantizer(2, **settings).fit(*clusters)
    settings = SMALL | {"random_state": np.random.default_rng(4)}
    assert_same_model(one, PublishedQuantizer(2, **settings).fit(*clusters))


# scikit-learn's ways ------------------------------------------------------------------------------------------------------


def test_parameters_are_read_set_and_cloned(fitted):
    copy = clone(fitted.set_params(features=None))
    assert copy.get_params() == fitted.get_params()
    assert not hasattr(copy, "codec_")
    nested = PublishedQuantizer(features=AnchorKernel(30))
    nested.set_params(features__n_anchors=40, quantization_weight=0.5)
    assert (nested.features.n_anchors, nested.quantization_weight) == (40, 0.5)


def test_the_quantizer_is_the_last_step_of_a_pipeline_or_one_before(clusters):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL)
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
    found = PublishedQuantizer(2, **SMALL).fit(container(X), y)
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)
    np.testing.assert_array_equal(found.encode(container(X)), fitted.encode(X))


def test_data_frames_are_taken(fitted, clusters):
    pandas = pytest.importorskip("pandas")
    X, y = clusters
    found = PublishedQuantizer(2, **SMALL).fit(pandas.DataFrame(X), pandas.Series(y, name="label"))
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8])
def test_narrow_dtypes_give_the_codes_of_float32(digits, dtype, assert_same_model):
    X, y = (digits[0][:200] * 16).astype(dtype), digits[1][:200]
    found = PublishedQuantizer(2, **SMALL).fit(X, y)
    want = PublishedQuantizer(2, **SMALL).fit(X.astype(np.float32), y)
    assert_same_model(found, want)


def test_a_read_only_memory_map_is_not_copied(digits, tmp_path, monkeypatch, assert_same_model):
    X, y = digits[0][:300], digits[1][:300]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    given = []

    def spy(X, *arguments, **settings):
        given.append(X[:10])
        return CodedRows(X, *arguments, **settings)

    monkeypatch.setattr("supquant.published.training.CodedRows", spy)
    found = PublishedQuantizer(2, **SMALL).fit(mapped, y)
    assert np.shares_memory(given[0], mapped)
    monkeypatch.undo()
    assert_same_model(found, PublishedQuantizer(2, **SMALL).fit(X, y))


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
    found = PublishedQuantizer(2, **SMALL).fit(X, labels(y))
    np.testing.assert_array_equal(found.training_codes_, fitted.training_codes_)
    np.testing.assert_array_equal(found.encode(X, labels(y)), fitted.encode(X, y))


def test_an_indicator_matrix_may_be_sparse(clusters, indicator, assert_same_model):
    X = clusters[0]
    dense = PublishedQuantizer(2, **SMALL).fit(X, indicator)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        sparse = PublishedQuantizer(2, **SMALL).fit(X, kind(indicator))
        assert_same_model(sparse, dense)
        np.testing.assert_array_equal(sparse.encode(X, kind(indicator)), dense.encode(X, indicator))


def test_refitting_leaves_an_old_codec_alone(clusters):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL).fit(X, y)
    codec, codes, tables = quantizer.codec_, quantizer.encode(X), quantizer.codec_.tables(X[:5])
    quantizer.set_params(random_state=1, quantization_weight=1.0).fit(X[::-1] * 2, y[::-1])
    assert quantizer.codec_ is not codec
    np.testing.assert_array_equal(codec.encode(X), codes)
    np.testing.assert_array_equal(codec.tables(X[:5]), tables)
