"""Report: labelled rows that are drawn, so that the best classifier there can be is known.

The means of classes are normal around zero, `spread` wide in every dimension, and rows are normal around the mean of their
class, with unit variance. The Bayes rule then is the nearest mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
from scipy.optimize import brentq
from scipy.stats import chi2, ncx2

from supquant.arrays import Float32
from supquant.labels import Labels
from supquant.parallel import row_blocks

BAYES_RIGHT = 0.99
"""Share of rows for which the Bayes rule is right, at the spread that `spread_for` returns."""

SEVERAL_SPREAD = 1.0
"""Spread of the means where rows carry several labels, for which no rule says what is right."""

MOST_LABELS = 5
"""Labels of a row at the most, where rows carry several."""

FREQUENT_RANKS = 10
"""The label of rank r has a frequency in proportion to ``1 / (FREQUENT_RANKS + r)`` where rows carry several labels."""

_SAMPLE = 4000  # rows that the accuracy of the Bayes rule is a mean of
_BLOCK_NUMBERS = 50_000_000  # of scores or probabilities at one time: 200 MB


@dataclass(frozen=True)
class GaussianClasses:
    """Classes to draw rows of.

    Parameters
    ----------
    labels, dimensions : int
    spread : float
    several : bool
        Whether a row carries 1 to `MOST_LABELS` labels. Its vector is then the sum of their means, over the square root of
        their number, and noise.
    seed : int

    Examples
    --------
    >>> X, labels = GaussianClasses(5, 3, 2.0).draw(100, stream=0, every=True)
    >>> X.shape, X.dtype, len(np.unique(labels.indices))
    ((100, 3), dtype('float32'), 5)
    >>> X, labels = GaussianClasses(5, 3, 2.0, several=True).draw(100, stream=0)
    >>> labels.indicator.shape, int(labels.indicator.sum(axis=1).min())
    ((100, 5), 1)
    """

    labels: int
    dimensions: int
    spread: float
    several: bool = False
    seed: int = 0

    @cached_property
    def means(self) -> Float32:
        """Means (L, d) of the classes."""
        rng = np.random.default_rng([self.seed, 0])
        means = rng.standard_normal((self.labels, self.dimensions), dtype=np.float32)
        means *= np.float32(self.spread)
        return means

    def draw(
        self, n: int, *, stream: int, among: npt.NDArray[Any] | None = None, every: bool = False
    ) -> tuple[Float32, Labels]:
        """Draw rows X (n, d) and their labels; rows are placed block by block, so that the peak of memory is that of X.

        Parameters
        ----------
        n : int
        stream : int
            Another number gives other rows.
        among : (c,) int array, optional
            The classes to draw from; all by default. Not where rows carry several labels.
        every : bool
            Whether every label is carried by some row; n is at least the number of labels then.
        """
        rng = np.random.default_rng([self.seed, 1, stream])
        first = rng.permutation(n)[: self.labels] if every else np.empty(0, dtype=np.intp)
        labels = self._several(n, first, rng) if self.several else self._single(n, first, among, rng)
        X = rng.standard_normal((n, self.dimensions), dtype=np.float32)
        for start, stop in row_blocks(n):
            carried = labels.take(np.arange(start, stop)).sparse().astype(np.float32)  # (b, L)
            X[start:stop] += (carried @ self.means) / np.sqrt(carried.sum(axis=1))[:, None]
        return X, labels

    def bayes(self, X: Float32) -> npt.NDArray[np.intp]:
        """Return the class (n,) of the mean that is nearest to each of rows X (n, d)."""
        halves = 0.5 * np.square(self.means).sum(axis=1)
        found = [
            (X[start:stop] @ self.means.T - halves).argmax(axis=1) for start, stop in self.blocks(len(X))
        ]
        return np.concatenate(found)

    def blocks(self, n: int) -> list[tuple[int, int]]:
        """Return the (start, stop) of blocks of n rows for which a matrix with a column for every label is small enough."""
        return row_blocks(n, max(1, min(1000, _BLOCK_NUMBERS // self.labels)))

    def _single(
        self,
        n: int,
        first: npt.NDArray[np.intp],
        among: npt.NDArray[Any] | None,
        rng: np.random.Generator,
    ) -> Labels:
        every = np.arange(self.labels, dtype=np.int32)
        indices = rng.choice(every if among is None else among.astype(np.int32), size=n)
        indices[first] = every[: len(first)]
        return Labels(every, False, indices, None)

    def _several(self, n: int, first: npt.NDArray[np.intp], rng: np.random.Generator) -> Labels:
        every = np.arange(self.labels)
        frequencies = 1 / (FREQUENT_RANKS + 1 + every)
        drawn = rng.choice(every, size=(n, MOST_LABELS), p=frequencies / frequencies.sum())
        drawn[first, 0] = every[: len(first)]
        taken = np.arange(MOST_LABELS) < rng.integers(1, MOST_LABELS + 1, size=(n, 1))
        rows, places = np.nonzero(taken)
        carried = (np.ones(len(rows), dtype=np.bool_), (rows, drawn[rows, places]))
        # Sums of booleans saturate: a label that was drawn twice is carried once.
        indicator = scipy.sparse.csr_array(carried, shape=(n, self.labels))
        return Labels(every, True, None, indicator)


def bayes_accuracy(labels: int, dimensions: int, spread: float) -> float:
    """Return the share of rows for which the Bayes rule is right, the mean over all that means may be.

    A row x is e away from the mean of its class. Any other mean is nearer with the probability that a noncentral chi-square
    variable, the squared distance of a normal mean from x, is below ``|e|^2``.

    Examples
    --------
    >>> round(bayes_accuracy(2, 1, 0.01), 2), round(bayes_accuracy(1000, 384, 0.3), 2)
    (0.5, 0.99)
    """
    rng = np.random.default_rng(0)
    evenly = (np.arange(_SAMPLE) + 0.5) / _SAMPLE
    noise = chi2.ppf(evenly, dimensions)  # (n,) |e|^2
    along = rng.standard_normal(_SAMPLE)  # of the mean, in the direction of e
    across = rng.chisquare(dimensions - 1, _SAMPLE) if dimensions > 1 else 0.0
    length = np.square(np.sqrt(noise) + spread * along) + spread**2 * across  # |x|^2
    nearer = ncx2.cdf(noise / spread**2, dimensions, length / spread**2)  # (n,), of one other mean
    return float(np.mean(np.exp((labels - 1) * np.log1p(-nearer))))


def spread_for(labels: int, dimensions: int) -> float:
    """Return the spread of means at which the Bayes rule is right for `BAYES_RIGHT` of the rows.

    Examples
    --------
    >>> spread_for(1000, 384) < spread_for(10_000, 128) < spread_for(100_000, 128)
    True
    """

    def lacking(logarithm: float) -> float:
        return bayes_accuracy(labels, dimensions, float(np.exp(logarithm))) - BAYES_RIGHT

    found = np.exp(brentq(lacking, np.log(1e-2), np.log(1e9), xtol=1e-4))
    return float(f"{found:.3g}")
