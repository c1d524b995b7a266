"""Features to bits: BRE, hash functions on landmarks, so that Hamming distances reconstruct those that labels ask for.

"Learning to Hash with Binary Reconstructive Embeddings" (Kulis, Darrell, NIPS 2009). Each hash function has landmarks
of its own, s random rows; with a kernel k

    h_p(x) = sgn(sum_q W_pq k(x_pq, x)),    O(W) = sum_{(i, j)} (d_ij - (Hamming distance of i and j) / b)^2

over chosen pairs of rows; supervised, d_ij is 0 where the rows share a label and 1 where they do not. The kernel is the inner
product of centred vectors. (The authors also bring them to length 1. That changes no sign here: it only scales the W_pq.)

O depends on one W_pq only through the bits p, and every row's bit flips once as W_pq goes from one end to the other. So its exact
minimum is found by sorting the flips and adding up what each of them does to the pairs.
Everything here is in terms of the residue ``r_ij = b s_ij - h_i . h_j`` of signs, with ``s = 1 - 2 d``: O is the sum of the
squares of ``r_ij / 2b``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.errors import InputError
from supquant.features import Features
from supquant.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant.hashing.rows import HashRows
from supquant.progress import Progress
from supquant.validation import check_integer, check_nonnegative, check_positive

Signs = NDArray[np.float32]

_FIRST_WEIGHTS = 1e-3
"""The spread of the random weights that the authors' release starts from."""

_TOGETHER = 1e-9
"""Flips no further apart than this, relative to where they are, are one: rounding alone may part equal rows."""

_MARGIN = 1e-6
"""How far beyond the last flip a weight may go, since nothing is gained there by going further."""


