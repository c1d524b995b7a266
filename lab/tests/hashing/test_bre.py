"""BRE: each update is compared with all intervals of its weight, the objective with its definition."""

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.hashing import BRE
from supquant_lab.hashing.bre import Partners, best_step, choose_partners
from supquant_lab.hashing.rows import signs


def random_problem(seed, n=12, k=4, n_bits=8):
    """Return random values, a kernel, partners, and the residue of seven other bits."""
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.permutation(np.delete(np.arange(n), i))[:k] for i in range(n)])
    partners = Partners(rows, signs(rng.normal(size=(n, k)), np.float32))
    others = signs(rng.normal(size=(n_bits - 1, n)), np.float32)
    residue = n_bits * partners.label_signs - sum(partners.products(h) for h in others)
    return rng.normal(size=n), rng.normal(size=n), partners, residue


def cost(values, partners, residue):
    """Return the objective in plain loops, times (2 b)^2."""
    h = np.where(values > 0, 1, -1)
    return sum(
        (residue[i, j] - h[i] * h[other]) ** 2
        for i, row in enumerate(partners.rows)
        for j, other in enumerate(row)
    )


def least_cost(values, kernel, partners, residue):
    """Return the lowest cost over all intervals between two flips of the weight."""
    moved = np.abs(kernel) > 1e-300
    flips = np.unique(-values[moved] / kernel[moved])
    tried = np.concatenate([[flips[0] - 1], (flips[1:] + flips[:-1]) / 2, [flips[-1] + 1]])
    return min(cost(values + w * kernel, partners, residue) for w in tried)


@pytest.mark.parametrize("seed", range(20))
def test_an_update_is_the_exact_minimum_over_its_weight(seed):
    values, kernel, partners, residue = random_problem(seed)
    step = best_step(values, kernel, partners, residue)
    assert cost(values + step * kernel, partners, residue) == least_cost(values, kernel, partners, residue)


@pytest.mark.parametrize("seed", range(10))
def test_an_update_is_exact_if_rows_flip_together_or_never(seed):
    values, kernel, partners, residue = random_problem(seed)
    values[6:], kernel[6:] = values[:6], kernel[:6]  # equal rows
    kernel[[0, 6]] = 0
    values[0], values[6] = 0.0, 1.0
    kernel[[1, 7]] = -1e-320  # the weight of its flip is above all floats
    step = best_step(values, kernel, partners, residue)
    assert cost(values + step * kernel, partners, residue) == least_cost(values, kernel, partners, residue)


def test_a_weight_that_moves_no_value_does_not_change():
    values, kernel, partners, residue = random_problem(0)
    assert best_step(values, 0 * kernel, partners, residue) == 0


def test_every_row_gets_its_share_of_pairs_half_of_them_with_its_label():
    y = np.arange(60) % 3
    partners = choose_partners(y[:, None] == y, 0.2, 0.5, np.random.default_rng(0))
    assert partners.rows.shape == (60, 12)
    for i, row in enumerate(partners.rows):
        assert i not in row
        assert len(set(row)) == 12
        assert np.sum(y[row] == y[i]) == 6
    np.testing.assert_array_equal(partners.label_signs, np.where(y[partners.rows] == y[:, None], 1, -1))


@pytest.mark.parametrize(("similar", "expected"), [(0.5, 2), (1.0, 2), (0.0, 0)])
def test_rows_of_the_other_kind_are_taken_if_one_kind_has_too_few(similar, expected):
    y = np.repeat([0, 1, 2, 3], 3)  # each row has two others of its class
    partners = choose_partners(y[:, None] == y, 0.75, similar, np.random.default_rng(0))
    assert partners.rows.shape == (12, 9)
    np.testing.assert_array_equal((partners.label_signs > 0).sum(axis=1), expected)
    everything = choose_partners(y[:, None] == y, 1.0, similar, np.random.default_rng(0))
    assert everything.rows.shape == (12, 11)
    np.testing.assert_array_equal((everything.label_signs > 0).sum(axis=1), 2)


def test_the_objective_never_rises_and_is_that_of_the_distances(clusters):
    X, y = (each[:120] for each in clusters)
    fitted = BRE(16, pairs=1.0, random_state=0).fit(X, y)
    values = [entry["objective"] for entry in fitted.objective_]
    assert np.all(np.diff(values) <= 0)
    assert values[-1] < 0.8 * values[0]
    bits = np.unpackbits(fitted.training_codes_, axis=1)
    distances = (bits[:, None] != bits).mean(axis=2)
    errors = (distances - (y[:, None] != y)) ** 2
    assert values[-1] == pytest.approx(errors[~np.eye(len(y), dtype=bool)].mean())


def test_the_fit_ends_with_a_pass_that_gains_nothing(clusters):
    fitted = BRE(8, n_landmarks=1, random_state=0).fit(*clusters)
    assert fitted.n_iter_ < 200
    last, end = fitted.objective_[-2:]
    assert last["objective"] == end["objective"]


def test_hash_functions_are_sums_over_landmarks(clusters):
    """With one landmark for each bit, every direction is a row less the mean."""
    X, y = clusters
    fitted = BRE(8, n_landmarks=1, random_state=0).fit(X, y)
    rows = X - X.mean(axis=0)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    directions = fitted.codec_.projection / np.linalg.norm(fitted.codec_.projection, axis=0)
    np.testing.assert_allclose(np.abs(rows @ directions).max(axis=0), 1, atol=1e-5)
    np.testing.assert_allclose(
        fitted.codec_.thresholds, X.mean(axis=0) @ fitted.codec_.projection, rtol=1e-3, atol=1e-6
    )


def test_two_classes_on_a_line_are_separated_as_well_as_any_sign_can():
    """Rows lie on a line through the mean, and the best codes separate the classes."""
    X = np.array([[-4.0], [-3.0], [-2.5], [2.0], [3.5], [4.0]])
    y = np.array([0, 0, 0, 1, 1, 1])
    fitted = BRE(8, pairs=1.0, random_state=0).fit(X, y)
    assert fitted.objective_[-1]["objective"] == 0
    bits = fitted.transform(X)
    assert np.all(bits[:3] == -bits[3:])
    assert np.all(bits[:3] == bits[0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks must be an integer of at least 1"),
        ({"pairs": 0}, "pairs must be a finite number above 0"),
        ({"pairs": 1.5}, "pairs must be a finite number above 0 and at most 1, got 1.5"),
        ({"similar": -0.1}, "similar must be a finite number, 0 or above"),
        ({"similar": 1.5}, "similar must be a finite number, 0 or above and at most 1, got 1.5"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        BRE(8, **parameters).fit(*clusters)
