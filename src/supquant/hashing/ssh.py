"""Features to bits: SSH, directions that agree with the labels of pairs and along which all rows vary.

"Semi-Supervised Hashing for Large-Scale Search" (Wang, Kumar, Chang, PAMI 2012; its first two forms are those of
"Semi-Supervised Hashing for Scalable Image Retrieval", CVPR 2010, the third is that of "Sequential Projection Learning for
Hashing with Compact Codes", ICML 2010). With centred features X (n, d), rows as vectors, and S_ij = 1 where rows i and j share
a label, else -1, nothing on the diagonal, the bits sgn(X W) shall agree with S; without the sign that is to make large

    J(W) = tr(W' M W) / 2,    M = X' S X + eta X' X         (the adjusted covariance)

orthogonal
    W'W = I: the eigenvectors of M with the largest eigenvalues.
nonorthogonal
    J(W) - rho |W'W - I|^2 / 4 instead of the constraint: W W' = Q = I + M / rho, positive definite once rho exceeds the
    negative of M's smallest eigenvalue. With its Cholesky factor, Q = L L', and those eigenvectors U, W = L U.
sequential
    One direction after another, the top eigenvector w of M. Then pairs that the direction got wrong, p = X w, p_i p_j S_ij < 0,
    weigh more, ``S_ij - alpha p_i p_j``, and X is left without that direction where it stands for the variance:

        M <- (X' S X) - alpha X' T X + eta (X - X w w')' (X - X w w'),    T_ij = p_i p_j where the pair is wrong, else 0

S is never written out. Rows fall into groups that carry the same labels, so that a sum over pairs that share a label is one over
pairs of groups, and T splits by sign: for similar rows ``-(p+ p-' + p- p+')``, for others ``p+ p+' + p- p-'``, with the
positive and negative parts p+ and p- of p. A bit then costs the eigenvector and O(n d), not O(n^2 d).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.errors import InputError
from supquant.features import Features
from supquant.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant.hashing.pairs import LabelGroups
from supquant.hashing.rows import HashRows
from supquant.progress import Progress
from supquant.validation import check_choice, check_integer, check_nonnegative

VARIANTS = ("sequential", "nonorthogonal", "orthogonal")


class SSH(HashEstimator):
    """Semi-supervised hashing: eigenvectors of a covariance that the labels of pairs adjust.

    With classes as labels, the part of the labels has a rank below their number: in the orthogonal form later bits are mere
    principal components, and more than a few dozen of them hurt. The sequential form, which the authors recommend, has bits
    that mend the errors of earlier ones, and may have more of them than features.

    Parameters
    ----------
    n_bits : int, default=64
        A multiple of 8. The orthogonal and the nonorthogonal form have at most as many as there are features.
    variant : {'sequential', 'nonorthogonal', 'orthogonal'}, default='sequential'
    variance_weight : float, default=30
        eta, what the variance of the features counts beside the pairs, of which there are as many as rows squared.
    correction : float, default=1
        alpha, how much more a pair weighs that a bit got wrong, in the sequential form. The products of projections that it
        multiplies are those of the features: it suits rows of about unit length.
    features : AnchorKernel, 'auto' or None, default=None
        None takes vectors as they are, as published; 'auto' a kernel of 1000 anchors.
    max_rows : int or None, default=5000
        How many random rows to learn from at the most; None for all.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Gets a `Progress` after each step: a bit in the sequential form, all bits at once in the others.
    verbose : int, default=0

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each step: "objective" is J(W) with the labels S as they were given, "agreement" the mean of S_ij h_i h_j over all
        pairs and over the bits h so far, from -1 to 1. Both are to be large.
    n_iter_ : int
        Steps taken.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant.hashing import SSH
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
        if self.max_rows is not None:
            check_integer(self.max_rows, "max_rows", 2)

    def _n_steps(self) -> int:
        return self.n_bits if self.variant == "sequential" else 1

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        del rng  # there is no chance in it
        X = rows.features().astype(np.float64)  # (n, d)
        mean = X.mean(axis=0)
        X -= mean
        pairs = PairLabels(LabelGroups.of(rows.labels))
        label_part, variance_part = pairs.covariance(X), self.variance_weight * (X.T @ X)  # (d, d)
        adjusted = label_part + variance_part
        W = np.zeros((X.shape[1], self.n_bits))
        agreement = 0.0

        def finished(start: int, stop: int) -> HashStep:
            nonlocal agreement
            agreement += sum(pairs.agreement(X @ w > 0) for w in W.T[start:stop])
            values = {"objective": 0.5 * float(np.sum(W * (adjusted @ W))), "agreement": agreement / stop}
            return HashStep(values, lambda: HashFunctions(W, mean @ W))

        if self.variant == "sequential":
            directions = sequential_directions(X, pairs, label_part, variance_part, self.correction)
            for bit, w in zip(range(self.n_bits), directions, strict=False):
                W[:, bit] = w
                yield finished(bit, bit + 1)
            return
        if self.n_bits > len(W):
            raise InputError(
                f"n_bits must be at most {len(W)}, the number of features, with variant={self.variant!r}, "
                f"got {self.n_bits}; variant='sequential' makes more"
            )
        solve = orthogonal_directions if self.variant == "orthogonal" else nonorthogonal_directions
        W[:] = solve(adjusted, self.n_bits)
        yield finished(0, self.n_bits)