class BRE(HashEstimator):
    """Binary reconstructive embeddings, supervised: coordinate descent on the distances of labelled pairs.

    Parameters
    ----------
    n_bits : int, default=64
        A multiple of 8.
    n_landmarks : int, default=50
        Random rows that each hash function is made of, as published; all rows if there are fewer.
    pairs : float, default=0.05
        With which share of the rows each row is paired, as in the authors' release.
    similar : float, default=0.5
        The share of a row's pairs that share a label with it, as far as there are such rows. The authors' release draws
        pairs whatever their labels; as many of both kinds led to better codes (validation MAP on
        CIFAR-10 at 32 bits: .216, where the natural share, a tenth, has .191).
    max_iter : int, default=200
        Passes over the bits at the most. A pass gives every hash function one of its weights anew; the fit ends with the
        first pass that leaves the objective as it was.
    features : AnchorKernel, 'auto' or None, default=None
        Features that the landmarks' inner products are taken of; None takes vectors as they are.
    max_rows : int, default=5000
        How many random rows to learn from at the most.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
        Which rows are landmarks, which pairs are taken, the first weights, the order of updates.
    callback : callable, optional
        Gets a `Progress` after each pass.
    verbose : int, default=0

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each pass: "objective" is the mean over the pairs of the squared error of the distance; "changed" the share of
        the bits that the pass flipped.
    n_iter_ : int
        Passes made.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant.hashing import BRE
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> bre = BRE(8, random_state=0).fit(X, X[:, 0] > 0)
    >>> bre.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "bre"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        n_landmarks: int = 50,
        pairs: float = 0.05,
        similar: float = 0.5,
        max_iter: int = 200,
        features: Features = None,
        max_rows: int = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.n_landmarks = n_landmarks
        self.pairs = pairs
        self.similar = similar
        self.max_iter = max_iter
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_integer(self.n_landmarks, "n_landmarks", 1)
        if check_positive(self.pairs, "pairs") > 1:
            raise InputError(f"pairs must be a share of the rows, at most 1, got {self.pairs!r}")
        if check_nonnegative(self.similar, "similar") > 1:
            raise InputError(f"similar must be a share of the pairs, at most 1, got {self.similar!r}")
        check_integer(self.max_iter, "max_iter", 1)
        check_integer(self.max_rows, "max_rows", 2)

    def _n_steps(self) -> int:
        return self.max_iter

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        x = rows.features().astype(np.float64)  # (n, d)
        mean = x.mean(axis=0)
        x -= mean
        n, b = len(x), self.n_bits
        pairs = choose_pairs(rows.similar(), self.pairs, self.similar, rng)
        landmarks = np.stack([rng.permutation(n)[: self.n_landmarks] for _ in range(b)])  # (b, s)
        weights = _FIRST_WEIGHTS * rng.normal(size=landmarks.shape)  # W (b, s)

        def projection() -> Float64:
            return np.stack([w @ x[own] for w, own in zip(weights, landmarks, strict=True)], axis=1)

        def functions() -> HashFunctions:
            made = projection()  # (d, b)
            return HashFunctions(made, mean @ made)

        values = np.ascontiguousarray((x @ projection()).T)  # (b, n), whose signs are the bits
        bits = signs(values)
        residue = b * pairs.signs
        for h in bits:
            residue -= pairs.products(h)
        objective = np.inf
        for _ in range(self.max_iter):
            flipped = 0
            for p in range(b):
                q = rng.integers(landmarks.shape[1])
                kernel = x @ x[landmarks[p, q]]  # (n,)
                others = residue + pairs.products(bits[p])  # the residue of the other bits
                step = best_step(values[p], kernel, pairs, others)
                weights[p, q] += step
                values[p] += step * kernel
                h = signs(values[p])
                n_flips = int(np.count_nonzero(h != bits[p]))
                if n_flips:
                    flipped += n_flips
                    bits[p], residue = h, others - pairs.products(h)
            before, objective = objective, float(np.mean(np.square(residue), dtype=np.float64)) / (2 * b) ** 2
            yield HashStep({"objective": objective, "changed": flipped / bits.size}, functions)
            if objective == before:
                return


@dataclass(frozen=True)
class Pairs:
    """The pairs of rows that count: each row i with k others."""

    others: NDArray[np.intp]  # (n, k)
    signs: Signs  # (n, k): 1 where the two share a label, else -1

    def products(self, h: Signs) -> Signs:
        """Give h_i h_j (n, k) of signs h (n,)."""
        return h[:, None] * h.take(self.others)


def choose_pairs(alike: NDArray[np.bool_], share: float, similar: float, rng: np.random.Generator) -> Pairs:
    """Pair each row with a share of the rows at random, a given part of which share a label with it.

    Where rows of one kind run out, those of the other take their places.

    Parameters
    ----------
    alike : (n, n) bool
        Who shares a label with whom.
    share, similar : float
        From 0 to 1.
    rng : numpy Generator
    """
    n = len(alike)
    k = min(max(1, round(share * n)), n - 1)
    wanted = round(similar * k)
    others = np.empty((n, k), dtype=np.intp)
    for i, row in enumerate(alike):
        near, far = (rows[rows != i] for rows in (np.flatnonzero(row), np.flatnonzero(~row)))
        n_near = min(len(near), max(wanted, k - len(far)))
        others[i, :n_near] = rng.permutation(near)[:n_near]
        others[i, n_near:] = rng.permutation(far)[: k - n_near]
    labels = np.where(np.take_along_axis(alike, others, axis=1), np.float32(1), np.float32(-1))
    return Pairs(others, labels)


def best_step(values: Float64, kernel: Float64, pairs: Pairs, residue: Signs) -> float:
    """Find the change of one weight that minimises the objective, exactly.

    With ``h(w) = sgn(values + w kernel)``, the objective is a constant less ``sum_ij r_ij h_i h_j`` over the pairs.

    Parameters
    ----------
    values : (n,) float64
        Whose signs are the bits.
    kernel : (n,) float64
        What the values gain as the weight grows by one.
    pairs : Pairs
    residue : (n, k) float32
        Of the other bits: r_ij of each pair.

    Returns
    -------
    float
        The middle of the best interval between two flips.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        flips = -values / kernel  # the w at which each row flips
    moves = np.isfinite(flips)  # the others do not feel the weight
    flips[~moves] = np.inf
    order = np.argsort(flips, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    first = signs(np.where(moves, -kernel, values))  # bits at the far left
    # as row i flips, the pairs whose other row flips later change sign, the others change back
    later = np.where(place.take(pairs.others) > place[:, None], np.float32(1), np.float32(-1))
    turned = residue * pairs.products(first) * later  # (n, k)
    loss = turned.sum(axis=1, dtype=np.float64)  # (n,), as a row flips: of its own pairs, and of the others'
    loss -= np.bincount(pairs.others.ravel(), turned.ravel(), minlength=len(values))
    order = order[: np.count_nonzero(moves)]
    flips = flips[order]
    if not len(flips):
        return 0.0
    gains = np.concatenate([[0.0], -2 * np.cumsum(loss[order])])  # left of all flips, after the first, ...
    together = np.diff(flips) <= _TOGETHER * np.abs(flips[1:])
    gains[1:-1][together] = -np.inf
    best = int(gains.argmax())
    margin = _MARGIN * max(1.0, abs(flips[0]), abs(flips[-1]))
    bounds = np.concatenate([[flips[0] - margin], flips, [flips[-1] + margin]])
    return float(bounds[best] + bounds[best + 1]) / 2


def signs(values: Float64) -> Signs:
    """Give 1 for what is above zero, else -1."""
    return np.where(values > 0, np.float32(1), np.float32(-1))
