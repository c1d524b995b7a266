"""Optimized product quantization: its rotation, its error, and product quantization as the yardstick."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import OptimizedProductQuantizer, ProductQuantizer, load_model
from supquant.baselines.optimized_product import eigenvalue_allocation, rounds
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS

SMALL = {"n_codewords": 8, "random_state": 0}


@parametrize_with_checks([OptimizedProductQuantizer(1, n_codewords=4, max_iter=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clusters):
    return OptimizedProductQuantizer(3, **SMALL).fit(clusters[0])


def error_of(quantizer, X):
    return ((quantizer.transform(X) - quantizer.decode(quantizer.training_codes_)) ** 2).sum()


# what is learned ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_codebooks", [1, 2, 3, 8])
def test_error_never_rises_and_its_last_value_is_that_of_the_codes(clusters, n_codebooks):
    X = clusters[0]
    quantizer = OptimizedProductQuantizer(n_codebooks, **SMALL, max_iter=20).fit(X)
    errors = [entry["quantization"] for entry in quantizer.objective_]
    assert len(errors) == 21 == quantizer.n_iter_ + 1
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(errors))
    assert 0.9 * errors[-1] < error_of(quantizer, X) <= errors[-1] * (1 + 1e-6)  # codes are chosen once more


def test_rotation_stays_orthogonal(fitted, clusters):
    R = fitted.codec_.projection.astype(np.float64)
    np.testing.assert_allclose(R.T @ R, np.eye(8), atol=1e-6)
    X = clusters[0]
    np.testing.assert_allclose(fitted.transform(X), X @ R, atol=1e-4)
    for model in rounds(X, 3, 8, 5, np.random.default_rng(0), 1):
        np.testing.assert_allclose(model.rotation.T @ model.rotation, np.eye(8), atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_error_is_never_above_that_of_product_quantization(digits, seed):
    X = digits[0][:600]
    for M in (2, 4):
        product = ProductQuantizer(M, n_codewords=16, random_state=seed).fit(X)
        optimized = OptimizedProductQuantizer(M, n_codewords=16, max_iter=15, random_state=seed).fit(X)
        assert optimized.objective_[0]["quantization"] <= error_of(product, X) * (1 + 1e-6)
        assert error_of(optimized, X) < 0.98 * error_of(product, X)


def test_a_rotated_grid_is_found(rng):
    """Vectors that product quantization could hold without error, had they not been turned."""
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    spread = np.diag([8.0, 6.0, 1.0, 0.5])
    X = rng.choice([-1.0, 1.0], size=(400, 4)) @ spread @ axes.T
    product = ProductQuantizer(2, n_codewords=4, random_state=0).fit(X)
    optimized = OptimizedProductQuantizer(2, n_codewords=4, random_state=0).fit(X)
    assert error_of(product, X) > 0.02 * (X**2).sum()
    assert error_of(optimized, X) < 1e-4 * (X**2).sum()


def test_rotation_is_the_best_of_all_in_the_plane(rng):
    X = (rng.normal(size=(60, 2)) @ [[3, 1], [0, 1]]).astype(np.float32)
    before, after = list(rounds(X, 2, 2, 1, np.random.default_rng(0), 1))
    codes = before.codec().encode(X)
    S = sum(after.codebooks[m][codes[:, m]] for m in range(2))  # (n, 2)
    angles = np.linspace(0, 2 * np.pi, 2000)
    turns = np.stack([[np.cos(angles), -np.sin(angles)], [np.sin(angles), np.cos(angles)]]).transpose(2, 0, 1)
    errors = [((X @ (turn * sign) - S) ** 2).sum() for turn in turns for sign in ([1, 1], [1, -1])]
    assert after.error == pytest.approx(((X @ after.rotation - S) ** 2).sum(), rel=1e-6)
    assert after.error <= min(errors)
    assert after.error == pytest.approx(min(errors), rel=1e-3)


def test_centres_are_the_means_of_their_rotated_rows(clusters):
    X = clusters[0]
    before, after = list(rounds(X, 2, 8, 1, np.random.default_rng(0), 1))
    codes, Z = before.codec().encode(X), X @ before.rotation
    for m, columns in enumerate(np.array_split(np.arange(8), 2)):
        for k in np.unique(codes[:, m]):
            mean = Z[codes[:, m] == k][:, columns].mean(axis=0)
            np.testing.assert_allclose(after.codebooks[m, k, columns], mean, atol=1e-5)
        assert not after.codebooks[m][:, np.setdiff1d(np.arange(8), columns)].any()


def test_eigenvalues_are_dealt_out_to_groups_of_equal_volume(rng):
    axes = np.linalg.qr(rng.normal(size=(4, 4)))[0]  # columns
    cross = np.vstack([np.eye(4), -np.eye(4)]) * np.sqrt([8.0, 4.0, 2.0, 1.0])
    rotation = eigenvalue_allocation((cross @ axes.T).astype(np.float32), 2)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(4), atol=1e-12)
    # 8 goes first, 4 to the empty group, 2 to the lesser product, 1 to the room that is left: 8 * 1 = 4 * 2
    which = np.abs(rotation.T @ axes).argmax(axis=1)  # eigenvector of every column
    assert [set(which[:2]), set(which[2:])] == [{0, 3}, {1, 2}]


@pytest.mark.parametrize("X", [np.zeros((20, 3)), np.ones((20, 3)), np.eye(3)[np.arange(20) % 3]], ids=str)
def test_directions_without_variance_are_distributed_too(X):
    rotation = eigenvalue_allocation(X.astype(np.float32), 2)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(3), atol=1e-12)
    quantizer = OptimizedProductQuantizer(2, n_codewords=4, random_state=0).fit(X)
    assert error_of(quantizer, X) < 1e-6


# the estimator --------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_codes_whatever_the_threads(rng):
    X = rng.normal(size=(BLOCK_ROWS + 100, 6)).astype(np.float32)
    one, two, other = (
        OptimizedProductQuantizer(3, n_codewords=8, max_iter=3, n_jobs=n_jobs, random_state=seed).fit(X)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.codec_.projection, two.codec_.projection)
    np.testing.assert_array_equal(one.codec_.codebooks, two.codec_.codebooks)
    np.testing.assert_array_equal(one.training_codes_, two.training_codes_)
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_an_interrupt_leaves_the_best_model_so_far_and_is_raised_again(clusters):
    def interrupt(progress):
        if progress.step == 3:  # the start is the first
            raise KeyboardInterrupt

    quantizer = OptimizedProductQuantizer(3, **SMALL, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(clusters[0])
    whole = OptimizedProductQuantizer(3, **SMALL, max_iter=2).fit(clusters[0])
    assert quantizer.n_iter_ == 2
    assert quantizer.objective_ == whole.objective_
    np.testing.assert_array_equal(quantizer.training_codes_, whole.training_codes_)


def test_without_rounds_it_is_the_start(clusters):
    quantizer = OptimizedProductQuantizer(3, **SMALL, max_iter=0).fit(clusters[0])
    assert quantizer.n_iter_ == 0
    assert len(quantizer.objective_) == 1


def test_a_saved_model_encodes_as_before(fitted, clusters, tmp_path):
    fitted.save(tmp_path / "model")
    for loaded in (OptimizedProductQuantizer.load(tmp_path / "model"), load_model(tmp_path / "model")):
        assert isinstance(loaded, OptimizedProductQuantizer)
        np.testing.assert_array_equal(loaded.encode(clusters[0]), fitted.training_codes_)
        np.testing.assert_array_equal(
            loaded.codec_.tables(clusters[0][:5]), fitted.codec_.tables(clusters[0][:5])
        )
        assert (loaded.objective_, loaded.n_iter_) == (fitted.objective_, fitted.n_iter_)
        assert loaded.get_params() == fitted.get_params()


def test_a_clone_is_not_fitted(fitted, clusters):
    with pytest.raises(NotFittedError):
        clone(fitted).encode(clusters[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_codebooks": 9}, "n_codebooks must be an integer from 1 to 8, got 9"),
        ({"n_codewords": 1}, "n_codewords must be an integer from 2 to 256, got 1"),
        ({"n_codewords": 256}, "n_samples=50 should be >= n_codewords=256"),
        ({"max_iter": -1}, "max_iter"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    quantizer = OptimizedProductQuantizer(3, **SMALL, max_iter=1).fit(clusters[0])
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(clusters[0][:50])
    assert vars(quantizer) == before | settings


def test_bad_vectors_are_refused(fitted):
    with pytest.raises(InputError, match="NaN"):
        clone(fitted).fit(np.full((50, 8), np.nan))
    with pytest.raises(InputError, match=r"X has 5 features, but .* expecting 8"):
        fitted.encode(np.zeros((3, 5)))
