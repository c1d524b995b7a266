"""The solver of the triplet formulation: triplets, codebooks, codes, and P with eps, one after the other.

Within an iteration the triplets are fixed and psi never rises. The next iteration chooses other triplets, which are violated
more, so psi rises there. Psi of newly chosen triplets can be compared between iterations, and says when to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from supquant import kernels
from supquant.arrays import Codes, Float64
from supquant.estimators.course import NamedStep, Record
from supquant.inputs.labels import Labels
from supquant.published.lbfgs import minimise_codebooks
from supquant.published.objective import SmallProblem
from supquant.published.training import Training
from supquant_lab.triplets.codes import CodeDescent, OwnCost
from supquant_lab.triplets.objective import TripletLoss, TripletProblem, TripletTerms
from supquant_lab.triplets.triplets import choose_triplets

CODEBOOK_ITERATIONS = 5
"""L-BFGS takes at most this number of iterations for one set of triplets. With more, the codebooks would suit these triplets and
not the others."""

CODEBOOK_TOLERANCE = 1e-6
"""L-BFGS ends when an iteration lowers psi by less than this part of its first value."""

PATIENCE = 3
"""The fit ends after this number of iterations in a row without a lower psi. Other triplets, and codebooks that were just added,
raise psi for a while."""


@dataclass(frozen=True)
class TripletModel:
    """The unknowns of the triplet formulation."""

    codebooks: Float64  # (M, K, r)
    projection: Float64  # (d, r)
    constant: float  # eps
    codes: Codes  # (n, M)


@dataclass(frozen=True)
class TripletStep(NamedStep):
    """One finished step: psi for the triplets of its iteration, and the model after the step."""

    name: str
    iteration: int
    terms: TripletTerms
    model: TripletModel
    changed: int = 0  # number of codewords that the rows changed in this step

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""
        return {"codebooks": self.model.codes.shape[1], **self.record(self.terms.as_dict())}

    def as_progress(self) -> Mapping[str, float] | None:
        """Return psi after the last step of an iteration."""
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
    """Run the solver for the current code length of `training`.

    Parameters
    ----------
    training : Training
        Its codes change with those of the solver.
    labels : Labels
    margin, quantization, constraint : float
        Rho, gamma and mu.
    per_row : int
        Number of triplets for each row.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The solver ends when psi of newly chosen triplets has not fallen by this part for `PATIENCE` iterations.
    n_jobs : int
        Number of threads.

    Yields
    ------
    TripletStep
        Every finished step.
    """
    start = training.start(quantization, constraint, 0.0)
    solver = start.solver()
    small = start.problem(solver, start.rows.statistics())
    model = _refit(small, TripletModel(start.codebooks, start.projection, 0.0, training.codes))
    lowest, stalled = np.inf, 0
    for iteration in range(1, max_iter + 1):
        S = kernels.active().decode(model.codes, model.codebooks)
        loss = TripletLoss(choose_triplets(S, labels, per_row, training.rng, n_jobs), margin, n_jobs)
        problem = TripletProblem.of(small, loss, model.codes)
        step = TripletStep("triplets", iteration, _terms(problem, model), model)
        yield step
        stalled = stalled + 1 if step.terms.total > (1 - tol) * lowest else 0
        if stalled == PATIENCE:
            return
        lowest = min(lowest, step.terms.total)

        C = minimise_codebooks(
            problem.reduced_gradient,
            small.used_codewords(model.codebooks),
            max_iter=CODEBOOK_ITERATIONS,
            tol=CODEBOOK_TOLERANCE,
        )
        model = _refit(small, replace(model, codebooks=small.with_codewords(model.codebooks, C)))
        yield TripletStep("codebooks", iteration, _terms(problem, model), model)

        own = OwnCost(_projected(training, model.projection), quantization, constraint, model.constant)
        descent = CodeDescent(model.codes, model.codebooks, own, loss)
        changed = descent.sweep()
        training.codes = descent.codes
        training.rows.recode(descent.codes)
        small = start.problem(solver, start.rows.statistics())
        problem = TripletProblem.of(small, loss, descent.codes)
        model = replace(model, codes=descent.codes)
        yield TripletStep("codes", iteration, _terms(problem, model), model, changed)

        model = _refit(small, model)
        yield TripletStep("projection", iteration, _terms(problem, model), model)


def _refit(small: SmallProblem, model: TripletModel) -> TripletModel:
    """Return the model with the best P and eps for its codebooks and codes."""
    C = small.used_codewords(model.codebooks)
    return replace(model, projection=small.projection(C), constant=small.constant(C @ C.T))


def _projected(training: Training, P: Float64) -> Float64:
    """Return X P (n, r)."""
    return np.concatenate(list(training.rows.map_features(lambda x, _: x @ P)))


def _terms(problem: TripletProblem, model: TripletModel) -> TripletTerms:
    C = problem.small.used_codewords(model.codebooks)
    return problem.terms(C, problem.small.projected(model.projection), model.constant)
