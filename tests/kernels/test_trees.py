"""Decision trees: sums of votes and best splits, compiled, are those of the twins bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supquant.kernels import native, reference

ROWS = [0, 1, 15, 16, 17, 64, 65]
seeds = st.integers(0, 2**16)


def draw_trees(groups, size, depth, d, seed):
    rng = np.random.default_rng(seed)
    nodes = (groups, size, 2**depth - 1)
    features = rng.integers(0, d, size=nodes).astype(np.int32)
    thresholds = np.round(rng.normal(size=nodes), 1).astype(np.float32)
    thresholds[rng.random(nodes) < 0.1] = np.inf
    return features, thresholds, rng.normal(size=(groups, size, 2**depth)).astype(np.float32)


def draw_rows(n, d, seed):
    return np.round(np.random.default_rng(seed).normal(size=(n, d)), 1).astype(np.float32)


def draw_level(n, d, n_nodes, n_features, n_bins, seed):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins, size=(d, n)).astype(np.uint8)
    rows = rng.permutation(n)[: n - n // 5].astype(np.uint32)
    weights = rng.choice([-1, 1], size=len(rows)) * rng.uniform(0.1, 1, size=len(rows))
    inner = np.sort(rng.integers(0, len(rows) + 1, size=n_nodes - 1))
    starts = np.concatenate([[0], inner, [len(rows)]]).astype(np.uint64)
    features = rng.permuted(np.tile(np.arange(d, dtype=np.int32), (n_nodes, 1)), axis=1)[:, :n_features]
    return bins, rows, weights, starts, np.ascontiguousarray(features)


@given(
    n=st.sampled_from(ROWS),
    groups=st.sampled_from([0, 1, 8]),
    size=st.sampled_from([1, 5]),
    depth=st.sampled_from([1, 2, 4, 7]),
    seed=seeds,
)
def test_tree_sums_agree_with_their_twin(n, groups, size, depth, seed):
    x, trees = draw_rows(n, 6, seed), draw_trees(groups, size, depth, 6, seed)
    want = reference.tree_sums(x, *trees)
    for n_threads in (1, 2, 3):
        got = native.tree_sums(x, *trees, n_threads=n_threads)
        assert (got.shape, got.dtype) == ((n, groups), np.float32)
        assert got.tobytes() == want.tobytes()


def test_a_row_goes_right_where_its_feature_is_above_the_threshold(level):
    x, (features, thresholds, leaves) = draw_rows(200, 5, 0), draw_trees(3, 4, 3, 5, 1)
    got = native.tree_sums(x, features, thresholds, leaves, n_threads=2)
    for row, sums in zip(x, got, strict=True):
        for group in range(3):
            want = np.float32(0)
            for tree in range(4):
                node = 0
                while node < 7:
                    above = row[features[group, tree, node]] > thresholds[group, tree, node]
                    node = 2 * node + (2 if above else 1)
                want += leaves[group, tree, node - 7]
            assert sums[group] == want


@given(
    n=st.sampled_from([0, 1, 17, 65, 300]),
    n_nodes=st.sampled_from([1, 2, 8]),
    n_features=st.sampled_from([1, 7, 40]),
    n_bins=st.sampled_from([1, 2, 256]),
    seed=seeds,
)
def test_best_splits_agree_with_their_twin(n, n_nodes, n_features, n_bins, seed):
    level = draw_level(n, 40, n_nodes, n_features, n_bins, seed)
    want = reference.best_splits(*level)
    for n_threads in (1, 2, 3):
        got = native.best_splits(*level, n_threads=n_threads)
        assert [array.dtype for array in got] == [np.int32, np.uint8]
        np.testing.assert_array_equal(got, want)


def test_the_best_split_leaves_the_lowest_weighted_gini_impurity(level):
    bins, rows, weights, starts, features = draw_level(100, 4, 2, 3, 9, 0)
    chosen, last = native.best_splits(bins, rows, weights, starts, features)
    for node in range(2):
        part = slice(int(starts[node]), int(starts[node + 1]))

        def impurity(feature, bin_, part=part):
            left = bins[feature, rows[part]] <= bin_
            total = 0.0
            for side in (weights[part][left], weights[part][~left]):
                shares = np.array([side[side > 0].sum(), -side[side < 0].sum()]) / np.abs(side).sum()
                total += np.abs(side).sum() * (1 - (shares**2).sum())
            return total

        best = min(impurity(feature, bin_) for feature in features[node] for bin_ in range(8))
        np.testing.assert_allclose(impurity(chosen[node], last[node]), best, rtol=1e-12)


def test_a_node_without_any_split_sends_all_rows_left(level):
    bins = np.full((3, 10), 4, dtype=np.uint8)
    rows, starts = np.arange(10, dtype=np.uint32), np.array([0, 10, 10], dtype=np.uint64)
    features = np.array([[2, 1], [1, 0]], dtype=np.int32)
    chosen, last = native.best_splits(bins, rows, np.full(10, 0.1), starts, features)
    np.testing.assert_array_equal(chosen, [2, 1])
    np.testing.assert_array_equal(last, [255, 255])


@pytest.mark.parametrize("implementation", [native, reference])
def test_wrong_trees_are_refused(implementation):
    x, (features, thresholds, leaves) = draw_rows(4, 3, 0), draw_trees(2, 2, 2, 3, 0)
    with pytest.raises(ValueError, match=r"features must lie in 0 \.\. 1, got 0 \.\. 2"):
        implementation.tree_sums(x[:, :2].copy(), features, thresholds, leaves)
    with pytest.raises(ValueError, match=r"features must lie in 0 \.\. 2, got -1"):
        implementation.tree_sums(x, features - 1 - features.min(), thresholds, leaves)
    with pytest.raises(ValueError, match=r"leaves must be 2\*\*1 to 2\*\*16 to a tree, got 3"):
        implementation.tree_sums(x, features, thresholds, leaves[:, :, :3].copy())
    with pytest.raises(ValueError, match="thresholds must have shape"):
        implementation.tree_sums(x, features, thresholds[:1], leaves)
    with pytest.raises(ValueError, match="x must be an array of float32"):
        implementation.tree_sums(x.astype(float), features, thresholds, leaves)


@pytest.mark.parametrize("implementation", [native, reference])
def test_wrong_nodes_are_refused(implementation):
    bins, rows, weights, starts, features = draw_level(20, 4, 2, 3, 9, 0)
    with pytest.raises(ValueError, match="rows must be below 19, got 19"):
        implementation.best_splits(bins[:, :19].copy(), rows, weights, starts, features)
    with pytest.raises(ValueError, match=r"features must lie in 0 \.\. 2"):
        implementation.best_splits(bins[:3], rows, weights, starts, features)
    with pytest.raises(ValueError, match="starts must ascend from 0 to 16"):
        implementation.best_splits(bins, rows, weights, starts + np.uint64(1), features)
    with pytest.raises(ValueError, match="at least one to a node"):
        implementation.best_splits(bins, rows, weights, starts, features[:, :0].copy())
    with pytest.raises(ValueError, match=r"weights must have shape \(16\)"):
        implementation.best_splits(bins, rows, weights[1:], starts, features)
