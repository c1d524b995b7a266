"""Boosted trees are compared with AdaBoost's definition and with the trees of scikit-learn."""

import dataclasses

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

from supquant.codec.registry import load_codec
from supquant.errors import FileFormatError, InputError
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.hashing.binary_codec import BinaryCodec
from supquant_lab.hashing.boosted_trees import BinnedRows, BoostedTrees, Boosting, boost, grow_tree

PLAIN = Boosting(n_trees=12, depth=3, n_split_features=8, kept_weight=1.0)


@pytest.fixture(scope="module")
def problem():
    """Return four hundred rows of eight features, and signs that no small tree can predict."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)).astype(np.float32)
    signs = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * rng.normal(size=400) > 0, 1.0, -1.0)
    return X, signs


def frozen(ensemble, **others):
    return BoostedTrees(
        ensemble.features[None], ensemble.thresholds[None], ensemble.leaves[None], 8, **others
    )


def test_bins_hold_what_lies_between_their_edges_and_about_as_many_rows_each(problem):
    X, _ = problem
    X = np.column_stack([X, np.round(X[:, 0]), np.full(400, 3)]).astype(np.float32)
    rows = BinnedRows.of(X)
    assert rows.bins.shape == (10, 400)
    for j in range(10):
        for last in (0, 100, 254):
            np.testing.assert_array_equal(rows.bins[j] <= last, X[:, j] <= rows.edges[last, j])
    assert np.bincount(rows.bins[0]).max() <= 3
    assert len(np.unique(rows.bins[9])) == 1
    features, last = np.array([0, 8], dtype=np.int32), np.array([100, 255], dtype=np.uint8)
    np.testing.assert_array_equal(rows.thresholds(features, last), [rows.edges[100, 0], np.inf])


@pytest.mark.parametrize("depth", [1, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_tree_votes_as_that_of_scikit_learn(problem, depth, seed):
    X, signs = problem
    rows = BinnedRows.of(X)
    weights = np.random.default_rng(seed).uniform(0.1, 1, size=400)  # no ties
    boosting = dataclasses.replace(PLAIN, depth=depth)
    tree = grow_tree(rows.bins, weights * signs, np.ones(400, bool), boosting, np.random.default_rng(0), 2)
    theirs = DecisionTreeClassifier(max_depth=depth, random_state=0).fit(rows.bins.T, signs, weights)
    np.testing.assert_array_equal(tree.votes[tree.leaf_of_row], theirs.predict(rows.bins.T))
    frozen_tree = BoostedTrees(
        tree.features[None, None],
        rows.thresholds(tree.features, tree.last_bins)[None, None],
        tree.votes.astype(np.float32)[None, None],
        8,
    )
    np.testing.assert_array_equal(frozen_tree(X)[:, 0], theirs.predict(rows.bins.T))
    between = (X[:-1] + X[1:]) / 2  # rows that the tree was not grown on
    bins = [np.searchsorted(rows.edges[:, j], between[:, j]) for j in range(8)]
    agree = frozen_tree(between)[:, 0] == theirs.predict(np.stack(bins, axis=1))
    # between two bins with empty ones between them, scikit-learn splits in the middle, this tree at the lower one
    assert agree.mean() > 0.97


@pytest.mark.parametrize("boosting", [PLAIN, Boosting(30, 2, 3, 0.9)])
def test_each_tree_has_the_weight_of_adaboost_and_lowers_the_exponential_loss(problem, boosting):
    """The weights of the rows follow from the sums of the earlier trees: ``exp(-sign * sum)``."""
    X, signs = problem
    ensemble = boost(BinnedRows.of(X), signs, boosting, np.random.default_rng(0))
    sums, losses = np.zeros(400), [1.0]
    for t in range(boosting.n_trees):
        one = BoostedTrees(
            ensemble.features[None, t : t + 1],
            ensemble.thresholds[None, t : t + 1],
            ensemble.leaves[None, t : t + 1],
            8,
        )
        votes = one(X)[:, 0].astype(np.float64)
        weights = np.exp(-signs * sums)
        error = weights[np.sign(votes) != signs].sum() / weights.sum()
        np.testing.assert_allclose(np.abs(votes), np.log((1 - error) / error) / 2, rtol=1e-4)
        sums += votes
        losses.append(np.exp(-signs * sums).mean())
    assert (np.diff(losses) < 0).all()
    assert np.mean(np.sign(sums) != signs) <= losses[-1]


def test_trees_without_light_rows_are_about_as_good(problem):
    """Trees that leave light rows out have about as few errors."""
    X, signs = problem
    trimmed = Boosting(40, 3, 8, 0.9)
    all_rows, fewer = (
        boost(BinnedRows.of(X), signs, each, np.random.default_rng(0))
        for each in (dataclasses.replace(trimmed, kept_weight=1.0), trimmed)
    )
    assert (all_rows.features != fewer.features).any()  # rows were left out
    errors = [np.mean(np.sign(frozen(each)(X)[:, 0]) != signs) for each in (all_rows, fewer)]
    assert errors[1] <= errors[0] + 0.02


def test_nodes_choose_among_the_features_that_they_draw(problem):
    X, signs = problem
    lazy = boost(BinnedRows.of(X), signs, Boosting(40, 2, 1, 1.0), np.random.default_rng(0))
    counts = np.bincount(lazy.features.ravel(), minlength=8)
    assert counts.min() > 5  # the only feature of a node is random
    keen = boost(BinnedRows.of(X), signs, Boosting(1, 1, 8, 1.0), np.random.default_rng(0))
    assert keen.features[0, 0] in (0, 1, 2)


def test_a_problem_without_errors_keeps_finite_weights():
    X = np.repeat([[0.0], [1.0]], 5, axis=0).astype(np.float32)
    signs = np.repeat([-1.0, 1.0], 5)
    ensemble = boost(BinnedRows.of(X), signs, Boosting(3, 2, 1, 1.0), np.random.default_rng(0))
    assert np.isfinite(ensemble.leaves).all()
    trees = BoostedTrees(ensemble.features[None], ensemble.thresholds[None], ensemble.leaves[None], 1)
    np.testing.assert_array_equal(np.sign(trees(X)[:, 0]), signs)


def test_a_leaf_without_rows_votes_as_the_node_above_it():
    bins = np.array([[0, 0, 0, 1, 1]], dtype=np.uint8)
    weights = np.array([-1.0, -1.0, -1.0, 1.0, 1.0])
    boosting = Boosting(1, 2, 1, 1.0)
    tree = grow_tree(bins, weights, np.ones(5, bool), boosting, np.random.default_rng(0), 1)
    np.testing.assert_array_equal(np.unique(tree.leaf_of_row), [0, 2])
    np.testing.assert_array_equal(tree.votes, [-1, -1, 1, 1])


@pytest.mark.parametrize("kernel", [False, True])
def test_a_codec_file_holds_trees_and_their_feature_map(problem, tmp_path, kernel):
    X, signs = problem
    inner = AnchorKernel(8, random_state=0).fit(X).map_ if kernel else None
    features = X if inner is None else inner(X)
    trees = frozen(boost(BinnedRows.of(features), signs, PLAIN, np.random.default_rng(0)), inner=inner)
    eight = dataclasses.replace(
        trees,
        **{name: np.repeat(getattr(trees, name), 8, axis=0) for name in ("features", "thresholds", "leaves")},
    )
    codec = BinaryCodec(None, np.zeros(8, dtype=np.float32), eight)
    codec.save(tmp_path / "codec")
    loaded = load_codec(tmp_path / "codec")
    assert loaded.n_inputs == 8
    np.testing.assert_array_equal(loaded.encode_items(X), codec.encode_items(X))
    assert np.mean((codec.encode_items(X)[:, 0] == 255) == (signs > 0)) > 0.8


def test_arrays_that_are_not_trees_are_refused(problem, tmp_path):
    X, signs = problem
    trees = frozen(boost(BinnedRows.of(X), signs, PLAIN, np.random.default_rng(0)))
    with pytest.raises(InputError, match=r"features must lie in 0 \.\. 2"):
        dataclasses.replace(trees, n_features=3)
    with pytest.raises(InputError, match="thresholds must have shape"):
        dataclasses.replace(trees, thresholds=trees.thresholds[:, 1:].copy())
    with pytest.raises(InputError, match="one feature map"):
        BoostedTrees.from_arrays(trees.arrays() | {"a/x": signs, "b/x": signs})

    class Damaged(BoostedTrees):
        def arrays(self):
            return super().arrays() | {"features": self.features + np.int32(9)}

    parts = (np.repeat(array, 8, axis=0) for array in (trees.features, trees.thresholds, trees.leaves))
    BinaryCodec(None, np.zeros(8, dtype=np.float32), Damaged(*parts, 8)).save(tmp_path / "codec")
    with pytest.raises(FileFormatError, match="no ensembles of trees"):
        load_codec(tmp_path / "codec")
