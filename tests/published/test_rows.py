"""Passes over the rows are compared with dense matrices, and rows in three places with the same rows in one place."""

from functools import reduce
from itertools import chain, pairwise

import numpy as np
import pytest

from supquant.inputs.labels import read_labels
from supquant.parallel import BLOCK_ROWS, single_blas
from supquant.published.alternating import alternating_steps
from supquant.published.initialisation import principal_components, product_start
from supquant.published.joint import joint_steps
from supquant.published.rows import CodedRows
from supquant.published.statistics import ModelState, Penalties
from supquant.published.steps import Start

N, P, D, M, K, R, L = 2 * BLOCK_ROWS + 500, 4, 6, 3, 8, 5, 3  # three blocks, the last one short


@pytest.fixture(scope="module", autouse=True)
def one_blas_thread():
    """Passes run as in `fit`."""
    with single_blas():
        yield


def feature_map(x):
    """Widen a block (b, 4) to (b, 6)."""
    return np.hstack([x, x[:, :2] * x[:, 2:]])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P)).astype(np.float32)
    y = rng.integers(0, L, size=N)
    indicator = rng.random(size=(N, L)) < 0.4
    codes = rng.integers(0, K - 2, size=(N, M), dtype=np.uint8)  # two codewords of each codebook unused
    for array in (X, y, indicator, codes):
        array.flags.writeable = False
    return X, y, indicator, codes


@pytest.fixture(params=["one label", "several labels"])
def labels(request, data):
    return read_labels(data[1] if request.param == "one label" else data[2].astype(int))


@pytest.fixture
def make_rows(data, labels):
    def make(**settings):
        return CodedRows(data[0], labels, data[3].copy(), K, **{"features": feature_map} | settings)

    return make


def draw_model(rng, gamma=0.3, mu=0.1):
    return ModelState(
        rng.normal(size=(M, K, R)),
        rng.normal(size=(D, R)),
        rng.normal(size=(R, L)),
        0.4,
        Penalties(gamma, mu, 1.0),
    )


def dense(codes):
    """B (n, MK), from its definition."""
    B = np.zeros((len(codes), M * K))
    for m in range(M):
        B[np.arange(len(codes)), m * K + codes[:, m]] = 1
    return B


def all_codes(rows):
    return np.concatenate(list(rows.codes()))


def row_costs(model, X, Y, codes):
    """psi_n (n,), from its definition."""
    words = np.stack([model.codebooks[m, codes[:, m]] for m in range(M)])  # (M, n, r)
    s = words.sum(axis=0)
    e = sum((words[a] * words[b]).sum(axis=1) for a in range(M) for b in range(M) if a != b)
    weights = model.penalties
    return (
        ((Y - s @ model.classifier) ** 2).sum(axis=1)
        + weights.quantization * ((s - X @ model.projection) ** 2).sum(axis=1)
        + weights.constraint * (e - model.constant) ** 2
    )


def assert_same_sums(found, wanted, names, rtol=1e-12):
    for name in names:
        one, other = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-9, err_msg=name)


