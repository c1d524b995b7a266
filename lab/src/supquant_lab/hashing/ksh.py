"""Features to bits: KSH, one bit after another; inner products of codes show which rows share a label.

"Supervised Hashing with Kernels" (Liu, Wang, Ji, Jiang, Chang, CVPR 2012). K (n, d) are the centred features of n labelled
rows, and bit k of a row is the sign of ``K a_k``. Two codes of r bits have the inner product ``r - 2 * Hamming distance``, so
the objective over all pairs is

    Q(A) = |H H' / r - S|^2,    H = sgn(K A) (n, r),    S_ij = 1 if rows i and j share a label, else -1

Bits are added greedily: with the residue ``R_k = r S - sum_{j < k} h_j h_j'``, bit k maximises ``h' R_k h``. There are two
candidates, and the better one is kept. The first leaves out the sign: it solves the eigenproblem ``K' R_k K a = lambda K' K a``.
The second starts from the first and replaces the sign by a sigmoid, ``b = 2 / (1 + exp(-K a)) - 1``; it is found by Nesterov's
accelerated gradient.

R_k is never written out. Rows with the same labels form a group, and ``S = 2 Z T Z' - 1 1'`` (see `LabelGroups`). So a product
with R_k needs the groups and the bits so far, not all pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
import scipy.linalg

from supquant.algebra import positive_factor
from supquant.arrays import Float64
from supquant.inputs.labels import Labels
from supquant.inputs.parameters import check_integer, check_positive
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.rows import HashRows, LabelGroups, add_ridge, signs, top_eigenvectors

CONVERGED_CHANGE = 1e-2
"""The ascent ends if a step changes the smoothed objective by at most this much per row, as in the authors' release."""


class KSH(HashEstimator):
    """Supervised hashing with kernels: bits added greedily, so that inner products of codes follow the labels of pairs.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8.
    ridge : float, default=1e-6
        Added to the diagonal of K'K, which is nearly singular, in units of the mean of that diagonal.
    max_iter : int, default=500
        Maximum number of gradient steps for each bit, as published; 0 keeps the spectral bits.
    features : AnchorKernel, 'auto' or None, default='auto'
        The kernel; 'auto' has 1000 anchors (the authors took 300). None takes the vectors as features.
    max_rows : int or None, default=5000
        Maximum number of random rows to learn from; None for all. All pairs of these rows are fitted.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the rows and the anchors.
    callback : callable or None, default=None
        Called with a `Progress` after each bit.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each bit: "objective" is ``|R|^2 / (r n)^2``, which after the last bit is the mean squared error over all pairs;
        "smoothed" is 1 if the bit of the gradient was kept, 0 if the spectral one was.
    n_iter_ : int
        Number of bits learned.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant_lab.hashing import KSH
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
        max_rows: int | None = 5000,
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

    def _n_steps(self) -> int:
        return self.n_bits

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        del rng  # nothing is drawn
        features, mean = rows.centred_features()  # K (n, d)
        residue = Residue.of_labels(rows.labels, self.n_bits)
        relaxation = Relaxation.of_features(features, residue, self.ridge)
        directions = np.zeros((features.shape[1], self.n_bits))  # A
        functions = partial(HashFunctions.around, mean, directions)
        for bit in range(self.n_bits):
            spectral = relaxation.best_direction(features)
            smoothed = smooth_ascent(features, residue.multiply, spectral, self.max_iter)
            gains = [residue.gain(signs(features @ each)) for each in (spectral, smoothed)]
            kept = int(gains[1] > gains[0])
            directions[:, bit] = (spectral, smoothed)[kept]
            h = signs(features @ directions[:, bit])
            residue = residue.subtract_bit(h)
            relaxation = relaxation.subtract_bit(features.T @ h)
            yield HashStep({"objective": residue.mean_square(), "smoothed": float(kept)}, functions)


@dataclass(frozen=True)
class Residue:
    """``R = r S - H H'``, kept as the groups of S and the bits H."""

    n_bits: int  # r, of the finished code
    groups: LabelGroups
    bits: Float64  # H' (k, n): the k bits so far, 1 or -1
    squares: float  # |R|^2

    @classmethod
    def of_labels(cls, labels: Labels, n_bits: int) -> Self:
        """Return r S, the residue before the first bit."""
        n = len(labels)
        return cls(n_bits, LabelGroups.of(labels), np.empty((0, n)), float(n_bits * n) ** 2)

    def multiply(self, v: Float64) -> Float64:
        """Return R v (n,) for a vector v (n,)."""
        groups = self.groups
        sums = np.bincount(groups.of_row, v, minlength=len(groups.share_label))  # Z'v (g,)
        of_labels = self.n_bits * (2 * (groups.share_label @ sums)[groups.of_row] - v.sum())  # r S v
        return np.asarray(of_labels - (self.bits @ v) @ self.bits)

    def gain(self, h: Float64) -> float:
        """Return h' R h, which a bit h (n,) should make large."""
        return float(h @ self.multiply(h))

    def subtract_bit(self, h: Float64) -> Residue:
        """Return R - h h', the residue after bit h (n,)."""
        squares = self.squares - 2 * self.gain(h) + float(len(h)) ** 2
        return Residue(self.n_bits, self.groups, np.vstack([self.bits, h]), squares)

    def mean_square(self) -> float:
        """Return |R|^2 / (r n)^2."""
        return self.squares / float(self.n_bits * self.bits.shape[1]) ** 2


