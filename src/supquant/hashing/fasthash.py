"""Features to bits: fast supervised hashing with decision trees (FastHash).

"Fast Supervised Hashing with Decision Trees for High-Dimensional Data" (Lin, Shen, Shi, van den Hengel, Suter, CVPR 2014), and
"Supervised Hashing Using Graph Cuts and Boosted Decision Trees" (Lin, Shen, van den Hengel, TPAMI 2015). One bit after the
other: infer it for all rows from the labels and the bits before (`bit_inference`), then teach it to an ensemble of trees
(`boosted_trees`), whose answer takes its place when the next bit is inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from supquant import kernels
from supquant.errors import InputError
from supquant.features import Features
from supquant.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant.hashing.bit_inference import blocks_of, draw_pairs, hinge_coefficients, hinge_loss, infer_bit
from supquant.hashing.boosted_trees import BinnedRows, BoostedTrees, Boosting, boost
from supquant.hashing.rows import HashRows
from supquant.progress import Progress
from supquant.validation import check_integer, check_positive

DEEPEST = 12
"""Levels of a tree, which is kept whole."""


class FastHash(HashEstimator):
    """Bits inferred from pairs of rows by graph cuts, each learned by an ensemble of boosted decision trees.

    The defaults are the settings of the authors' release: the hinge loss, two sweeps over the blocks, 200 trees of depth 4 a
    bit, 200 features to choose from at a node, 99 % of the weight kept, and 100 similar and 100 dissimilar rows drawn for
    each row.

    Parameters
    ----------
    n_bits : int, default=64
    n_trees : int, default=200
        Of one bit.
    tree_depth : int, default=4
        Worth tuning; more rows bear deeper trees. At most 12.
    n_split_features : int, default=200
        How many random features a node of a tree chooses from; all where there are fewer.
    kept_weight : float, default=0.99
        A tree is grown on the rows of greatest weight that have this part of all weight.
    n_pairs : int, default=100
        Similar rows, and dissimilar ones, that are drawn for each row to infer bits from.
    n_sweeps : int, default=2
        Over the blocks of similar rows, for each bit.
    features : None, "auto" or AnchorKernel
        What the trees stand on: vectors as they are by default, as published.
    max_rows : int, default=5000
        Random rows to learn from at the most.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Called with the progress after every bit.
    verbose : int, default=0

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
        The inferred bits of the rows learned from, those of the trees for the others.
    objective_ : list of dict
        After each bit: the mean loss over the drawn pairs, divided by the square of the number of bits, of the trees' codes
        ("objective") and with the new bit as it was inferred ("inferred"), and the part of the rows whose bit the trees
        get wrong ("error").
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant.hashing import FastHash
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
        max_rows: int = 5000,
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
        check_integer(self.tree_depth, "tree_depth", 1, DEEPEST)
        check_integer(self.n_split_features, "n_split_features", 1)
        if check_positive(self.kept_weight, "kept_weight") > 1:
            raise InputError(f"kept_weight must be at most 1, got {self.kept_weight}")
        check_integer(self.n_pairs, "n_pairs", 1)
        check_integer(self.n_sweeps, "n_sweeps", 0)

    def _n_steps(self) -> int:
        return self.n_bits

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        X = rows.features()  # (n, d)
        binned = BinnedRows.of(X)
        boosting = Boosting(self.n_trees, self.tree_depth, self.n_split_features, self.kept_weight)
        pairs, blocks = draw_pairs(rows.labels, self.n_pairs, rng), blocks_of(rows.labels)
        distances = np.zeros(len(pairs.first), dtype=np.int64)  # in the trees' bits
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
            signs = infer_bit(matrix, blocks, self.n_sweeps, rng)
            ensemble = boost(binned, signs.astype(np.float64), boosting, rng, rows.n_jobs)
            sums = kernels.active().tree_sums(
                X, ensemble.features[None], ensemble.thresholds[None], ensemble.leaves[None], rows.n_jobs
            )[:, 0]  # (n,)
            inferred_distances = distances + pairs.differing(signs)
            distances = distances + pairs.differing(sums > 0)
            features[bit], thresholds[bit] = ensemble.features, ensemble.thresholds
            inferred[:, bit], leaves[bit] = signs > 0, ensemble.leaves

            def mean_loss(apart: np.ndarray, n_bits: int = bit + 1) -> float:
                return float(hinge_loss(pairs, apart, n_bits).mean() / n_bits**2)

            values = {
                "objective": mean_loss(distances),
                "inferred": mean_loss(inferred_distances),
                "error": float(np.mean((sums > 0) != (signs > 0))),
            }
            yield HashStep(values, functions)
