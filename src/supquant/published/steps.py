"""What the solvers share: where a solver starts, and a record of every finished step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from supquant.arrays import Codes, Float64
from supquant.estimators.course import NamedStep, Record
from supquant.published.objective import ObjectiveTerms, SmallProblem
from supquant.published.projections import LearnedProjection, Projection
from supquant.published.rows import CodedRows
from supquant.published.statistics import CodeStatistics, ModelState, Moments, Penalties


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
        """Return what the solver knows about P for all codes."""
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
    changed: int = 0  # number of rows that the step recoded

    @classmethod
    def of(cls, name: str, iteration: int, problem: SmallProblem, state: ModelState) -> Step:
        """Return the step whose model is `state`."""
        return cls(name, iteration, terms_of(problem, state), lambda: state, problem.changed)

    @cached_property
    def state(self) -> ModelState:
        """The model after the step."""
        return self.assemble()

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return self.record(self.terms.as_dict())

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi and the number of recoded rows, once in an iteration."""
        if not self.counts_as_iteration:
            return None
        return {"objective": self.terms.total, "changed": self.changed}


@dataclass(frozen=True)
class CodedStep:
    """A step with the codes after it, for a fit that goes through several code lengths."""

    step: Step
    codes: Codes  # (n, M)

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
