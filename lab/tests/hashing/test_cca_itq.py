"""Canonical correlation and iterative quantization are compared with scikit-learn, SciPy and definitions."""

import itertools

import numpy as np
import pytest
from scipy.linalg import eigh, orthogonal_procrustes
from sklearn.cross_decomposition import CCA

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import CCAITQ
from supquant_lab.hashing.cca_itq import (
    canonical_directions,
    closest_rotation,
    label_moments,
    random_rotation,
    rotations,
)
from supquant_lab.hashing.rows import HashRows


def directions(X, y, ridge=1e-10):
    rows = HashRows(X, read_labels(y), None, 1)
    return canonical_directions(rows.moments(), rows.labels, ridge)


def error(V, R):
    return ((np.where(V @ R > 0, 1.0, -1.0) - V @ R) ** 2).sum()


@pytest.fixture
def vectors(rng):
    V = rng.normal(size=(300, 6)) * [3, 2, 1.5, 1, 0.7, 0.5]
    return V - V.mean(axis=0)


# canonical correlation ----------------------------------------------------------------------------------------------


def test_directions_are_those_of_scikit_learn(several_labels):
    X, Y = several_labels
    found = directions(X, Y)
    theirs = CCA(3, scale=False, max_iter=5000, tol=1e-12).fit(X.astype(np.float64), Y.astype(np.float64))
    scores = theirs.transform(X.astype(np.float64))
    ours = (X - found.mean) @ found.directions
    assert found.directions.shape == (8, 3)
    for k in range(3):
        assert abs(np.corrcoef(ours[:, k], scores[:, k])[0, 1]) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("ridge", [1e-10, 1e-4, 0.1])
def test_directions_solve_the_generalised_eigenproblem(several_labels, ridge):
    X, Y = (each.astype(np.float64) for each in several_labels)
    found = directions(*several_labels, ridge)
    Xc, Yc = X - X.mean(axis=0), Y - Y.mean(axis=0)
    cxx = Xc.T @ Xc / 300 + ridge * (X * X).mean() * np.eye(8)
    cyy = Yc.T @ Yc / 300 + ridge * (Y * Y).mean() * np.eye(3)
    cxy = Xc.T @ Yc / 300
    values = eigh(cxy @ np.linalg.solve(cyy, cxy.T), cxx, eigvals_only=True)[::-1][:3]
    np.testing.assert_allclose(found.correlations**2, values, rtol=1e-6)
    W = found.directions
    np.testing.assert_allclose(W.T @ cxx @ W, np.eye(3), atol=1e-8)
    left = cxy @ np.linalg.solve(cyy, cxy.T) @ W
    np.testing.assert_allclose(left, cxx @ W * found.correlations**2, atol=1e-8)


def test_three_classes_leave_two_directions(clusters):
    found = directions(*clusters, ridge=1e-4)
    assert found.directions.shape == (8, 2)
    assert 1 > found.correlations[0] > found.correlations[1] > 0.1


def test_sums_of_labels_are_those_of_the_label_matrix(several_labels):
    _, Y = several_labels
    y, yy = label_moments(read_labels(Y))
    np.testing.assert_array_equal(y, Y.sum(axis=0))
    np.testing.assert_array_equal(yy, Y.astype(int).T @ Y)


# iterative quantization ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bits", [6, 16])
def test_the_rotation_stays_orthogonal_and_the_error_falls(vectors, n_bits, rng):
    found = list(rotations(vectors, n_bits, 30, rng, 1))
    assert len(found) == 30
    for each in found:
        assert each.matrix.shape == (6, n_bits)
        np.testing.assert_allclose(each.matrix @ each.matrix.T, np.eye(6), atol=1e-12)
    errors = [each.error for each in found]
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(errors))
    assert errors[-1] < 0.99 * errors[0]


