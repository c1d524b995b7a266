"""Features to bits: SSH, directions that agree with the labels of pairs and along which the rows vary.

"Semi-Supervised Hashing for Large-Scale Search" (Wang, Kumar, Chang, PAMI 2012; its first two forms are those of
"Semi-Supervised Hashing for Scalable Image Retrieval", CVPR 2010, the third is that of "Sequential Projection Learning for
Hashing with Compact Codes", ICML 2010). X (n, d) are centred features. S_ij is 1 if rows i and j share a label, else -1; its
diagonal is 0. The bits sgn(X W) should agree with S. Without the sign, this means to maximise

    J(W) = tr(W' M W) / 2,    M = X' S X + eta X' X         (the adjusted covariance)

orthogonal
    W'W = I: the eigenvectors of M with the largest eigenvalues.
nonorthogonal
    J(W) - rho |W'W - I|^2 / 4 instead of the constraint: W W' = Q = I + M / rho. Q is positive definite if rho is above the
    negative of M's smallest eigenvalue. With its Cholesky factor, Q = L L', and the orthogonal directions U, W = L U.
sequential
    One direction w after another: the top eigenvector of M. A pair is wrong if p_i p_j S_ij < 0 for the projections p = X w.
    Wrong pairs then get a larger weight, ``S_ij - alpha p_i p_j``, and the direction is removed from the variance:

        M <- (X' S X) - alpha X' T X + eta (X - X w w')' (X - X w w'),    T_ij = p_i p_j for wrong pairs, else 0

S is never written out. Rows with the same labels form a group, so a sum over pairs that share a label is a sum over pairs of
groups. T splits by sign into the positive and negative parts p+ and p- of p: for pairs that share a label it is
``-(p+ p-' + p- p+')``, for other pairs ``p+ p+' + p- p-'``. So a bit costs an eigenvector and O(n d), not O(n^2 d).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg

from supquant.algebra import positive_factor
from supquant.arrays import Flags, Float64
from supquant.errors import InputError
from supquant.inputs.parameters import check_choice, check_nonnegative
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.rows import HashRows, LabelGroups, signs, top_eigenvectors

VARIANTS = ("sequential", "nonorthogonal", "orthogonal")


class SSH(HashEstimator):
    """Semi-supervised hashing: eigenvectors of a covariance that the labels of pairs adjust.

    With L classes, the label part of the adjusted covariance has a rank below L. The later bits of the orthogonal form are
    therefore principal components, and more than a few dozen of them make the ranking worse. The authors recommend the
    sequential form: its bits correct the errors of earlier bits, and there may be more bits than features.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8. In the orthogonal and the nonorthogonal form it is at most the number of
        features.
    variant : {'sequential', 'nonorthogonal', 'orthogonal'}, default='sequential'
        The form of the method.
    variance_weight : float, default=30
        eta, the weight of the variance of the n features relative to the labels of n^2 pairs.
    correction : float, default=1
        alpha, the additional weight of pairs that a bit gets wrong, in the sequential form. It multiplies products of
        projections, so the default suits rows of about unit length.
    features : AnchorKernel, 'auto' or None, default=None
        None takes the vectors as features, as published; 'auto' is a kernel of 1000 anchors.
    max_rows : int or None, default=5000
        Maximum number of random rows to learn from; None for all.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the rows and the anchors.
    callback : callable or None, default=None
        Called with a `Progress` after each step: one bit in the sequential form, all bits in the others.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each step: "objective" is J(W) for the original S; "agreement" is the mean of S_ij h_i h_j over all pairs and
        over the bits h so far, from -1 to 1. Larger is better for both.
    n_iter_ : int
        Number of steps.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant_lab.hashing import SSH
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> ssh = SSH(8, random_state=0).fit(X, X[:, 0] > 0)
    >>> ssh.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "ssh"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        variant: str = "sequential",
        variance_weight: float = 30.0,
        correction: float = 1.0,
        features: Features = None,
        max_rows: int | None = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.variant = variant
        self.variance_weight = variance_weight
        self.correction = correction
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_choice(self.variant, "variant", VARIANTS)
        check_nonnegative(self.variance_weight, "variance_weight")
        check_nonnegative(self.correction, "correction")

    def _n_steps(self) -> int:
        return self.n_bits if self.variant == "sequential" else 1

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        del rng  # nothing is drawn
        X, mean = rows.centred_features()  # (n, d)
        pairs = PairLabels(LabelGroups.of(rows.labels))
        label_part, variance_part = pairs.covariance(X), self.variance_weight * (X.T @ X)  # (d, d)
        adjusted = label_part + variance_part
        W = np.zeros((X.shape[1], self.n_bits))
        agreement = 0.0

        def finish_bits(start: int, stop: int) -> HashStep:
            nonlocal agreement
            agreement += sum(pairs.agreement(X @ w > 0) for w in W.T[start:stop])
            values = {"objective": 0.5 * float(np.sum(W * (adjusted @ W))), "agreement": agreement / stop}
            return HashStep(values, partial(HashFunctions.around, mean, W))

        if self.variant == "sequential":
            directions = sequential_directions(X, pairs, label_part, variance_part, self.correction)
            for bit, w in zip(range(self.n_bits), directions, strict=False):
                W[:, bit] = w
                yield finish_bits(bit, bit + 1)
            return
        if self.n_bits > len(W):
            raise InputError(
                f"n_bits must be at most {len(W)}, the number of features, with variant={self.variant!r}, "
                f"got {self.n_bits}; variant='sequential' makes more"
            )
        solve = top_eigenvectors if self.variant == "orthogonal" else nonorthogonal_directions
        W[:] = solve(adjusted, self.n_bits)
        yield finish_bits(0, self.n_bits)


