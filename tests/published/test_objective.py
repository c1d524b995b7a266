"""The small problem made of statistics, against the rows it came from, finite differences and a generic optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from supquant.published.objective import ObjectiveTerms
from supquant.published.rows import ModelState
from supquant.published.solvers import best_state, terms_of

WEIGHTS = [(1e-5, 0.1), (0.1, 0.2), (10.0, 0.0), (1e-2, 10.0)]


def derivative(function, point, step=1e-6):
    """The gradient by central differences, of the shape of the point."""
    gradient = np.empty_like(point)
    for index in np.ndindex(point.shape):
        ahead, behind = point.copy(), point.copy()
        ahead[index] += step
        behind[index] -= step
        gradient[index] = (function(ahead) - function(behind)) / (2 * step)
    return gradient


@pytest.fixture(params=[False, True], ids=["one label", "several labels"])
def multilabel(request):
    return request.param


@pytest.fixture(params=WEIGHTS, ids=str)
def weights(request):
    return {"gamma": request.param[0], "mu": request.param[1]}


@pytest.fixture
def drawn(draw, weights, multilabel):
    return draw(n=30, K=5, multilabel=multilabel, **weights)


def draw_point(rng, drawn):
    """C of the used codewords, W, P and eps."""
    d, L, r = drawn.X.shape[1], drawn.Y.shape[1], 3
    C = rng.normal(size=(len(drawn.problem.used), r))
    return C, rng.normal(size=(r, L)), rng.normal(size=(d, r)), 0.3


@pytest.fixture
def psi(drawn, psi_terms):
    """Psi of C (u, r), W, P, eps, from the rows."""
    problem = drawn.problem

    def psi(C, W, P, eps):
        codebooks = problem.with_codewords(np.full_like(drawn.start.codebooks, np.nan), C)
        return sum(
            psi_terms(drawn.X, drawn.Y, drawn.codes, codebooks, W, P, eps, drawn.start.penalties).values()
        )

    return psi


def test_terms_are_those_of_the_definition(drawn, psi_terms, rng):
    C, W, P, eps = draw_point(rng, drawn)
    problem = drawn.problem
    codebooks = problem.with_codewords(np.zeros_like(drawn.start.codebooks), C)
    want = psi_terms(drawn.X, drawn.Y, drawn.codes, codebooks, W, P, eps, drawn.start.penalties)
    found = problem.terms(C, W, problem.projected(P), eps).as_dict()
    assert found.pop("total") == pytest.approx(sum(want.values()), rel=1e-10)
    assert found == pytest.approx(want, rel=1e-10)


def test_total_is_the_sum_of_the_four_terms():
    terms = ObjectiveTerms(classification=1.0, ridge=2.0, quantization=4.0, constraint=8.0)
    assert terms.total == 15.0
    assert list(terms.as_dict()) == ["classification", "ridge", "quantization", "constraint", "total"]


def test_t_agrees_with_its_definition(drawn):
    problem, X, B = drawn.problem, drawn.X, drawn.indicator()
    B = B[:, problem.used]
    inverse = np.linalg.inv(X.T @ X + drawn.start.penalties.projection_ridge * np.eye(X.shape[1]))
    np.testing.assert_allclose(problem.quantization.t, B.T @ B - B.T @ X @ inverse @ X.T @ B, atol=1e-9)


def test_quantization_term_with_the_best_projection_is_a_trace_of_t(drawn, rng):
    problem = drawn.problem
    C, W, _, eps = draw_point(rng, drawn)
    found = problem.terms(C, W, problem.projected(problem.projection(C)), eps).quantization
    assert found == pytest.approx(
        problem.penalties.quantization * np.trace(C.T @ problem.quantization.t @ C), rel=1e-9
    )


def test_unused_codewords_drop_out(draw):
    drawn = draw(n=6, M=2, K=16)
    problem = drawn.problem
    flat = drawn.codes + 16 * np.arange(2)
    np.testing.assert_array_equal(problem.used, np.unique(flat))
    assert problem.quantization.t.shape == (len(problem.used),) * 2


def test_used_codewords_are_read_and_written_at_their_positions(drawn, rng):
    problem, codebooks = drawn.problem, drawn.start.codebooks
    before = codebooks.copy()
    C = rng.normal(size=(len(problem.used), 3))
    changed = problem.with_codewords(codebooks, C)
    np.testing.assert_array_equal(problem.used_codewords(changed), C)
    unused = np.setdiff1d(np.arange(10), problem.used)
    np.testing.assert_array_equal(changed.reshape(-1, 3)[unused], codebooks.reshape(-1, 3)[unused])
    np.testing.assert_array_equal(codebooks, before)


def test_best_classifier_is_where_a_generic_optimiser_ends(drawn, psi, rng):
    C, _, P, eps = draw_point(rng, drawn)
    best = drawn.problem.classifier(C)
    found = minimize(lambda W: psi(C, W.reshape(best.shape), P, eps), np.zeros(best.size), method="BFGS")
    np.testing.assert_allclose(best.ravel(), found.x, atol=1e-4)
    assert psi(C, best, P, eps) <= found.fun * (1 + 1e-12)


def test_best_projection_is_where_a_generic_optimiser_ends(drawn, psi, rng):
    C, W, _, eps = draw_point(rng, drawn)
    problem = drawn.problem
    best = problem.projection(C)
    weight = problem.penalties.quantization  # else rounding of the other terms hides a gamma of 1e-5
    others = psi(C, W, best, eps) - problem.terms(C, W, problem.projected(best), eps).quantization

    def function(P):
        return (psi(C, W, P.reshape(best.shape), eps) - others) / weight

    found = minimize(function, np.zeros(best.size), method="BFGS")
    np.testing.assert_allclose(best.ravel(), found.x, atol=1e-2)
    assert function(best) <= found.fun * (1 + 1e-6)


def test_sums_under_the_best_projection_need_no_projection(drawn, rng):
    problem = drawn.problem
    C, *_ = draw_point(rng, drawn)
    found, want = problem.quantization.projected(C), problem.projected(problem.projection(C))
    np.testing.assert_allclose(found.sums, want.sums, rtol=1e-9, atol=1e-9)
    assert found.energy == pytest.approx(want.energy, rel=1e-9)


def test_projected_sums_are_those_of_the_rows(drawn, rng):
    problem = drawn.problem
    P = rng.normal(size=(5, 3))
    found, projected = problem.projected(P), drawn.X @ P
    np.testing.assert_allclose(found.sums, drawn.indicator()[:, problem.used].T @ projected, atol=1e-9)
    ridge = drawn.start.penalties.projection_ridge
    assert found.energy == pytest.approx((projected**2).sum() + ridge * (P**2).sum(), rel=1e-10)


def test_best_constant_is_where_a_generic_optimiser_ends(drawn, psi, rng):
    C, W, P, _ = draw_point(rng, drawn)
    problem = drawn.problem
    best = problem.constant(C @ C.T)
    flat = drawn.indicator()[:, problem.used]
    e = ((flat @ C) ** 2).sum(axis=1) - flat @ (C**2).sum(axis=1)
    assert best == pytest.approx(e.mean(), rel=1e-9)
    if problem.penalties.constraint > 0:
        found = minimize(lambda eps: psi(C, W, P, eps[0]), [0.0], method="BFGS")
        assert best == pytest.approx(found.x[0], abs=1e-4)
        assert psi(C, W, P, best) <= found.fun * (1 + 1e-12)


def test_gradient_is_zero_at_the_closed_forms(drawn, psi, rng):
    C, *_ = draw_point(rng, drawn)
    problem = drawn.problem
    W, P, eps = problem.classifier(C), problem.projection(C), np.array(problem.constant(C @ C.T))
    scale = psi(C, W, P, eps)
    assert np.abs(derivative(lambda W: psi(C, W, P, eps), W)).max() < 1e-7 * scale
    assert np.abs(derivative(lambda P: psi(C, W, P, eps), P)).max() < 1e-7 * scale
    assert np.abs(derivative(lambda eps: psi(C, W, P, eps), eps)).max() < 1e-7 * scale


def test_codebook_function_is_psi_up_to_a_constant_with_its_gradient(drawn, psi, rng):
    C, W, P, eps = draw_point(rng, drawn)
    problem = drawn.problem
    function = problem.codebook_function(W, problem.projected(P), eps)
    other = C + rng.normal(size=C.shape)
    assert function(C)[0] - function(other)[0] == pytest.approx(
        psi(C, W, P, eps) - psi(other, W, P, eps), rel=1e-9
    )
    wanted = derivative(lambda C: psi(C, W, P, eps), C)
    np.testing.assert_allclose(function(C)[1], wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_reduced_function_is_the_lowest_psi_with_its_gradient(drawn, psi, rng):
    C, *_ = draw_point(rng, drawn)
    problem = drawn.problem

    def least(C):
        return psi(C, problem.classifier(C), problem.projection(C), problem.constant(C @ C.T))

    value, gradient = problem.reduced_gradient(C)
    assert value == pytest.approx(least(C), rel=1e-9)
    wanted = derivative(least, C)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


def test_one_codebook_has_no_interaction(draw, rng):
    drawn = draw(M=1)
    C, W, P, _ = draw_point(rng, drawn)
    problem = drawn.problem
    assert problem.constant(C @ C.T) == 0
    assert problem.terms(C, W, problem.projected(P), 0.0).constraint == 0


def test_best_state_has_the_lowest_psi_for_its_codebooks(drawn, rng):
    problem, start = drawn.problem, drawn.start
    state = best_state(problem, start.codebooks)
    least = terms_of(problem, state).total
    for _ in range(5):
        other = ModelState(
            state.codebooks,
            state.projection + 0.1 * rng.normal(size=state.projection.shape),
            state.classifier + 0.1 * rng.normal(size=state.classifier.shape),
            state.constant + 0.1 * rng.normal(),
            state.penalties,
        )
        assert terms_of(problem, other).total > least


def test_more_features_than_rows_are_solved_thanks_to_the_ridge(draw, psi_terms):
    drawn = draw(n=8, d=20, delta=1e-3)
    problem, start = drawn.problem, drawn.start
    state = best_state(problem, start.codebooks)
    want = psi_terms(
        drawn.X,
        drawn.Y,
        drawn.codes,
        state.codebooks,
        state.classifier,
        state.projection,
        state.constant,
        start.penalties,
    )
    assert terms_of(problem, state).total == pytest.approx(sum(want.values()), rel=1e-8)
