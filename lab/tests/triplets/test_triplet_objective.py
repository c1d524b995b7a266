"""The hinge and psi, against their definition in loops and against finite differences."""

import numpy as np
import pytest
from small_problems import psi_terms

from supquant_lab.triplets.objective import TripletLoss, TripletProblem, Triplets


def draw_triplets(n, count, seed=1):
    rng = np.random.default_rng(seed)
    return Triplets(*np.array([rng.permutation(n)[:3] for _ in range(count)]).T)


def hinge_by_loops(S, triplets, margin):
    total = 0.0
    for i, j, o in zip(triplets.anchor, triplets.similar, triplets.other, strict=True):
        total += max(0.0, ((S[i] - S[j]) ** 2).sum() - ((S[i] - S[o]) ** 2).sum() + margin)
    return total


@pytest.mark.parametrize("margin", [0.1, 5.0])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_hinge_is_the_sum_over_the_triplets(rng, margin, n_jobs):
    S, triplets = rng.normal(size=(20, 3)), draw_triplets(20, 5000)
    loss = TripletLoss(triplets, margin, n_jobs)
    want = hinge_by_loops(S, triplets, margin)
    assert loss.value(S) == pytest.approx(want, rel=1e-12)
    assert loss.gradient(S)[0] == pytest.approx(want, rel=1e-12)


def test_the_derivative_by_the_vectors_is_that_of_finite_differences(rng):
    S, loss = rng.normal(size=(12, 3)), TripletLoss(draw_triplets(12, 60), 1.0)
    _, gradient = loss.gradient(S)
    step = 1e-6
    for place in np.ndindex(S.shape):
        moved = np.zeros_like(S)
        moved[place] = step
        slope = (loss.value(S + moved) - loss.value(S - moved)) / (2 * step)
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@pytest.fixture(params=[2, 3], ids=["2 codebooks", "3 codebooks"])
def problem(request, draw):
    drawn = draw(M=request.param, K=6)
    loss = TripletLoss(draw_triplets(40, 100), 1.0)
    return drawn, TripletProblem.of(drawn.problem, loss, drawn.codes)


def test_psi_is_its_definition(problem):
    drawn, ours = problem
    C = ours.small.used_codewords(drawn.start.codebooks)
    P, eps = drawn.start.projection, 0.7
    want = psi_terms(
        drawn.X, drawn.Y, drawn.codes, drawn.start.codebooks, np.zeros((3, 3)), P, eps, drawn.start.penalties
    )
    S = sum(drawn.start.codebooks[m][drawn.codes[:, m]] for m in range(drawn.codes.shape[1]))
    found = ours.terms(C, ours.small.projected(P), eps)
    assert found.triplet == pytest.approx(hinge_by_loops(S, ours.loss.triplets, 1.0), rel=1e-10)
    assert found.quantization == pytest.approx(want["quantization"], rel=1e-10)
    assert found.constraint == pytest.approx(want["constraint"], rel=1e-10)
    assert found.as_dict()["total"] == found.total
    assert found.total == pytest.approx(found.triplet + found.quantization + found.constraint, rel=1e-12)


def test_reduced_psi_is_psi_with_the_best_projection_and_constant(problem):
    drawn, ours = problem
    C = ours.small.used_codewords(drawn.start.codebooks)
    P, eps = ours.small.projection(C), ours.small.constant(C @ C.T)
    lowest = ours.terms(C, ours.small.projected(P), eps).total
    assert ours.reduced_gradient(C)[0] == pytest.approx(lowest, rel=1e-10)
    for shift in (1e-3, -1e-3):
        assert ours.terms(C, ours.small.projected(P + shift), eps).total > lowest
        assert ours.terms(C, ours.small.projected(P), eps + shift).total > lowest


def test_the_gradient_by_the_codewords_is_that_of_finite_differences(problem):
    drawn, ours = problem
    C = ours.small.used_codewords(drawn.start.codebooks)
    _, gradient = ours.reduced_gradient(C)
    step = 1e-6
    for place in np.ndindex(C.shape):
        moved = np.zeros_like(C)
        moved[place] = step
        slope = (ours.reduced_gradient(C + moved)[0] - ours.reduced_gradient(C - moved)[0]) / (2 * step)
        assert gradient[place] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_the_margin_is_the_unit_of_squared_lengths(draw):
    """Margin t with weight mu / t is margin 1 with weight mu, in a space whose lengths are sqrt(t) times as large."""
    values = []
    for margin, mu in ((1.0, 0.2), (4.0, 0.05)):
        drawn = draw(mu=mu)
        ours = TripletProblem.of(drawn.problem, TripletLoss(draw_triplets(40, 100), margin), drawn.codes)
        C = ours.small.used_codewords(drawn.start.codebooks)
        values.append(ours.reduced_gradient(np.sqrt(margin) * C)[0] / margin)
    assert values[0] == pytest.approx(values[1], rel=1e-10)
