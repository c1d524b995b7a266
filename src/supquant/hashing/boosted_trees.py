"""Features to votes: boosted decision trees, one ensemble a bit.

The hash functions of "Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin, Shen, Shi, van den Hengel,
Suter, CVPR 2014): ``h(x) = sign(sum_t w_t T_t(x))``, T_t(x) in {1, -1} a tree, learned by AdaBoost. Three things make it fast:
features are put into 256 bins once; a node looks at a random part of the features (LazyBoost); rows of little weight, which
together have a small part of all weight, are left out when a tree is grown (weight trimming).

    features -> edges of bins -> bins -> trees, one after the other on new weights -> arrays that a file can hold
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Float32
from supquant.codec import FeatureMap
from supquant.codec.interface import load_feature_map
from supquant.errors import InputError

N_BINS = 256
_SMALLEST_ERROR = 1e-6
"""A tree without any would get all votes there are."""


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """The frozen ensembles: what a codec holds. The weight of a tree is in its leaves.

    Parameters
    ----------
    features : (bits, T, 2**depth - 1) int32
        Which feature each node compares.
    thresholds : (bits, T, 2**depth - 1) float32
        A row goes right where its feature is above it.
    leaves : (bits, T, 2**depth) float32
    n_features : int
        Width of what the trees stand on.
    inner : FeatureMap or None
        What maps vectors to that; None takes them as they are.

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
        try:  # what a file holds must be sound before an index is built on it
            self._sums(np.zeros((0, self.n_features), dtype=np.float32))
        except ValueError as error:
            raise InputError(f"these arrays are no ensembles of trees: {error}") from error

    @property
    def n_inputs(self) -> int:
        """Width of what comes in."""
        return self.n_features if self.inner is None else self.inner.n_inputs

    def __call__(self, x: Float32) -> Float32:
        """Map a block (b, p) to the sums of votes (b, bits)."""
        return self._sums(x if self.inner is None else self.inner(x))

    def _sums(self, x: Float32) -> Float32:
        return kernels.active().tree_sums(x, self.features, self.thresholds, self.leaves)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give what a file must hold; arrays of the inner map carry its kind in their names."""
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
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Make the map again from a file's arrays."""
        inner = {tuple(name.split("/", 1)): array for name, array in arrays.items() if "/" in name}
        kinds = {kind for kind, _ in inner}
        if len(kinds) > 1:
            raise InputError(f"trees stand on one feature map, got arrays of {sorted(kinds)}")
        return cls(
            arrays["features"],
            arrays["thresholds"],
            arrays["leaves"],
            int(arrays["n_features"][0]),
            load_feature_map(kinds.pop(), {name: array for (_, name), array in inner.items()})
            if kinds
            else None,
        )


@dataclass(frozen=True)
class BinnedRows:
    """Rows with their features in bins: bin b of feature j holds what is above ``edges[b - 1, j]``, up to ``edges[b, j]``."""

    edges: Float32  # (255, d), ascending
    bins: NDArray[np.uint8]  # (d, n)

    @classmethod
    def of(cls, X: Float32) -> Self:
        """Put rows X (n, d) into bins of about as many rows each."""
        levels = np.arange(1, N_BINS) / N_BINS
        edges = np.quantile(X, levels, axis=0, method="midpoint").astype(np.float32)
        bins = np.empty(X.T.shape, dtype=np.uint8)
        for j, row in enumerate(bins):
            row[:] = np.searchsorted(edges[:, j], X[:, j])
        return cls(edges, bins)

    def thresholds(self, features: NDArray[np.int32], last: NDArray[np.uint8]) -> Float32:
        """Give the thresholds that part rows where bins up to the last ones go left, all rows where that is 255."""
        above: Float32 = np.append(self.edges, np.full((1, self.edges.shape[1]), np.inf, np.float32), axis=0)
        return above[last, features]


@dataclass(frozen=True)
class Boosting:
    """How ensembles are learned: the parameters, the same for every bit."""

    n_trees: int
    depth: int
    n_split_features: int  # that a node chooses from
    kept_weight: float  # of the rows that a tree is grown on


