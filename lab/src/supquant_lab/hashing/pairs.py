"""Which pairs of rows share a label, without a matrix of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.inputs.labels import Labels


@dataclass(frozen=True)
class LabelGroups:
    """Groups of rows that carry the same labels.

    The matrix S (n, n) of pairs is 1 where two rows share a label, else -1. With the group of each row as an indicator
    matrix Z (n, g), ``S = 2 Z T Z' - 1 1'``.

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> groups = LabelGroups.of(read_labels([[1, 0], [1, 1], [0, 1], [1, 0]]))
    >>> groups.of_row, groups.share_label
    (array([1, 2, 0, 1]), array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 1.]]))
    """

    of_row: NDArray[np.intp]  # (n,): the group of each row
    share_label: Float64  # T (g, g): 1 where two groups share a label, else 0

    @classmethod
    def of(cls, labels: Labels) -> Self:
        """Find the groups of labelled rows."""
        if labels.indices is not None:
            return cls(labels.indices.astype(np.intp), np.eye(labels.n_labels))
        Y = labels.dense(0, len(labels))  # (n, L)
        _, first, inverse = np.unique(
            np.packbits(Y > 0, axis=1), axis=0, return_index=True, return_inverse=True
        )
        return cls(inverse.ravel(), (Y[first] @ Y[first].T > 0).astype(np.float64))

    def sums(self, X: Float64) -> Float64:
        """Return the sums Z'X (g, d) of the rows (n, d) of each group."""
        total = np.zeros((len(self.share_label), X.shape[1]))
        np.add.at(total, self.of_row, X)
        return total
