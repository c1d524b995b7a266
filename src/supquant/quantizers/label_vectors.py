"""What the solvers aim at where features are label vectors: rows with their labels, and rows as they would come without.

A code must serve both: an item whose labels are known is its labels and nothing else; one that comes without is what the
features say of it, each column by its share. So training sees rows twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supquant.codec import label_columns

if TYPE_CHECKING:
    from supquant.labels import Labels

Block = NDArray[np.float32]

MOST_UNLABELLED = 1 << 16
"""Rows that are seen without their labels; enough for any number of codewords."""

LIE_SHARE = 0.25
"""Of where a vector lies, beside the smooth opinion about its labels, in what is kept for classes outside training; this and
the default blend are what `benchmarks/blend.py` chose."""


@dataclass(frozen=True)
class LabelVectors:
    """The targets (n + u, E) of training.

    Parameters
    ----------
    labels : Labels
        Of the n rows.
    unlabelled : (u, E) float32
        Label vectors of rows as they would come without labels.
    """

    labels: Labels
    unlabelled: Block

    @property
    def n_labels(self) -> int:
        """E, the columns of a label vector."""
        return int(self.unlabelled.shape[1])

    def dense(self, start: int, stop: int) -> NDArray[np.float64]:
        """Write out rows ``start`` to ``stop``."""
        n = len(self.labels)
        known = label_columns(self.labels.dense(min(start, n), min(stop, n)), self.n_labels)
        unknown = self.unlabelled[max(start - n, 0) : max(stop - n, 0)]
        return np.concatenate([known, unknown.astype(np.float64)]) if len(unknown) else known


def item_shares(n_labels: int, n_features: int, blend: float) -> Block:
    """Give what every column of the features [p | h | k] counts for in an item without labels.

    Parameters
    ----------
    n_labels : int
        Columns of p and of h each; the others are k.
    n_features : int
    blend : float
        The share of h and k.

    Examples
    --------
    >>> item_shares(1, 3, 0.5)
    array([0.5  , 0.5  , 0.125], dtype=float32)
    """
    shares = np.full(n_features, blend * LIE_SHARE, dtype=np.float32)
    shares[:n_labels] = 1 - blend
    shares[n_labels : 2 * n_labels] = blend
    return shares


def unlabelled_rows(n_rows: int) -> NDArray[np.intp]:
    """Choose the rows that are seen without labels too, evenly over all."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, MOST_UNLABELLED)).round().astype(np.intp))
