"""SSH is compared with its definitions in plain loops, with brute force and with PCA."""

import itertools

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import SSH
from supquant_lab.hashing.rows import LabelGroups, top_eigenvectors
from supquant_lab.hashing.ssh import PairLabels, nonorthogonal_directions, sequential_directions

INDICATOR = np.array(
    [[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 1, 1], [0, 1, 0]]
)
"""Labels of nine rows: one, two or none."""


@pytest.fixture(params=["one label", "several labels"])
def problem(request, rng):
    """Return centred rows (9, 4), their labels, and the matrix S of the paper."""
    X = rng.normal(size=(9, 4))
    y = np.array([0, 1, 0, 2, 2, 1, 0, 0, 2]) if request.param == "one label" else INDICATOR
    S = np.zeros((9, 9))
    for i, j in itertools.permutations(range(9), 2):
        shared = y[i] == y[j] if y.ndim == 1 else np.any(y[i] & y[j])
        S[i, j] = 1 if shared else -1
    return X - X.mean(axis=0), PairLabels(LabelGroups.of(read_labels(y))), S


def test_covariance_of_labels_is_that_of_the_written_out_matrix(problem):
    X, pairs, S = problem
    np.testing.assert_allclose(pairs.covariance(X), X.T @ S @ X, atol=1e-12)
    np.testing.assert_allclose(pairs.covariance(X + 1), (X + 1).T @ S @ (X + 1), atol=1e-12)


def test_agreement_is_the_mean_over_pairs(problem):
    X, pairs, S = problem
    bit = X[:, 0] > 0
    products = [S[i, j] * (1 if bit[i] == bit[j] else -1) for i, j in itertools.permutations(range(9), 2)]
    assert pairs.agreement(bit) == pytest.approx(np.mean(products))


@pytest.mark.parametrize("correction", [1.0, 0.3])
def test_sequential_directions_follow_the_definition_in_loops(problem, correction):
    X, pairs, S = problem
    variance = 0.7 * X.T @ X
    found = sequential_directions(X, pairs, pairs.covariance(X), variance, correction)
    S, residual = S.copy(), X.copy()
    for _, w in zip(range(6), found, strict=False):  # more directions than the four dimensions
        values, vectors = np.linalg.eigh(X.T @ S @ X + 0.7 * residual.T @ residual)
        assert values[-1] - values[-2] > 1e-3  # the top eigenvector is unique
        assert abs(w @ vectors[:, -1]) == pytest.approx(1)
        p = X @ w
        for i, j in itertools.permutations(range(9), 2):
            if p[i] * p[j] * S[i, j] < 0:
                S[i, j] -= correction * p[i] * p[j]
        residual -= np.outer(residual @ w, w)


def test_the_first_sequential_direction_is_the_first_orthogonal_one(problem):
    X, pairs, _ = problem
    label_part, variance = pairs.covariance(X), X.T @ X
    first = next(sequential_directions(X, pairs, label_part, variance, 1.0))
    np.testing.assert_allclose(first, top_eigenvectors(label_part + variance, 2)[:, 0], atol=1e-12)


def test_without_corrections_and_labels_sequential_directions_are_the_orthogonal_ones(problem):
    X, pairs, _ = problem
    found = sequential_directions(X, pairs, np.zeros((4, 4)), X.T @ X, 0.0)
    W = np.stack([w for _, w in zip(range(4), found, strict=False)], axis=1)
    np.testing.assert_allclose(np.abs(W.T @ top_eigenvectors(X.T @ X, 4)), np.eye(4), atol=1e-8)


