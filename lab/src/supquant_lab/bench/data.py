"""Report: the rows that benchmarks run on: MNIST, and random classes for which the best possible classifier is known."""

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
from supquant.errors import InputError
from supquant.inputs.labels import Labels
from supquant.parallel import row_blocks
from supquant_lab.datasets import load
from supquant_lab.problem import Problem, pose

QUICK_ROWS = 3000
"""Number of rows of a quick run."""

BAYES_RIGHT = 0.99
"""Fraction of rows for which the Bayes rule is right, at the spread that `spread_for` returns."""

SEVERAL_SPREAD = 1.0
"""Spread of the means where rows carry several labels. No Bayes rule is known for them."""

MAX_LABELS = 5
"""Maximum number of labels per row, where rows carry several."""

FREQUENT_RANKS = 10
"""Where rows carry several labels, the frequency of the label of rank r is proportional to ``1 / (FREQUENT_RANKS + r)``."""

_SAMPLE = 4000  # number of rows from which the accuracy of the Bayes rule is computed
_BLOCK_NUMBERS = 50_000_000  # number of float32 scores or probabilities held at once: 200 MB


def benchmark_data(*, quick: bool = False) -> tuple[str, Problem]:
    """Return a name and its problem: MNIST under protocol `paper` with seed 0, or scikit-learn's digits if MNIST is missing.

    Parameters
    ----------
    quick : bool
        Whether to take only 3,000 rows.

    Examples
    --------
    >>> name, problem = benchmark_data(quick=True)
    >>> problem.X.shape[0] > 1000
    True
    """
    try:
        dataset = load("mnist")
        if quick:
            dataset = dataset.sample(QUICK_ROWS)
    except InputError:
        dataset = load("digits")
    return dataset.name, pose(dataset)


@dataclass(frozen=True)
class GaussianClasses:
    """Classes of normally distributed rows, among which the Bayes rule chooses the class of the nearest mean.

    The mean of each class is normal around zero with standard deviation `spread` in every dimension. Rows are normal around the
    mean of their class with unit variance.

    Parameters
    ----------
    labels, dimensions : int
    spread : float
    several : bool
        Whether a row carries 1 to `MAX_LABELS` labels. Its vector is then the sum of their means divided by the square root of
        their count, plus noise.
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
        """Return random rows X (n, d) and their labels. Rows are made in blocks, so that X takes nearly all of the memory.

        Parameters
        ----------
        n : int
        stream : int
            Each number gives different rows.
        among : (c,) int array, optional
            The classes of the rows; all by default. It is ignored where rows carry several labels.
        every : bool
            Whether every label must be carried by some row; then n must be at least the number of labels.
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
        """Return the class (n,) of the mean that is nearest to each row of X (n, d)."""
        halves = 0.5 * np.square(self.means).sum(axis=1)
        found = [
            (X[start:stop] @ self.means.T - halves).argmax(axis=1) for start, stop in self.blocks(len(X))
        ]
        return np.concatenate(found)

    def blocks(self, n: int) -> list[tuple[int, int]]:
        """Return (start, stop) of blocks of n rows; a matrix (rows of a block, L) has at most `_BLOCK_NUMBERS` entries."""
        return row_blocks(n, max(1, min(1000, _BLOCK_NUMBERS // self.labels)))

    def _single(
        self, n: int, first: npt.NDArray[np.intp], among: npt.NDArray[Any] | None, rng: np.random.Generator
    ) -> Labels:
        every = np.arange(self.labels, dtype=np.int32)
        indices = rng.choice(every if among is None else among.astype(np.int32), size=n)
        indices[first] = every[: len(first)]
        return Labels(every, False, indices, None)

    def _several(self, n: int, first: npt.NDArray[np.intp], rng: np.random.Generator) -> Labels:
        every = np.arange(self.labels)
        frequencies = 1 / (FREQUENT_RANKS + 1 + every)
        drawn = rng.choice(every, size=(n, MAX_LABELS), p=frequencies / frequencies.sum())
        drawn[first, 0] = every[: len(first)]
        taken = np.arange(MAX_LABELS) < rng.integers(1, MAX_LABELS + 1, size=(n, 1))
        rows, places = np.nonzero(taken)
        carried = (np.ones(len(rows), dtype=np.bool_), (rows, drawn[rows, places]))
        # Sums of booleans saturate: a label that was drawn twice is carried once.
        indicator = scipy.sparse.csr_array(carried, shape=(n, self.labels))
        return Labels(every, True, None, indicator)


def bayes_accuracy(labels: int, dimensions: int, spread: float) -> float:
    """Return the expected fraction of rows for which the Bayes rule is right, over random means.

    A row x differs by e from the mean of its class. The squared distance of x from any other mean is a noncentral chi-square
    variable; this mean is nearer if the variable is below ``|e|^2``.

    Examples
    --------
    >>> round(bayes_accuracy(2, 1, 0.01), 2), round(bayes_accuracy(1000, 384, 0.3), 2)
    (0.5, 0.99)
    """
    rng = np.random.default_rng(0)
    evenly = (np.arange(_SAMPLE) + 0.5) / _SAMPLE
    noise = chi2.ppf(evenly, dimensions)  # (n,) |e|^2
    along = rng.standard_normal(_SAMPLE)  # component of the mean in the direction of e
    across = rng.chisquare(dimensions - 1, _SAMPLE) if dimensions > 1 else 0.0
    length = np.square(np.sqrt(noise) + spread * along) + spread**2 * across  # |x|^2
    # (n,) the probability that one other mean is nearer
    nearer = ncx2.cdf(noise / spread**2, dimensions, length / spread**2)
    return float(np.mean(np.exp((labels - 1) * np.log1p(-nearer))))


def spread_for(labels: int, dimensions: int) -> float:
    """Return the spread of means at which the Bayes rule is right for `BAYES_RIGHT` of the rows.

    Examples
    --------
    >>> spread_for(1000, 384) < spread_for(1000, 128) < spread_for(10_000, 128)
    True
    """

    def lacking(logarithm: float) -> float:
        return bayes_accuracy(labels, dimensions, float(np.exp(logarithm))) - BAYES_RIGHT

    found = np.exp(brentq(lacking, np.log(1e-2), np.log(1e9), xtol=1e-4))
    return float(f"{found:.3g}")
