"""What speaks for every label of a row: the classifier that did not see it, and the labels of the neighbours.

The belief in a label is the mean of its probability and of the share of neighbours that have it. On Banking77 and MNIST with 3 %
of the labels changed, the mean finds them with an average precision of .91 and .93; the probability alone reaches .87 and .88.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from supquant.arrays import Float32, Float64, RowNumbers
from supquant.auditing.neighbours import Neighbours
from supquant.auditing.out_of_fold import OutOfFold
from supquant.inputs.labels import Labels
from supquant.parallel import BLOCK_ROWS, ordered_map, row_blocks

BLOCK_SCORES = 1 << 23
"""A block has at most this number of scores, one for each row and label."""

FORGOTTEN = 0.5
"""With several labels a row, a label that is not given is suggested if the belief in it is at least this."""


@dataclass(frozen=True, eq=False)
class Entries:
    """Pairs of a row and a label, with what speaks for the label."""

    row: RowNumbers  # (e,)
    label: NDArray[np.int64]  # (e,) numbers of classes
    probability: Float64  # (e,) by the classifier without this row's labels
    agreement: Float64  # (e,) share of the labelled neighbours that have the label; NaN if none has a label

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


def judge_labels(labels: Labels, judge: OutOfFold, neighbours: Neighbours, n_jobs: int) -> Judgement:
    """Judge the labels of all rows, block by block.

    Parameters
    ----------
    labels : Labels
        Some may be unknown.
    judge : OutOfFold
    neighbours : Neighbours
    n_jobs : int
        Number of threads.
    """
    Y = labels.sparse().astype(np.float32)  # (n, L)
    known = labels.known

    def of_block(block: tuple[int, int]) -> list[Entries]:
        numbers = np.arange(*block)
        p = judge.probabilities(numbers)
        votes = _votes(Y, known, neighbours.rows[slice(*block)])
        belief = np.where(np.isnan(votes), p, (p + votes) / 2)

        def entries(row: NDArray[np.intp], label: NDArray[np.intp]) -> Entries:
            return Entries(
                numbers[row],
                label.astype(np.int64),
                p[row, label].astype(np.float64),
                votes[row, label].astype(np.float64),
            )

        carried = Y[slice(*block)].toarray() > 0
        missed = np.zeros((0, 2), dtype=np.intp)
        if labels.multilabel:
            missed = np.argwhere((belief >= FORGOTTEN) & ~carried & known[slice(*block), None])
        return [
            entries(*np.nonzero(carried)),
            entries(np.arange(len(p)), belief.argmax(axis=1)),
            entries(missed[:, 0], missed[:, 1]),
        ]

    rows = max(64, min(BLOCK_ROWS, BLOCK_SCORES // labels.n_labels))
    parts = list(zip(*ordered_map(of_block, row_blocks(len(labels), rows), n_jobs), strict=True))
    return Judgement(*(_joined(each) for each in parts))


def _votes(Y: scipy.sparse.csr_array, known: NDArray[np.bool_], rows: RowNumbers) -> Float32:
    """Return the share of the labelled neighbours (b, k) that have each label (b, L); NaN if no neighbour has a label."""
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
