"""The search for codes, against the cost written out from its definition."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from supquant import kernels
from supquant.assignment import SEARCH_ROWS, CodeSearch, ItemSearch, spread_codes


def draw_search(rng, M=2, K=8, r=5, L=3, *, gamma=0.3, mu=0.2, labels=True):
    codebooks = rng.normal(size=(M, K, r))
    classifier = rng.normal(size=(r, L)) if labels else None
    return CodeSearch(codebooks, classifier, gamma, mu, constant=0.4)


def draw_rows(rng, n=40, r=5, L=3):
    return rng.normal(scale=2.0, size=(n, r)), np.eye(L)[rng.integers(0, L, size=n)]


def true_costs(search, projected, codes, *, labels=None, metric=None):
    """psi_n (n,) of codes (n, M), with labels Y (n, L); or with a metric (r, r) of P'x - s in place of the labels."""
    M = len(search.codebooks)
    words = np.array([[search.codebooks[m, code[m]] for m in range(M)] for code in codes])  # (n, M, r)
    s = words.sum(axis=1)
    e = sum(
        np.einsum("nr,nr->n", words[:, a], words[:, b])
        for a, b in itertools.product(range(M), repeat=2)
        if a != b
    )
    off = projected - s
    cost = search.constraint * (e - search.constant) ** 2
    if metric is None:
        return (
            cost
            + ((labels - s @ search.classifier) ** 2).sum(axis=1)
            + search.quantization * (off**2).sum(axis=1)
        )
    return cost + np.einsum("nr,rs,ns->n", off, metric, off)


def lowest(search, n, cost_of):
    """The least cost (n,) over all codes of M codebooks."""
    M, K = search.codebooks.shape[:2]
    return np.min(
        [cost_of(np.tile(np.uint8(code), (n, 1))) for code in itertools.product(range(K), repeat=M)], axis=0
    )


def metric_of(search):
    r = search.codebooks.shape[2]
    W = search.classifier
    return search.quantization * np.eye(r) + (0 if W is None else W @ W.T)


@pytest.mark.parametrize(("gamma", "mu"), [(1e-5, 0.1), (0.3, 0.2), (10.0, 0.0), (1e-3, 10.0)])
@pytest.mark.parametrize("start", ["given", "none"])
def test_two_codebooks_reach_the_least_cost_of_all_pairs(rng, gamma, mu, start):
    search = draw_search(rng, gamma=gamma, mu=mu)
    projected, Y = draw_rows(rng)
    targets = search.target(projected, Y).astype(np.float32)
    codes = rng.integers(0, 8, size=(40, 2), dtype=np.uint8) if start == "given" else None
    found = search.search(targets, codes)
    best = lowest(search, 40, lambda codes: true_costs(search, projected, codes, labels=Y))
    reached = true_costs(search, projected, found, labels=Y)
    assert (reached <= best + 1e-5 * (1 + np.abs(best))).all()


def test_predicted_labels_are_searched_with_the_published_metric(rng):
    search = draw_search(rng)
    projected, _ = draw_rows(rng)
    found = search.search(search.target(projected, None).astype(np.float32))

    def cost(codes):
        return true_costs(search, projected, codes, metric=metric_of(search))

    assert (cost(found) <= lowest(search, 40, cost) + 1e-4).all()


def test_dropped_labels_leave_the_quantization_error_and_the_constraint(rng):
    search = draw_search(rng, labels=False)
    projected, _ = draw_rows(rng)
    found = search.search(search.target(projected, None).astype(np.float32))

    def cost(codes):
        return true_costs(search, projected, codes, metric=search.quantization * np.eye(5))

    assert (cost(found) <= lowest(search, 40, cost) + 1e-4).all()


@pytest.mark.parametrize("M", [1, 2, 4])
@pytest.mark.parametrize("way", ["labelled", "predicted", "dropped"])
def test_costs_are_the_true_ones_up_to_a_constant_of_the_row(rng, M, way):
    search = draw_search(rng, M, labels=way != "dropped")
    projected, Y = draw_rows(rng)
    targets = search.target(projected, Y if way == "labelled" else None)
    one, other = rng.integers(0, 8, size=(2, 40, M), dtype=np.uint8)
    arguments = {"labels": Y} if way == "labelled" else {"metric": metric_of(search)}
    difference = true_costs(search, projected, one, **arguments) - true_costs(
        search, projected, other, **arguments
    )
    np.testing.assert_allclose(
        search.costs(targets, one) - search.costs(targets, other), difference, atol=1e-9
    )


