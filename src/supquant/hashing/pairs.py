"""Which pairs of rows share a label, without writing out a matrix of all pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.labels import Labels


@dataclass(frozen=True)
class LabelGroups:
    """Groups of rows with the same labels, and the groups that share one: ``S = 2 Z T Z' - 1 1'``, Z the group of a row.

    Examples
    --------
    >>> from supquant.labels import read_labels
    >>> groups = LabelGroups.of(read_labels([[1, 0], [1, 1], [0, 1], [1, 0]]))
    >>> groups.of_row, groups.alike
    (array([1, 2, 0, 1]), array([[1., 0., 1.],
           [0., 1., 1.],
           [1., 1., 1.]]))
    """

    of_row: NDArray[np.intp]  # (n,)
    alike: Float64  # (g, g) T: 1 where two groups share a label, else 0

    @classmethod
    def of(cls, labels: Labels) -> Self:
        """Find the groups."""
        if labels.indices is not None:
            return cls(labels.indices.astype(np.intp), np.eye(labels.n_labels))
        Y = labels.dense(0, len(labels))  # (n, L)
        _, first, inverse = np.unique(
            np.packbits(Y > 0, axis=1), axis=0, return_index=True, return_inverse=True
        )
        return cls(inverse.ravel(), (Y[first] @ Y[first].T > 0).astype(np.float64))

    def sums(self, X: Float64) -> Float64:
        """Sum rows (n, d) by groups: Z'X (g, d)."""
        total = np.zeros((len(self.alike), X.shape[1]))
        np.add.at(total, self.of_row, X)
        return total
