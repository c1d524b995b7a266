"""The `alternating` solver: the published steps W, P, eps, C, B, one after the other (section 4 of the paper).

Psi is recorded after each and never rises. Once few codes change, W, P, eps and C take more and more turns before the rows are
visited again. One turn brings the scale of the codewords a part in thousands nearer to the balance of gamma and lambda, and
the ranking depends on that balance: it takes some hundred turns, and visiting all rows after each would take hours.
``max_turns=1`` is the published order. Where P is fixed, its step falls away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from supquant.arrays import Float64
from supquant.quantizers.lbfgs import minimise_codebooks
from supquant.quantizers.objective import FixedProjection, SmallProblem
from supquant.quantizers.steps import (
    Start,
    Step,
    best_state,
    terms_of,
    used_codewords,
    with_codewords,
    working_basis,
)
from supquant.statistics import ModelState

CODEBOOK_ITERATIONS = 100
"""Of L-BFGS in one C step, as published."""

CODEBOOK_TOLERANCE = 1e-9

STEPS: tuple[str, ...] = ("classifier", "projection", "constant", "codebooks")

FEW_CHANGES = 0.1
"""Part of the rows that may change their code for the number of turns to double."""


def alternating_steps(start: Start, *, max_iter: int, tol: float, max_turns: int) -> Iterator[Step]:
    """Run the solver, handing out every finished step, until an iteration lowers psi by less than `tol` of itself."""
    solver = start.solver()
    problem = start.problem(solver, start.rows.statistics())
    state = replace(best_state(problem, start, start.codebooks), projection=start.projection)
    last = Step.of("start", 0, problem, state)
    yield last
    turns = 1
    for iteration in range(1, max_iter + 1):
        before = last.terms.total
        for last in _turns(problem, state, iteration, turns, tol / max_turns):
            yield last
        state = last.state
        del problem  # its matrices make room for those of the pass
        problem = start.problem(solver, start.rows.assign(state))
        last = Step.of("codes", iteration, problem, state)
        yield last
        if before - last.terms.total <= tol * before:
            return
        if last.changed < FEW_CHANGES * start.moments.n_rows:
            turns = min(2 * turns, max_turns)


@dataclass(frozen=True)
class _Point:
    """The continuous unknowns, in as many columns as the used codewords span."""

    codebooks: Float64  # (u, r')
    classifier: Float64  # (r', L)
    projected: Float64  # (u, r')  the codewords that the projection was fitted to
    constant: float


def _turns(
    problem: SmallProblem, state: ModelState, iteration: int, turns: int, tol: float
) -> Iterator[Step]:
    """W, P, eps and C in turn, the codes fixed, until a turn lowers psi by less than `tol` of itself."""
    C = used_codewords(problem, state.codebooks)  # (u, r)
    state = replace(state, classifier=problem.classifier(C))
    step = Step("classifier", iteration, terms_of(problem, state), partial(replace, state))
    yield step
    steps = STEPS
    if isinstance(problem.solver, FixedProjection):
        steps = tuple(name for name in STEPS if name != "projection")
    else:
        state = replace(state, projection=problem.projection(C))
        step = Step("projection", iteration, terms_of(problem, state), partial(replace, state))
        yield step

    # a learned P and W are now made of the rows of C, and the steps that follow stay among these
    basis = working_basis(problem, C)  # (r, r')
    point = _Point(C @ basis, basis.T @ state.classifier, C @ basis, state.constant)
    for turn in range(turns):
        before = step.terms.total
        for name in steps[-2:] if turn == 0 else steps:
            point = _step(problem, point, name)
            projected = problem.projected_best(point.projected)
            terms = problem.terms(point.codebooks, point.classifier, projected, point.constant)
            step = Step(name, iteration, terms, partial(_assembled, problem, state, point, basis))
            yield step
        if before - step.terms.total <= tol * before:
            return


def _step(problem: SmallProblem, point: _Point, name: str) -> _Point:
    C = point.codebooks
    match name:
        case "classifier":
            return replace(point, classifier=problem.classifier(C))
        case "projection":
            return replace(point, projected=C)
        case "constant":
            return replace(point, constant=problem.constant(C @ C.T))
        case _:
            projected = problem.projected_best(point.projected)
            function = problem.codebook_function(point.classifier, projected, point.constant)
            best = minimise_codebooks(function, C, max_iter=CODEBOOK_ITERATIONS, tol=CODEBOOK_TOLERANCE)
            return replace(point, codebooks=best)


def _assembled(problem: SmallProblem, state: ModelState, point: _Point, basis: Float64) -> ModelState:
    return replace(
        state,
        codebooks=with_codewords(problem, state.codebooks, point.codebooks @ basis.T),
        projection=problem.projection(point.projected @ basis.T),
        classifier=basis @ point.classifier,
        constant=point.constant,
    )
