"""The `joint` solver: variable projection on the codebooks.

Given the codes, W, P and eps have closed forms in the codebooks; substitute them and minimise over the codebooks alone. The
substituted psi depends on C through C C' only and is convex in it, so that C can be turned to as many columns as there are
used codewords, and L-BFGS runs into no poor minimum. Then every row takes its best code, and so on until nothing changes.
Where P is fixed, W and eps alone are substituted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from supquant.arrays import Float64
from supquant.quantizers.lbfgs import minimise_codebooks, minimise_preconditioned
from supquant.quantizers.objective import FixedProjection, SmallProblem
from supquant.quantizers.steps import (
    Start,
    Step,
    best_state,
    row_basis,
    terms_of,
    used_codewords,
    with_codewords,
)

FIRST_ITERATIONS = 15
"""L-BFGS iterations of the first round. Codes change completely after it, so precision would be wasted; doubled every round."""

MOST_ITERATIONS = 30
"""L-BFGS iterations of a round where P is fixed: the codewords have as many columns as there are features."""

SETTLED = 1e-8
"""L-BFGS ends when an iteration lowers psi by less than this part of itself."""


def joint_steps(
    start: Start,
    *,
    max_iter: int,
    tol: float,
    least: float = 0.0,
    solve: Callable[[SmallProblem, Float64, int], Float64] | None = None,
) -> Iterator[Step]:
    """Run the solver, handing out every finished step.

    The last round is the one that lowers psi by less than `tol` of itself, or of `least` if that is more. `solve` takes the
    small problem, codebooks (M, K, r) and a number of L-BFGS iterations, and gives better codebooks; variable projection by
    default.
    """
    solve = solve or _solve
    solver = start.solver()
    problem = start.problem(solver, start.rows.statistics())
    state = best_state(problem, start, start.codebooks)
    step = Step.of("start", 0, problem, state)
    yield step
    for iteration in range(1, max_iter + 1):
        before = step.terms.total
        codebooks = solve(problem, state.codebooks, FIRST_ITERATIONS * 2 ** (iteration - 1))
        state = best_state(problem, start, codebooks)
        yield Step("solve", iteration, terms_of(problem, state), partial(replace, state))
        del problem  # its matrices make room for those of the pass
        problem = start.problem(solver, start.rows.assign(state))
        step = Step.of("codes", iteration, problem, state)
        yield step
        if before - step.terms.total <= tol * max(before, least):
            return


def _solve(problem: SmallProblem, codebooks: Float64, max_iter: int) -> Float64:
    C = used_codewords(problem, codebooks)  # (u, r)
    if isinstance(problem.solver, FixedProjection):
        energy = problem.projected_best(C).energy
        best = minimise_preconditioned(
            problem.reduced_gradient,
            C,
            problem.bb,
            energy,
            max_iter=min(max_iter, MOST_ITERATIONS),
            tol=SETTLED,
        )
        return with_codewords(problem, codebooks, best)
    basis = row_basis(C)
    turned = minimise_codebooks(problem.reduced_gradient, C @ basis, max_iter=max_iter, tol=SETTLED)
    return with_codewords(problem, codebooks, turned @ basis.T)
