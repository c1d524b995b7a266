"""Rows as hashing sees them: features block by block, all at once, or summed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float32
from supquant.codec import FeatureMap
from supquant.labels import Labels
from supquant.metrics import relevance
from supquant.parallel import ordered_map, row_blocks
from supquant.rows import LocalRows
from supquant.statistics import Moments

Result = TypeVar("Result")


class HashRows:
    """The rows that a method learns from, with their labels.

    Parameters
    ----------
    X : (n, p) array
        Any real dtype; only blocks of it are converted.
    labels : Labels
    feature_map : FeatureMap or None
    n_jobs : int
    """

    def __init__(self, X: NDArray[Any], labels: Labels, feature_map: FeatureMap | None, n_jobs: int) -> None:
        self.labels = labels
        self.feature_map = feature_map
        self.n_jobs = n_jobs
        no_codes = np.zeros((len(X), 0), dtype=np.uint8)
        self._rows = LocalRows(X, labels, no_codes, 1, features=feature_map, n_jobs=n_jobs)
        self._blocks = row_blocks(len(X))

    def __len__(self) -> int:
        return len(self.labels)

    def map_blocks(self, function: Callable[[Float32, tuple[int, int]], Result]) -> Iterator[Result]:
        """Apply a function to the features (b, d) and the (start, stop) of every block, in order, on all threads."""
        return ordered_map(lambda block: function(self._rows.block(*block), block), self._blocks, self.n_jobs)

    def features(self) -> Float32:
        """Give the features (n, d) of all rows at once."""
        return np.concatenate(list(self.map_blocks(lambda x, _: x)))

    def moments(self) -> Moments:
        """Give n, the sum of X, X'X, X'Y, in float64."""
        return self._rows.moments()

    def similar(self) -> NDArray[np.bool_]:
        """Tell for all pairs of rows whether they share a label, (n, n)."""
        return relevance(self.labels, self.labels, 0, len(self))
