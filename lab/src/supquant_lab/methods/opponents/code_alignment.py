"""Report: a small network whose bits agree for rows of one class, an opponent that learns bits from labels.

    a = W2 relu(W1 x + b1) + b2,    h = (a - mean) / deviation of every column,    bits = h > 0

"Image Hashing via Cross-View Code Alignment in the Age of Foundation Models" (Moummad, Zaher, Goeau, Joly, 2025) trains such a
head on frozen features: the bits of one view are the targets of the other one's cross-entropy, and a coding rate keeps them from
collapsing. Two rows of one class are the views. Sizes and step lengths are ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit

from supquant.arrays import Array, Float32
from supquant_lab.methods.opponents.maps import (
    UnitLength,
    label_numbers,
    scaled,
    through_scaling,
    unit_length,
)
from supquant_lab.problem import Training

HIDDEN = 512
"""Width of the hidden layer."""

PAIRS = 64
"""Number of pairs of rows in a step."""

STEP, DECAYS = 1e-3, (0.9, 0.999)
"""Step length of Adam, and the decay of its two means."""

DISTORTION = 0.5
"""Squared error up to which the coding rate counts bits."""

SMALL = 1e-5
"""Least variance of a column."""

Parameters = list[Array]


@dataclass
class AlignedCodes(UnitLength):
    """The head of `bits` columns.

    Attributes
    ----------
    epochs : int
        How often every row is one of a pair.
    rate : float
        Weight of the coding rate.
    """

    bits: int
    seed: int
    epochs: int
    rate: float

    def fit(self, training: Training) -> Self:
        """Learn the head from the labelled rows."""
        _, numbers = label_numbers(training)
        self._mean = training.X.mean(axis=0, dtype=np.float64).astype(np.float32)
        x = self._centred(training.X)
        rng = np.random.default_rng(self.seed)
        d = x.shape[1]
        self._parameters: Parameters = [
            rng.normal(scale=np.sqrt(2 / d), size=(HIDDEN, d)).astype(np.float32),
            np.zeros(HIDDEN, dtype=np.float32),
            rng.normal(scale=np.sqrt(1 / HIDDEN), size=(self.bits, HIDDEN)).astype(np.float32),
            np.zeros(self.bits, dtype=np.float32),
        ]
        steps = Adam(self._parameters)
        for _ in range(self.epochs):
            for pairs in _pairs(numbers, rng):
                _, slopes = alignment_loss(self._parameters, x[pairs], self.rate)
                steps.take(slopes)
        outputs = _outputs(self._parameters, x)[1]
        self._centre, self._deviation = outputs.mean(axis=0), np.sqrt(outputs.var(axis=0) + SMALL)
        return self

    def __call__(self, X: Array) -> Float32:
        """Return the outputs (n, bits), of unit length; their signs are the bits."""
        outputs = _outputs(self._parameters, self._centred(X))[1]
        return unit_length((outputs - self._centre) / self._deviation)

    def _centred(self, X: Array) -> Float32:
        return unit_length(X - self._mean)


def _pairs(numbers: Array, rng: np.random.Generator) -> Iterator[Array]:
    """Yield numbers (2 b,) of rows, of which row i and row b + i are of one class, until each row was a first one."""
    by_class = np.argsort(numbers, kind="stable")
    sizes = np.bincount(numbers)
    starts = np.cumsum(sizes) - sizes
    order = rng.permutation(len(numbers))
    for first in np.array_split(order, max(1, len(order) // PAIRS)):
        own = numbers[first]
        yield np.concatenate([first, by_class[starts[own] + rng.integers(sizes[own])]])


def _outputs(parameters: Parameters, x: Float32) -> tuple[Float32, Float32]:
    """Return the hidden layer (n, HIDDEN) and the outputs (n, bits) of rows x (n, d)."""
    W1, b1, W2, b2 = parameters
    hidden = np.maximum(x @ W1.T + b1, 0)
    return hidden, hidden @ W2.T + b2


def alignment_loss(parameters: Parameters, x: Float32, rate: float) -> tuple[float, Parameters]:
    """Return the loss of pairs of rows x (2 b, d), as `_pairs` orders them, and its gradient.

    The loss is the mean cross-entropy of the bits of one row against those of the other, less `rate` times the coding rate of
    each bit.
    """
    _, _, W2, _ = parameters
    hidden, outputs = _outputs(parameters, x)
    n, bits = outputs.shape
    deviation = np.sqrt(outputs.var(axis=0) + SMALL)
    h = (outputs - outputs.mean(axis=0)) / deviation
    targets = np.where(np.roll(h, n // 2, axis=0) > 0, 1, -1).astype(h.dtype)
    entropy = float(np.logaddexp(0, -targets * h).mean())
    slope = -targets * expit(-targets * h) / h.size

    z, lengths = scaled(h)
    factor = bits / (n * DISTORTION)
    gram = np.eye(bits, dtype=h.dtype) + factor * z.T @ z
    coding = float(np.linalg.slogdet(gram)[1]) / (2 * bits)
    slope -= rate * through_scaling(factor * np.linalg.solve(gram, z.T).T / bits, z, lengths)

    slope = (slope - slope.mean(axis=0) - h * (slope * h).mean(axis=0)) / deviation
    into_hidden = (slope @ W2) * (hidden > 0)
    slopes = [into_hidden.T @ x, into_hidden.sum(axis=0), slope.T @ hidden, slope.sum(axis=0)]
    return entropy - rate * coding, slopes


class Adam:
    """Steps down a gradient, each coordinate in units of its usual size (Kingma and Ba, 2015). Parameters change in place."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._means = [np.zeros_like(each) for each in parameters]
        self._squares = [np.zeros_like(each) for each in parameters]
        self._taken = 0

    def take(self, slopes: Parameters) -> None:
        """Take one step, given the gradient."""
        self._taken += 1
        of_mean, of_square = DECAYS
        length = np.float32(STEP * np.sqrt(1 - of_square**self._taken) / (1 - of_mean**self._taken))
        for number, slope in enumerate(slopes):
            self._means[number] += (1 - of_mean) * (slope - self._means[number])
            self._squares[number] += (1 - of_square) * (slope * slope - self._squares[number])
            self._parameters[number] -= length * self._means[number] / (np.sqrt(self._squares[number]) + 1e-8)
