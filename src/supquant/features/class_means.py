"""The solver of `LabelKernel` for many classes: their means, and the scatter that they share.

Linear discriminant analysis: with means m_c and scatter S within classes, the logit of class c at x is
``T (m_c' S^-1 x - m_c' S^-1 m_c / 2) + log n_c``. Sums over rows and one solve are all it takes, so the cost grows with rows and
with classes, not with their product. The ridge on S and the temperature T, which is below one since means of few rows are noisy,
are those of the lowest held-out loss. Where a pass over all rows and classes is cheap enough, logistic regression goes on from
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import scipy.linalg

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
from supquant.statistics import Float

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)
"""On the diagonal of S, in units of its mean."""

TEMPERATURES = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)

MOST_WORK = 3e11
"""Products and sums of one pass over rows, features and classes, beyond which there is no logistic regression."""


@dataclass(frozen=True, eq=False)
class ClassSums:
    """What the means and the scatter are made of."""

    gram: Float  # (d, d)  X'X
    sums: Float  # (L, d)
    counts: Float  # (L,)

    def merged(self, other: ClassSums) -> ClassSums:
        """Add the sums over the rows of both."""
        return ClassSums(self.gram + other.gram, self.sums + other.sums, self.counts + other.counts)

    def weights(self, ridge: float) -> Float:
        """Return weights (d + 1, L) of logits at temperature one, the last row the shifts, without the frequency of classes.

        A class without rows has no logits that could be the highest.
        """
        present = self.counts > 0
        means = self.sums / np.maximum(self.counts, 1)[:, None]
        total = self.counts.sum()
        scatter = (self.gram - self.sums.T @ means) / total
        level = float(np.trace(scatter)) / len(scatter)
        scatter[np.diag_indices_from(scatter)] += ridge * max(level, 1e-12)
        solved = scipy.linalg.solve(scatter, means.T, assume_a="pos")  # (d, L)
        shifts = -0.5 * np.einsum("cd,dc->c", means, solved)
        shifts[~present] = shifts.min() - 1e3
        return np.vstack([solved, shifts])

    def log_frequencies(self) -> Float:
        """Return the logarithm (L,) of how frequent classes are."""
        return np.asarray(np.log(np.maximum(self.counts, 0.5) / self.counts.sum()))


def class_sums(rows: KernelRows) -> ClassSums:
    """Sum rows by class, and their products: float32 within a block, float64 over blocks."""

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
    tried = {
        (ridge, temperature): loss
        for ridge in (RIDGES if len(held) else RIDGES[-2:-1])
        for temperature, loss in _losses(sums, ridge, held).items()
    }
    ridge, temperature = min(tried, key=tried.__getitem__)
    every = sums.merged(of_held)
    weights, final = (_calibrated(each, ridge, temperature) for each in (sums, every))
    losses = [tried[ridge, temperature]]
    n_iter = 0
    if len(held) and len(kept) * kept.width * kept.labels.n_labels * 4 <= MOST_WORK:
        equations = NormalEquations(_with_ones(sums), np.zeros((kept.width, 0)))
        factor = equations.safe_factor(1e-3)
        start = LeastSquares(ridge, weights, Calibration(1.0, 0.0), losses[0])
        weights, losses = best_step(logistic_steps(kept, weights, factor), start, held, MOST_PASSES)
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


def _calibrated(sums: ClassSums, ridge: float, temperature: float) -> Float:
    weights = temperature * sums.weights(ridge)
    weights[-1] += sums.log_frequencies()
    return weights


def _losses(sums: ClassSums, ridge: float, held: KernelRows) -> dict[float, float]:
    """Return the loss a held-out row by temperature; of no rows it is nothing."""
    weights = sums.weights(ridge).astype(np.float32)
    frequencies = sums.log_frequencies().astype(np.float32)
    losses = dict.fromkeys(TEMPERATURES if len(held) else (1.0,), 0.0)
    for numbers in held.blocks:
        for start, stop in row_blocks(len(numbers), 512):
            part = numbers[start:stop]
            scores = held.features_of(part) @ weights
            Y = held.indicators(part)
            for temperature in losses:
                losses[temperature] += log_loss(
                    scores * np.float32(temperature) + frequencies, Y, multilabel=False
                )
    return {temperature: loss / max(len(held), 1) for temperature, loss in losses.items()}


def _with_ones(sums: ClassSums) -> Float:
    """Return the products (d + 1, d + 1) of features with a last column of ones."""
    total = sums.sums.sum(axis=0)
    return np.block([[sums.gram, total[:, None]], [total[None], sums.counts.sum()]])
