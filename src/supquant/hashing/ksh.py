"""Features to bits: KSH, one bit after another, so that inner products of codes tell who shares a label.

"Supervised Hashing with Kernels" (Liu, Wang, Ji, Jiang, Chang, CVPR 2012). With features K (n, d) of n labelled rows,
centred, bit k of a row is the sign of ``K a_k``. Two codes of r bits have the inner product ``r - 2 * Hamming distance``,
so all pairs are fitted at once by

    Q(A) = |H H' / r - S|^2,    H = sgn(K A) (n, r),    S_ij = 1 where rows i and j share a label, else -1

greedily: with the residue ``R_k = r S - sum_{j < k} h_j h_j'``, bit k makes ``h' R_k h`` large. It starts from the spectral
relaxation, without the sign: the eigenproblem ``K' R_k K a = lambda K' K a``. It goes on with the sigmoid smoothing,
``b = 2 / (1 + exp(-K a)) - 1`` in the place of the sign, by Nesterov's accelerated gradient, and keeps the better of the two.

R_k is never written out. Rows fall into groups that carry the same labels, so that ``S = 2 Z T Z' - 1 1'`` with the group Z of
a row and the groups T that share a label: a product with R_k takes the groups and the bits so far, not all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import scipy.linalg

from supquant.arrays import Float64
from supquant.features import Features
from supquant.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant.hashing.pairs import LabelGroups
from supquant.hashing.rows import HashRows
from supquant.labels import Labels
from supquant.progress import Progress
from supquant.validation import check_integer, check_positive

_SMALL_CHANGE = 1e-2
"""Of the smoothed objective, for each row: where the authors' release ends the descent."""


class KSH(HashEstimator):
    """Supervised hashing with kernels: greedy bits whose inner products follow the labels of pairs.

    Parameters
    ----------
    n_bits : int, default=64
        A multiple of 8.
    ridge : float, default=1e-6
        What is added to the diagonal of K'K in the eigenproblem, as a share of its mean: K'K is nearly singular.
    max_iter : int, default=500
        Gradient steps for each bit at the most, as published; 0 leaves the spectral bits.
    features : AnchorKernel, 'auto' or None, default='auto'
        The kernel; 'auto' takes 1000 anchors (the authors took 300). None takes vectors as they are.
    max_rows : int, default=5000
        How many random rows to learn from at the most: all their pairs are fitted.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Gets a `Progress` after each bit.
    verbose : int, default=0

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each bit: "objective" is |R|^2 / (r n)^2, what is left of S, the mean squared error over all pairs in the end;
        "smoothed" is 1 where the gradient's bit was kept, 0 where the spectral one.
    n_iter_ : int
        Bits learned.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant.hashing import KSH
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> ksh = KSH(8, random_state=0).fit(X, X[:, 0] * X[:, 1] > 0)
    >>> ksh.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "ksh"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        ridge: float = 1e-6,
        max_iter: int = 500,
        features: Features = "auto",
        max_rows: int = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.ridge = ridge
        self.max_iter = max_iter
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_positive(self.ridge, "ridge")
        check_integer(self.max_iter, "max_iter", 0)
        check_integer(self.max_rows, "max_rows", 2)

    def _n_steps(self) -> int:
        return self.n_bits

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        del rng  # there is no chance in it
        features = rows.features().astype(np.float64)  # K (n, d)
        mean = features.mean(axis=0)
        features -= mean
        residue = Residue.of_labels(rows.labels, self.n_bits)
        relaxation = Relaxation.of_features(features, residue, self.ridge)
        directions = np.zeros((features.shape[1], self.n_bits))  # A

        def functions() -> HashFunctions:
            return HashFunctions(directions, mean @ directions)

        for bit in range(self.n_bits):
            spectral = relaxation.best_direction(features)
            smoothed = smooth_ascent(features, residue.times, spectral, self.max_iter)
            gains = [residue.gain(signs(features @ each)) for each in (spectral, smoothed)]
            kept = int(gains[1] > gains[0])
            directions[:, bit] = (spectral, smoothed)[kept]
            h = signs(features @ directions[:, bit])
            residue = residue.without(h)
            relaxation = relaxation.without(features.T @ h)
            yield HashStep({"objective": residue.mean_square(), "smoothed": float(kept)}, functions)


@dataclass(frozen=True)
class Residue:
    """``R = r S - H H'`` in thin parts."""

    n_bits: int  # r, of the finished code
    groups: LabelGroups
    bits: Float64  # (k, n) of 1 and -1, the k bits so far: H'
    squares: float
    """|R|^2."""

    @classmethod
    def of_labels(cls, labels: Labels, n_bits: int) -> Self:
        """Make r S, before there are bits."""
        n = len(labels)
        return cls(n_bits, LabelGroups.of(labels), np.empty((0, n)), float(n_bits * n) ** 2)

    def times(self, v: Float64) -> Float64:
        """Give R v (n,) of a vector v (n,)."""
        groups = self.groups
        sums = np.bincount(groups.of_row, v, minlength=len(groups.alike))  # (g,)
        fitted = self.n_bits * (2 * (groups.alike @ sums)[groups.of_row] - v.sum())
        return np.asarray(fitted - (self.bits @ v) @ self.bits)

    def gain(self, h: Float64) -> float:
        """Give h' R h, which the bits h (n,) are to make large."""
        return float(h @ self.times(h))

    def without(self, h: Float64) -> Residue:
        """Take bits h (n,) out: R - h h'."""
        squares = self.squares - 2 * self.gain(h) + float(len(h)) ** 2
        return Residue(self.n_bits, self.groups, np.vstack([self.bits, h]), squares)

    def mean_square(self) -> float:
        """Give |R|^2 / (r n)^2."""
        return self.squares / float(self.n_bits * self.bits.shape[1]) ** 2


