"""Composite quantization: against product quantization, brute force over codes, and the supervised problem without labels."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from supquant import CompositeQuantizer, ProductQuantizer, load_model
from supquant.baselines.composite import composite_start
from supquant.errors import InputError
from supquant.parallel import BLOCK_ROWS
from supquant.published.objective import SmallProblem
from supquant.published.solvers import solve_codebooks

SMALL = {"n_codewords": 8, "random_state": 0}


@parametrize_with_checks([CompositeQuantizer(1, n_codewords=4, max_iter=2)])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def fitted(clusters):
    return CompositeQuantizer(3, **SMALL).fit(clusters[0])


@pytest.fixture
def problem(clusters):
    start, _ = composite_start(clusters[0], 3, 8, 50.0, np.random.default_rng(0), 1)
    return start.problem(start.solver(), start.rows.statistics()), start.codebooks


def words_of(codebooks, codes):
    """(M, n, d), float64."""
    return np.stack([codebooks[m].astype(np.float64)[codes[:, m]] for m in range(len(codebooks))])


def products_of(codebooks, codes):
    """e (n,), by its definition."""
    words = words_of(codebooks, codes)
    return sum((words[a] * words[b]).sum(axis=1) for a, b in itertools.permutations(range(len(words)), 2))


def phi_terms(quantizer, X):
    """The two terms of the stored model, by their definition."""
    X = X.astype(np.float64)
    codebooks, codes = quantizer.codec_.codebooks, quantizer.training_codes_
    mu = quantizer.constraint_weight / X.var(axis=0).sum()
    e = products_of(codebooks, codes) if len(codebooks) > 1 else np.zeros(len(X))
    return {
        "quantization": ((X - words_of(codebooks, codes).sum(axis=0)) ** 2).sum(),
        "constraint": mu * ((e - quantizer.codec_.constant) ** 2).sum(),
    }


def test_principal_components_are_quantized_instead_of_vectors(clusters):
    X = clusters[0]
    reduced = CompositeQuantizer(2, n_components=3, **SMALL).fit(X)
    P = reduced.codec_.projection
    assert P.shape == (X.shape[1], 3)
    centred = (X - X.mean(axis=0)).astype(np.float64)
    leading = np.linalg.svd(centred, full_matrices=False)[2][:3].T
    np.testing.assert_allclose(P @ P.T, leading @ leading.T, atol=1e-5)
    by_hand = CompositeQuantizer(2, **SMALL).fit(X.astype(np.float32) @ P)
    np.testing.assert_array_equal(reduced.training_codes_, by_hand.training_codes_)
    np.testing.assert_array_equal(reduced.encode(X), by_hand.encode(X.astype(np.float32) @ P))


@pytest.mark.parametrize("n_components", [0, 2, 10_000])
def test_components_must_fit_the_codebooks_and_the_vectors(clusters, n_components):
    with pytest.raises(InputError, match="n_components"):
        CompositeQuantizer(3, n_components=n_components, **SMALL).fit(clusters[0])


# what is learned ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_codebooks", [1, 2, 3, 8])
@pytest.mark.parametrize("weight", [0.0, 1.0, 50.0])
def test_phi_never_rises_and_its_last_value_is_that_of_the_definition(clusters, n_codebooks, weight):
    quantizer = CompositeQuantizer(n_codebooks, **SMALL, constraint_weight=weight, tol=0.0, max_iter=5)
    record = quantizer.fit(clusters[0]).objective_
    for entry in record:
        assert list(entry) == ["iteration", "step", "quantization", "constraint", "total", "changed"]
        assert entry["total"] == pytest.approx(entry["quantization"] + entry["constraint"], rel=1e-12)
    totals = [entry["total"] for entry in record]
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(totals))
    want = phi_terms(quantizer, clusters[0])
    scale = sum(want.values())
    assert {name: record[-1][name] for name in want} == pytest.approx(want, rel=1e-4, abs=1e-5 * scale)
    assert n_codebooks == 1 or totals[-1] < 0.95 * totals[0]


def test_without_rounds_it_is_product_quantization(clusters):
    X = clusters[0]
    ours = CompositeQuantizer(3, **SMALL, max_iter=0).fit(X)
    theirs = ProductQuantizer(3, **SMALL).fit(X)
    np.testing.assert_array_equal(ours.codec_.codebooks, theirs.codec_.codebooks)
    np.testing.assert_array_equal(ours.training_codes_, theirs.training_codes_)
    np.testing.assert_array_equal(ours.encode(X), theirs.encode(X))
    np.testing.assert_array_equal(ours.codec_.tables(X[:5]), theirs.codec_.tables(X[:5]))
    assert ours.codec_.constant == pytest.approx(0, abs=1e-9)
    assert ours.n_iter_ == 0


def test_a_huge_weight_keeps_the_products_as_constant_as_they_are_at_the_start(clusters):
    X = clusters[0]
    quantizer = CompositeQuantizer(3, **SMALL, constraint_weight=1e9).fit(X)
    e = products_of(quantizer.codec_.codebooks, quantizer.training_codes_)
    assert e.std() < 1e-4 * X.var(axis=0).sum()
    product = ProductQuantizer(3, **SMALL).fit(X)
    error = ((X - product.decode(product.training_codes_)) ** 2).sum()
    assert quantizer.objective_[-1]["total"] <= error * (1 + 1e-6)


def test_inter_dictionary_products_are_constant_at_the_end(digits):
    X = digits[0][:1000]
    quantizer = CompositeQuantizer(4, n_codewords=16, random_state=0).fit(X)
    e = products_of(quantizer.codec_.codebooks, quantizer.training_codes_)
    assert e.mean() == pytest.approx(quantizer.codec_.constant, abs=1e-3)
    assert e.std() < 0.02 * X.var(axis=0).sum()
    # so that sums of table entries are distances
    tables = quantizer.codec_.query_tables(X[:20])
    sums = sum(tables.tables[:, m, quantizer.training_codes_[:, m]] for m in range(4))
    distances = ((X[:20, None] - quantizer.decode(quantizer.training_codes_)) ** 2).sum(axis=2)
    np.testing.assert_allclose(sums + tables.offsets[:, None], distances, atol=6 * e.std())


def test_error_is_below_that_of_product_quantization_and_falls_with_longer_codes(digits):
    X = digits[0][:1000]

    def errors(kind):
        fits = [kind(M, n_codewords=16, random_state=0).fit(X) for M in (1, 2, 4)]
        return [((X - each.decode(each.training_codes_)) ** 2).sum() for each in fits]

    ours, theirs = errors(CompositeQuantizer), errors(ProductQuantizer)
    assert ours == sorted(ours, reverse=True)
    assert all(one < 0.95 * other for one, other in zip(ours[1:], theirs[1:], strict=True))


def test_a_tiny_problem_is_solved_as_well_as_by_brute_force(rng):
    """Without the constraint the best codebooks are a least-squares fit: try all codes of six rows in the plane."""
    corners = np.array([[0, 0], [3, 1], [-1, 3], [2, 4]])  # sums of two pairs that are not along the axes
    X = (corners[[0, 1, 2, 3, 0, 3]] + rng.normal(scale=0.3, size=(6, 2))).astype(np.float32)
    codes = np.array(list(itertools.product(range(4), repeat=6)))  # (4096, 6), two bits per row
    B = np.concatenate([np.eye(2)[codes // 2], np.eye(2)[codes % 2]], axis=2)  # (4096, 6, 4)
    best = ((X - B @ (np.linalg.pinv(B) @ X)) ** 2).sum(axis=(1, 2)).min()
    settings = {"n_codewords": 2, "constraint_weight": 0.0, "tol": 0.0}
    found = [
        CompositeQuantizer(2, **settings, random_state=seed).fit(X).objective_[-1]["total"]
        for seed in range(10)
    ]
    assert min(found) == pytest.approx(best, rel=1e-3)


def test_learned_codes_of_two_codebooks_are_the_best_of_all_codes(clusters):
    X = clusters[0].astype(np.float64)
    quantizer = CompositeQuantizer(2, **SMALL, max_iter=3).fit(clusters[0])
    codes = np.array(list(itertools.product(range(8), repeat=2)))  # (64, 2)
    codebooks, constant = quantizer.codec_.codebooks, quantizer.codec_.constant
    decoded = words_of(codebooks, codes).sum(axis=0)
    mu = quantizer.constraint_weight / X.var(axis=0).sum()
    spread = mu * (products_of(codebooks, codes) - constant) ** 2
    costs = ((X[:, None] - decoded) ** 2).sum(axis=2) + spread  # (n, 64)
    chosen = costs[np.arange(300), quantizer.training_codes_ @ [8, 1]]
    np.testing.assert_allclose(chosen, costs.min(axis=1), rtol=1e-3, atol=1e-3)


# its parts ------------------------------------------------------------------------------------------------------------


def test_codebooks_without_the_constraint_are_a_least_squares_fit(clusters):
    X = clusters[0].astype(np.float64)
    start, codes = composite_start(clusters[0], 2, 8, 0.0, np.random.default_rng(0), 1)
    small = start.problem(start.solver(), start.rows.statistics())
    codebooks = start.codebooks
    for _ in range(4):
        codebooks = solve_codebooks(small, codebooks, 30, SmallProblem.reduced_without_labels)
    B = np.hstack([np.eye(8)[codes[:, m]] for m in range(2)])
    best = ((X - B @ np.linalg.lstsq(B, X)[0]) ** 2).sum()
    assert small.reduced_without_labels(small.used_codewords(codebooks))[0] == pytest.approx(best, rel=1e-4)


def test_the_weight_has_no_unit(clusters):
    X = clusters[0]
    near, far = (CompositeQuantizer(3, **SMALL, max_iter=4).fit(X * scale) for scale in (1.0, 2.0**12))
    np.testing.assert_array_equal(near.training_codes_, far.training_codes_)
    np.testing.assert_allclose(far.codec_.codebooks, near.codec_.codebooks * 2.0**12, rtol=1e-3, atol=1.0)


# the estimator --------------------------------------------------------------------------------------------------------


def test_encoding_finds_codes_about_as_good_as_the_learned_ones(fitted, clusters):
    X = clusters[0]
    learned, encoded = (
        ((X - fitted.decode(codes)) ** 2).sum() for codes in (fitted.training_codes_, fitted.encode(X))
    )
    assert encoded < 1.1 * learned


def test_the_same_seed_gives_the_same_codes_whatever_the_threads(rng):
    X = rng.normal(size=(BLOCK_ROWS + 100, 6)).astype(np.float32)
    one, two, other = (
        CompositeQuantizer(3, n_codewords=8, max_iter=2, n_jobs=n_jobs, random_state=seed).fit(X)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.codec_.codebooks, two.codec_.codebooks)
    np.testing.assert_array_equal(one.training_codes_, two.training_codes_)
    assert not np.array_equal(one.training_codes_, other.training_codes_)


def test_an_interrupt_leaves_the_best_model_so_far_and_is_raised_again(clusters):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    quantizer = CompositeQuantizer(3, **SMALL, tol=0.0, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(clusters[0])
    whole = CompositeQuantizer(3, **SMALL, tol=0.0, max_iter=2).fit(clusters[0])
    assert quantizer.n_iter_ == 2
    assert quantizer.objective_ == whole.objective_
    np.testing.assert_array_equal(quantizer.training_codes_, whole.training_codes_)
    np.testing.assert_array_equal(quantizer.encode(clusters[0]), whole.encode(clusters[0]))


def test_an_interrupt_before_the_first_step_leaves_the_old_model(clusters, monkeypatch):
    quantizer = CompositeQuantizer(3, **SMALL, max_iter=1).fit(clusters[0])
    before = dict(vars(quantizer))

    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("supquant.baselines.composite.product_codebooks", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quantizer.fit(clusters[0])
    assert vars(quantizer) == before


def test_progress_carries_the_objective(clusters):
    events = []
    quantizer = CompositeQuantizer(2, **SMALL, max_iter=3, tol=0.0, callback=events.append).fit(clusters[0])
    assert [event.step for event in events] == [1, 2, 3]
    assert events[-1].values["objective"] == quantizer.objective_[-1]["total"]


def test_a_saved_model_encodes_as_before(fitted, clusters, tmp_path):
    fitted.save(tmp_path / "model")
    for loaded in (CompositeQuantizer.load(tmp_path / "model"), load_model(tmp_path / "model")):
        assert isinstance(loaded, CompositeQuantizer)
        np.testing.assert_array_equal(loaded.encode(clusters[0]), fitted.encode(clusters[0]))
        np.testing.assert_array_equal(
            loaded.codec_.tables(clusters[0][:5]), fitted.codec_.tables(clusters[0][:5])
        )
        assert loaded.codec_.constant == fitted.codec_.constant
        assert (loaded.objective_, loaded.n_iter_) == (fitted.objective_, fitted.n_iter_)
        assert loaded.get_params() == fitted.get_params()


def test_a_clone_is_not_fitted(fitted, clusters):
    with pytest.raises(NotFittedError):
        clone(fitted).encode(clusters[0])


def test_rows_that_are_all_equal_are_fine():
    quantizer = CompositeQuantizer(2, n_codewords=4, random_state=0).fit(np.ones((20, 4)))
    np.testing.assert_allclose(quantizer.decode(quantizer.training_codes_), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_codebooks": 0}, "n_codebooks must be an integer from 1 to 8, got 0"),
        ({"n_codebooks": 9}, "n_codebooks must be an integer from 1 to 8, got 9"),
        ({"n_codewords": 257}, "n_codewords"),
        ({"n_codewords": 256}, "n_samples=50 should be >= n_codewords=256"),
        ({"constraint_weight": -1.0}, "constraint_weight"),
        ({"constraint_weight": np.nan}, "constraint_weight"),
        ({"max_iter": -1}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_a_bad_parameter_is_refused_and_changes_nothing(clusters, settings, message):
    quantizer = CompositeQuantizer(3, **SMALL, max_iter=1).fit(clusters[0])
    before = dict(vars(quantizer))
    quantizer.set_params(**settings)
    with pytest.raises(InputError, match=message):
        quantizer.fit(clusters[0][:50])
    assert {name: vars(quantizer)[name] for name in before if name not in settings} == {
        name: value for name, value in before.items() if name not in settings
    }


def test_bad_vectors_are_refused(fitted):
    with pytest.raises(InputError, match="NaN"):
        clone(fitted).fit(np.full((50, 8), np.nan))
    with pytest.raises(InputError, match=r"X has 5 features, but .* expecting 8"):
        fitted.encode(np.zeros((3, 5)))