@pytest.mark.parametrize("seeded", [False, True])
def test_longer_codes_end_where_no_single_codeword_improves(rng, seeded):
    seeds = rng.integers(0, 8, size=(50, 4), dtype=np.uint8) if seeded else None
    search = replace(draw_search(rng, M=4), seeds=seeds, max_sweeps=200)
    projected, Y = draw_rows(rng)
    targets = search.target(projected, Y)
    found = search.search(targets.astype(np.float32))
    reached = search.costs(targets, found)
    for m, k in itertools.product(range(4), range(8)):
        moved = found.copy()
        moved[:, m] = k
        assert (search.costs(targets, moved) >= reached - 1e-3).all()


def test_search_ends_no_worse_than_its_best_seed(rng):
    seeds = rng.integers(0, 8, size=(200, 4), dtype=np.uint8)
    search = replace(draw_search(rng, M=4, gamma=1e-3, mu=10.0), seeds=seeds)
    projected, _ = draw_rows(rng, n=300)
    targets = search.target(projected, None)
    best = np.min([search.costs(targets, np.tile(seed, (300, 1))) for seed in seeds], axis=0)
    reached = search.costs(targets, search.search(targets.astype(np.float32)))
    assert (reached <= best + 1e-4 * np.abs(best)).all()
    assert (reached < best - 1e-3 * np.abs(best)).any()


def test_targets_in_a_subspace_need_no_more_of_the_codewords(rng):
    search = draw_search(rng, M=4)
    r = search.codebooks.shape[2]
    basis = np.linalg.qr(rng.normal(size=(r, 2)))[0]
    targets = (rng.normal(size=(50, 2)) @ basis.T).astype(np.float32)
    turned = replace(search, basis=basis.astype(np.float32))
    np.testing.assert_allclose(
        search.costs(targets, turned.search(targets)),
        search.costs(targets, search.search(targets)),
        rtol=1e-3,
    )


def test_a_seed_that_is_the_best_code_is_found(rng):
    plain = draw_search(rng, M=3, K=4, gamma=1e-3, mu=10.0)
    projected, _ = draw_rows(rng)
    targets = plain.target(projected, None)
    every = np.array(list(itertools.product(range(4), repeat=3)), dtype=np.uint8)
    costs = np.stack([plain.costs(targets, np.tile(code, (40, 1))) for code in every])  # (64, n)
    search = replace(plain, seeds=every[np.unique(costs.argmin(axis=0))])
    found = search.costs(targets, search.search(targets.astype(np.float32)))
    assert (found <= costs.min(axis=0) + 1e-4).all()
    assert (plain.costs(targets, plain.search(targets.astype(np.float32))) > costs.min(axis=0) + 1e-3).any()


def test_given_codes_never_get_worse(rng):
    search = draw_search(rng, M=4)
    projected, Y = draw_rows(rng, n=200)
    targets = search.target(projected, Y)
    start = rng.integers(0, 8, size=(200, 4), dtype=np.uint8)
    found = search.search(targets.astype(np.float32), start)
    assert (found != start).any()
    assert (search.costs(targets, found) <= search.costs(targets, start) + 1e-4).all()


