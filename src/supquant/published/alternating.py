"""The `alternating` solver: the published steps W, P, eps, C and B, one after the other (section 4 of the paper).

Psi is recorded after each step and never rises. When few codes change, W, P, eps and C take more and more turns before the rows
are visited again. One turn brings the scale of the codewords about a thousandth nearer to the balance of gamma and lambda, and
the ranking depends on that balance. Some hundred turns are needed, and a visit of all rows after each would take hours.
``max_turns=1`` is the published order. If P is fixed, its step is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from supquant.arrays import Float64
from supquant.published.lbfgs import minimise_codebooks
from supquant.published.objective import SmallProblem
from supquant.published.statistics import ModelState
from supquant.published.steps import Start, Step, best_state, terms_of

CODEBOOK_ITERATIONS = 100
"""L-BFGS takes at most this number of iterations in one C step, as published."""

CODEBOOK_TOLERANCE = 1e-9
"""The C step ends when an iteration of L-BFGS lowers psi by less than this part of its first value."""

CALM_SHARE = 0.1
"""When less than this part of the rows changes its code, the number of turns doubles."""


def alternating_steps(start: Start, *, max_iter: int, tol: float, max_turns: int) -> Iterator[Step]:
    """Run the solver.

    Parameters
    ----------
    start : Start
    max_iter : int
        Maximum number of iterations, each of which visits all rows once.
    tol : float
        The last iteration is the first one that lowers psi by less than this part of psi.
    max_turns : int
        Maximum number of turns of W, P, eps and C in one iteration.

    Yields
    ------
    Step
        Every finished step.
    """
    solver = start.solver()
    problem = start.problem(solver, start.rows.statistics())
    state = replace(best_state(problem, start.codebooks), projection=start.projection)
    last = Step.of("start", 0, problem, state)
    yield last
    turns = 1
    for iteration in range(1, max_iter + 1):
        before = last.terms.total
        for last in _turns(problem, state, solver.STEPS, iteration, turns, tol / max_turns):
            yield last
        state = last.state
        del problem  # frees its matrices before the pass makes new ones
        problem = start.problem(solver, start.rows.assign(state))
        last = Step.of("codes", iteration, problem, state)
        yield last
        if before - last.terms.total <= tol * before:
            return
        if last.changed < CALM_SHARE * start.moments.n_rows:
            turns = min(2 * turns, max_turns)


@dataclass(frozen=True)
class _Point:
    """The continuous unknowns, in as many columns as the used codewords span."""

    codebooks: Float64  # (u, r')
    classifier: Float64  # (r', L)
    projected: Float64  # (u, r')  the codewords for which the projection is the best
    constant: float


def _turns(
    problem: SmallProblem,
    state: ModelState,
    names: tuple[str, ...],
    iteration: int,
    turns: int,
    tol: float,
) -> Iterator[Step]:
    """Take the steps `names` in turn with fixed codes, until a turn lowers psi by less than `tol` of psi."""
    *first, _, _ = names  # W, and P if it is learned
    C = problem.used_codewords(state.codebooks)  # (u, r)
    best = {"classifier": problem.classifier, "projection": problem.projection}
    for name in first:
        found: dict[str, Any] = {name: best[name](C)}
        state = replace(state, **found)
        step = Step(name, iteration, terms_of(problem, state), partial(replace, state))
        yield step

    # W and a learned P are now made of the rows of C, and the further steps stay in the space of these rows
    basis = problem.quantization.basis(C)  # (r, r')
    point = _Point(C @ basis, basis.T @ state.classifier, C @ basis, state.constant)
    for turn in range(turns):
        before = step.terms.total
        for name in names[-2:] if turn == 0 else names:
            point = _step(problem, point, name)
            projected = problem.quantization.projected(point.projected)
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
            projected = problem.quantization.projected(point.projected)
            function = problem.codebook_function(point.classifier, projected, point.constant)
            best = minimise_codebooks(function, C, max_iter=CODEBOOK_ITERATIONS, tol=CODEBOOK_TOLERANCE)
            return replace(point, codebooks=best)


def _assembled(problem: SmallProblem, state: ModelState, point: _Point, basis: Float64) -> ModelState:
    return replace(
        state,
        codebooks=problem.with_codewords(state.codebooks, point.codebooks @ basis.T),
        projection=problem.projection(point.projected @ basis.T),
        classifier=basis @ point.classifier,
        constant=point.constant,
    )
