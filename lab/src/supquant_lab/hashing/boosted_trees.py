"""Features to votes: boosted decision trees, one ensemble for each bit.

These are the hash functions of "Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin, Shen, Shi, van den
Hengel, Suter, CVPR 2014): ``h(x) = sign(sum_t w_t T_t(x))``, where T_t(x) in {1, -1} is a tree, learned by AdaBoost. Three things
make training fast. Features are put into 256 bins once. A node looks at a random subset of the features (LazyBoost). Rows of
small weight, which together hold a small fraction of the weight, are left out when a tree is grown (weight trimming).

    features -> edges of bins -> bins -> trees, one after another with new weights -> arrays that a file can hold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Array, Flags, Float32, Float64
from supquant.codec.base import number_in
from supquant.codec.interface import FeatureMap
from supquant.codec.registry import map_class
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer

N_BINS = 256
"""Number of bins of a feature: as many as a byte can number."""

MIN_ERROR = 1e-6
"""The weighted error of a tree is taken as at least this, so that the weight of a tree without errors is finite."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """The learned ensembles of all bits, as a codec holds them.

    Parameters
    ----------
    features : (bits, T, 2**depth - 1) int32
        The number of the feature that each node compares.
    thresholds : (bits, T, 2**depth - 1) float32
        A row goes right if its feature is above the threshold.
    leaves : (bits, T, 2**depth) float32
        The vote of each leaf times the weight of its tree.
    n_features : int
        Number of features that the trees take.
    inner : FeatureMap or None, default=None
        From vectors to these features; None takes the vectors as features.

    Examples
    --------
    >>> stump = np.array([[[0.5]]], np.float32)
    >>> trees = BoostedTrees(np.zeros((1, 1, 1), np.int32), stump, np.array([[[-2, 3]]], np.float32), 1)
    >>> trees(np.array([[0.4], [0.6]], np.float32))
    array([[-2.],
           [ 3.]], dtype=float32)
    """

    features: NDArray[np.int32]
    thresholds: Float32
    leaves: Float32
    n_features: int
    inner: FeatureMap | None = None

    kind: ClassVar[str] = "boosted-trees"

    def __post_init__(self) -> None:
        try:  # the arrays may come from a file: they are checked before they are used
            self._sums(np.zeros((0, self.n_features), dtype=np.float32))
        except ValueError as error:
            raise InputError(f"these arrays are no ensembles of trees: {error}") from error

    @property
    def n_inputs(self) -> int:
        """Number of dimensions of the vectors."""
        return self.n_features if self.inner is None else self.inner.n_inputs

    def __call__(self, x: Float32) -> Float32:
        """Return the sums of votes (b, bits) of a block of vectors (b, p)."""
        return self._sums(x if self.inner is None else self.inner(x))

    def _sums(self, x: Float32) -> Float32:
        return kernels.active().tree_sums(x, self.features, self.thresholds, self.leaves)

    def arrays(self) -> dict[str, Array]:
        """Return the arrays for a file; the names of arrays of the inner map start with its kind."""
        own = {
            "features": self.features,
            "thresholds": self.thresholds,
            "leaves": self.leaves,
            "n_features": np.array([self.n_features]),
        }
        if self.inner is None:
            return own
        return own | {f"{self.inner.kind}/{name}": array for name, array in self.inner.arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Self:
        """Return the map that `arrays` described."""
        inner = {tuple(name.split("/", 1)): array for name, array in arrays.items() if "/" in name}
        kinds = {kind for kind, _ in inner}
        if len(kinds) > 1:
            raise InputError(f"trees take one feature map, got arrays of {sorted(kinds)}")
        return cls(
            arrays["features"],
            arrays["thresholds"],
            arrays["leaves"],
            check_integer(number_in(arrays, "n_features"), "n_features", 1),
            map_class(kinds.pop()).from_arrays({name: array for (_, name), array in inner.items()})
            if kinds
            else None,
        )


@dataclass(frozen=True)
class BinnedRows:
    """Rows with their features in bins: bin b of feature j holds values above ``edges[b - 1, j]``, up to ``edges[b, j]``."""

    edges: Float32  # (255, d), ascending
    bins: NDArray[np.uint8]  # (d, n)

    @classmethod
    def of(cls, X: Float32) -> Self:
        """Put the features of rows X (n, d) into bins that hold about the same number of rows each."""
        levels = np.arange(1, N_BINS) / N_BINS
        edges = np.quantile(X, levels, axis=0, method="midpoint").astype(np.float32)
        bins = np.empty(X.T.shape, dtype=np.uint8)
        for j, feature_bins in enumerate(bins):
            feature_bins[:] = np.searchsorted(edges[:, j], X[:, j])
        return cls(edges, bins)

    def thresholds(self, features: NDArray[np.int32], last_bins: NDArray[np.uint8]) -> Float32:
        """Return the thresholds of nodes, given their features and the last bin that goes left.

        Both arrays have one shape, which is that of the result. If the last bin is 255, all rows go left.
        """
        no_bound = np.full((1, self.edges.shape[1]), np.inf, np.float32)
        upper_edges: Float32 = np.append(self.edges, no_bound, axis=0)  # (256, d)
        return upper_edges[last_bins, features]


@dataclass(frozen=True)
class Boosting:
    """The parameters of boosting, the same for every bit; see `FastHash`."""

    n_trees: int
    depth: int
    n_split_features: int
    kept_weight: float


@dataclass(frozen=True)
class Ensemble:
    """The trees of one bit; the arrays are those of `BoostedTrees`."""

    features: NDArray[np.int32]  # (T, 2**depth - 1)
    thresholds: Float32  # (T, 2**depth - 1)
    leaves: Float32  # (T, 2**depth)


def boost(
    rows: BinnedRows,
    targets: Float64,
    boosting: Boosting,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Ensemble:
    """Learn trees whose sums of votes have the signs of the targets (n,), which are 1 and -1, by discrete AdaBoost.

    A tree with the weighted error e has the weight ``log((1 - e) / e) / 2``. A tree without errors leaves all weights
    unchanged; the next tree then differs only because its nodes draw other features.
    """
    trees = []
    weights = np.full(len(targets), 1 / len(targets))
    for _ in range(boosting.n_trees):
        kept = _heaviest(weights, boosting.kept_weight)
        tree = grow_tree(rows.bins, weights * targets, kept, boosting, rng, n_threads)
        votes = tree.votes[tree.leaf_of_row]  # (n,)
        error = np.clip(weights[votes != targets].sum(), MIN_ERROR, 1 - MIN_ERROR)
        tree_weight = np.log((1 - error) / error) / 2
        weights *= np.exp(-tree_weight * targets * votes)
        weights /= weights.sum()
        trees.append((tree.features, tree.last_bins, tree_weight * tree.votes))
    features, last_bins, leaves = (np.stack(parts) for parts in zip(*trees, strict=True))
    return Ensemble(features, rows.thresholds(features, last_bins), leaves.astype(np.float32))


def _heaviest(weights: Float64, share: float) -> Flags:
    """Return a mask (n,) without the lightest rows, which together hold at most ``1 - share`` of the weight."""
    order = np.argsort(weights, kind="stable")
    kept = np.ones(len(weights), dtype=np.bool_)
    kept[order] = np.cumsum(weights[order]) > (1 - share)
    return kept


@dataclass(frozen=True)
class Tree:
    """A tree that compares bins, and the leaf of every row."""

    features: NDArray[np.int32]  # (2**depth - 1,)
    last_bins: NDArray[np.uint8]  # (2**depth - 1,): rows up to this bin go left
    votes: Float64  # (2**depth,): 1 or -1
    leaf_of_row: NDArray[np.uint16]  # (n,)


def grow_tree(
    bins: NDArray[np.uint8],
    weights: Float64,
    kept: Flags,
    boosting: Boosting,
    rng: np.random.Generator,
    n_threads: int,
) -> Tree:
    """Grow a tree level by level.

    Parameters
    ----------
    bins : (d, n) uint8
    weights : (n,) float64
        Weights of the rows, with the signs of their targets.
    kept : (n,) bool
        The rows that the tree is grown on; the others are only assigned to leaves.
    boosting : Boosting
    rng : numpy Generator
        Draws the features that nodes choose from.
    n_threads : int
    """
    d, n = bins.shape
    grown_on = np.flatnonzero(kept).astype(np.uint32)
    all_rows = np.arange(n)
    nodes = np.zeros(n, dtype=np.uint16)  # the node of every row, counted from 0 in each level
    levels = []
    for level in range(boosting.depth):
        n_nodes = 2**level
        rows = grown_on[np.argsort(nodes[grown_on], kind="stable")]  # ordered by node
        counts = np.bincount(nodes[grown_on], minlength=n_nodes)
        candidates = _draw_features(d, n_nodes, boosting.n_split_features, rng)
        features, last_bins = kernels.active().best_splits(
            bins,
            rows,
            weights[rows],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64),
            candidates,
            n_threads=n_threads,
        )
        levels.append((features, last_bins))
        # for row: node[row] = 2 node[row] + (1 if bins[feature of its node, row] > last bin of its node else 0)
        nodes = 2 * nodes + (bins[features[nodes], all_rows] > last_bins[nodes])
    features, last_bins = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    sums = np.bincount(nodes[grown_on], weights[grown_on], minlength=2**boosting.depth)
    return Tree(features, last_bins, _leaf_votes(np.asarray(sums, dtype=np.float64)), nodes)


def _draw_features(d: int, n_nodes: int, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw the features (n_nodes, min(count, d)) that nodes choose from."""
    all_features = np.tile(np.arange(d, dtype=np.int32), (n_nodes, 1))
    if count >= d:
        return all_features
    return np.ascontiguousarray(rng.permuted(all_features, axis=1)[:, :count])


def _leaf_votes(sums: Float64) -> Float64:
    """Return the votes of leaves: the signs of the sums of weights (leaves,) in them.

    If the sum of a leaf is zero, it votes like the nearest node above it whose sum is not zero.
    """
    votes = np.ones(1)
    n_nodes = 1
    while n_nodes <= len(sums):  # one level of the tree after another
        node_sums = sums.reshape(n_nodes, -1).sum(axis=1)
        votes = np.where(node_sums != 0, np.sign(node_sums), np.repeat(votes, n_nodes // len(votes)))
        n_nodes *= 2
    return votes
