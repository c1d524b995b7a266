"""The two solvers. Each is a generator of finished steps, and psi never rises from one step to the next.

`joint` is variable projection on the codebooks. For given codes, W, P and eps have closed forms in the codebooks. The solver
substitutes them and minimises over the codebooks alone. Psi then depends on C C' only and is convex in it. So C can be turned to
have as many columns as there are used codewords, and L-BFGS does not end in a poor minimum. Afterwards every row takes its best
code. This repeats until nothing changes. If P is fixed, only W and eps are substituted.

`alternating` takes the published steps W, P, eps, C and B, one after the other (section 4 of the paper). When few codes change,
W, P, eps and C take more and more turns before the rows are visited again. One turn brings the scale of the codewords about a
thousandth nearer to the balance of gamma and lambda, and the ranking depends on that balance. Some hundred turns are needed, and
a visit to all rows after each would take hours. ``max_turns=1`` is the published order. If P is fixed, its step is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from supquant.arrays import Codes, Float64
from supquant.estimators.course import NamedStep, Record
from supquant.published.lbfgs import minimise_codebooks
from supquant.published.objective import ObjectiveTerms, SmallProblem
from supquant.published.projections import LearnedProjection, Projection
from supquant.published.rows import CodedRows, CodeStatistics, ModelState, Moments, Penalties

FIRST_LBFGS_ITERATIONS = 15
"""Number of L-BFGS iterations in the first round; each later round has twice as many as the one before. Most codes change after
the first round, so more precision would be wasted."""

CODEBOOK_ITERATIONS = 100
"""Maximum number of L-BFGS iterations in one C step, as published."""

CODEBOOK_TOLERANCE = 1e-9
"""The C step stops when an L-BFGS iteration lowers psi by less than this fraction of its initial value."""

CALM_SHARE = 0.1
"""The number of turns doubles when less than this fraction of the rows changes codes."""

ReducedFunction = Callable[[SmallProblem, Float64], tuple[float, Float64]]
"""Psi of a small problem as a function of the codewords C (u, r), with its gradient; the other unknowns are substituted."""


@dataclass(frozen=True)
class Start:
    """Where a solver begins: the rows with their codes, sums over the rows, and codebooks."""

    rows: CodedRows
    moments: Moments
    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    penalties: Penalties
    projection_type: type[Projection] = LearnedProjection  # whether P is learned or fixed

    def solver(self) -> Projection:
        """Return what a solver knows about P, whatever the codes: a factor of X'X + delta I, or the fixed P."""
        return self.projection_type.of(self.moments, self.projection, self.penalties.projection_ridge)

    def problem(self, projection: Projection, statistics: CodeStatistics) -> SmallProblem:
        """Return the small problem for the current codes."""
        return SmallProblem.of(
            projection, statistics, self.penalties, self.rows, n_codewords=self.codebooks.shape[1]
        )


