"""The `joint` solver: variable projection on the codebooks.

For given codes, W, P and eps have closed forms in the codebooks. The solver substitutes them and minimises over the codebooks
alone. Psi then depends on C C' only and is convex in it. So C can be turned to have as many columns as there are used
codewords, and L-BFGS does not end in a poor minimum. Afterwards every row takes its best code. This repeats until nothing
changes. If P is fixed, only W and eps are substituted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from supquant.arrays import Float64
from supquant.published.objective import SmallProblem
from supquant.published.steps import Start, Step, best_state, terms_of

FIRST_LBFGS_ITERATIONS = 15
"""L-BFGS takes this number of iterations in the first round, and twice as many in every further one. After the first round most
codes change, so more precision would be wasted."""

ReducedFunction = Callable[[SmallProblem, Float64], tuple[float, Float64]]
"""Psi of a small problem as a function of the codewords C (u, r), with its gradient; the other unknowns are substituted."""


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
        The last round is the first one that lowers psi by less than this part of psi.
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
        yield Step("solve", iteration, terms_of(problem, state), partial(replace, state))
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
