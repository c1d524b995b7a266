"""A learned and a fixed projection answer the same questions, and both answers are those of the rows."""

from dataclasses import replace

import numpy as np
import pytest

from supquant.published.projections import FixedProjection, LearnedProjection
from supquant.published.solvers import solve_codebooks


@pytest.fixture(params=[(LearnedProjection, 0.05), (FixedProjection, 0.0)], ids=["learned", "fixed"])
def drawn(request, draw):
    kind, delta = request.param
    drawn = draw(n=60, d=6, r=4, delta=delta)
    return replace(drawn, start=replace(drawn.start, projection_type=kind))


@pytest.fixture(name="C")
def draw_codewords(drawn, rng):
    return rng.normal(size=(len(drawn.problem.used), 4))


def quantization_error(drawn, C, P):
    """|S - X P|^2 + delta |P|^2 from the rows."""
    S = drawn.indicator()[:, drawn.problem.used] @ C
    return ((S - drawn.X @ P) ** 2).sum() + drawn.start.penalties.projection_ridge * (P**2).sum()


def test_the_reduced_term_is_that_of_the_rows(drawn, C):
    quantization = drawn.problem.quantization
    value, metric, pull = quantization.reduced(C, C @ C.T)
    assert value == pytest.approx(quantization_error(drawn, C, quantization.projection(C)), rel=1e-9)
    step = 1e-6 * np.ones_like(C)
    ahead, behind = (quantization.reduced(B, B @ B.T).value for B in (C + step, C - step))
    assert np.vdot(2 * (metric @ C - pull), step) == pytest.approx((ahead - behind) / 2, rel=1e-5)


def test_sums_are_those_of_the_projection(drawn, C):
    problem = drawn.problem
    found, want = problem.quantization.projected(C), problem.projected(problem.projection(C))
    np.testing.assert_allclose(found.sums, want.sums, atol=1e-9)
    assert found.energy == pytest.approx(want.energy, rel=1e-9)


def test_solving_for_codebooks_lowers_psi(drawn):
    problem, codebooks = drawn.problem, drawn.start.codebooks
    before, after = (
        problem.reduced_gradient(problem.used_codewords(each))[0]
        for each in (codebooks, solve_codebooks(problem, codebooks, 20))
    )
    assert after < before


def test_the_basis_spans_the_codewords(drawn, C):
    basis = drawn.problem.quantization.basis(C[:2])
    np.testing.assert_allclose(C[:2] @ basis @ basis.T, C[:2], atol=1e-12)


def test_leverage_is_the_fraction_of_its_projection_that_a_row_decides(drawn):
    solver = drawn.start.solver()
    found = solver.leverage(drawn.X[:5])
    if isinstance(solver, FixedProjection):
        np.testing.assert_array_equal(found, 0)
        return
    gram = drawn.X.T @ drawn.X + drawn.start.penalties.projection_ridge * np.eye(6)
    np.testing.assert_allclose(found, np.diag(drawn.X[:5] @ np.linalg.inv(gram) @ drawn.X[:5].T), rtol=1e-9)


def test_only_a_learned_projection_has_a_ridge_and_a_step(draw):
    moments = draw().start.moments
    assert LearnedProjection.ridge(moments) > FixedProjection.ridge(moments) == 0
    assert set(LearnedProjection.STEPS) - set(FixedProjection.STEPS) == {"projection"}
