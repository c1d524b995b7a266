"""Report: the rows that a method is fitted to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from supquant.arrays import Array

__all__ = ["Training"]


def _no_rows() -> Array:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True)
class Training:
    """The rows that a method is fitted to: rows with labels and, for methods that use them, rows without.

    Examples
    --------
    >>> training = Training(np.zeros((2, 1)), np.array([5, 7]), np.ones((1, 1)))
    >>> training.every_row.shape, training.every_label
    ((3, 1), masked_array(data=[5, 7, --],
                 mask=[False, False,  True],
           fill_value=999999))
    """

    X: Array  # (n, d) float32
    y: Array  # (n,) or (n, L)
    unlabelled: Array = field(default_factory=_no_rows)  # (u, d) float32

    @property
    def every_row(self) -> Array:
        """All rows (n + u, d), those with labels first; `X` itself if there are no others."""
        return self.X if len(self.unlabelled) == 0 else np.vstack([self.X, self.unlabelled])

    @property
    def every_label(self) -> Array:
        """The labels of `every_row`, masked for rows without labels; `y` itself if all rows have labels."""
        n, u = len(self.y), len(self.unlabelled)
        if u == 0:
            return self.y
        masked: Array = np.ma.masked_array(np.resize(self.y, (n + u, *self.y.shape[1:])), mask=False)
        masked[n:] = np.ma.masked
        return masked

    def labelled(self) -> Training:
        """Return only the rows with labels."""
        return Training(self.X, self.y)
