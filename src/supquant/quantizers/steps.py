"""What both solvers share: the state between steps, and a record of every step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.fitting import Record
from supquant.quantizers.objective import FixedProjection, ObjectiveTerms, ProjectionSolver, SmallProblem
from supquant.rows import TrainingRows
from supquant.statistics import CodeStatistics, ModelState, Moments, Penalties


@dataclass(frozen=True)
class Step:
    """One finished step of a solver: psi, and the model it left, assembled when somebody asks for it."""

    name: str
    iteration: int
    terms: ObjectiveTerms
    assemble: Callable[[], ModelState]
    changed: int = 0  # rows recoded by this step

    @classmethod
    def of(cls, name: str, iteration: int, problem: SmallProblem, state: ModelState) -> Step:
        """Make the step that left `state`."""
        return cls(name, iteration, terms_of(problem, state), lambda: state, problem.changed)

    @cached_property
    def state(self) -> ModelState:
        """The model after the step."""
        return self.assemble()

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the rows took new codes in this step, as they do once in an iteration."""
        return self.name == "codes"

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {
            "iteration": self.iteration,
            "step": self.name,
            **self.terms.as_dict(),
            "changed": self.changed,
        }

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi and the number of rows recoded, once in an iteration."""
        if not self.counts_as_iteration:
            return None
        return {"objective": self.terms.total, "changed": self.changed}


@dataclass(frozen=True)
class CodedStep:
    """A step together with the codes it left, for a fit that goes through several code lengths."""

    step: Step
    codes: NDArray[np.uint8]  # (n, M)

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the rows took new codes in this step."""
        return self.step.counts_as_iteration

    def as_record(self) -> Record:
        """Return the entry of `objective_`, which begins with the code length."""
        return {"codebooks": self.codes.shape[1], **self.step.as_record()}

    def as_progress(self) -> Mapping[str, float] | None:
        """Return what the step reports."""
        return self.step.as_progress()


@dataclass(frozen=True)
class Start:
    """Where a solver begins: the rows with their codes, the sums over them, and codebooks."""

    rows: TrainingRows
    moments: Moments
    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    penalties: Penalties
    fixed_projection: bool = False  # whether P stays as it is

    def solver(self) -> ProjectionSolver | FixedProjection:
        """Factor X'X + delta I, if P is to be learned."""
        if self.fixed_projection:
            return FixedProjection(self.moments, self.projection)
        return ProjectionSolver.of(self.moments, self.penalties.projection_ridge)

    def problem(self, solver: ProjectionSolver | FixedProjection, statistics: CodeStatistics) -> SmallProblem:
        """Give the small problem for the codes as they are."""
        return SmallProblem.of(solver, statistics, self.penalties, self.rows, self.codebooks.shape[1])


def best_state(problem: SmallProblem, start: Start, codebooks: Float64) -> ModelState:
    """Complete codebooks (M, K, r) by the best W, P and eps."""
    C = used_codewords(problem, codebooks)
    return ModelState(
        codebooks,
        problem.projection(C),
        problem.classifier(C),
        problem.constant(C @ C.T),
        start.penalties,
    )


def terms_of(problem: SmallProblem, state: ModelState) -> ObjectiveTerms:
    """Psi's terms of a state."""
    C = used_codewords(problem, state.codebooks)
    return problem.terms(C, state.classifier, problem.projected(state.projection), state.constant)


def used_codewords(problem: SmallProblem, codebooks: Float64) -> Float64:
    """Give the used codewords (u, r) of codebooks (M, K, r)."""
    return codebooks.reshape(-1, codebooks.shape[2])[problem.used]


def with_codewords(problem: SmallProblem, codebooks: Float64, C: Float64) -> Float64:
    """Give codebooks (M, K, r) with new values (u, r) for the used codewords."""
    changed = np.array(codebooks)
    changed.reshape(-1, codebooks.shape[2])[problem.used] = C
    return changed


def row_basis(C: Float64) -> Float64:
    """Give an orthonormal basis (r, min(u, r)) of a space that holds the rows of C (u, r)."""
    basis: Float64 = np.linalg.qr(C.T)[0] if len(C) < C.shape[1] else np.eye(C.shape[1])
    return basis


def working_basis(problem: SmallProblem, C: Float64) -> Float64:
    """Give the coordinates (r, r') that a solver may work in from C (u, r) on.

    Where P is learned, psi given the codes depends on C through C C' alone, and the rows of C are enough. A fixed P draws the
    codewords out of their span.
    """
    return np.eye(C.shape[1]) if isinstance(problem.solver, FixedProjection) else row_basis(C)