def test_no_orthonormal_directions_have_a_larger_objective(problem, rng):
    X, pairs, S = problem
    adjusted = pairs.covariance(X) + 0.5 * X.T @ X
    W = top_eigenvectors(adjusted, 2)
    np.testing.assert_allclose(W.T @ W, np.eye(2), atol=1e-12)
    values = np.diag(W.T @ adjusted @ W)
    np.testing.assert_allclose(adjusted @ W, W * values, atol=1e-10)
    assert values[0] >= values[1]

    def objective(W):  # as published: the agreement of the relaxed bits with S, and their variance
        Z = X @ W
        return 0.5 * np.trace(Z.T @ S @ Z) + 0.25 * np.trace(Z.T @ Z)

    others = [objective(np.linalg.qr(rng.normal(size=(4, 2)))[0]) for _ in range(2000)]
    best = objective(W)
    assert best == pytest.approx(values.sum() / 2)
    assert max(others) <= best
    assert max(others) > best - 0.2 * abs(best)  # some come close, so the comparison is not trivial


def test_nonorthogonal_directions_of_all_dimensions_have_the_published_products(problem):
    X, pairs, _ = problem
    adjusted = pairs.covariance(X)
    smallest = np.linalg.eigvalsh(adjusted)[0]
    assert smallest < 0
    W = nonorthogonal_directions(adjusted, 4)
    np.testing.assert_allclose(W @ W.T, np.eye(4) - adjusted / (1.01 * smallest), rtol=1e-9, atol=1e-9)


def test_nonorthogonal_directions_are_stationary(problem):
    """Where ``W W' = I + M / rho``, the derivative ``M W - rho (W W' - I) W`` of the penalised objective is zero."""
    X, pairs, _ = problem
    adjusted = pairs.covariance(X)
    rho = -1.01 * np.linalg.eigvalsh(adjusted)[0]
    W = nonorthogonal_directions(adjusted, 4)
    np.testing.assert_allclose(adjusted @ W, rho * (W @ W.T - np.eye(4)) @ W, atol=1e-8)


def test_with_a_large_variance_weight_bits_are_those_of_principal_components(clusters):
    X, y = clusters
    fitted = SSH(8, variant="orthogonal", variance_weight=1e12, random_state=0).fit(X, y)
    centred = X - X.mean(axis=0)
    components = np.linalg.svd(centred.astype(np.float64), full_matrices=False)[2]
    np.testing.assert_allclose(np.abs(components @ fitted.codec_.projection), np.eye(8), atol=1e-4)
    np.testing.assert_allclose(fitted.codec_.thresholds, X.mean(axis=0) @ fitted.codec_.projection, atol=1e-4)


def test_the_record_holds_the_published_objective(clusters):
    X, y = clusters
    for variant in ("orthogonal", "sequential"):
        fitted = SSH(8, variant=variant, variance_weight=2.0, random_state=0).fit(X, y)
        Z = (X - X.mean(axis=0, dtype=np.float64)) @ fitted.codec_.projection.astype(np.float64)
        S = np.where(y[:, None] == y, 1.0, -1.0) - np.eye(300)
        expected = 0.5 * np.trace(Z.T @ S @ Z) + np.trace(Z.T @ Z)
        assert fitted.objective_[-1]["objective"] == pytest.approx(expected, rel=1e-4)
        H = fitted.transform(X).astype(np.float64)
        agreement = np.trace(H.T @ S @ H) / (8 * 300 * 299)
        assert fitted.objective_[-1]["agreement"] == pytest.approx(agreement, abs=1e-6)


def test_bits_added_one_by_one_start_with_those_of_the_shorter_code(clusters):
    X, y = clusters
    short, long = (SSH(n, random_state=0).fit(X, y).codec_.projection for n in (8, 16))
    np.testing.assert_array_equal(long[:, :8], short)
    assert long.shape == (8, 16)  # more bits than features


@pytest.mark.parametrize("variant", ["orthogonal", "nonorthogonal"])
def test_more_bits_than_features_are_refused_unless_sequential(variant, clusters):
    with pytest.raises(InputError, match=r"at most 8, the number of features.*got 16.*sequential"):
        SSH(16, variant=variant).fit(*clusters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"variant": "spectral"}, "variant"),
        ({"variance_weight": -1.0}, "variance_weight"),
        ({"variance_weight": np.nan}, "variance_weight"),
        ({"correction": -0.1}, "correction"),
        ({"correction": "1"}, "correction"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        SSH(8, **parameters).fit(*clusters)
