import threading
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import ProductQuantizer, SupervisedQuantizer
from supquant.errors import FileFormatError, InputError
from supquant.parallel import BLOCK_ROWS


@parametrize_with_checks([ProductQuantizer(1, n_codewords=4)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clusters):
    return ProductQuantizer(3, n_codewords=8, random_state=0).fit(clusters[0])


def test_codes_are_the_nearest_centres_of_each_group_of_dimensions(fitted, clusters):
    X = clusters[0]
    codes = fitted.encode(X)
    assert (codes.shape, codes.dtype) == ((300, 3), np.uint8)
    for m, columns in enumerate(np.array_split(np.arange(8), 3)):
        centres = fitted.codec_.codebooks[m][:, columns]
        distances = ((X[:, None, columns] - centres) ** 2).sum(axis=2)  # (n, K)
        reached = np.take_along_axis(distances, codes[:, m : m + 1].astype(int), axis=1)[:, 0]
        np.testing.assert_allclose(reached, distances.min(axis=1), atol=1e-4)
    np.testing.assert_array_equal(fitted.training_codes_, codes)


def test_codebooks_are_zero_outside_their_own_dimensions(fitted):
    for m, columns in enumerate(np.array_split(np.arange(8), 3)):
        others = np.setdiff1d(np.arange(8), columns)
        assert not fitted.codec_.codebooks[m][:, others].any()


def test_centres_are_the_means_of_their_rows(clusters):
    X = clusters[0]
    quantizer = ProductQuantizer(2, n_codewords=4, max_iter=300, random_state=0).fit(X)
    for m, columns in enumerate(np.array_split(np.arange(8), 2)):
        for k in range(4):
            rows = quantizer.training_codes_[:, m] == k
            centre = quantizer.codec_.codebooks[m, k, columns]
            np.testing.assert_allclose(centre, X[rows][:, columns].mean(axis=0), atol=0.05)


def test_tables_sum_to_the_squared_distance_less_that_of_the_query(fitted, clusters):
    X = clusters[0]
    tables = fitted.codec_.tables(X[:10])
    assert (tables.shape, tables.dtype) == ((10, 3, 8), np.float32)
    decoded = fitted.decode(fitted.training_codes_).astype(np.float64)
    for query, table in zip(X[:10].astype(np.float64), tables, strict=True):
        sums = table[np.arange(3), fitted.training_codes_].sum(axis=1)
        want = ((query - decoded) ** 2).sum(axis=1) - (query**2).sum()
        np.testing.assert_allclose(sums, want, atol=1e-3)


def test_transform_does_not_change_vectors(fitted, clusters):
    np.testing.assert_array_equal(fitted.transform(clusters[0]), clusters[0])


def test_quantization_error_falls_with_more_codebooks_and_more_codewords(clusters):
    X = clusters[0]

    def error(M, K):
        quantizer = ProductQuantizer(M, n_codewords=K, random_state=0).fit(X)
        return ((X - quantizer.decode(quantizer.training_codes_)) ** 2).sum()

    by_length = [error(M, 8) for M in (1, 2, 4, 8)]
    by_size = [error(2, K) for K in (2, 8, 32)]
    assert by_length == sorted(by_length, reverse=True)
    assert by_size == sorted(by_size, reverse=True)
    assert by_length[-1] < 0.5 * by_length[0]


def test_the_same_seed_gives_the_same_codes_whatever_the_threads(rng):
    X = rng.normal(size=(BLOCK_ROWS + 100, 6)).astype(np.float32)
    one, two, other = (
        ProductQuantizer(3, n_codewords=8, n_jobs=n_jobs, random_state=seed).fit(X)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.codec_.codebooks, two.codec_.codebooks)
    np.testing.assert_array_equal(one.training_codes_, two.training_codes_)
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_fewer_distinct_rows_than_codewords_are_fine():
    X = np.repeat(np.eye(4), 5, axis=0)
    quantizer = ProductQuantizer(2, n_codewords=16, random_state=0).fit(X)
    np.testing.assert_allclose(quantizer.decode(quantizer.training_codes_), X, atol=1e-6)


def test_threads_of_k_means_do_not_restore_each_others_warning_filters(clusters, monkeypatch):
    """Warnings of k-means are silenced for all threads until the last one is through, and heard again afterwards."""
    began, second_began = [], threading.Event()

    class WarningKMeans:
        def __init__(self, n_clusters, random_state, **settings):
            self.n_clusters = n_clusters

        def fit(self, Z):
            began.append(self)
            if began[0] is self:  # the first thread is through before the second one warns
                second_began.wait(10)
            else:
                second_began.set()
                time.sleep(0.2)
                warnings.warn("few distinct clusters", ConvergenceWarning, stacklevel=1)
            self.cluster_centers_, self.n_iter_ = np.zeros((self.n_clusters, Z.shape[1]), np.float32), 1
            return self

    monkeypatch.setattr("supquant.clustering.KMeans", WarningKMeans)
    before = list(warnings.filters)
    ProductQuantizer(2, n_codewords=8, n_jobs=2).fit(clusters[0])
    assert warnings.filters == before


def test_a_saved_model_encodes_as_before(fitted, clusters, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = ProductQuantizer.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(clusters[0]), fitted.training_codes_)
    np.testing.assert_array_equal(
        loaded.codec_.tables(clusters[0][:5]), fitted.codec_.tables(clusters[0][:5])
    )
    assert loaded.get_params() == fitted.get_params()
    assert loaded.n_features_in_ == 8


def test_a_file_of_another_quantizer_is_refused(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(
        FileFormatError, match="holds a 'product-quantizer', expected a 'supervised-quantizer'"
    ):
        SupervisedQuantizer.load(tmp_path / "model")


def test_a_clone_is_not_fitted(fitted, clusters):
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    for way in (copy.encode, copy.transform, copy.decode):
        with pytest.raises(NotFittedError):
            way(clusters[0])
    with pytest.raises(NotFittedError):
        copy.decode(np.zeros((1, 3), dtype=np.uint8))
    with pytest.raises(NotFittedError):
        copy.save("nowhere")


def test_refitting_leaves_an_old_codec_alone(clusters):
    X = clusters[0]
    quantizer = ProductQuantizer(2, n_codewords=8, random_state=0).fit(X)
    codec, codes = quantizer.codec_, quantizer.encode(X)
    quantizer.set_params(random_state=1).fit(X[::-1] * 2)
    np.testing.assert_array_equal(codec.encode(X), codes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_codebooks": 0}, "n_codebooks must be an integer from 1 to 8, got 0"),
        ({"n_codebooks": 9}, "n_codebooks must be an integer from 1 to 8, got 9"),
        ({"n_codewords": 1}, "n_codewords must be an integer from 2 to 256, got 1"),
        ({"n_codewords": 257}, "n_codewords"),
        ({"n_codewords": 256}, "n_samples=50 should be >= n_codewords=256"),
        ({"max_iter": 0}, "max_iter"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    quantizer = ProductQuantizer(3, n_codewords=8, random_state=0).fit(clusters[0])
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(clusters[0][:50])
    assert vars(quantizer) == before | settings


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((50, 8), np.nan), "NaN"),
        (np.full((50, 8), -np.inf), "infinity"),
        (np.zeros((0, 8)), "0 sample"),
        (np.zeros((7, 8)), "n_samples=7 should be >= n_codewords=8"),
    ],
)
def test_bad_vectors_are_refused_and_change_nothing(clusters, X, message):
    quantizer = ProductQuantizer(3, n_codewords=8, random_state=0).fit(clusters[0])
    before = dict(vars(quantizer))
    with pytest.raises(InputError, match=message):
        quantizer.fit(X)
    assert vars(quantizer) == before


def test_vectors_of_another_width_are_refused(fitted):
    for way in (fitted.encode, fitted.transform, fitted.codec_.tables):
        with pytest.raises(InputError, match=r"[XQ] has 5 features, but .* expecting 8"):
            way(np.zeros((3, 5)))