def test_the_error_is_that_of_the_signs_which_the_rotation_was_solved_for(vectors):
    first, second = rotations(vectors, 6, 2, np.random.default_rng(0), 1)
    B = np.where(vectors @ first.matrix > 0, 1.0, -1.0)
    assert second.error == pytest.approx(((B - vectors @ second.matrix) ** 2).sum(), rel=1e-12)
    np.testing.assert_allclose(second.matrix, orthogonal_procrustes(vectors, B)[0], atol=1e-10)


def test_no_rotation_is_closer_than_the_procrustes_solution(vectors, rng):
    B = rng.choice([-1.0, 1.0], size=(300, 9))
    R, correlation = closest_rotation(vectors.T @ B)
    assert correlation == pytest.approx(np.vdot(B, vectors @ R))
    for _ in range(50):
        assert np.vdot(B, vectors @ random_rotation(6, 9, rng)) < correlation


def test_fewer_dimensions_than_bits_are_the_square_problem_padded_with_zeros(vectors):
    padded = np.column_stack([vectors, np.zeros((300, 4))])
    R = random_rotation(6, 10, np.random.default_rng(0))
    square = np.vstack([R, np.linalg.svd(R)[2][6:]])  # any completion to a square rotation
    for found in rotations(vectors, 10, 10, np.random.default_rng(0), 1):
        B = np.where(padded @ square > 0, 1.0, -1.0)
        square = orthogonal_procrustes(padded, B)[0]
        np.testing.assert_allclose(vectors @ found.matrix, padded @ square, atol=1e-8)


def test_two_bits_come_near_the_best_of_all_angles(rng):
    corners = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]]) * 0.8
    turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    V = (np.repeat(corners, 50, axis=0) + 0.15 * rng.normal(size=(200, 2))) @ turn
    angles = np.linspace(0, np.pi / 2, 2001)  # a quarter turn only permutes and flips bits
    scan = min(error(V, np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])) for a in angles)
    *_, last = rotations(V, 2, 50, rng, 1)
    assert error(V, last.matrix) == pytest.approx(scan, rel=1e-4)


def test_random_rotations_have_orthonormal_rows_and_no_favourite_direction(rng):
    drawn = np.array([random_rotation(2, 3, rng) for _ in range(2000)])
    np.testing.assert_allclose(
        drawn @ drawn.transpose(0, 2, 1), np.broadcast_to(np.eye(2), (2000, 2, 2)), atol=1e-12
    )
    assert np.abs(drawn.mean(axis=0)).max() < 0.06
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1 / 3, atol=0.04)


# both ---------------------------------------------------------------------------------------------------------------


def test_bits_are_signs_of_the_rotated_scaled_directions(clusters):
    X, y = clusters
    fitted = CCAITQ(16, random_state=3).fit(X, y)
    found = directions(X, y, ridge=1e-4)
    V = (X - found.mean) @ (found.directions * found.correlations)
    *_, last = rotations(V, 16, 50, np.random.default_rng(3), 1)
    np.testing.assert_array_equal(fitted.transform(X), np.where(V @ last.matrix > 0, 1, -1))
    assert fitted.objective_[-1]["objective"] == pytest.approx(last.error)
    np.testing.assert_array_equal(fitted.training_codes_, fitted.encode(X))


def test_fewer_bits_than_correlations_take_the_largest(rng):
    X = rng.normal(size=(400, 12))
    y = X[:, :10].argmax(axis=1) + 10 * (X[:, 10] > 0)  # 20 classes
    fitted = CCAITQ(8, random_state=0).fit(X, y)
    found = directions(X, y, ridge=1e-4)
    assert len(found.correlations) == 12
    spanned = found.directions[:, :8]
    inside = spanned @ np.linalg.lstsq(spanned, fitted.codec_.projection, rcond=None)[0]
    np.testing.assert_allclose(inside, fitted.codec_.projection, atol=1e-4)


def test_units_of_the_vectors_change_no_code(clusters):
    X, y = clusters
    one, other = (CCAITQ(16, random_state=0).fit(X * scale, y).encode(X * scale) for scale in (1, 1024))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"covariance_ridge": 0}, "covariance_ridge must be a finite number above 0"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        CCAITQ(8, **parameters).fit(*clusters)
