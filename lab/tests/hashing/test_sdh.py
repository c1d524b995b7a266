"""Supervised discrete hashing: the steps are compared with their definitions."""

import itertools

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.inputs.labels import read_labels
from supquant_lab.hashing import SDH
from supquant_lab.hashing.rows import HashRows, signs
from supquant_lab.hashing.sdh import Problem, descend, greedy_signs, recode, sum_bits


@pytest.fixture
def small(rng, clusters):
    """Return rows, random bits, and the problem of their moments."""
    X, y = clusters
    rows = HashRows(X, read_labels(y), None, 1)
    bits = rng.random((len(X), 8)) < 0.5
    return rows, bits, Problem.of(rows.moments(), 1.0, 0.1, 1e-3)


def objective(rows, bits, problem, W, P, c, ridge=1e-3):
    """Return psi by its definition, over all rows."""
    X, Y, B = rows.features().astype(np.float64), rows.labels.dense(0, len(rows)), signs(bits)
    delta = ridge * (X * X).sum(axis=0).mean()
    classification = ((Y - B @ W) ** 2).sum() + problem.classifier_ridge * (W * W).sum()
    return classification + problem.function_weight * (((B - X @ P - c) ** 2).sum() + delta * (P * P).sum())


def descent_problem(rng, n_rows=50, n_bits=4):
    W = rng.normal(size=(n_bits, 3))
    return rng.choice([-1.0, 1.0], size=(n_rows, n_bits)), rng.normal(size=(n_rows, n_bits)), W @ W.T


def costs(B, linear, gram):
    return np.einsum("ij,jk,ik->i", B, gram, B) - 2 * (B * linear).sum(axis=1)


def test_the_objective_from_sums_is_the_one_over_rows(small):
    rows, bits, problem = small
    model = problem.solve(sum_bits(rows, bits))
    written = objective(rows, bits, problem, model.classifier, model.projection, model.offsets)
    assert model.objective == pytest.approx(written, rel=1e-10)


def test_classifier_and_hash_functions_are_the_best_for_the_bits(small, rng):
    rows, bits, problem = small
    model = problem.solve(sum_bits(rows, bits))
    best = [model.classifier, model.projection, model.offsets]
    for part in range(3):
        for _ in range(5):
            moved = list(best)
            moved[part] = best[part] + 1e-3 * rng.normal(size=best[part].shape)
            assert objective(rows, bits, problem, *moved) > model.objective


def test_every_part_of_a_round_lowers_the_objective(small):
    rows, bits, problem = small
    model = problem.solve(sum_bits(rows, bits))
    for _ in range(4):
        recoded = recode(rows, bits, model, problem.function_weight, clear=False)
        between = objective(rows, recoded, problem, model.classifier, model.projection, model.offsets)
        found = problem.solve(sum_bits(rows, recoded))
        assert model.objective * (1 + 1e-12) >= between >= found.objective * (1 - 1e-12)
        bits, model = recoded, found


@pytest.mark.parametrize("seed", range(5))
def test_the_objective_never_rises(digits, seed):
    """There are fewer bits than classes: clearing the bits before every B step would raise the objective."""
    X, y = digits
    fitted = SDH(8, max_iter=15, random_state=seed).fit(X[:300], y[:300])
    record = [each["objective"] for each in fitted.objective_]
    assert len(record) >= 2
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(record))


def test_a_fit_ends_when_no_row_has_new_bits(clusters):
    fitted = SDH(8, max_iter=200, features=None, random_state=0).fit(*clusters)
    assert fitted.n_iter_ < 200
    assert [each["changed"] > 0 for each in fitted.objective_] == [True] * (fitted.n_iter_ - 1) + [False]


def test_a_bit_is_the_closed_form_given_the_others(rng):
    B, linear, gram = descent_problem(rng, n_bits=6)
    settled = descend(B, linear, gram)
    for k in range(6):
        others = np.delete(np.arange(6), k)
        published = np.sign(linear[:, k] - settled[:, others] @ gram[others, k])
        np.testing.assert_array_equal(settled[:, k], published)


def test_cyclic_descent_sets_the_bits_in_turn(rng):
    """The definition in plain loops, one row at a time."""
    B, linear, gram = descent_problem(rng, n_bits=6)
    settled = descend(B, linear, gram)
    for row in range(len(B)):
        b, before = B[row].copy(), None
        while before is None or (b != before).any():
            before = b.copy()
            for k in range(6):
                b[k] = np.sign(linear[row, k] - sum(gram[k, j] * b[j] for j in range(6) if j != k))
        np.testing.assert_array_equal(settled[row], b)


