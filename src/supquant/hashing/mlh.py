"""Features to bits: MLH, hash functions by structured prediction on a hinge-like loss of pairs.

"Minimal Loss Hashing for Compact Binary Codes" (Norouzi, Fleet, ICML 2011). Rows X (n, d) are centred and scaled to unit
length, bits are the signs of X W. A pair whose q-bit codes differ in m bits has the hinge-like loss (slopes as in the authors'
release: the worst similar pair loses one, the worst other pair lambda)

    l(m) = max(m - rho + 1, 0) / (q - rho + 1)           for rows that share a label
    l(m) = lambda max(rho - m + 1, 0) / (rho + 1)        for others

A code maximises its score, sgn(u) = argmax_g g'u, so that with u = W'x_i and v = W'x_j the loss of a pair is bounded by

    l(|sgn u - sgn v|) <= max_{g, h} [ l(|g - h|) + g'u + h'v ] - |u|_1 - |v|_1,     |g - h| the number of bits that differ

The maximum, loss-adjusted inference, is exact: making bit k differ instead of agree adds ``|u_k - v_k| - |u_k + v_k|``, so
for each m the best m bits are those with the largest gains, one sort for all m. The bound's derivative is ``g - sgn u`` by u and
``h - sgn v`` by v: a perceptron-like update, averaged over mini-batches, with momentum. As in the release, weights decay
instead of being normalised after each update, and similar pairs are drawn more often than they come. Signs are 1 and -1 where
the paper has 1 and 0, which only doubles the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Float64
from supquant.features import Features
from supquant.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant.hashing.rows import HashRows
from supquant.progress import Progress
from supquant.validation import check_integer, check_nonnegative, check_positive

Rows = NDArray[np.intp]

BATCH_PAIRS = 100
EPOCH_PAIRS = 100_000
MOMENTUM = 0.9
SIMILAR_SHARE = 0.5
"""Published: pairs of one update and of one epoch, the momentum, and how many pairs of a batch share a label at least."""

MEASURED_PAIRS = 5000
"""How many fixed pairs the bound and the loss are measured on."""


class MLH(HashEstimator):
    """Minimal loss hashing: linear hash functions that minimise a bound on a hinge-like loss of pairs.

    Parameters
    ----------
    n_bits : int, default=64
        A multiple of 8.
    radius : int, optional
        rho: pairs that share a label should differ in fewer bits, others in more. By default a quarter of the bits: the
        authors choose it by validation, in proportion to the bits.
    dissimilar_weight : float, default=1
        lambda, the loss of pairs that share no label beside that of the others.
    n_epochs : int, default=50
        Epochs of 100,000 pairs. The authors run 500 to 2000 at a tenth of the rate, on 40 dimensions.
    learning_rate : float, default=0.3
        Of the first epoch; it falls to zero along a straight line.
    weight_decay : float, default=1e-4
        The authors choose it by validation from 1e-6 to 1e-1.
    features : AnchorKernel, 'auto' or None, default=None
        None takes vectors as they are, as published; 'auto' a kernel of 1000 anchors.
    max_rows : int, default=5000
        How many random rows to draw pairs from at the most.
    n_jobs : int, optional
        Threads; all cores by default. Codes do not depend on it.
    random_state : int, numpy Generator or None
    callback : callable, optional
        Gets a `Progress` after each epoch.
    verbose : int, default=0

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each epoch, means over the same random pairs: "objective" is the bound, "loss" what it bounds. The descent is
        stochastic: the bound need not fall in every epoch.
    n_iter_ : int
        Epochs finished.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant.hashing import MLH
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> mlh = MLH(8, n_epochs=2, random_state=0).fit(X, X[:, 0] > 0)
    >>> mlh.encode(X).shape
    (200, 1)
    """

    _file_kind: ClassVar[str] = "mlh"

    def __init__(
        self,
        n_bits: int = 64,
        *,
        radius: int | None = None,
        dissimilar_weight: float = 1.0,
        n_epochs: int = 50,
        learning_rate: float = 0.3,
        weight_decay: float = 1e-4,
        features: Features = None,
        max_rows: int = 5000,
        n_jobs: int | None = None,
        random_state: int | np.random.Generator | None = None,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.radius = radius
        self.dissimilar_weight = dissimilar_weight
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.features = features
        self.max_rows = max_rows
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _check_parameters(self) -> None:
        if self.radius is not None:
            check_integer(self.radius, "radius", 1, self.n_bits)
        check_positive(self.dissimilar_weight, "dissimilar_weight")
        check_integer(self.n_epochs, "n_epochs", 1)
        check_positive(self.learning_rate, "learning_rate")
        check_nonnegative(self.weight_decay, "weight_decay")
        check_integer(self.max_rows, "max_rows", 2)

    def _n_steps(self) -> int:
        return self.n_epochs

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        X = rows.features().astype(np.float64)  # (n, d)
        mean = X.mean(axis=0)
        X -= mean
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X /= np.where(lengths > 0, lengths, 1.0)  # changes no sign, hence no bit
        pairs = PairSource.of_rows(rows)
        radius = self.n_bits // 4 if self.radius is None else self.radius
        losses = loss_table(self.n_bits, radius, self.dissimilar_weight)
        measured = pairs.draw(MEASURED_PAIRS, rng)
        W = rng.normal(
            scale=0.1, size=(X.shape[1], self.n_bits)
        )  # random directions, as locality-sensitive hashing
        velocity = np.zeros_like(W)

        for epoch in range(self.n_epochs):
            rate = self.learning_rate * (1 - epoch / self.n_epochs)
            for _ in range(EPOCH_PAIRS // BATCH_PAIRS):
                gradient = bound_gradient(W, X, *pairs.draw(BATCH_PAIRS, rng), losses)
                velocity = MOMENTUM * velocity - rate * (gradient + self.weight_decay * W)
                W = W + velocity
            bound, loss = bound_and_loss(W, X, *measured, losses)
            yield HashStep({"objective": bound, "loss": loss}, partial(_functions, W, mean))


def _functions(W: Float64, mean: Float64) -> HashFunctions:
    return HashFunctions(W, mean @ W)


@dataclass(frozen=True)
class PairSource:
    """Draws pairs of rows, of which at least a given share are similar."""

    similar: NDArray[np.bool_]  # (n, n)
    candidates: NDArray[np.intp]  # (s,): where it is true off the diagonal, in the flattened matrix

    @classmethod
    def of_rows(cls, rows: HashRows) -> Self:
        """Find the similar pairs."""
        similar = rows.similar()
        others = similar.copy()
        np.fill_diagonal(others, False)
        return cls(similar, np.flatnonzero(others))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[Rows, Rows, NDArray[np.bool_]]:
        """Draw pairs: the rows i (size,), the rows j (size,), and whether they share a label (size,).

        Similar pairs are added to pairs of any kind until they make up their share.
        """
        n = len(self.similar)
        lacking = max(SIMILAR_SHARE - len(self.candidates) / n**2, 0.0) if len(self.candidates) else 0.0
        added = round(size * lacking)
        flat = rng.integers(n * n, size=size)
        if added:
            flat[:added] = self.candidates[rng.integers(len(self.candidates), size=added)]
        i, j = np.divmod(flat, n)
        return i, j, self.similar[i, j]


def loss_table(n_bits: int, radius: int, dissimilar_weight: float) -> Float64:
    """Give l(m) for m = 0 .. n_bits, (2, n_bits + 1): of dissimilar pairs, then of similar ones."""
    m = np.arange(n_bits + 1)
    apart = dissimilar_weight * np.maximum(radius - m + 1, 0) / (radius + 1)
    near = np.maximum(m - radius + 1, 0) / (n_bits - radius + 1)
    return np.stack([apart, near])


def adjusted_codes(U: Float64, V: Float64, losses: Float64) -> tuple[Float64, Float64]:
    """Loss-adjusted inference: the codes g, h that maximise ``l(|g - h|) + g'u + h'v``.

    Parameters
    ----------
    U, V : (b, q) float64
        Projections of the two rows of each pair.
    losses : (b, q + 1) float64
        l(m) of each pair.

    Returns
    -------
    (b, q) and (b, q) float64 of 1 and -1
    """
    gains = np.abs(U - V) - np.abs(U + V)  # (b, q): of bits that differ over bits that agree
    order = np.argsort(-gains, axis=1)
    totals = losses.copy()
    totals[:, 1:] += np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
    differing = np.argmax(totals, axis=1)  # (b,): m
    differ = np.empty(U.shape, dtype=bool)
    np.put_along_axis(differ, order, np.arange(U.shape[1]) < differing[:, None], axis=1)
    G = signs(np.where(differ, U - V, U + V))
    return G, np.where(differ, -G, G)


def bound_gradient(
    W: Float64, X: Float64, i: Rows, j: Rows, similar: NDArray[np.bool_], losses: Float64
) -> Float64:
    """Give the derivative (d, q) of the mean bound of pairs (b,) by W."""
    both = X[np.concatenate([i, j])]  # (2 b, d)
    projected = both @ W
    U, V = np.split(projected, 2)
    adjusted = np.concatenate(adjusted_codes(U, V, losses[similar.astype(np.intp)]))
    return np.asarray(both.T @ (adjusted - signs(projected)) / len(i))


def bound_and_loss(
    W: Float64, X: Float64, i: Rows, j: Rows, similar: NDArray[np.bool_], losses: Float64
) -> tuple[float, float]:
    """Give the mean bound and the mean loss of pairs (b,)."""
    projected = X @ W
    U, V = projected[i], projected[j]
    each = losses[similar.astype(np.intp)]  # (b, q + 1)
    G, H = adjusted_codes(U, V, each)
    pair = np.arange(len(i))
    adjusted = each[pair, np.count_nonzero(G != H, axis=1)] + (G * U + H * V).sum(axis=1)
    bound = adjusted - np.abs(U).sum(axis=1) - np.abs(V).sum(axis=1)
    loss = each[pair, np.count_nonzero(signs(U) != signs(V), axis=1)]
    return float(bound.mean()), float(loss.mean())


def signs(values: Float64) -> Float64:
    """Give 1 where a value is positive, else -1: the bits as they are encoded."""
    return np.where(values > 0, 1.0, -1.0)
