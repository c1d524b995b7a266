import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel
from supquant.codec.gaussian_map import GaussianMap
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS


@parametrize_with_checks([AnchorKernel(8), AnchorKernel(8, bandwidth=2.0, n_jobs=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


def test_features_are_the_gaussian_kernel_of_the_definition(clusters):
    X = clusters[0]
    kernel = AnchorKernel(20, random_state=0).fit(X)
    found = kernel.transform(X[:15])
    assert (found.shape, found.dtype) == ((15, 20), np.float32)
    for i, x in enumerate(X[:15].astype(np.float64)):
        for j, anchor in enumerate(kernel.anchors_.astype(np.float64)):
            want = np.exp(-((x - anchor) ** 2).sum() / (2 * kernel.bandwidth_**2))
            assert found[i, j] == pytest.approx(want, abs=1e-5)


def test_bandwidth_is_the_mean_distance_to_the_nearest_anchor(clusters):
    X = clusters[0]
    kernel = AnchorKernel(20, random_state=0).fit(X)
    nearest = [min(np.linalg.norm(x - anchor) for anchor in kernel.anchors_) for x in X]
    assert kernel.bandwidth_ == pytest.approx(np.mean(nearest), rel=1e-4)


def test_a_given_bandwidth_is_used(clusters):
    X = clusters[0]
    kernel = AnchorKernel(20, bandwidth=3.5, random_state=0).fit(X)
    assert kernel.bandwidth_ == 3.5
    distance = ((X[0] - kernel.anchors_[0]) ** 2).sum()
    assert kernel.transform(X[:1])[0, 0] == pytest.approx(np.exp(-distance / (2 * 3.5**2)), abs=1e-5)


def test_anchors_are_different_rows_of_the_training_data(clusters):
    X = clusters[0]
    anchors = AnchorKernel(50, random_state=3).fit(X).anchors_
    rows = [int(np.flatnonzero((anchor == X).all(axis=1))[0]) for anchor in anchors]
    assert len(set(rows)) == 50


def test_the_seed_chooses_the_anchors(clusters):
    X = clusters[0]
    first = AnchorKernel(20, random_state=0).fit(X).anchors_
    np.testing.assert_array_equal(AnchorKernel(20, random_state=0).fit(X).anchors_, first)
    assert not np.array_equal(AnchorKernel(20, random_state=1).fit(X).anchors_, first)


def test_fewer_rows_than_anchors_make_every_row_an_anchor(clusters):
    X = clusters[0][:30]
    kernel = AnchorKernel(1000, random_state=0).fit(X)
    np.testing.assert_array_equal(np.unique(kernel.anchors_, axis=0), np.unique(X, axis=0))
    assert kernel.transform(X).shape == (30, 30)
    assert kernel.bandwidth_ > 0
    assert np.isfinite(kernel.transform(X)).all()


@pytest.mark.parametrize("rows", [np.ones((10, 3)), np.zeros((10, 3)), np.ones((1, 1))])
def test_rows_that_are_all_equal_get_finite_features(rows):
    features = AnchorKernel(5, random_state=0).fit(rows).transform(rows)
    np.testing.assert_allclose(features, 1)


def test_far_away_rows_get_features_of_zero(clusters):
    features = AnchorKernel(5, random_state=0).fit(clusters[0]).transform(np.full((1, 8), 1e10))
    np.testing.assert_array_equal(features, np.zeros((1, 5)))


def test_blas_fills_a_block_with_the_same_features(rng):
    x, anchors = (rng.normal(size=(n, 30)).astype(np.float32) for n in (50, 21))
    kernel = GaussianMap(anchors, 4.0)
    phi = np.ones((50, 22), dtype=np.float32)
    kernel.fill(x, phi[:, :-1])
    np.testing.assert_allclose(phi[:, :-1], kernel(x), atol=1e-6)
    assert (phi[:, -1] == 1).all()
    assert phi[:, :-1].max() > 0.1


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.uint8, np.int32])
def test_every_real_dtype_is_accepted(digits, dtype):
    X = (digits[0][:200] * 16).astype(dtype)  # whole numbers up to 16
    want = AnchorKernel(20, random_state=0).fit(X.astype(np.float32))
    found = AnchorKernel(20, random_state=0).fit(X)
    assert found.bandwidth_ == want.bandwidth_
    np.testing.assert_array_equal(found.transform(X), want.transform(X.astype(np.float32)))


def test_a_memory_map_is_read(clusters, tmp_path):
    np.save(tmp_path / "X.npy", clusters[0])
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    found = AnchorKernel(20, random_state=0).fit(mapped)
    want = AnchorKernel(20, random_state=0).fit(clusters[0])
    np.testing.assert_array_equal(found.transform(mapped), want.transform(clusters[0]))


def test_features_do_not_depend_on_the_number_of_threads(rng):
    X = rng.normal(size=(2 * BLOCK_ROWS + 100, 3)).astype(np.float32)
    one, two = (AnchorKernel(10, random_state=0, n_jobs=n_jobs).fit(X) for n_jobs in (1, 2))
    assert one.bandwidth_ == two.bandwidth_
    np.testing.assert_array_equal(one.transform(X), two.transform(X))


def test_the_fitted_map_does_not_follow_a_refit(clusters):
    X = clusters[0]
    kernel = AnchorKernel(10, random_state=0).fit(X)
    frozen, before = kernel.map_, kernel.transform(X)
    kernel.set_params(random_state=1, n_anchors=7).fit(X[:100])
    np.testing.assert_array_equal(frozen(X), before)


def test_the_kernel_is_a_step_of_a_pipeline(clusters):
    kernel = AnchorKernel(10, random_state=0)
    pipeline = make_pipeline(clone(kernel), clone(kernel)).fit(clusters[0])
    assert pipeline.transform(clusters[0]).shape == (300, 10)
    assert kernel.get_params() == {"n_anchors": 10, "bandwidth": None, "n_jobs": None, "random_state": 0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_anchors": 0}, "n_anchors must be an integer of at least 1, got 0"),
        ({"n_anchors": 2.5}, "n_anchors"),
        ({"bandwidth": 0}, "bandwidth must be a finite number above 0, got 0"),
        ({"bandwidth": -1.0}, "bandwidth"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    kernel = AnchorKernel(10, random_state=0).fit(clusters[0])
    before = dict(vars(kernel))
    kernel.set_params(**settings)
    with pytest.raises(InputError, match=message):
        kernel.fit(clusters[0][:50])
    assert vars(kernel) == before | settings


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((5, 8), np.nan), "NaN"),
        (np.full((5, 8), np.inf), "infinity"),
        (np.full((5, 8), 1e300), "infinity"),
        (np.zeros((0, 8)), "0 sample"),
        (np.zeros(8), "Reshape your data"),
    ],
)
def test_bad_vectors_are_refused_and_change_nothing(clusters, X, message):
    kernel = AnchorKernel(10, random_state=0).fit(clusters[0])
    anchors = kernel.anchors_
    for way in (kernel.fit, kernel.transform):
        with pytest.raises(InputError, match=message):
            way(X)
    assert kernel.anchors_ is anchors


def test_vectors_of_another_width_are_refused(clusters):
    with pytest.raises(InputError, match="X has 5 features, but AnchorKernel is expecting 8"):
        AnchorKernel(10).fit(clusters[0]).transform(np.zeros((3, 5)))


def test_use_before_fit_is_refused(clusters):
    with pytest.raises(NotFittedError, match="not fitted"):
        AnchorKernel(10).transform(clusters[0])
