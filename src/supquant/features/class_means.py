"""The solver of `LabelKernel` for many classes: their means, and the scatter that they share.

Linear discriminant analysis: with means m_c and scatter S within classes, the logit of class c at x is
``T (m_c' S^-1 x - m_c' S^-1 m_c / 2) + log n_c``. Sums over rows and one solve are all it takes, so the cost grows with rows and
with classes, not with their product. A mean of few rows is drawn towards that of all, by as many rows as the spread of means
asks for (empirical Bayes): of 100,000 normal classes with ten rows each, for which the Bayes rule is right 99 times in 100, that
makes 89 instead of 86. The ridge on S and the temperature T, which is below one since means are noisy still, are those of the
lowest held-out loss. Where a pass over all rows and classes is cheap enough, logistic regression goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import scipy.linalg

from supquant.arrays import Float64
from supquant.features.kernel_classifier import (
    MOST_PASSES,
    Calibration,
    KernelRows,
    LabelClassifier,
    LeastSquares,
    NormalEquations,
    best_step,
    log_loss,
    logistic_steps,
)
from supquant.parallel import ordered_map, row_blocks

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the diagonal of S, in units of its mean."""

TEMPERATURES = (1.0, 0.85, 0.7, 0.5, 0.35, 0.2, 0.1)
"""Tried in this order until the loss, which is convex in the temperature, rises."""

FEWEST_ROWS = 12
"""Of a class on average, with which logistic regression is tried: of fewer it learns their noise."""

LEAST_GAIN = 1e-3
"""Part of the loss that the first iterations must gain for others to follow."""

