"""Rows as the hashing methods see them: their features in blocks, all at once, centred, or summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Flags, Float32, Float64
from supquant.codec.feature_map import FeatureMap
from supquant.inputs.labels import Labels
from supquant.metrics import relevance
from supquant.published.rows import CodedRows
from supquant.published.statistics import Moments

Result = TypeVar("Result")


class HashRows:
    """The rows that a method learns from, with their labels.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Any real dtype; it is converted one block at a time.
    labels : Labels
        The labels of the n rows.
    feature_map : FeatureMap or None
        From vectors (b, p) to features (b, d); None takes the vectors as features.
    n_jobs : int
        Number of threads.
    """

    def __init__(self, X: NDArray[Any], labels: Labels, feature_map: FeatureMap | None, n_jobs: int) -> None:
        self.labels = labels
        self.feature_map = feature_map
        self.n_jobs = n_jobs
        no_codes = np.zeros((len(X), 0), dtype=np.uint8)
        self._rows = CodedRows(X, labels, no_codes, 1, features=feature_map, n_jobs=n_jobs)

    def __len__(self) -> int:
        return len(self.labels)

    def map_blocks(self, function: Callable[[Float32, tuple[int, int]], Result]) -> Iterator[Result]:
        """Apply a function to the features (b, d) and the (start, stop) of every block.

        The work is done on `n_jobs` threads. Results come in the order of the blocks.
        """
        return self._rows.map_features(function)

    def features(self) -> Float32:
        """Return the features (n, d) of all rows."""
        return np.concatenate(list(self.map_blocks(lambda x, _: x)))

    def centred_features(self) -> tuple[Float64, Float64]:
        """Return the features (n, d) less their mean, and the mean (d,)."""
        features = self.features().astype(np.float64)
        mean = features.mean(axis=0)
        features -= mean
        return features, mean

    def moments(self) -> Moments:
        """Return the sums over all rows that do not depend on codes."""
        return self._rows.moments()

    def share_label(self) -> Flags:
        """Return a matrix (n, n), true where two rows share a label."""
        return relevance(self.labels, self.labels, 0, len(self))
