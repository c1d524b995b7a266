"""Both solvers: psi never rises, and is at every step what the rows say it is."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

from supquant.published import lbfgs, solvers
from supquant.published.lbfgs import minimise_codebooks
from supquant.published.projections import row_basis
from supquant.published.solvers import alternating_steps, joint_steps, solve_codebooks

TERMS = ["classification", "ridge", "quantization", "constraint"]
SOLVERS = {
    "joint": joint_steps,
    "alternating": partial(alternating_steps, max_turns=4),
    "published": partial(alternating_steps, max_turns=1),
}


@pytest.fixture(params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


@settings(max_examples=100)
@given(
    solver=st.sampled_from(sorted(SOLVERS)),
    multilabel=st.booleans(),
    gamma=st.sampled_from([1e-7, 1e-5, 1e-3, 1e-1, 1e2]),
    mu=st.sampled_from([0.0, 1e-1, 1.0, 1e2]),
    M=st.integers(1, 4),
    K=st.sampled_from([2, 5, 16]),
    r=st.sampled_from([1, 4, 12]),
    n=st.sampled_from([16, 17, 64]),
    seed=st.integers(0, 2**16),
)
def test_psi_never_rises_and_its_terms_are_those_of_the_rows(
    draw, psi_terms, solver, multilabel, gamma, mu, M, K, r, n, seed
):
    drawn = draw(seed, n=n, d=12, r=r, M=M, K=K, gamma=gamma, mu=mu, delta=0.01, multilabel=multilabel)
    # codes are changed in place
    steps = [(step, drawn.codes.copy()) for step in SOLVERS[solver](drawn.start, max_iter=3, tol=0.0)]
    for (before, _), (after, _) in itertools.pairwise(steps):
        assert after.terms.total <= before.terms.total * (1 + 1e-9), after.name
    for (step, codes), (following, _) in itertools.pairwise([*steps, steps[-1]]):
        # the states between two turns of `alternating` are not assembled
        if solver != "joint" and step.name not in {"start", "codes"} and following.name != "codes":
            continue
        state = step.state
        want = psi_terms(
            drawn.X,
            drawn.Y,
            codes,
            state.codebooks,
            state.classifier,
            state.projection,
            state.constant,
            state.penalties,
        )
        scale = sum(want.values()) + drawn.Y.sum()
        for name, term in want.items():
            assert abs(getattr(step.terms, name) - term) <= 1e-8 * scale, (step.name, name)


def test_joint_records_the_solve_and_the_codes_of_every_iteration(draw):
    steps = list(joint_steps(draw().start, max_iter=2, tol=0.0))
    assert [(step.name, step.iteration) for step in steps] == [
        ("start", 0),
        ("solve", 1),
        ("codes", 1),
        ("solve", 2),
        ("codes", 2),
    ]


def test_published_order_is_classifier_projection_constant_codebooks_codes(draw):
    steps = list(alternating_steps(draw(n=200).start, max_iter=2, tol=0.0, max_turns=1))
    order = ["classifier", "projection", "constant", "codebooks", "codes"]
    assert [step.name for step in steps] == ["start", *order, *order]
    assert [step.iteration for step in steps] == [0] + [1] * 5 + [2] * 5


def test_continuous_unknowns_take_more_turns_once_few_codes_change(draw, monkeypatch):
    monkeypatch.setattr(solvers, "CALM_SHARE", 2.0)  # every iteration counts as calm
    monkeypatch.setattr(solvers, "CODEBOOK_ITERATIONS", 2)  # and leaves something to do
    steps = list(alternating_steps(draw(K=2).start, max_iter=4, tol=-1.0, max_turns=4))
    turns = [
        sum(step.name == "codebooks" for step in group)
        for _, group in itertools.groupby(steps[1:], key=lambda step: step.iteration)
    ]
    assert turns == [1, 2, 4, 4]
    for name in (
        "classifier",
        "projection",
        "constant",
        "codebooks",
    ):  # and each does its part in a later turn
        gains = [
            before.terms.total - after.terms.total
            for before, after in itertools.pairwise(steps)
            if after.name == name and after.iteration == 3
        ]
        assert max(gains[1:]) > 1e-9 * steps[0].terms.total


def test_alternating_starts_from_the_projection_it_is_given(draw):
    drawn = draw()
    first = next(alternating_steps(drawn.start, max_iter=1, tol=0.0, max_turns=1))
    np.testing.assert_array_equal(first.state.projection, drawn.start.projection)


@pytest.mark.parametrize(("name", "since", "changes"), [
    ("classifier", 1, {"classifier"}),
    ("projection", 1, {"projection"}),
    ("codebooks", 2, {"constant", "codebooks"}),
    ("codes", 1, set()),
])  # fmt: skip
def test_a_published_step_changes_nothing_else(draw, name, since, changes):
    drawn = draw(n=100, r=4)
    steps = list(alternating_steps(drawn.start, max_iter=1, tol=0.0, max_turns=1))
    at = [step.name for step in steps].index(name)
    before, after = steps[at - since].state, steps[at].state
    for field in {"codebooks", "classifier", "projection", "constant"} - changes:
        np.testing.assert_allclose(getattr(after, field), getattr(before, field), rtol=1e-9, atol=1e-9)


def test_every_step_lowers_psi_on_a_fresh_start(draw, solver):
    totals = [step.terms.total for step in solver(draw(n=200).start, max_iter=1, tol=0.0)]
    if solver is joint_steps:
        assert (np.diff(totals) < 0).all()
    else:  # W and eps are at their best already
        assert (np.diff(totals)[[1, 3, 4]] < 0).all()


def test_joint_gets_lower_than_one_published_iteration(draw):
    ends = [list(run(draw(n=100).start, max_iter=1, tol=0.0))[-1].terms.total for run in SOLVERS.values()]
    assert ends[0] <= min(ends[1:])


def test_the_gradient_is_zero_at_the_joint_solution(draw):
    """With the codes fixed the reduced problem is solved, not merely lowered."""
    drawn = draw(n=60, K=3, r=6)
    problem = drawn.problem
    before = problem.reduced_gradient(drawn.start.codebooks.reshape(-1, 6)[problem.used])
    codebooks = solve_codebooks(problem, drawn.start.codebooks, 2000)
    after = problem.reduced_gradient(codebooks.reshape(-1, 6)[problem.used])
    assert np.abs(after[1]).max() < 1e-2 * np.abs(before[1]).max()


def test_a_solver_stops_at_the_first_iteration_that_gains_too_little(draw, solver):
    def gains(tol, max_iter):
        steps = solver(draw(K=3).start, max_iter=max_iter, tol=tol)
        totals = [step.terms.total for step in steps if step.name in {"start", "codes"}]
        return [(before - after) / before for before, after in itertools.pairwise(totals)]

    first, second = gains(0.0, 2)
    assert first > second > 0
    assert len(gains(1.1 * first, 5)) == 1
    assert len(gains(max(1.1 * second, 0.9 * first), 5)) == 2
    assert len(gains(0.9 * second, 5)) > 2


def test_max_iter_ends_a_solver(draw, solver):
    assert list(solver(draw(n=200).start, max_iter=2, tol=0.0))[-1].iteration == 2


def test_records_carry_the_step_the_terms_and_the_rows_changed(draw, solver):
    drawn = draw(n=100)
    before = drawn.codes.copy()
    records = [step.as_record() for step in solver(drawn.start, max_iter=1, tol=0.0)]
    for record in records:
        assert list(record) == ["codebooks", "iteration", "step", *TERMS, "total", "changed"]
        assert record["total"] == pytest.approx(sum(record[name] for name in TERMS), rel=1e-12)
    assert records[-1]["changed"] == (drawn.codes != before).any(axis=1).sum() > 0
    assert all(record["changed"] == 0 for record in records[:-1])


def test_minimiser_reaches_the_minimum_of_a_bowl(rng):
    target = rng.normal(size=(6, 3))
    weight = rng.uniform(0.1, 10, size=(6, 3))

    def bowl(C):
        return float((weight * (C - target) ** 2).sum()) + 1.0, 2 * weight * (C - target)

    found = minimise_codebooks(bowl, np.zeros((6, 3)), max_iter=200, tol=1e-15)
    np.testing.assert_allclose(found, target, atol=1e-5)


def test_minimiser_returns_the_start_if_it_finds_nothing_better(monkeypatch):
    start = np.ones((2, 2))
    monkeypatch.setattr(lbfgs, "minimize", lambda *arguments, **settings: OptimizeResult(x=np.full(4, 2.0)))
    for sign, want in ((1, 1.0), (-1, 2.0)):  # of a bowl and of a dome
        found = minimise_codebooks(
            lambda C, sign=sign: (sign * float((C**2).sum()), sign * 2 * C), start, max_iter=10, tol=0.0
        )
        np.testing.assert_array_equal(found, np.full((2, 2), want))


@pytest.mark.parametrize(("u", "r"), [(3, 8), (8, 8), (12, 8), (1, 1)])
def test_row_basis_spans_the_rows(rng, u, r):
    C = rng.normal(size=(u, r))
    basis = row_basis(C)
    assert basis.shape == (r, min(u, r))
    np.testing.assert_allclose(basis.T @ basis, np.eye(min(u, r)), atol=1e-12)
    np.testing.assert_allclose(C @ basis @ basis.T, C, atol=1e-12)