def test_moments_are_those_of_the_dense_matrices(make_rows, data, labels):
    found = make_rows().moments()
    X, Y = feature_map(data[0]).astype(np.float64), labels.dense(0, N)
    assert found.n_rows == N
    np.testing.assert_allclose(found.sum_x, X.sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.xx, X.T @ X, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(found.xy, X.T @ Y, rtol=1e-12, atol=1e-9)
    assert found.yy == Y.sum()


def test_statistics_are_those_of_the_dense_indicator_matrix(make_rows, data, labels):
    found = make_rows().statistics()
    X, Y, B = feature_map(data[0]).astype(np.float64), labels.dense(0, N), dense(data[3])
    np.testing.assert_array_equal(found.bb, B.T @ B)
    np.testing.assert_allclose(found.bx, B.T @ X, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(found.by, B.T @ Y)
    assert found.changed == 0


def test_sums_are_float64(make_rows):
    rows = make_rows()
    moments, statistics = rows.moments(), rows.statistics()
    for array in (moments.sum_x, moments.xx, moments.xy, statistics.bb, statistics.bx, statistics.by):
        assert array.dtype == np.float64


@pytest.mark.parametrize(("gamma", "mu"), [(1e-5, 0.1), (0.3, 10.0), (100.0, 0.0)])
def test_assign_raises_the_cost_of_no_row(make_rows, data, labels, rng, gamma, mu):
    rows, model = make_rows(), draw_model(rng, gamma, mu)
    X, Y = feature_map(data[0]).astype(np.float64), labels.dense(0, N)
    before = row_costs(model, X, Y, data[3])
    statistics = rows.assign(model)
    new = all_codes(rows)
    after = row_costs(model, X, Y, new)
    moved = (new != data[3]).any(axis=1)
    assert moved.any()
    assert statistics.changed == moved.sum()
    assert (after <= before * (1 + 1e-12)).all()


def test_codes_of_the_search_are_taken_only_where_float64_finds_them_better(
    make_rows, data, labels, rng, monkeypatch
):
    proposed = rng.integers(0, K, size=(N, M), dtype=np.uint8)
    proposed[:10] = data[3][:10]
    proposals = iter(np.split(proposed, [BLOCK_ROWS, 2 * BLOCK_ROWS]))
    monkeypatch.setattr("supquant.assignment.CodeSearch.search", lambda *arguments: next(proposals))
    rows, model = make_rows(), draw_model(rng)
    X, Y = feature_map(data[0]).astype(np.float64), labels.dense(0, N)
    better = row_costs(model, X, Y, proposed) < row_costs(model, X, Y, data[3])
    assert 0.2 < better.mean() < 0.8
    assert rows.assign(model).changed == better.sum()
    np.testing.assert_array_equal(all_codes(rows), np.where(better[:, None], proposed, data[3]))


def test_assign_gives_the_sums_of_the_new_codes(make_rows, data, labels, rng):
    rows = make_rows()
    found = rows.assign(draw_model(rng))
    X, B = feature_map(data[0]).astype(np.float64), dense(all_codes(rows))
    np.testing.assert_array_equal(found.bb, B.T @ B)
    np.testing.assert_allclose(found.bx, B.T @ X, rtol=1e-12, atol=1e-9)
    np.testing.assert_array_equal(found.by, B.T @ labels.dense(0, N))
    assert_same_sums(rows.statistics(), found, ("bb", "bx", "by"), rtol=0)


def test_assigning_again_changes_nothing_more_in_the_end(make_rows, rng):
    rows, model = make_rows(), draw_model(rng)
    assert [rows.assign(model).changed for _ in range(4)][-1] == 0


def test_the_start_of_the_codes_is_recoded_in_place(data, labels, rng):
    codes = data[3].copy()
    rows = CodedRows(data[0], labels, codes, K, features=feature_map)
    rows.assign(draw_model(rng))
    np.testing.assert_array_equal(all_codes(rows), codes)


def test_rows_given_other_codes_forget_the_old_ones(make_rows, data, labels, rng):
    rows = make_rows()
    rows.statistics()
    longer = np.hstack([data[3], data[3][:, :1]])
    rows.recode(longer)
    np.testing.assert_array_equal(all_codes(rows), longer)
    found = rows.statistics()
    B = np.hstack([dense(data[3]), dense(data[3])[:, :K]])
    np.testing.assert_array_equal(found.bb, B.T @ B)
    np.testing.assert_array_equal(found.by, B.T @ labels.dense(0, N))


@pytest.mark.parametrize("after_assign", [False, True])
def test_interaction_is_that_of_loops_over_the_rows(make_rows, rng, after_assign):
    rows = make_rows()
    rows.interaction(np.arange(M * K), np.eye(M * K), 0.0)
    if after_assign:
        rows.assign(draw_model(rng))
    codes = all_codes(rows)
    used = np.flatnonzero(dense(codes).sum(axis=0))
    words = rng.normal(size=(M * K, 4))
    gram = words @ words.T
    found = rows.interaction(used, gram[np.ix_(used, used)], 0.7)
    flat = codes + K * np.arange(M)
    pairs = [(a, b) for a in range(M) for b in range(M) if a != b]
    e = sum(gram[flat[:, a], flat[:, b]] for a, b in pairs)
    derivative = np.zeros((M * K, M * K))
    for a, b in pairs:
        np.add.at(derivative, (flat[:, a], flat[:, b]), 2 * (e - 0.7))
    assert found.sum_e == pytest.approx(e.sum(), rel=1e-10)
    assert found.sum_squares == pytest.approx(((e - 0.7) ** 2).sum(), rel=1e-10)
    np.testing.assert_allclose(found.derivative, derivative[np.ix_(used, used)], rtol=1e-9, atol=1e-7)


def test_distinct_codes_stand_with_their_numbers(make_rows, data):
    distinct, counts = make_rows().distinct()
    assert len(np.unique(data[3], axis=0)) == len(distinct)
    assert counts.sum() == N
    np.testing.assert_array_equal(counts[0], (data[3] == distinct[0]).all(axis=1).sum())


@pytest.mark.parametrize("cached_blocks", [0, 1, 99])
def test_the_cache_changes_work_but_no_result(make_rows, rng, cached_blocks):
    seen = []

    def counting(x):
        seen.append(len(x))
        return feature_map(x)

    rows = make_rows(features=counting, cache_bytes=cached_blocks * BLOCK_ROWS * D * 4)
    model = draw_model(rng)
    moments, statistics = rows.moments(), rows.assign(model)
    plain = make_rows()
    assert_same_sums(moments, plain.moments(), ("sum_x", "xx", "xy", "yy"), rtol=0)
    assert_same_sums(statistics, plain.assign(model), ("bb", "bx", "by", "changed"), rtol=0)
    np.testing.assert_array_equal(all_codes(rows), all_codes(plain))
    # the last block is short and fits beside two full ones
    computed_once = min(cached_blocks, 3)
    assert len(seen) == 2 * 3 - computed_once


def test_sums_and_codes_do_not_depend_on_the_number_of_threads(make_rows, rng):
    model, passes = draw_model(rng), []
    for n_jobs in (1, 2, 3):
        rows = make_rows(n_jobs=n_jobs)
        moments, statistics = rows.moments(), rows.assign(model)
        used = np.flatnonzero(np.diag(statistics.bb))
        words = model.codebooks.reshape(-1, R)[used]
        inner = rows.interaction(used, words @ words.T, 0.4)
        arrays = (moments.xx, moments.xy, statistics.bb, statistics.bx, statistics.by, inner.derivative)
        passes.append(
            [inner.sum_e, inner.sum_squares, all_codes(rows).tobytes(), *(a.tobytes() for a in arrays)]
        )
    assert passes[0] == passes[1] == passes[2]


class MergedRows:
    """Training rows in several places: every pass is sent to all of them, and their sums are merged in order."""

    def __init__(self, parts):
        self.parts = parts

    def moments(self):
        return self._merged(part.moments() for part in self.parts)

    def statistics(self):
        return self._merged(part.statistics() for part in self.parts)

    def assign(self, model):
        return self._merged(part.assign(model) for part in self.parts)

    def interaction(self, used, gram, eps):
        return self._merged(part.interaction(used, gram, eps) for part in self.parts)

    def codes(self):
        return chain.from_iterable(part.codes() for part in self.parts)

    def _merged(self, sums):
        return reduce(lambda one, other: one.merge(other), sums)


def split(X, labels, codes, cuts, n_codewords=K, **settings):
    bounds = [0, *cuts, len(X)]
    return MergedRows(
        [
            CodedRows(X[a:b], labels.take(np.arange(a, b)), codes[a:b], n_codewords, **settings)
            for a, b in pairwise(bounds)
        ]
    )


def test_merged_sums_are_those_of_all_rows(make_rows, data, labels, rng):
    whole, codes = make_rows(), data[3].copy()
    parts = split(data[0], labels, codes, (100, 5000), features=feature_map)
    assert_same_sums(parts.moments(), whole.moments(), ("n_rows", "sum_x", "xx", "xy", "yy"), rtol=1e-10)
    model = draw_model(rng)
    found, wanted = parts.assign(model), whole.assign(model)
    assert_same_sums(found, wanted, ("bb", "bx", "by", "changed"), rtol=1e-10)
    used = np.flatnonzero(np.diag(wanted.bb))
    words = model.codebooks.reshape(-1, R)[used]
    assert_same_sums(
        parts.interaction(used, words @ words.T, 0.4),
        whole.interaction(used, words @ words.T, 0.4),
        ("sum_e", "sum_squares", "derivative"),
        rtol=1e-9,
    )


@pytest.mark.parametrize("mu", [0.0, 0.1])
@pytest.mark.parametrize("solver", [joint_steps, alternating_steps])
def test_rows_in_three_places_get_the_codes_of_rows_in_one(digits, monkeypatch, solver, mu):
    # All values are multiples of 1/16, so that sums over the rows are exact in any order. Sums of the mu term are not, and a
    # hundred iterations of L-BFGS amplify a difference in the last bit.
    monkeypatch.setattr("supquant.published.alternating.CODEBOOK_ITERATIONS", 10)
    X, y = digits[0][:400], digits[1][:400]
    labels, learned = read_labels(y), []
    for cuts in ((), (150, 230)):
        codes = np.zeros((400, 2), dtype=np.uint8)
        rows = split(X, labels, codes, cuts, n_codewords=16)
        moments = rows.moments()
        projection = principal_components(moments, 12)
        start = product_start(
            X,
            projection,
            10,
            n_codebooks=2,
            n_codewords=16,
            rng=np.random.default_rng(0),
            n_jobs=1,
        )
        rows.assign(start)
        begin = Start(rows, moments, start.codebooks, projection, Penalties(1e-3, mu, 1.0, 1e-2))
        settings = {"max_turns": 2} if solver is alternating_steps else {}
        steps = list(solver(begin, max_iter=3, tol=0.0, **settings))
        np.testing.assert_array_equal(np.concatenate(list(rows.codes())), codes)
        learned.append((codes, steps))
    (codes, steps), (codes_of_parts, steps_of_parts) = learned
    assert len(np.unique(codes, axis=0)) >= 10
    np.testing.assert_array_equal(codes_of_parts, codes)
    assert [step.name for step in steps_of_parts] == [step.name for step in steps]
    assert steps_of_parts[-1].terms.total == pytest.approx(steps[-1].terms.total, rel=1e-6)