MOST_WORK = 3e11
"""Products and sums of one pass over rows, features and classes, beyond which there is no logistic regression."""


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What the means and the scatter are made of."""

    gram: Float64  # (d, d)  X'X
    sums: Float64  # (L, d)
    counts: Float64  # (L,)

    def merged(self, other: ClassSums) -> ClassSums:
        """Add the sums over the rows of both."""
        return ClassSums(self.gram + other.gram, self.sums + other.sums, self.counts + other.counts)

    @cached_property
    def _within(self) -> tuple[Float64, Float64, Float64, Float64]:
        """The mean (d,) of all rows; variances (d,) and directions (d, d) within classes, and the means (L, d) along these."""
        present = self.counts > 0
        total, n_classes = float(self.counts.sum()), int(present.sum())
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        middle = self.sums.sum(axis=0) / total
        if total > n_classes:
            within = (self.gram - self.sums.T @ means) / (total - n_classes)
        else:  # one row a class says nothing of the scatter within
            within = self.gram / total - np.outer(middle, middle)
        means[present] -= middle
        variances, vectors = scipy.linalg.eigh(within)
        return middle, np.maximum(variances, 0), vectors, means @ vectors

    def weights(self, ridge: float) -> Float64:
        """Return weights (d + 1, L) of logits at temperature one, the last row the shifts, without the frequency of classes.

        They are relative to a normal class around the mean of all rows, which has the logit zero; so has a class without rows.
        """
        middle, variances, vectors, means = self._within
        total, n_classes = float(self.counts.sum()), int((self.counts > 0).sum())
        scatter = variances + ridge * max(float(variances.mean()), 1e-12)
        lengths = np.square(means) @ (1 / scatter)
        noise = float((variances / scatter).sum())  # of the mean of one row
        far = float(self.counts @ lengths) - noise * n_classes
        # rows at the mean of all that every class is given: at most as many as it has on average
        added = min(noise * total / max(far, 1e-9), total / n_classes)
        trust = self.counts / (self.counts + added)
        solved = (vectors / scatter) @ (means.T * trust)  # (d, L)
        return np.vstack([solved, -middle @ solved - 0.5 * np.square(trust) * lengths])

    def log_frequencies(self) -> Float64:
        """Return the logarithm (L,) of how frequent classes are: counts, and as little as they tell more than chance does.

        Counts that differ as much as those of equally frequent classes would tell nothing (gamma-Poisson shrinkage).
        """
        mean = float(self.counts.mean())
        told = max(float(self.counts.var()) - mean, 0.0) / mean**2
        smooth = np.maximum(told * self.counts, 0.5 * told) + 1
        return np.asarray(np.log(smooth / smooth.sum()))


def class_sums(rows: KernelRows) -> ClassSums:
    """Sum rows by class, and their products, which are float32 within a block; all else is float64."""

    def of_block(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = rows.features(numbers)[:, :-1]
        return x.T @ x, rows.labels.take(numbers).sparse().T @ x

    d = rows.width - 1
    gram, sums = np.zeros((d, d)), np.zeros((rows.labels.n_labels, d))
    for xx, of_classes in ordered_map(of_block, rows.blocks, rows.n_jobs):
        gram += xx
        sums += of_classes
    counts = np.asarray(sum(rows.labels.take(each).sparse().sum(axis=0) for each in rows.blocks))
    return ClassSums(gram, sums, counts)


def learn_class_means(kept: KernelRows, held: KernelRows) -> LabelClassifier:
    """Learn from `kept` rows, choose ridge and temperature by the `held` ones, and do the same with all rows."""
    sums, of_held = class_sums(kept), class_sums(held)
    tried = _tried(sums, held)
    ridge, temperature = min(tried, key=tried.__getitem__)
    every = sums.merged(of_held)
    weights, final = (_calibrated(each, ridge, temperature) for each in (sums, every))
    losses = [tried[ridge, temperature]]
    n_iter = 0
    n_labels = kept.labels.n_labels
    cheap = len(kept) * kept.width * n_labels * 4 <= MOST_WORK
    if len(held) and cheap and len(kept) >= FEWEST_ROWS * n_labels:
        equations = NormalEquations(_with_ones(sums), np.zeros((kept.width, 0)))
        factor = equations.safe_factor(1e-3)
        start = LeastSquares(ridge, weights, Calibration(1.0, 0.0), losses[0])
        steps = logistic_steps(kept, weights, factor)
        weights, losses = best_step(steps, start, held, MOST_PASSES, least_gain=LEAST_GAIN)
        n_iter = int(np.argmin(losses))
        if n_iter:
            factor = NormalEquations(_with_ones(every), np.zeros((kept.width, 0))).safe_factor(1e-3)
            steps = logistic_steps(kept.joined(held), final, factor)
            final = next(islice(steps, n_iter - 1, None))
    return LabelClassifier(
        weights=final,
        smooth=final,
        held_weights=weights,
        held_smooth=weights,
        ridge=ridge,
        n_iter=n_iter,
        losses=[{"ridge": r, "temperature": t, "loss": loss} for (r, t), loss in tried.items()]
        + [{"ridge": ridge, "iteration": i, "loss": losses[i]} for i in range(1, len(losses))],
    )


def held_out_loss(kept: KernelRows, held: KernelRows) -> float:
    """Return the lowest loss of a held-out row before any logistic regression."""
    return min(_tried(class_sums(kept), held).values())


def _tried(sums: ClassSums, held: KernelRows) -> dict[tuple[float, float], float]:
    """Return the loss of a held-out row by ridge and temperature."""
    return {
        (ridge, temperature): loss
        for ridge in (RIDGES if len(held) else RIDGES[-2:-1])
        for temperature, loss in _losses(sums, ridge, held).items()
    }


def _calibrated(sums: ClassSums, ridge: float, temperature: float) -> Float64:
    weights = temperature * sums.weights(ridge)
    weights[-1] += sums.log_frequencies()
    return weights


def _losses(sums: ClassSums, ridge: float, held: KernelRows) -> dict[float, float]:
    """Return the loss a held-out row by temperature; of no rows it is nothing."""
    if not len(held):
        return {1.0: 0.0}
    scores, Y = held.logits(sums.weights(ridge)), held.all_indicators()
    frequencies = sums.log_frequencies().astype(np.float32)

    def loss(temperature: float) -> float:
        def of_rows(block: tuple[int, int]) -> float:
            rows = slice(*block)
            return log_loss(scores[rows] * np.float32(temperature) + frequencies, Y[rows], multilabel=False)

        return sum(ordered_map(of_rows, row_blocks(len(held), 512), held.n_jobs)) / len(held)

    losses: dict[float, float] = {}
    for temperature in TEMPERATURES:
        losses[temperature] = loss(temperature)
        if losses[temperature] > min(losses.values()):
            break
    return losses


def _with_ones(sums: ClassSums) -> Float64:
    """Return the products (d + 1, d + 1) of features with a last column of ones."""
    total = sums.sums.sum(axis=0)
    return np.block([[sums.gram, total[:, None]], [total[None], sums.counts.sum()]])