def test_no_single_flip_lowers_the_cost_and_most_rows_reach_the_best_of_all_codes(rng):
    B, linear, gram = descent_problem(rng, n_rows=200)
    settled = descend(B, linear, gram)
    found = costs(settled, linear, gram)
    for k in range(4):
        flipped = settled * np.where(np.arange(4) == k, -1, 1)
        assert (costs(flipped, linear, gram) >= found).all()
    every = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))  # (16, 4)
    best = np.min([costs(np.broadcast_to(each, B.shape), linear, gram) for each in every], axis=0)
    assert (found >= best - 1e-12).all()
    assert (found <= costs(B, linear, gram)).all()
    assert np.mean(found <= best + 1e-12) > 0.6


def test_without_interaction_the_bits_are_the_signs_of_the_targets(rng):
    B, linear, _ = descent_problem(rng)
    np.testing.assert_array_equal(descend(B, linear, np.eye(4)), np.sign(linear))
    np.testing.assert_array_equal(greedy_signs(linear, np.eye(4)), np.sign(linear))


def test_equal_costs_leave_bits_as_they_are(rng):
    B, linear, gram = descent_problem(rng)
    np.testing.assert_array_equal(descend(B, 0 * linear, 0 * gram), B)


def test_cleared_bits_are_set_given_those_before_them(rng):
    _, linear, gram = descent_problem(rng)
    greedy = greedy_signs(linear, gram)
    for k in range(4):
        np.testing.assert_array_equal(greedy[:, k], np.sign(linear[:, k] - greedy[:, :k] @ gram[:k, k]))


def test_hash_functions_are_the_regression_of_the_learned_bits(digits):
    X, y = digits
    fitted = SDH(16, features=None, random_state=0).fit(X[:800], y[:800])
    B = fitted.decode(fitted.training_codes_).astype(np.float64)
    ones = np.column_stack([X[:800], np.ones(800)]).astype(np.float64)
    fitted_values = ones @ np.linalg.lstsq(ones, B, rcond=None)[0]
    clear = np.abs(fitted_values) > 0.02  # away from where the small ridge decides
    np.testing.assert_array_equal(fitted.transform(X[:800])[clear], np.sign(fitted_values)[clear])


def test_a_constant_shift_of_the_vectors_changes_no_code(clusters):
    X, y = clusters
    plain, shifted = (
        SDH(8, features=None, random_state=0, function_ridge=1e-12).fit(x, y) for x in (X, X + 4)
    )
    np.testing.assert_array_equal(plain.training_codes_, shifted.training_codes_)
    assert np.mean(plain.encode(X) == shifted.encode(X + 4)) > 0.99


def test_rows_of_a_class_share_most_of_their_learned_bits(digits):
    X, y = digits
    B = SDH(32, random_state=0).fit(X[:800], y[:800]).training_codes_
    same = np.unpackbits(B[:, None] ^ B, axis=2).mean(axis=2)  # (n, n) share of bits that differ
    equal = y[:800, None] == y[:800]
    assert same[equal].mean() < 0.05
    assert same[~equal].mean() > 0.3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classifier_ridge": 0}, "classifier_ridge must be a finite number above 0"),
        ({"function_weight": -1.0}, "function_weight must be a finite number above 0"),
        ({"function_ridge": 0.0}, "function_ridge must be a finite number above 0"),
        ({"max_iter": 0}, "max_iter must be an integer of at least 1"),
        ({"max_iter": 2.5}, "max_iter must be an integer"),
    ],
)
def test_bad_parameters_are_refused(parameters, message, clusters):
    with pytest.raises(InputError, match=message):
        SDH(8, **parameters).fit(*clusters)


def test_learned_bits_go_to_the_rows_that_were_learned_from(digits):
    X, y = digits
    sdh = SDH(16, features=None, max_rows=100, random_state=0).fit(X, y)
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(len(X))[:100])
    changed = np.flatnonzero((sdh.training_codes_ != sdh.encode(X)).any(axis=1))
    assert len(changed) > 0
    assert np.isin(changed, chosen).all()
    alone = SDH(16, features=None, random_state=rng).fit(X[chosen], y[chosen])
    np.testing.assert_array_equal(sdh.training_codes_[chosen], alone.training_codes_)