@dataclass(frozen=True)
class PairLabels:
    """S, which is 1 for pairs of rows that share a label and -1 for others, by groups of rows with the same labels."""

    groups: LabelGroups

    def covariance(self, X: Float64) -> Float64:
        """Give X' S X (d, d) of rows X (n, d)."""
        sums, total = self.groups.sums(X), X.sum(axis=0)
        own = 2 * self._with_itself() - 1  # (n,): on the diagonal, where there is no pair
        return np.asarray(
            2 * (sums.T @ self.groups.alike @ sums) - np.outer(total, total) - X.T @ (own[:, None] * X)
        )

    def wrong_covariance(self, X: Float64, projected: Float64) -> Float64:
        """Give X' T X (d, d), T_ij the product of the projections (n,) of rows i and j where it contradicts S_ij, else 0."""
        above, below = (np.maximum(sign * projected, 0)[:, None] * X for sign in (1, -1))  # (n, d)
        a, b = self.groups.sums(above), self.groups.sums(below)  # (g, d)
        a_total, b_total = a.sum(axis=0), b.sum(axis=0)
        crossed = a.T @ self.groups.alike @ b
        together = np.outer(a_total, a_total) - a.T @ self.groups.alike @ a
        together += np.outer(b_total, b_total) - b.T @ self.groups.alike @ b
        own = ((1 - self._with_itself()) * projected)[:, None] * X  # rows without labels, on the diagonal
        return np.asarray(together - crossed - crossed.T - own.T @ own)

    def agreement(self, bit: NDArray[np.bool_]) -> float:
        """Give the mean of S_ij h_i h_j over all pairs, h (n,) being 1 where the bit is set, else -1."""
        h = np.where(bit, 1.0, -1.0)
        n = len(h)
        return float(self.covariance(h[:, None])[0, 0]) / (n * (n - 1)) if n > 1 else 0.0

    def _with_itself(self) -> Float64:
        """Tell whether a row shares a label with itself, (n,): 1, or 0 where it has none."""
        return np.asarray(self.groups.alike.diagonal()[self.groups.of_row])


def orthogonal_directions(adjusted: Float64, n_bits: int) -> Float64:
    """Give the eigenvectors (d, n_bits) of M (d, d) with the largest eigenvalues, the largest first."""
    d = len(adjusted)
    vectors: Float64 = scipy.linalg.eigh(adjusted, subset_by_index=(d - n_bits, d - 1))[1]
    return vectors[:, ::-1]


def nonorthogonal_directions(adjusted: Float64, n_bits: int) -> Float64:
    """Give L U (d, n_bits), ``L L' = I + M / rho``, U the orthogonal directions of M (d, d).

    rho is kept just above the least that makes it positive definite, where directions differ most from orthogonal ones.
    """
    eigenvalues = scipy.linalg.eigvalsh(adjusted)
    rho = 1.01 * max(-eigenvalues[0], 1e-6 * eigenvalues[-1]) or 1.0  # any, where nothing varies
    L = scipy.linalg.cholesky(np.eye(len(adjusted)) + adjusted / rho, lower=True)
    return np.asarray(L @ orthogonal_directions(adjusted, n_bits))


def sequential_directions(
    X: Float64,
    pairs: PairLabels,
    label_part: Float64,
    variance_part: Float64,
    correction: float,
) -> Iterator[Float64]:
    """Give one direction (d,) after another, for ever.

    Parameters
    ----------
    X : (n, d) float64
        Centred.
    pairs : PairLabels
        Of its rows.
    label_part : (d, d)
        X' S X.
    variance_part : (d, d)
        eta X' X.
    correction : float
        alpha.
    """
    while True:
        w = orthogonal_directions(label_part + variance_part, 1)[:, 0]
        yield w
        label_part = label_part - correction * pairs.wrong_covariance(X, X @ w)
        kept = np.eye(len(w)) - np.outer(w, w)  # (d, d)
        variance_part = kept @ variance_part @ kept
