"""The solver of the triplet formulation: triplets, codebooks, codes, P and eps, one after the other.

Within an iteration the triplets are fixed and psi never rises. The next iteration chooses others, which are violated more, so
psi rises there; psi of triplets just chosen is comparable from iteration to iteration, and says when to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, Float64
from supquant.fitting import Record
from supquant.labels import Labels
from supquant.parallel import ordered_map, row_blocks
from supquant.quantizers.lbfgs import minimise_codebooks
from supquant.quantizers.objective import SmallProblem
from supquant.quantizers.steps import used_codewords, with_codewords
from supquant.quantizers.training import Training
from supquant.quantizers.triplet_codes import CodeDescent, OwnCost
from supquant.quantizers.triplet_objective import TripletLoss, TripletProblem, TripletTerms
from supquant.quantizers.triplets import active_triplets

CODEBOOK_ITERATIONS = 5
"""Of L-BFGS for one active set. More fit the codebooks to its triplets at the cost of all others."""

CODEBOOK_TOLERANCE = 1e-6

PATIENCE = 3
"""Iterations in a row that may bring nothing: other triplets, and codebooks that have just been added, raise psi for a while."""


@dataclass(frozen=True)
class TripletModel:
    """The unknowns."""

    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    constant: float  # eps
    codes: Codes  # (n, M)


@dataclass(frozen=True)
class TripletStep:
    """One finished step: psi for the triplets of its iteration, and the model it left."""

    name: str
    iteration: int
    terms: TripletTerms
    model: TripletModel
    changed: int = 0  # choices of codewords that this step changed

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the rows took new codes in this step, as they do once in an iteration."""
        return self.name == "codes"

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {
            "codebooks": self.model.codes.shape[1],
            "iteration": self.iteration,
            "step": self.name,
            **self.terms.as_dict(),
            "changed": self.changed,
        }

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi after the last step of an iteration, before other triplets are chosen."""
        return {"objective": self.terms.total} if self.name == "projection" else None


def triplet_steps(
    training: Training,
    labels: Labels,
    *,
    margin: float,
    quantization: float,
    constraint: float,
    per_row: int,
    max_iter: int,
    tol: float,
    n_jobs: int,
) -> Iterator[TripletStep]:
    """Run the solver, handing out every finished step.

    It ends when psi of triplets just chosen has not become lower by `tol` of itself for `PATIENCE` iterations.
    """
    start = training.start(quantization, constraint, 0.0)
    solver = start.solver()
    small = start.problem(solver, start.rows.statistics())
    model = _refitted(small, TripletModel(start.codebooks, start.projection, 0.0, training.codes))
    lowest, stalled = np.inf, 0
    for iteration in range(1, max_iter + 1):
        S = kernels.active().decode(model.codes, model.codebooks)
        loss = TripletLoss(active_triplets(S, labels, per_row, training.rng, n_jobs), margin, n_jobs)
        problem = TripletProblem.of(small, loss, model.codes)
        step = TripletStep("triplets", iteration, _terms(problem, model), model)
        yield step
        stalled = stalled + 1 if step.terms.total > (1 - tol) * lowest else 0
        if stalled == PATIENCE:
            return
        lowest = min(lowest, step.terms.total)

        C = minimise_codebooks(
            problem.reduced_gradient,
            used_codewords(small, model.codebooks),
            max_iter=CODEBOOK_ITERATIONS,
            tol=CODEBOOK_TOLERANCE,
        )
        model = _refitted(small, replace(model, codebooks=with_codewords(small, model.codebooks, C)))
        yield TripletStep("codebooks", iteration, _terms(problem, model), model)

        own = OwnCost(
            _projected(training, model.projection, n_jobs), quantization, constraint, model.constant
        )
        descent = CodeDescent(model.codes, model.codebooks, own, loss)
        changed = descent.sweep()
        training.codes = descent.codes
        training.rows.recode(descent.codes)
        small = start.problem(solver, start.rows.statistics())
        problem = TripletProblem.of(small, loss, descent.codes)
        model = replace(model, codes=descent.codes)
        yield TripletStep("codes", iteration, _terms(problem, model), model, changed)

        model = _refitted(small, model)
        yield TripletStep("projection", iteration, _terms(problem, model), model)


def _refitted(small: SmallProblem, model: TripletModel) -> TripletModel:
    """Give the model the best P and eps for its codebooks and codes."""
    C = used_codewords(small, model.codebooks)
    return replace(model, projection=small.projection(C), constant=small.constant(C @ C.T))


def _projected(training: Training, P: Float64, n_jobs: int) -> Float64:
    """Give X P (n, r)."""
    blocks = row_blocks(training.moments.n_rows)
    return np.concatenate(list(ordered_map(lambda block: training.rows.block(*block) @ P, blocks, n_jobs)))


def _terms(problem: TripletProblem, model: TripletModel) -> TripletTerms:
    C = used_codewords(problem.small, model.codebooks)
    return problem.terms(C, problem.small.projected(model.projection), model.constant)
