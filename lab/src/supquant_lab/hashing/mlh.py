"""Features to bits: MLH, hash functions that minimise a bound on a hinge-like loss of pairs.

"Minimal Loss Hashing for Compact Binary Codes" (Norouzi, Fleet, ICML 2011). Rows X (n, d) are centred and scaled to length 1;
bits are the signs of X W. A pair whose q-bit codes differ in m bits has the loss

    l(m) = max(m - rho + 1, 0) / (q - rho + 1)           if the rows share a label
    l(m) = lambda max(rho - m + 1, 0) / (rho + 1)        if they do not

The slopes are those of the authors' release: the largest loss is 1 for a pair that shares a label, lambda for another. A code
maximises its score, sgn(u) = argmax_g g'u. So with u = W'x_i and v = W'x_j the loss of a pair has the bound

    l(|sgn u - sgn v|) <= max_{g, h} [ l(|g - h|) + g'u + h'v ] - |u|_1 - |v|_1

where |g - h| is the number of bits that differ. The maximum (loss-adjusted inference) is exact: if bit k differs instead of
agreeing, the score changes by ``|u_k - v_k| - |u_k + v_k|``. So the best m bits to differ are those with the largest change, and
one sort serves all m. The derivative of the bound is ``g - sgn u`` by u and ``h - sgn v`` by v. It is averaged over mini-batches
and applied with momentum. As in the release, weights decay instead of being normalised after each update, and pairs that share
a label are drawn more often than they occur. Signs are 1 and -1 where the paper has 1 and 0; this only doubles the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np

from supquant.arrays import Flags, Float64, RowNumbers
from supquant.inputs.parameters import check_integer, check_nonnegative, check_positive
from supquant.progress import Progress
from supquant.published.anchor_kernel import Features
from supquant_lab.hashing.base import HashEstimator, HashFunctions, HashStep
from supquant_lab.hashing.rows import HashRows, signs

BATCH_PAIRS = 100
"""Number of pairs of one update, as published."""

EPOCH_PAIRS = 100_000
"""Number of pairs of one epoch, as published."""

MOMENTUM = 0.9
"""Fraction of the last update that is added to the next one, as published."""

SIMILAR_SHARE = 0.5
"""At least this share of the drawn pairs share a label, as published."""

INITIAL_SPREAD = 0.1
"""Standard deviation of the random weights that the fit starts from."""

MEASURED_PAIRS = 5000
"""Number of pairs on which the bound and the loss are measured; they are drawn once."""


class MLH(HashEstimator):
    """Minimal loss hashing: linear hash functions that minimise a bound on a hinge-like loss of pairs.

    Parameters
    ----------
    n_bits : int, default=64
        Number of bits of a code, a multiple of 8.
    radius : int or None, default=None
        rho: pairs that share a label should differ in fewer bits, other pairs in more. None is a quarter of the bits; the
        authors choose it by validation, in proportion to the bits.
    dissimilar_weight : float, default=1
        lambda, the largest loss of a pair that shares no label. That of a pair that shares one is 1.
    n_epochs : int, default=50
        Number of epochs of 100,000 pairs. The authors run 500 to 2000 with a tenth of the learning rate, on 40 dimensions.
    learning_rate : float, default=0.3
        Learning rate of the first epoch; it falls linearly to zero.
    weight_decay : float, default=1e-4
        Weight of W in its own gradient. The authors choose it by validation from 1e-6 to 1e-1.
    features : AnchorKernel, 'auto' or None, default=None
        None takes the vectors as features, as published; 'auto' is a kernel of 1000 anchors.
    max_rows : int or None, default=5000
        Maximum number of random rows to draw pairs from; None for all.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores. Codes do not depend on it.
    random_state : int, numpy Generator or None, default=None
        Draws the rows, the anchors, the first weights and the pairs.
    callback : callable or None, default=None
        Called with a `Progress` after each epoch.
    verbose : int, default=0
        If above 0, progress is logged.

    Attributes
    ----------
    codec_ : BinaryCodec
    training_codes_ : (n, n_bits / 8) uint8
    objective_ : list of dict
        After each epoch, means over the same random pairs: "objective" is the bound, "loss" is the loss. The descent is
        stochastic, so the bound may rise in an epoch.
    n_iter_ : int
        Number of finished epochs.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from supquant_lab.hashing import MLH
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
        max_rows: int | None = 5000,
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

    def _n_steps(self) -> int:
        return self.n_epochs

    def _learn(self, rows: HashRows, rng: np.random.Generator) -> Iterator[HashStep]:
        X, mean = rows.centred_features()  # (n, d)
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        X /= np.where(lengths > 0, lengths, 1.0)  # this changes no sign and hence no bit
        pairs = PairSource.of_rows(rows)
        radius = self.n_bits // 4 if self.radius is None else self.radius
        losses = loss_table(self.n_bits, radius, self.dissimilar_weight)
        measured = pairs.draw(MEASURED_PAIRS, rng)
        W = rng.normal(scale=INITIAL_SPREAD, size=(X.shape[1], self.n_bits))
        velocity = np.zeros_like(W)

        for epoch in range(self.n_epochs):
            rate = self.learning_rate * (1 - epoch / self.n_epochs)
            for _ in range(EPOCH_PAIRS // BATCH_PAIRS):
                gradient = bound_gradient(W, X, *pairs.draw(BATCH_PAIRS, rng), losses)
                velocity = MOMENTUM * velocity - rate * (gradient + self.weight_decay * W)
                W = W + velocity
            bound, loss = bound_and_loss(W, X, *measured, losses)
            yield HashStep({"objective": bound, "loss": loss}, partial(HashFunctions.around, mean, W))


@dataclass(frozen=True)
class PairSource:
    """Draws pairs of rows; at least `SIMILAR_SHARE` of them share a label, if any pair does."""

    share_label: Flags  # (n, n)
    similar_pairs: RowNumbers  # (s,): i n + j for each pair of two rows i, j that share a label

    @classmethod
    def of_rows(cls, rows: HashRows) -> Self:
        """Find the pairs that share a label."""
        share_label = rows.share_label()
        distinct = share_label.copy()
        np.fill_diagonal(distinct, False)
        return cls(share_label, np.flatnonzero(distinct))

    def draw(self, size: int, rng: np.random.Generator) -> tuple[RowNumbers, RowNumbers, Flags]:
        """Draw pairs: the rows i (size,), the rows j (size,), and whether they share a label (size,).

        All pairs are drawn at random; then as many as are missing on average are replaced by pairs that share a label.
        """
        n, n_similar = len(self.share_label), len(self.similar_pairs)
        missing_share = max(SIMILAR_SHARE - n_similar / n**2, 0.0) if n_similar else 0.0
        n_added = round(size * missing_share)
        pairs = rng.integers(n * n, size=size)
        if n_added:
            pairs[:n_added] = self.similar_pairs[rng.integers(n_similar, size=n_added)]
        i, j = np.divmod(pairs, n)
        return i, j, self.share_label[i, j]


def loss_table(n_bits: int, radius: int, dissimilar_weight: float) -> Float64:
    """Return l(m) for m = 0 .. n_bits, (2, n_bits + 1): for pairs that share no label, then for pairs that share one."""
    m = np.arange(n_bits + 1)
    dissimilar = dissimilar_weight * np.maximum(radius - m + 1, 0) / (radius + 1)
    similar = np.maximum(m - radius + 1, 0) / (n_bits - radius + 1)
    return np.stack([dissimilar, similar])


def adjusted_codes(U: Float64, V: Float64, losses: Float64) -> tuple[Float64, Float64]:
    """Return the codes g, h that maximise ``l(|g - h|) + g'u + h'v``: loss-adjusted inference.

    Parameters
    ----------
    U, V : (b, q) float64
        Projections of the two rows of each pair.
    losses : (b, q + 1) float64
        l(m) of each pair.

    Returns
    -------
    G, H : (b, q) float64
        The codes, of 1 and -1.
    """
    gains = np.abs(U - V) - np.abs(U + V)  # (b, q): of a bit that differs over one that agrees
    order = np.argsort(-gains, axis=1)
    totals = losses.copy()  # totals[pair, m] = losses[pair, m] + the m largest gains of the pair
    totals[:, 1:] += np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
    n_differ = np.argmax(totals, axis=1)  # (b,)
    # for pair in range(b): differ[pair, order[pair, :n_differ[pair]]] = True
    differ = np.empty(U.shape, dtype=bool)
    np.put_along_axis(differ, order, np.arange(U.shape[1]) < n_differ[:, None], axis=1)
    G = signs(np.where(differ, U - V, U + V))
    return G, np.where(differ, -G, G)


def bound_gradient(
    W: Float64, X: Float64, i: RowNumbers, j: RowNumbers, similar: Flags, losses: Float64
) -> Float64:
    """Return the derivative (d, q) by W of the mean bound of pairs (b,); `losses` is a `loss_table`."""
    both = X[np.concatenate([i, j])]  # (2 b, d)
    projected = both @ W
    U, V = np.split(projected, 2)
    adjusted = np.concatenate(adjusted_codes(U, V, losses[similar.astype(np.intp)]))
    return np.asarray(both.T @ (adjusted - signs(projected)) / len(i))


def bound_and_loss(
    W: Float64, X: Float64, i: RowNumbers, j: RowNumbers, similar: Flags, losses: Float64
) -> tuple[float, float]:
    """Return the mean bound and the mean loss of pairs (b,); `losses` is a `loss_table`."""
    projected = X @ W
    U, V = projected[i], projected[j]
    pair_losses = losses[similar.astype(np.intp)]  # (b, q + 1)
    G, H = adjusted_codes(U, V, pair_losses)
    pair = np.arange(len(i))
    adjusted = pair_losses[pair, np.count_nonzero(G != H, axis=1)] + (G * U + H * V).sum(axis=1)
    bound = adjusted - np.abs(U).sum(axis=1) - np.abs(V).sum(axis=1)
    loss = pair_losses[pair, np.count_nonzero(signs(U) != signs(V), axis=1)]
    return float(bound.mean()), float(loss.mean())
