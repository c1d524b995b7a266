import numpy as np
import pytest
from sklearn.decomposition import PCA

from supquant.assignment import CodeSearch
from supquant.published.rows import Moments
from supquant.published.training import lengthen, principal_components, product_start


@pytest.fixture
def moments(clusters):
    X = clusters[0].astype(np.float64)
    return Moments(len(X), X.sum(axis=0), X.T @ X, np.zeros((8, 3)), 300.0)


def test_projection_starts_from_the_principal_components(clusters, moments):
    found = principal_components(moments, 5)
    want = PCA(5, svd_solver="full").fit(clusters[0].astype(np.float64)).components_.T  # (d, r)
    assert found.shape == (8, 5)
    np.testing.assert_allclose(np.abs((found * want).sum(axis=0)), 1, atol=1e-8)  # up to their signs
    np.testing.assert_allclose(found.T @ found, np.eye(5), atol=1e-12)


def draw_product_start(X, moments, M=3, K=8, seed=0, n_jobs=1):
    return product_start(
        X,
        principal_components(moments, 7),
        3,
        n_codebooks=M,
        n_codewords=K,
        rng=np.random.default_rng(seed),
        n_jobs=n_jobs,
    )


def test_dimensions_are_dealt_out_to_the_codebooks_in_turn(clusters, moments):
    codebooks = draw_product_start(clusters[0], moments).codebooks
    assert codebooks.shape == (3, 8, 7)
    for m, dimension in np.ndindex(3, 7):
        assert (codebooks[m, :, dimension] != 0).any() == (dimension % 3 == m)


def test_assignment_under_the_start_is_product_quantization(clusters, moments):
    X = clusters[0]
    start = draw_product_start(X, moments)
    search = CodeSearch(start.codebooks, start.classifier, start.penalties.quantization, 0.0, 0.0)
    Z = (X @ start.projection).astype(np.float32)
    found = search.search(search.target(Z, np.zeros((len(X), 3))).astype(np.float32))
    for m in range(3):
        own = start.codebooks[m][:, m::3]  # (K, r / 3)
        distances = ((Z[:, None, m::3] - own) ** 2).sum(axis=2)
        reached = np.take_along_axis(distances, found[:, m : m + 1].astype(int), axis=1)[:, 0]
        np.testing.assert_allclose(reached, distances.min(axis=1), atol=1e-4)


def test_product_start_depends_on_the_seed_and_not_on_the_threads(clusters, moments):
    X = clusters[0]
    first = draw_product_start(X, moments).codebooks
    np.testing.assert_array_equal(draw_product_start(X, moments, n_jobs=2).codebooks, first)
    assert not np.array_equal(draw_product_start(X, moments, seed=1).codebooks, first)


def test_there_may_be_fewer_dimensions_than_codebooks(clusters, moments):
    start = product_start(
        clusters[0],
        principal_components(moments, 2),
        3,
        n_codebooks=4,
        n_codewords=8,
        rng=np.random.default_rng(0),
        n_jobs=1,
    )
    assert start.codebooks.shape == (4, 8, 2)
    assert np.isfinite(start.codebooks).all()


def test_lengthened_code_has_zero_codebooks_and_random_codes(rng):
    codebooks = rng.normal(size=(2, 16, 5)).astype(np.float32)
    codes = rng.integers(0, 16, size=(400, 2), dtype=np.uint8)
    longer, longer_codes = lengthen(codebooks, codes, 4, np.random.default_rng(0))
    assert (longer.shape, longer.dtype) == ((4, 16, 5), np.float64)
    np.testing.assert_array_equal(longer[:2], codebooks)
    assert not longer[2:].any()
    assert (longer_codes.shape, longer_codes.dtype) == ((400, 4), np.uint8)
    np.testing.assert_array_equal(longer_codes[:, :2], codes)
    assert (longer_codes[:, 2] != longer_codes[:, 3]).any()
    for m in (2, 3):
        counts = np.bincount(longer_codes[:, m], minlength=16)
        assert counts.min() > 0
        assert len(counts) == 16


def test_lengthening_uses_all_256_codewords(rng):
    codes = np.zeros((5000, 1), dtype=np.uint8)
    _, longer = lengthen(np.zeros((1, 256, 2)), codes, 2, rng)
    assert len(np.unique(longer[:, 1])) == 256


def test_lengthening_to_the_same_length_keeps_everything(rng):
    codebooks, codes = rng.normal(size=(2, 4, 3)), rng.integers(0, 4, size=(9, 2), dtype=np.uint8)
    longer, longer_codes = lengthen(codebooks, codes, 2, rng)
    np.testing.assert_array_equal(longer, codebooks)
    np.testing.assert_array_equal(longer_codes, codes)
