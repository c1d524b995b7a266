"""Supervised quantization with a projection that is given: the identity, or principal components."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import AnchorKernel, PublishedQuantizer
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS
from supquant.published.projections import FixedProjection
from supquant.published.rows import Penalties
from supquant.published.solvers import alternating_steps, joint_steps, solve_codebooks

SMALL = {"n_codewords": 8, "features": None, "max_iter": 3, "random_state": 0}
SOLVERS = {
    "joint": joint_steps,
    "alternating": partial(alternating_steps, max_turns=4),
    "published": partial(alternating_steps, max_turns=1),
}


@pytest.fixture(params=["identity", "pca"])
def mode(request):
    return request.param


@parametrize_with_checks([PublishedQuantizer(2, n_codewords=4, max_iter=2, projection="identity")])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture
def draw_fixed(draw):
    """Return a function that draws a small problem whose projection stays as it is."""

    def draw_fixed(*arguments, **settings):
        drawn = draw(*arguments, **settings, delta=0.0)
        return replace(drawn, start=replace(drawn.start, projection_type=FixedProjection))

    return draw_fixed


@pytest.fixture
def psi(psi_terms):
    """Return a function that gives psi of C (u, r), W and eps, from the rows."""

    def psi(drawn, C, W, eps):
        used = np.unique(drawn.codes + len(drawn.start.codebooks[0]) * np.arange(drawn.codes.shape[1]))
        codebooks = np.zeros_like(drawn.start.codebooks)
        codebooks.reshape(-1, C.shape[1])[used] = C
        P, weights = drawn.start.projection, drawn.start.penalties
        return sum(psi_terms(drawn.X, drawn.Y, drawn.codes, codebooks, W, P, eps, weights).values())

    return psi


# the solvers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", sorted(SOLVERS))
@pytest.mark.parametrize("weights", [(1e-3, 0.1), (0.1, 1.0), (10.0, 0.0)], ids=str)
@pytest.mark.parametrize(("M", "r", "multilabel"), [(1, 4, False), (2, 12, True), (3, 4, False)])
def test_psi_never_rises_and_its_terms_are_those_of_the_rows(
    draw_fixed, psi_terms, solver, weights, M, r, multilabel
):
    gamma, mu = weights
    drawn = draw_fixed(M, n=60, d=12, r=r, M=M, K=5, gamma=gamma, mu=mu, multilabel=multilabel)
    steps = [(step, drawn.codes.copy()) for step in SOLVERS[solver](drawn.start, max_iter=3, tol=0.0)]
    for (before, _), (after, _) in itertools.pairwise(steps):
        assert after.terms.total <= before.terms.total * (1 + 1e-9), after.name
    for step, codes in steps:
        if step.name not in {"start", "codes", "solve"}:  # states between turns are not assembled
            continue
        state = step.state
        np.testing.assert_array_equal(state.projection, drawn.start.projection)
        W, P, eps = state.classifier, state.projection, state.constant
        want = psi_terms(drawn.X, drawn.Y, codes, state.codebooks, W, P, eps, state.penalties)
        found = step.terms.as_dict()
        scale = found.pop("total")
        assert found == pytest.approx(want, abs=1e-8 * scale)
    assert steps[-1][0].terms.total < 0.9 * steps[0][0].terms.total


def test_published_order_leaves_out_a_fixed_projection(draw_fixed):
    steps = list(alternating_steps(draw_fixed(n=200).start, max_iter=2, tol=0.0, max_turns=1))
    order = ["classifier", "constant", "codebooks", "codes"]
    assert [step.name for step in steps] == ["start", *order, *order]


def test_reduced_function_is_the_lowest_psi_with_its_gradient(draw_fixed, psi, rng):
    drawn = draw_fixed(n=30)
    problem = drawn.problem
    C = rng.normal(size=(len(problem.used), 3))

    def least(C):
        return psi(drawn, C, problem.classifier(C), problem.constant(C @ C.T))

    value, gradient = problem.reduced_gradient(C)
    assert value == pytest.approx(least(C), rel=1e-9)
    for index in [(0, 0), (1, 2), (3, 1)]:
        ahead, behind = C.copy(), C.copy()
        ahead[index] += 1e-6
        behind[index] -= 1e-6
        assert gradient[index] == pytest.approx((least(ahead) - least(behind)) / 2e-6, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_a_generic_optimiser_of_all_unknowns_gains_nothing_more(draw_fixed, psi, gamma):
    drawn = draw_fixed(n=12, d=3, r=2, L=2, K=2, gamma=gamma, mu=0.05)
    problem = drawn.problem
    codebooks = drawn.start.codebooks
    for _ in range(20):
        codebooks = solve_codebooks(problem, codebooks, 30)
    C = problem.used_codewords(codebooks)
    u, r = C.shape

    def function(flat):
        return psi(drawn, flat[: u * r].reshape(u, r), flat[u * r : -1].reshape(r, 2), flat[-1])

    begin = np.concatenate([C.ravel(), problem.classifier(C).ravel(), [problem.constant(C @ C.T)]])
    found = minimize(function, begin, method="BFGS", options={"maxiter": 50})
    assert found.fun == pytest.approx(function(begin), rel=1e-3)
    before = problem.reduced_gradient(problem.used_codewords(drawn.start.codebooks))[0]
    assert function(begin) < 0.8 * before


# the estimator --------------------------------------------------------------------------------------------------------


def test_identity_quantizes_the_features_themselves(clusters, solver):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL, projection="identity", n_components=3, solver=solver).fit(X, y)
    assert quantizer.codec_.projection is None
    np.testing.assert_array_equal(quantizer.transform(X), X)
    assert quantizer.codec_.codebooks.shape == (2, 8, 8)  # n_components is not used


def test_identity_on_anchors_quantizes_the_kernel(clusters):
    X, y = clusters
    settings = SMALL | {"features": AnchorKernel(20)}
    quantizer = PublishedQuantizer(2, **settings, projection="identity").fit(X, y)
    np.testing.assert_allclose(quantizer.transform(X), quantizer.codec_.feature_map(X), atol=1e-6)
    assert quantizer.codec_.n_components == 20


def test_pca_quantizes_principal_components(clusters, solver):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL, projection="pca", n_components=3, solver=solver).fit(X, y)
    want = PCA(3, svd_solver="full").fit(X.astype(np.float64)).components_.T  # (d, r)
    np.testing.assert_allclose(np.abs((quantizer.codec_.projection * want).sum(axis=0)), 1, atol=1e-5)


@pytest.mark.parametrize("n_codebooks", [2, 3])
def test_last_objective_is_psi_of_the_stored_model(clusters, solver, mode, n_codebooks, psi_terms):
    X, y = clusters
    quantizer = PublishedQuantizer(
        n_codebooks, **SMALL, projection=mode, solver=solver, quantization_weight=0.1, tol=0.0
    ).fit(X, y)
    totals = [entry["total"] for entry in quantizer.objective_]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))
    codec = quantizer.codec_
    want = psi_terms(
        X.astype(np.float64),
        np.eye(3)[y],
        quantizer.training_codes_,
        codec.codebooks.astype(np.float64),
        codec.classifier.astype(np.float64),
        np.eye(8) if codec.projection is None else codec.projection.astype(np.float64),
        codec.constant,
        Penalties(0.1, quantizer.constraint_weight, quantizer.classifier_ridge),
    )
    found = {name: quantizer.objective_[-1][name] for name in want}
    assert found == pytest.approx(want, rel=1e-3, abs=1e-3)


def test_learned_codes_are_the_best_of_all_codes(clusters, mode):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL, projection=mode, quantization_weight=0.1).fit(X, y)
    codec = quantizer.codec_
    codes = np.array(list(itertools.product(range(8), repeat=2)))  # (64, 2)
    one, two = (codec.codebooks[m][codes[:, m]].astype(np.float64) for m in range(2))
    fit = ((np.eye(3)[y][:, None] - (one + two) @ codec.classifier) ** 2).sum(axis=2)  # (n, 64)
    distance = ((quantizer.transform(X)[:, None] - one - two) ** 2).sum(axis=2)
    spread = (2 * (one * two).sum(axis=1) - codec.constant) ** 2
    costs = fit + 0.1 * distance + quantizer.constraint_weight * spread
    chosen = costs[np.arange(300), quantizer.training_codes_ @ [8, 1]]
    np.testing.assert_allclose(chosen, costs.min(axis=1), rtol=1e-3, atol=1e-3)


def test_codes_separate_the_classes(clusters, solver, mode):
    X, y = clusters
    quantizer = PublishedQuantizer(2, **SMALL, projection=mode, solver=solver, quantization_weight=0.01)
    decoded = quantizer.fit(X, y).decode(quantizer.training_codes_)
    assert ((decoded @ quantizer.codec_.classifier).argmax(axis=1) == y).mean() > 0.95
    assert (quantizer.predict(X) == y).mean() > 0.7


def test_a_longer_code_starts_from_a_shorter_one_of_the_same_projection(clusters, mode):
    shorter = PublishedQuantizer(2, **SMALL, projection=mode).fit(*clusters)
    longer = PublishedQuantizer(3, **SMALL, projection=mode, init=shorter).fit(*clusters)
    assert longer.objective_[0]["total"] == pytest.approx(shorter.objective_[-1]["total"], rel=1e-4)
    assert longer.codec_.codebooks.shape[0] == 3
    if mode == "identity":
        assert longer.codec_.projection is None
    else:
        np.testing.assert_array_equal(longer.codec_.projection, shorter.codec_.projection)


@pytest.mark.parametrize(("ours", "theirs"), list(itertools.permutations(["learned", "identity", "pca"], 2)))
def test_init_of_another_projection_is_refused(clusters, ours, theirs):
    shorter = PublishedQuantizer(1, **SMALL, projection=theirs).fit(*clusters)
    with pytest.raises(InputError, match=f"projection='{theirs}', which cannot become '{ours}'"):
        PublishedQuantizer(2, **SMALL, projection=ours, init=shorter).fit(*clusters)


def test_an_unknown_projection_is_refused(clusters):
    with pytest.raises(InputError, match="projection"):
        PublishedQuantizer(2, **SMALL, projection="random").fit(*clusters)


def test_the_same_seed_gives_the_same_codes_whatever_the_threads(rng, mode):
    X = rng.normal(size=(BLOCK_ROWS + 100, 6)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    one, two = (
        PublishedQuantizer(2, **SMALL | {"max_iter": 1}, projection=mode, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.codec_.codebooks, two.codec_.codebooks)
    np.testing.assert_array_equal(one.training_codes_, two.training_codes_)


def test_a_saved_model_encodes_as_before(clusters, mode, tmp_path):
    fitted = PublishedQuantizer(2, **SMALL, projection=mode).fit(*clusters)
    fitted.save(tmp_path / "model")
    loaded = PublishedQuantizer.load(tmp_path / "model")
    assert loaded.projection == mode
    np.testing.assert_array_equal(loaded.encode(clusters[0]), fitted.encode(clusters[0]))
    np.testing.assert_array_equal(loaded.encode(*clusters), fitted.encode(*clusters))