@dataclass(frozen=True)
class Step(NamedStep):
    """One finished step of a solver: psi, and the model after the step, which is made on request."""

    name: str
    iteration: int
    terms: ObjectiveTerms
    assemble: Callable[[], ModelState]
    codes: Codes  # (n, M), which later steps change in place
    changed: int = 0  # number of rows that the step recoded

    @classmethod
    def of(cls, name: str, iteration: int, problem: SmallProblem, state: ModelState) -> Step:
        """Return the step whose model is `state`."""
        changed = problem.changed if name == "codes" else 0
        return cls(name, iteration, terms_of(problem, state), lambda: state, problem.rows.codes, changed)

    @cached_property
    def state(self) -> ModelState:
        """The model after the step."""
        return self.assemble()

    def as_record(self) -> Record:
        """Return the entry of `objective_`, which begins with the code length."""
        return {"codebooks": self.codes.shape[1], **self.record(self.terms.as_dict())}

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi and the number of recoded rows, once per iteration."""
        if not self.counts_as_iteration:
            return None
        return {"objective": self.terms.total, "changed": self.changed}


def best_state(problem: SmallProblem, codebooks: Float64) -> ModelState:
    """Return the model with codebooks (M, K, r) and the best W, P and eps for them."""
    C = problem.used_codewords(codebooks)
    return ModelState(
        codebooks,
        problem.projection(C),
        problem.classifier(C),
        problem.constant(C @ C.T),
        problem.penalties,
    )


def terms_of(problem: SmallProblem, state: ModelState) -> ObjectiveTerms:
    """Return the terms of psi for a model."""
    C = problem.used_codewords(state.codebooks)
    return problem.terms(C, state.classifier, problem.projected(state.projection), state.constant)


# joint ---------------------------------------------------------------------------------------------------------------


def joint_steps(
    start: Start,
    *,
    max_iter: int,
    tol: float,
    function: ReducedFunction = SmallProblem.reduced_gradient,
) -> Iterator[Step]:
    """Run the solver.

    Parameters
    ----------
    start : Start
    max_iter : int
        Maximum number of rounds.
    tol : float
        The solver stops when the relative improvement of a round falls below `tol`.
    function : callable, default=SmallProblem.reduced_gradient
        What a round minimises.

    Yields
    ------
    Step
        Every finished step.
    """
    solver = start.solver()
    problem = start.problem(solver, start.rows.statistics())
    state = best_state(problem, start.codebooks)
    step = Step.of("start", 0, problem, state)
    yield step
    for iteration in range(1, max_iter + 1):
        before = step.terms.total
        n_lbfgs = FIRST_LBFGS_ITERATIONS * 2 ** (iteration - 1)
        state = best_state(problem, solve_codebooks(problem, state.codebooks, n_lbfgs, function))
        yield Step.of("solve", iteration, problem, state)
        del problem  # frees its matrices before the pass makes new ones
        problem = start.problem(solver, start.rows.assign(state))
        step = Step.of("codes", iteration, problem, state)
        yield step
        if before - step.terms.total <= tol * before:
            return


def solve_codebooks(
    problem: SmallProblem,
    codebooks: Float64,
    max_iter: int,
    function: ReducedFunction = SmallProblem.reduced_gradient,
) -> Float64:
    """Return better codebooks (M, K, r) for the current codes, after at most `max_iter` iterations of L-BFGS."""
    C = problem.used_codewords(codebooks)  # (u, r)
    best = problem.quantization.minimise(partial(function, problem), C, max_iter)
    return problem.with_codewords(codebooks, best)


# alternating ---------------------------------------------------------------------------------------------------------


def alternating_steps(start: Start, *, max_iter: int, tol: float, max_turns: int) -> Iterator[Step]:
    """Run the solver.

    Parameters
    ----------
    start : Start
    max_iter : int
        Maximum number of iterations, each of which visits all rows once.
    tol : float
        The solver stops when the relative improvement of an iteration falls below `tol`.
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
    """The continuous unknowns, with as many columns as the used codewords span."""

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
    """Take the steps `names` in turn with fixed codes, until the relative improvement of a turn falls below `tol`."""
    *first, _, _ = names  # W, and P if it is learned
    C = problem.used_codewords(state.codebooks)  # (u, r)
    best = {"classifier": problem.classifier, "projection": problem.projection}
    for name in first:
        found: dict[str, Any] = {name: best[name](C)}
        state = replace(state, **found)
        step = Step.of(name, iteration, problem, state)
        yield step

    # W and a learned P are now combinations of the rows of C, and later steps stay in the space of these rows
    basis = problem.quantization.basis(C)  # (r, r')
    point = _Point(C @ basis, basis.T @ state.classifier, C @ basis, state.constant)
    for turn in range(turns):
        before = step.terms.total
        for name in names[-2:] if turn == 0 else names:
            point = _step(problem, point, name)
            projected = problem.quantization.projected(point.projected)
            terms = problem.terms(point.codebooks, point.classifier, projected, point.constant)
            assemble = partial(_assembled, problem, state, point, basis)
            step = Step(name, iteration, terms, assemble, problem.rows.codes)
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
