"""KSH is compared with its definition, finite differences, and all sign vectors of a tiny problem."""

import itertools

import numpy as np
import pytest

from supquant import AnchorKernel
from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import KSH
from supquant_lab.hashing.ksh import Relaxation, Residue, smooth_ascent, smooth_cost
from supquant_lab.hashing.rows import signs
from supquant_lab.quality import relevance

SEVERAL = np.random.default_rng(5).random((40, 5)) < 0.3
SEVERAL[:3] = [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
LABELS = [np.arange(40) % 3, SEVERAL.astype(np.uint8)]


def written_out(y, n_bits):
    """Return r S of all pairs."""
    labels = read_labels(y)
    return n_bits * np.where(relevance(labels, labels, 0, len(labels)), 1.0, -1.0)


def centred(rng, n, d):
    features = rng.normal(size=(n, d))
    return features - features.mean(axis=0)


@pytest.mark.parametrize("y", LABELS, ids=["classes", "several"])
def test_the_residue_is_its_definition_after_every_bit(y):
    rng = np.random.default_rng(0)
    residue, plain = Residue.of_labels(read_labels(y), 16), written_out(y, 16)
    for _ in range(4):
        np.testing.assert_allclose(np.stack([residue.multiply(e) for e in np.eye(40)]), plain, atol=1e-9)
        assert residue.mean_square() == pytest.approx(np.mean(plain**2) / 16**2)
        h = signs(rng.normal(size=40))
        assert residue.gain(h) == pytest.approx(h @ plain @ h)
        residue, plain = residue.subtract_bit(h), plain - np.outer(h, h)


@pytest.mark.parametrize("y", LABELS, ids=["classes", "several"])
def test_the_spectral_direction_solves_the_generalised_eigenproblem(y):
    rng = np.random.default_rng(1)
    K = centred(rng, 40, 6)
    residue, plain = Residue.of_labels(read_labels(y), 8), written_out(y, 8)
    relaxation = Relaxation.of_features(K, residue, 1e-12)
    for _ in range(3):
        a = relaxation.best_direction(K)
        assert np.sum((K @ a) ** 2) == pytest.approx(40)
        largest = np.linalg.eigvals(np.linalg.solve(K.T @ K, K.T @ plain @ K)).real.max()
        np.testing.assert_allclose(
            K.T @ plain @ K @ a, largest * (K.T @ K @ a), atol=1e-6 * abs(largest) * 40
        )
        h = signs(K @ a)
        relaxation, plain = relaxation.subtract_bit(K.T @ h), plain - np.outer(h, h)


def test_the_gradient_equals_finite_differences():
    rng = np.random.default_rng(2)
    K, a = centred(rng, 40, 5), rng.normal(size=5)
    residue = Residue.of_labels(read_labels(LABELS[0]), 8).subtract_bit(signs(rng.normal(size=40)))

    def cost(direction):
        b = 2 / (1 + np.exp(-K @ direction)) - 1
        return -b @ residue.multiply(b)

    found, slope = smooth_cost(K @ a, residue.multiply)
    assert found == pytest.approx(cost(a))
    differences = [(cost(a + e) - cost(a - e)) / 2e-6 for e in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(K.T @ slope, differences, rtol=1e-5)


def test_the_ascent_ends_where_the_gradient_vanishes():
    rng = np.random.default_rng(3)
    y = np.arange(200) % 2
    K = centred(rng, 200, 4) + 0.3 * np.where(y == 0, 1, -1)[:, None]
    residue = Residue.of_labels(read_labels(y), 8)
    start = rng.normal(size=4)
    end = smooth_ascent(K, residue.multiply, start, 500)
    before, after = (smooth_cost(K @ a, residue.multiply) for a in (start, end))
    assert after[0] < before[0]
    assert np.linalg.norm(K.T @ after[1]) < 0.02 * np.linalg.norm(K.T @ before[1])


def test_zero_steps_return_the_start():
    K, start = np.eye(3), np.ones(3)
    np.testing.assert_array_equal(smooth_ascent(K, lambda v: v, start, 0), start)


def test_each_bit_of_a_tiny_problem_is_the_best_of_all_sign_vectors():
    """With one feature for each row, every sign vector is possible, and the best one is found."""
    y = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    K = np.eye(8)
    fitted = KSH(8, features=None, random_state=0).fit(K, y)
    bits = fitted.transform(K).T  # (8, n)
    all_signs = np.array(list(itertools.product([-1.0, 1.0], repeat=8)))
    plain = written_out(y, 8)
    for h in bits[:3]:
        gains = np.einsum("si,ij,sj->s", all_signs, plain, all_signs)
        assert h @ plain @ h == pytest.approx(gains.max())
        plain = plain - np.outer(h, h)


def test_inner_products_of_codes_are_the_bits_less_twice_the_distance_and_give_the_objective(digits):
    X, y = (each[:200] for each in digits)
    fitted = KSH(16, features=AnchorKernel(40), max_iter=100, random_state=0).fit(X, y)
    bits = np.unpackbits(fitted.training_codes_, axis=1)
    H = 2.0 * bits - 1
    distances = (bits[:, None] != bits).sum(axis=2)
    np.testing.assert_array_equal(H @ H.T, 16 - 2 * distances)
    S = written_out(y, 1)
    assert fitted.objective_[-1]["objective"] == pytest.approx(np.mean((H @ H.T / 16 - S) ** 2), rel=1e-3)


def test_the_objective_falls_with_each_bit_and_further_with_the_gradient(digits):
    X, y = (each[:400] for each in digits)
    smoothed, spectral = (
        KSH(16, features=AnchorKernel(60, random_state=0), max_iter=m, random_state=0).fit(X, y)
        for m in (500, 0)
    )
    for fitted in (smoothed, spectral):
        values = [entry["objective"] for entry in fitted.objective_]
        assert values[0] < 1
        assert np.all(np.diff(values) < 0)
    assert any(entry["smoothed"] for entry in smoothed.objective_)
    assert not any(entry["smoothed"] for entry in spectral.objective_)
    assert smoothed.objective_[-1]["objective"] < spectral.objective_[-1]["objective"]


def test_bits_that_are_not_learned_yet_are_zero(clusters):
    def stop(event):
        if event.step == 3:
            raise KeyboardInterrupt

    model = KSH(8, features=None, callback=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*clusters)
    bits = np.unpackbits(model.training_codes_, axis=1)
    assert bits[:, :3].any(axis=0).all()
    assert not bits[:, 3:].any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": 0}, "ridge must be a finite number above 0"),
        ({"max_iter": -1}, "max_iter must be an integer of at least 0"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        KSH(8, **parameters).fit(*clusters)