@dataclass(frozen=True)
class Relaxation:
    """The eigenproblem ``K' R K a = lambda (K' K + ridge) a``, in the basis that whitens its right-hand side."""

    factor: Float64  # (d, d), lower triangular: L with L L' = K' K + ridge
    whitened: Float64  # (d, d): inv(L) K' R K inv(L)'

    @classmethod
    def of_features(cls, features: Float64, residue: Residue, ridge: float) -> Self:
        """Return the problem of centred features (n, d) before the first bit."""
        gram = features.T @ features
        factor = positive_factor(add_ridge(gram, ridge, gram))
        groups = residue.groups
        sums = groups.sums(features)  # Z'K (g, d)
        white = scipy.linalg.solve_triangular(factor, sums.T, lower=True)  # (d, g)
        # the part -1 1' of S drops out, since the sum 1'K of centred features is zero
        return cls(factor, 2 * residue.n_bits * (white @ groups.share_label @ white.T))

    def best_direction(self, features: Float64) -> Float64:
        """Return the a (d,) with the largest eigenvalue, scaled to ``|K a|^2 = n``."""
        top = top_eigenvectors(self.whitened, 1)[:, 0]
        direction = scipy.linalg.solve_triangular(self.factor, top, lower=True, trans="T")
        length = np.linalg.norm(features @ direction)
        return np.asarray(direction * (np.sqrt(len(features)) / length if length else 1.0))

    def subtract_bit(self, products: Float64) -> Relaxation:
        """Return the problem after bit h, given K'h (d,)."""
        white = scipy.linalg.solve_triangular(self.factor, products, lower=True)
        return Relaxation(self.factor, self.whitened - np.outer(white, white))


def smooth_ascent(
    features: Float64,
    multiply: Callable[[Float64], Float64],
    start: Float64,
    max_iter: int,
) -> Float64:
    """Maximise ``b' R b``, where ``b = tanh(K a / 2)``, by Nesterov's accelerated gradient.

    Parameters
    ----------
    features : (n, d) float64
        K.
    multiply : callable
        From v (n,) to R v (n,).
    start : (d,) float64
        The direction to start from.
    max_iter : int
        Maximum number of steps.

    Returns
    -------
    (d,) float64
        The direction a.
    """
    a = before = start
    values = values_before = (
        features @ start
    )  # K a is updated with a: a step then needs two products with K, not three
    cost = smooth_cost(values, multiply)[0]
    curvature, momentum, momentum_before = 1.0, 1.0, 0.0
    for _ in range(max_iter):
        weight = (momentum_before - 1) / momentum
        ahead, values_ahead = a + weight * (a - before), values + weight * (values - values_before)
        cost_ahead, slope = smooth_cost(values_ahead, multiply)
        gradient = features.T @ slope
        length, values_of_gradient = float(gradient @ gradient), features @ gradient
        while True:  # the curvature never falls, so most steps need one trial
            trial = values_ahead - values_of_gradient / curvature
            cost_trial = smooth_cost(trial, multiply)[0]
            if cost_trial <= cost_ahead - length / (2 * curvature):
                break
            curvature *= 2
            if not np.isfinite(curvature):  # no step lowers the cost by more than rounding
                return a
        before, values_before = a, values
        a, values = ahead - gradient / curvature, trial
        momentum_before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        change, cost = abs(cost_trial - cost), cost_trial
        if change <= CONVERGED_CHANGE * len(values):
            break
    return a


def smooth_cost(values: Float64, multiply: Callable[[Float64], Float64]) -> tuple[float, Float64]:
    """Return ``-b' R b``, where ``b = 2 / (1 + exp(-values)) - 1``, and its derivative (n,) by the values (n,)."""
    b = np.tanh(values / 2)
    products = multiply(b)
    return -float(b @ products), -products * (1 - b * b)