@pytest.mark.parametrize("n", [0, 1, SEARCH_ROWS - 1, SEARCH_ROWS, SEARCH_ROWS + 1])
@pytest.mark.parametrize("given", [False, True])
def test_a_row_gets_the_same_code_alone_and_among_many(rng, n, given):
    search = draw_search(rng, M=3)
    targets = np.round(rng.normal(size=(n, 5)) * 64).astype(np.float32) / 64
    start = rng.integers(0, 8, size=(n, 3), dtype=np.uint8) if given else None
    found = search.search(targets, start, n_threads=2)
    assert (found.shape, found.dtype) == ((n, 3), np.uint8)
    for row in {0, n // 2, n - 1} & set(range(n)):
        alone = search.search(targets[row : row + 1], None if start is None else start[row : row + 1])
        np.testing.assert_array_equal(alone[0], found[row])


def test_neither_targets_nor_codes_are_changed(rng):
    search = draw_search(rng, M=3)
    targets = rng.normal(size=(20, 5)).astype(np.float32)
    codes = rng.integers(0, 8, size=(20, 3), dtype=np.uint8)
    for array in (targets, codes, search.codebooks, search.classifier):
        array.flags.writeable = False
    search.search(targets, codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_targets_keep_the_precision_of_the_projections(rng, dtype):
    search = draw_search(rng)
    projected, Y = draw_rows(rng)
    for labels in (Y, None):
        assert search.target(projected.astype(dtype), labels).dtype == dtype


def test_a_wider_beam_finds_better_codes_and_does_not_depend_on_company(rng):
    codebooks = rng.normal(size=(5, 16, 8))
    vectors = rng.normal(size=(200, 8)).astype(np.float32) * 2
    weights = np.array([2.0, 0.5])

    def error(codes):
        decoded = kernels.active().decode(codes, codebooks)
        return (np.square(vectors - decoded) * np.repeat(weights, [3, 5])).sum(axis=1)

    greedy = ItemSearch.of(codebooks, 3, weights, beam=1).search(vectors)
    search = ItemSearch.of(codebooks, 3, weights)
    found = search.search(vectors)
    assert error(found).mean() < 0.98 * error(greedy).mean()
    np.testing.assert_array_equal(search.search(vectors[7:8]), found[7:8])


def test_words_that_are_not_allowed_are_not_taken(rng):
    codebooks = rng.normal(size=(4, 16, 8))
    allowed = rng.random((4, 16)) < 0.5
    allowed[:, 0] = True
    codes = ItemSearch.of(codebooks, 3, np.ones(2), allowed).search(
        rng.normal(size=(300, 8)).astype(np.float32)
    )
    assert allowed[np.arange(4), codes].all()


def test_a_quick_search_finds_codes_as_good(rng):
    codebooks = rng.normal(size=(4, 16, 12)).astype(np.float32)
    vectors = rng.normal(size=(300, 12)).astype(np.float32)
    allowed = np.arange(16) % 5 < np.arange(1, 5)[:, None]
    exact, quick = (
        ItemSearch.of(codebooks, 5, np.array([2, 0.3]), allowed, quick=each).search(vectors)
        for each in (False, True)
    )
    assert (exact == quick).all(
        axis=1
    ).mean() > 0.99  # they differ where two codes cost the same up to rounding


@pytest.mark.parametrize("M", [2, 4])
def test_sparse_columns_and_few_allowed_words_do_not_change_codes(rng, M):
    """Both only spare products: the codes are those of vectors and words that are taken as dense."""
    codebooks = rng.normal(size=(M, 16, 12)).astype(np.float32)
    vectors = rng.normal(size=(300, 12)).astype(np.float32)
    vectors[:, :8] *= rng.uniform(size=(300, 8)) < 0.2
    weights = np.array([2, 0.3], dtype=np.float32)
    allowed = np.arange(16) % 5 < np.arange(1, M + 1)[:, None]
    dense = ItemSearch.of(codebooks, 8, weights, allowed)
    sparse = ItemSearch.of(codebooks, 8, weights, allowed, sparse=True)
    np.testing.assert_array_equal(sparse.search(vectors), dense.search(vectors))
    few = np.arange(16) % 5 == 2
    words = np.flatnonzero(few)
    chosen = ItemSearch.of(codebooks[:, few], 8, weights).search(vectors)
    masked = ItemSearch.of(codebooks, 8, weights, np.tile(few, (M, 1)), sparse=True)
    if M == 2:  # an exact search: it does not depend on how words are numbered
        np.testing.assert_array_equal(masked.search(vectors), words[chosen])
    assert np.isin(masked.search(vectors), words).all()


@pytest.mark.parametrize("limit", [1, 2, 7, 64, 1000])
def test_seeds_are_distinct_codes_of_the_rows(rng, limit):
    codes = rng.integers(0, 4, size=(200, 2), dtype=np.uint8)  # at most 16 distinct ones
    seeds = spread_codes(codes, limit)
    assert len(seeds) == len(np.unique(seeds, axis=0)) <= limit
    assert {tuple(seed) for seed in seeds} <= {tuple(code) for code in codes}
    if limit == 1000:
        assert len(seeds) == len(np.unique(codes, axis=0))