@dataclass(frozen=True)
class PairLabels:
    """S, which is 1 for pairs of rows that share a label and -1 for other pairs, by groups of rows with the same labels."""

    groups: LabelGroups

    def covariance(self, X: Float64) -> Float64:
        """Return X' S X (d, d) of rows X (n, d)."""
        sums, total = self.groups.sums(X), X.sum(axis=0)
        diagonal = 2 * self._has_label() - 1  # (n,): a row is no pair with itself
        return np.asarray(
            2 * (sums.T @ self.groups.share_label @ sums)
            - np.outer(total, total)
            - X.T @ (diagonal[:, None] * X)
        )

    def wrong_covariance(self, X: Float64, projected: Float64) -> Float64:
        """Return X' T X (d, d): T_ij is the product of the projections (n,) of rows i and j if it contradicts S_ij, else 0."""
        positive, negative = (np.maximum(sign * projected, 0)[:, None] * X for sign in (1, -1))  # (n, d)
        a, b = self.groups.sums(positive), self.groups.sums(negative)  # (g, d)
        a_total, b_total = a.sum(axis=0), b.sum(axis=0)
        shared = a.T @ self.groups.share_label @ b  # pairs that share a label, on opposite sides
        others = (
            np.outer(a_total, a_total) - a.T @ self.groups.share_label @ a
        )  # other pairs, on the same side
        others += np.outer(b_total, b_total) - b.T @ self.groups.share_label @ b
        diagonal = ((1 - self._has_label()) * projected)[
            :, None
        ] * X  # rows without labels, counted in `others`
        return np.asarray(others - shared - shared.T - diagonal.T @ diagonal)

    def agreement(self, bit: Flags) -> float:
        """Return the mean of S_ij h_i h_j over all pairs, where h (n,) is 1 if the bit is set, else -1."""
        h = signs(bit)
        n = len(h)
        return float(self.covariance(h[:, None])[0, 0]) / (n * (n - 1)) if n > 1 else 0.0

    def _has_label(self) -> Float64:
        """Return 1 for a row that carries a label and 0 for one without, (n,)."""
        return np.asarray(self.groups.share_label.diagonal()[self.groups.of_row])


def nonorthogonal_directions(adjusted: Float64, n_bits: int) -> Float64:
    """Return L U (d, n_bits), where ``L L' = I + M / rho`` and U are the orthogonal directions of M (d, d).

    rho is just above the smallest value that makes the sum positive definite. There the directions differ most from
    orthogonal ones.
    """
    eigenvalues = scipy.linalg.eigvalsh(adjusted)
    rho = 1.01 * max(-eigenvalues[0], 1e-6 * eigenvalues[-1]) or 1.0  # any value will do if M is zero
    L = positive_factor(np.eye(len(adjusted)) + adjusted / rho)
    return np.asarray(L @ top_eigenvectors(adjusted, n_bits))


def sequential_directions(
    X: Float64,
    pairs: PairLabels,
    label_part: Float64,
    variance_part: Float64,
    correction: float,
) -> Iterator[Float64]:
    """Yield one direction (d,) after another, without end.

    Parameters
    ----------
    X : (n, d) float64
        Centred features.
    pairs : PairLabels
        The labels of the n rows.
    label_part : (d, d)
        X' S X.
    variance_part : (d, d)
        eta X' X.
    correction : float
        alpha.
    """
    while True:
        w = top_eigenvectors(label_part + variance_part, 1)[:, 0]
        yield w
        label_part = label_part - correction * pairs.wrong_covariance(X, X @ w)
        without_w = np.eye(len(w)) - np.outer(w, w)  # (d, d)
        variance_part = without_w @ variance_part @ without_w
