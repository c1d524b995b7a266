"""Features to bits: fast supervised hashing with decision trees (FastHash).

"Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin, Shen, Shi, van den Hengel, Suter, CVPR 2014), and
"Supervised Hashing Using Graph Cuts and Boosted Decision Trees" (Lin, Shen, van den Hengel, TPAMI 2015). Each bit takes two
steps: it is inferred for all rows from the labels and the earlier bits (`bit_inference`), and an ensemble of trees is trained to
predict it (`boosted_trees`). The next bit is inferred from the bits that the trees predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from supquant import kernels
from supquant.inputs.parameters import check_integer, check_positive
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.bit_inference import (
    Integers,
    Pairs,
    draw_pairs,
    hinge_coefficients,
    hinge_loss,
    infer_bit,
    label_blocks,
)
from supquant_lab.hashing.boosted_trees import BinnedRows, BoostedTrees, Boosting, boost
from supquant_lab.hashing.rows import HashRows

MAX_TREE_DEPTH = 12
"""Largest number of levels of a tree. All 2**depth leaves of a tree are stored."""


class FastHash(HashEstimator):
    """Fast supervised hashing: bits inferred from pairs of rows by graph cuts and predicted by boosted decision trees.

    The defaults are the settings of the authors' release.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8.
    n_trees : int, default=200
        Number of trees for each bit.
    tree_depth : int, default=4
        Number of levels of a tree, at most 12. It is worth tuning: with more rows, deeper trees are better.
    n_split_features : int, default=200
        Number of random features that a node of a tree chooses from; all features if there are fewer.
    kept_weight : float, default=0.99
        A tree is grown on the rows of largest weight that together hold this share of the weight. Above 0 and at most 1.
    n_pairs : int, default=100
        Number of rows that share a label, and of rows that do not, drawn for each row to infer bits from.
    n_sweeps : int, default=2
        Number of sweeps over the blocks of similar rows, for each bit.
    features : AnchorKernel, "auto" or None, default=None
        The input of the trees; None takes the vectors, as published.
    max_rows : int or None, default=5000
        Largest number of random rows to learn from; None for all.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the rows, the anchors, the pairs, and the features that nodes choose from.
    callback : callable or None, default=None
        Called with a `Progress` after each bit.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
        The inferred bits of the rows that were learned from, and the bits of the trees for the others.
    objective_ : list of dict
        After each bit: "objective" is the mean loss of the trees' codes over the drawn pairs, divided by the square of the
        number of bits; "inferred" is the same with the last bit as it was inferred; "error" is the share of rows whose bit
        the trees predict wrongly.
    n_iter_ : int
        Number of bits learned.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant_lab.hashing import FastHash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=200)
    >>> X = rng.normal(size=(4, 8))[y] * 3 + rng.normal(size=(200, 8))
    >>> hashing = FastHash(8, n_trees=5, random_state=0).fit(X, y)
    >>> hashing.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "fasthash"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_trees: int = 200,
        tree_depth: int = 4,
        n_split_features: int = 200,
        kept_weight: float = 0.99,
        n_pairs: int = 100,
        n_sweeps: int = 2,
        features: Features = None,
        max_rows: int | None = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_trees = n_trees
        self.tree_depth = tree_depth
        self.n_split_features = n_split_features
        self.kept_weight = kept_weight
        self.n_pairs = n_pairs
        self.n_sweeps = n_sweeps
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_integer(self.n_trees, "n_trees", 1)
        check_integer(self.tree_depth, "tree_depth", 1, MAX_TREE_DEPTH)
        check_integer(self.n_split_features, "n_split_features", 1)
        check_positive(self.kept_weight, "kept_weight", 1)
        check_integer(self.n_pairs, "n_pairs", 1)
        check_integer(self.n_sweeps, "n_sweeps", 0)

    def _n_steps(self) -> int:
        return self.n_bits

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        X = rows.features()  # (n, d)
        binned = BinnedRows.of(X)
        boosting = Boosting(self.n_trees, self.tree_depth, self.n_split_features, self.kept_weight)
        pairs, blocks = draw_pairs(rows.labels, self.n_pairs, rng), label_blocks(rows.labels)
        distances = np.zeros(len(pairs.first), dtype=np.int64)  # in the bits of the trees
        n_leaves = 2**self.tree_depth
        features = np.zeros((self.n_bits, self.n_trees, n_leaves - 1), dtype=np.int32)
        thresholds = np.zeros(features.shape, dtype=np.float32)
        leaves = np.zeros((self.n_bits, self.n_trees, n_leaves), dtype=np.float32)
        inferred = np.zeros((len(X), self.n_bits), dtype=np.bool_)

        def functions() -> HashFunctions:
            trees = BoostedTrees(
                features.copy(), thresholds.copy(), leaves.copy(), X.shape[1], rows.feature_map
            )
            return HashFunctions(None, np.zeros(self.n_bits), inferred.copy(), trees)

        for bit in range(self.n_bits):
            matrix = pairs.matrix(hinge_coefficients(pairs, distances, bit + 1))
            z = infer_bit(matrix, blocks, self.n_sweeps, rng)  # (n,)
            ensemble = boost(binned, z.astype(np.float64), boosting, rng, rows.n_jobs)
            sums = kernels.active().tree_sums(
                X, ensemble.features[None], ensemble.thresholds[None], ensemble.leaves[None], rows.n_jobs
            )[:, 0]  # (n,)
            inferred_distances = distances + pairs.differ(z)
            distances = distances + pairs.differ(sums > 0)
            features[bit], thresholds[bit] = ensemble.features, ensemble.thresholds
            inferred[:, bit], leaves[bit] = z > 0, ensemble.leaves
            values = {
                "objective": relative_loss(pairs, distances, bit + 1),
                "inferred": relative_loss(pairs, inferred_distances, bit + 1),
                "error": float(np.mean((sums > 0) != (z > 0))),
            }
            yield HashStep(values, functions)


def relative_loss(pairs: Pairs, distances: Integers, n_bits: int) -> float:
    """Return the mean loss of pairs, divided by the square of the number of bits, given their Hamming distances (P,)."""
    return float(hinge_loss(pairs, distances, n_bits).mean() / n_bits**2)