@dataclass(frozen=True)
class Relaxation:
    """The eigenproblem ``K' R K a = lambda (K' K + ridge) a`` in the basis that whitens its right-hand side."""

    factor: Float64  # (d, d), lower: L with L L' = K' K + ridge
    whitened: Float64  # (d, d): inv(L) K' R K inv(L)'

    @classmethod
    def of_features(cls, features: Float64, residue: Residue, ridge: float) -> Self:
        """Set it up for centred features (n, d)."""
        gram = features.T @ features
        mean = gram.trace() / len(gram)
        gram.flat[:: len(gram) + 1] += ridge * (mean or 1.0)  # no spread at all: any direction is as good
        factor = scipy.linalg.cholesky(gram, lower=True)
        groups = residue.groups
        sums = groups.sums(features)  # Z'K (g, d)
        white = scipy.linalg.solve_triangular(factor, sums.T, lower=True)  # (d, g); centred, so 1'K is zero
        return cls(factor, 2 * residue.n_bits * (white @ groups.alike @ white.T))

    def best_direction(self, features: Float64) -> Float64:
        """Give the a (d,) of the largest eigenvalue, ``|K a|^2 = n``."""
        last = len(self.whitened) - 1
        top = scipy.linalg.eigh(self.whitened, subset_by_index=(last, last))[1][:, 0]
        direction = scipy.linalg.solve_triangular(self.factor, top, lower=True, trans="T")
        length = np.linalg.norm(features @ direction)
        return np.asarray(direction * (np.sqrt(len(features)) / length if length else 1.0))

    def without(self, products: Float64) -> Relaxation:
        """Take bits out of the residue, given K'h (d,)."""
        white = scipy.linalg.solve_triangular(self.factor, products, lower=True)
        return Relaxation(self.factor, self.whitened - np.outer(white, white))


def smooth_ascent(
    features: Float64,
    residue_times: Callable[[Float64], Float64],
    start: Float64,
    max_iter: int,
) -> Float64:
    """Make ``b' R b``, ``b = tanh(K a / 2)``, large by Nesterov's accelerated gradient.

    Parameters
    ----------
    features : (n, d) float64
        K.
    residue_times : callable
        From v (n,) to R v (n,).
    start : (d,) float64
    max_iter : int

    Returns
    -------
    (d,) float64
        The direction a.
    """
    a, before = start, start
    values = values_before = (
        features @ start
    )  # K a, kept along: only K' and K times the gradient are left to a step
    cost = smooth_cost(values, residue_times)[0]
    curvature, momentum, momentum_before = 1.0, 1.0, 0.0
    for _ in range(max_iter):
        weight = (momentum_before - 1) / momentum
        ahead, values_ahead = a + weight * (a - before), values + weight * (values - values_before)
        cost_ahead, slope = smooth_cost(values_ahead, residue_times)
        gradient = features.T @ slope
        length, values_of_gradient = float(gradient @ gradient), features @ gradient
        while True:  # the curvature never falls, so that one trial a step is the rule
            trial = values_ahead - values_of_gradient / curvature
            cost_trial = smooth_cost(trial, residue_times)[0]
            if cost_trial <= cost_ahead - length / (2 * curvature):
                break
            curvature *= 2
            if not np.isfinite(curvature):  # no descent that numbers could tell
                return a
        before, values_before = a, values
        a, values = ahead - gradient / curvature, trial
        momentum_before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        change, cost = abs(cost_trial - cost), cost_trial
        if change <= _SMALL_CHANGE * len(values):
            break
    return a


def smooth_cost(values: Float64, residue_times: Callable[[Float64], Float64]) -> tuple[float, Float64]:
    """Give ``-b' R b``, ``b = 2 / (1 + exp(-values)) - 1``, and its derivative (n,) by the values (n,)."""
    b = np.tanh(values / 2)
    products = residue_times(b)
    return -float(b @ products), -products * (1 - b * b)


def signs(values: Float64) -> Float64:
    """Give 1 for what is above zero, else -1."""
    return np.where(values > 0, 1.0, -1.0)
