"""What speaks for every label of a row: a classifier that did not see it, and the labels of the neighbours.

With one label per row, `usualness.py` joins them with a logistic regression and says how probably each label is wrong. With
several, the belief in a label is the mean of its probability and of the fraction of neighbours that have it.

The classifier is ridge regression on kernel features, which leaves one row out in closed form. With H = Phi (G + D)^-1 Phi' and
the scores S = H Y of all rows, the scores of row i without its own label are ``(S_i - H_ii Y_i) / (1 - H_ii)``. So one factor of
G + D does what n fits would do. Rows left out of a sample choose the ridge and the temperature by their log loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64, RowNumbers
from supquant.auditing.logistic import LogisticFolds
from supquant.auditing.neighbours import Neighbours
from supquant.auditing.usualness import (
    count_labels,
    label_shares,
    learn_usualness,
    number_wrong,
    probabilities_wrong,
)
from supquant.codec.probabilities import label_probabilities
from supquant.inputs.labels import Labels
from supquant.model.kernel_classifier import RIDGES, Calibration, calibrate
from supquant.model.kernel_rows import Factor, KernelRows, NormalEquations
from supquant.model.label_kernel import MANY_LABELS, gaussian_kernel
from supquant.parallel import BLOCK_ROWS, ordered_map, row_blocks
from supquant.published.anchor_kernel import WIDE
from supquant.row_sums import FeatureCache

BLOCK_SCORES = 1 << 23
"""A block has at most this number of scores, one for each row and label."""

KEPT_BYTES = 1 << 30
"""At most this number of bytes of probabilities are kept until labels are judged. Others are computed twice."""

FORGOTTEN = 0.5
"""With several labels per row, a label that is not given is suggested if the belief in it is at least this."""

MAX_ANCHORS = 2000
"""The kernel has at most this number of anchors. It has none with more than `MANY_LABELS` labels or vectors wider than `WIDE`."""

MAX_JUDGES = 4096
"""At most this number of rows choose ridge and temperature."""

MAX_LOSS_RATIO = 1.02
"""No smaller ridge is tried after a loss that is more than this many times the lowest one."""

MIN_JUDGED_ROWS = 2
"""A label of fewer rows than this is not judged: without the row that has it, nothing is known about the label."""

MIN_REST = 1e-4
"""Scores are divided by 1 - H_ii, but not by less than this. A row with less decides its own score alone."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Pairs of a row and a label, with what speaks for the label."""

    row: RowNumbers  # (e,)
    label: NDArray[np.int64]  # (e,) numbers of classes
    probability: Float64  # (e,) by the classifier without this row's labels
    agreement: (
        Float64  # (e,) fraction of the labelled neighbours that have the label; NaN if none has a label
    )

    @property
    def belief(self) -> Float64:
        """Mean (e,) of probability and agreement, or the probability alone where no neighbour has a label."""
        return np.where(np.isnan(self.agreement), self.probability, (self.probability + self.agreement) / 2)

    def take(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Entries:
        """Return some of the entries."""
        return Entries(self.row[chosen], self.label[chosen], self.probability[chosen], self.agreement[chosen])


@dataclass(frozen=True, eq=False)
class Judgement:
    """What was found out about the labels of all rows."""

    given: Entries  # the labels that rows have, ordered by row
    best: Entries  # (n,) the label of each row that most speaks for
    forgotten: Entries  # with several labels a row: labels that are not given and that much speaks for
    wrong: Float64 | None = (
        None  # (e,) with one label a row: how probably each given label is wrong, NaN where it is not judged
    )


def judge_labels(
    labels: Labels, judge: OutOfFold, regression: LogisticFolds | None, neighbours: Neighbours, n_jobs: int
) -> Judgement:
    """Judge the labels of all rows, block by block.

    Parameters
    ----------
    labels : Labels
        Some may be unknown.
    judge : OutOfFold
    regression : LogisticFolds or None
        Speaks for labels of rows with one label each.
    neighbours : Neighbours
    n_jobs : int
        Number of threads.
    """
    blocks = row_blocks(len(labels), max(64, min(BLOCK_ROWS, BLOCK_SCORES // labels.n_labels)))
    kept = FeatureCache(KEPT_BYTES)

    def probabilities(block: tuple[int, int]) -> Float32:
        return kept.get(block[0], lambda: judge.probabilities(np.arange(*block)))

    if labels.multilabel:
        return _judged_one_by_one(labels, probabilities, neighbours, blocks, n_jobs)

    def all_probabilities(block: tuple[int, int]) -> list[Float32]:
        return [probabilities(block), *([regression.probabilities(block)] if regression else ())]

    return _judged_by_usualness(labels, all_probabilities, neighbours, blocks, n_jobs)


def _judged_by_usualness(
    labels: Labels,
    probabilities: Callable[[tuple[int, int]], list[Float32]],
    neighbours: Neighbours,
    blocks: Sequence[tuple[int, int]],
    n_jobs: int,
) -> Judgement:
    """Judge the labels of rows that have one label each, or none."""
    assert labels.indices is not None
    own = labels.indices.astype(np.int64)
    usual = learn_usualness(own, neighbours.around, labels.n_labels, probabilities, blocks, n_jobs)
    sizes = np.bincount(own[own >= 0], minlength=labels.n_labels)
    judged = (own >= 0) & (sizes[own] >= MIN_JUDGED_ROWS)

    def of_block(block: tuple[int, int]) -> tuple[Entries, Entries, Float64, Float64]:
        numbers = np.arange(*block)
        p, *others = probabilities(block)
        votes = label_shares(own, neighbours.rows[slice(*block)], labels.n_labels)
        q = usual.shares(numbers, p, *others)

        def entries(row: NDArray[np.intp], label: NDArray[np.int64]) -> Entries:
            values = (each[row, label].astype(np.float64) for each in (p, votes))
            return Entries(numbers[row], label, *values)

        known, counted = np.flatnonzero(own[numbers] >= 0), np.flatnonzero(judged[numbers])
        return (
            entries(known, own[numbers[known]]),
            entries(np.arange(len(q)), q.argmax(axis=1)),
            q[known, own[numbers[known]]].astype(np.float64),
            count_labels(q[counted], own[numbers[counted]]),
        )

    given, best, of_own, counts = zip(*ordered_map(of_block, blocks, n_jobs), strict=True)
    joined = _joined(given)
    wrong = np.full(len(joined.row), np.nan)
    there = judged[joined.row]
    n_wrong = number_wrong(np.sum(counts, axis=0))
    wrong[there] = probabilities_wrong(np.concatenate(of_own)[there], n_wrong, labels.n_labels)
    return Judgement(joined, _joined(best), joined.take(np.zeros(0, dtype=np.intp)), wrong)


def _judged_one_by_one(
    labels: Labels,
    probabilities: Callable[[tuple[int, int]], Float32],
    neighbours: Neighbours,
    blocks: Sequence[tuple[int, int]],
    n_jobs: int,
) -> Judgement:
    """Judge the labels of rows that may have several."""
    Y = labels.sparse().astype(np.float32)  # (n, L)
    known = labels.known

    def of_block(block: tuple[int, int]) -> list[Entries]:
        numbers = np.arange(*block)
        p = probabilities(block)
        votes = _votes(Y, known, neighbours.rows[slice(*block)])
        belief = np.where(np.isnan(votes), p, (p + votes) / 2)

        def entries(row: NDArray[np.intp], label: NDArray[np.intp]) -> Entries:
            values = (each[row, label].astype(np.float64) for each in (p, votes))
            return Entries(numbers[row], label.astype(np.int64), *values)

        carried = Y[slice(*block)].toarray() > 0
        missed = np.argwhere((belief >= FORGOTTEN) & ~carried & known[slice(*block), None])
        return [
            entries(*np.nonzero(carried)),
            entries(np.arange(len(p)), belief.argmax(axis=1)),
            entries(missed[:, 0], missed[:, 1]),
        ]

    parts = list(zip(*ordered_map(of_block, blocks, n_jobs), strict=True))
    given, best, forgotten = (_joined(each) for each in parts)
    return Judgement(given, best, forgotten)


def _votes(Y: scipy.sparse.csr_array, known: NDArray[np.bool_], rows: RowNumbers) -> Float32:
    """Return the fraction of the labelled neighbours (b, k) that have each label (b, L); NaN if no neighbour has a label."""
    b, k = rows.shape
    there = (rows >= 0) & known[rows]
    counts = np.zeros((b, Y.shape[1]), dtype=np.float32)
    for j in range(k):
        counts += Y[np.where(there[:, j], rows[:, j], 0)].toarray() * there[:, j, None]
    voters = there.sum(axis=1)[:, None]
    return np.where(voters > 0, counts / np.maximum(voters, 1), np.nan).astype(np.float32)


def _joined(parts: tuple[Entries, ...]) -> Entries:
    return Entries(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("row", "label", "probability", "agreement")
        )
    )


# the classifier ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """A classifier that leaves out the labels of the row that it is asked about."""

    rows: KernelRows  # all rows, with labels and without
    inverse: Float32  # (d + 1, d + 1) the inverse of the lower Cholesky factor of G + D
    weights: Float32  # (d + 1, L) of scores, learned from all labelled rows
    calibration: Calibration
    ridge: float  # in units of the mean diagonal of G

    def scores(self, numbers: RowNumbers) -> Float32:
        """Return the scores (b, L) of rows, each without its own labels."""
        phi = self.rows.features(numbers)
        scores = phi @ self.weights
        labels = self.rows.labels.take(numbers)
        leverage = np.square(phi @ self.inverse.T).sum(axis=1)  # H_ii; rows without labels are not in G
        leverage[~labels.known] = 0
        carried = labels.sparse().tocoo()
        scores[carried.row, carried.col] -= leverage[carried.row]
        scores /= np.maximum(1 - leverage, MIN_REST)[:, None]
        return scores

    def probabilities(self, numbers: RowNumbers) -> Float32:
        """Return the probabilities (b, L) of all labels of rows, each by a classifier without its own labels."""
        logits = self.scores(numbers) * np.float32(self.calibration.temperature)
        logits -= np.float32(self.calibration.shift)
        return label_probabilities(logits, multilabel=self.rows.labels.multilabel)


def learn_out_of_fold(X: NDArray[Any], labels: Labels, rng: np.random.Generator, n_jobs: int) -> OutOfFold:
    """Learn the classifier from the labelled rows of X (n, p).

    Parameters
    ----------
    X : ndarray of shape (n, p)
    labels : Labels
        Some may be unknown.
    rng : numpy Generator
        Draws the anchors and the rows that choose the ridge.
    n_jobs : int
        Number of threads.

    Returns
    -------
    OutOfFold

    Examples
    --------
    >>> from supquant.inputs.labels import read_labels
    >>> X = np.repeat([[0.0], [1.0]], 20, axis=0) + np.linspace(0, 0.1, 40)[:, None]
    >>> y = np.repeat(["a", "b"], 20)
    >>> y[3] = "b"
    >>> judge = learn_out_of_fold(X, read_labels(y), np.random.default_rng(0), 1)
    >>> judge.probabilities(np.array([3]))[0].argmax()
    np.int64(0)
    """
    order = rng.permutation(np.flatnonzero(labels.known))
    plain = labels.n_labels > MANY_LABELS or X.shape[1] > WIDE
    kernel = None if plain else gaussian_kernel(X, order, MAX_ANCHORS, None)
    # No features are kept: blocks of judges and of all rows begin at the same row, and a cache knows blocks by that.
    learned = KernelRows.of(X, labels, kernel, np.sort(order), cache=FeatureCache(0), n_jobs=n_jobs)
    equations = learned.normal_equations()  # each row is taken out of the sums again
    judges = np.sort(order[:MAX_JUDGES])
    Y = learned.indicators(judges)

    def tried(ridge: float) -> tuple[float, OutOfFold] | None:
        factor = equations.factor(ridge)
        if factor is None:  # rounding made the matrix indefinite
            return None
        found = _solved(learned, equations, factor)
        calibration, loss = calibrate(found.scores(judges), Y, multilabel=labels.multilabel)
        return loss, OutOfFold(learned, found.inverse, found.weights, calibration, ridge)

    best: tuple[float, OutOfFold] | None = None
    for each in ordered_map(tried, RIDGES, min(2, n_jobs)):
        if each is None:
            continue
        if best is None or each[0] < best[0]:
            best = each
        elif each[0] > MAX_LOSS_RATIO * best[0]:
            break
    return best[1] if best else _solved(learned, equations, equations.safe_factor(RIDGES[0]))


def _solved(rows: KernelRows, equations: NormalEquations, factor: Factor) -> OutOfFold:
    """Return the classifier of one ridge, without a calibration."""
    inverse = scipy.linalg.solve_triangular(
        factor.lower, np.eye(len(factor.lower)), lower=True, check_finite=False
    )
    weights = factor.solve(equations.products)
    return OutOfFold(
        rows, inverse.astype(np.float32), weights.astype(np.float32), Calibration(1.0, 0.0), factor.ridge
    )