@dataclass(frozen=True)
class Ensemble:
    """The trees of one bit, as `BoostedTrees` holds them, and what became of the weights."""

    features: NDArray[np.int32]  # (T, 2**depth - 1)
    thresholds: Float32  # (T, 2**depth - 1)
    leaves: Float32  # (T, 2**depth)
    normalisers: NDArray[np.float64]
    """(T,) sums of the weights before they are made to add up to one again; their product bounds the training error."""


def boost(
    rows: BinnedRows,
    signs: NDArray[np.float64],
    boosting: Boosting,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> Ensemble:
    """Learn trees whose sum of votes has the signs (n,) of 1 and -1, by discrete AdaBoost.

    A tree with the weighted error e has the weight ``log((1 - e) / e) / 2``. A tree that is always right leaves all weights
    as they are, and the next one is another only because it draws other features.
    """
    trees, normalisers = [], []
    weights = np.full(len(signs), 1 / len(signs))
    for _ in range(boosting.n_trees):
        tree = grow_tree(
            rows.bins, weights * signs, _heavy(weights, boosting.kept_weight), boosting, rng, n_threads
        )
        votes = tree.votes[tree.places]  # (n,)
        error = np.clip(weights[votes != signs].sum(), _SMALLEST_ERROR, 1 - _SMALLEST_ERROR)
        weight = np.log((1 - error) / error) / 2
        weights *= np.exp(-weight * signs * votes)
        normalisers.append(weights.sum())
        weights /= normalisers[-1]
        trees.append((tree.features, tree.last, weight * tree.votes))
    features, last, leaves = (np.stack(parts) for parts in zip(*trees, strict=True))
    return Ensemble(
        features, rows.thresholds(features, last), leaves.astype(np.float32), np.array(normalisers)
    )


def _heavy(weights: NDArray[np.float64], share: float) -> NDArray[np.bool_]:
    """Tell which rows are left when the lightest ones, of at most ``1 - share`` of all weight, are not."""
    order = np.argsort(weights, kind="stable")
    heavy = np.ones(len(weights), dtype=np.bool_)
    heavy[order] = np.cumsum(weights[order]) > (1 - share)
    return heavy


@dataclass(frozen=True)
class Tree:
    """A tree of bins, and where it sends the rows."""

    features: NDArray[np.int32]  # (2**depth - 1,)
    last: NDArray[np.uint8]  # (2**depth - 1,) bins that go left
    votes: NDArray[np.float64]  # (2**depth,) of 1 and -1
    places: NDArray[np.uint16]  # (n,) the leaf of every row


def grow_tree(
    bins: NDArray[np.uint8],
    weights: NDArray[np.float64],
    grown_on: NDArray[np.bool_],
    boosting: Boosting,
    rng: np.random.Generator,
    n_threads: int,
) -> Tree:
    """Grow a tree on some of the rows, whose weights carry the signs of their classes, level by level."""
    d, n = bins.shape
    some = np.flatnonzero(grown_on).astype(np.uint32)
    all_rows = np.arange(n)
    places = np.zeros(n, dtype=np.uint16)
    levels = []
    for level in range(boosting.depth):
        n_nodes = 2**level
        rows = some[np.argsort(places[some], kind="stable")]  # by node
        counts = np.bincount(places[some], minlength=n_nodes)
        candidates = _draw_features(d, n_nodes, boosting.n_split_features, rng)
        features, last = kernels.active().best_splits(
            bins,
            rows,
            weights[rows],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64),
            candidates,
            n_threads=n_threads,
        )
        levels.append((features, last))
        places = 2 * places + (bins[features[places], all_rows] > last[places])
    features, last = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    sums = np.asarray(np.bincount(places[some], weights[some], minlength=2**boosting.depth), dtype=np.float64)
    return Tree(features, last, _leaf_votes(sums), places)


def _draw_features(d: int, n_nodes: int, wanted: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Draw the features (n_nodes, min(wanted, d)) that nodes choose from."""
    every = np.tile(np.arange(d, dtype=np.int32), (n_nodes, 1))
    return every if wanted >= d else np.ascontiguousarray(rng.permuted(every, axis=1)[:, :wanted])


def _leaf_votes(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give the class of greater weight in every leaf, where there is none that of the nearest node above."""
    votes = np.ones(1)
    width = 1
    while width <= len(sums):
        of_level = sums.reshape(width, -1).sum(axis=1)
        votes = np.where(of_level != 0, np.sign(of_level), np.repeat(votes, width // len(votes)))
        width *= 2
    return votes
