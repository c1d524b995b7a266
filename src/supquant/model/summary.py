"""What a fitted model is like: counts, the expected quality of retrieval, and warnings in plain words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from supquant import kernels
from supquant.arrays import Codes, Float32, RowNumbers
from supquant.codec.gaussian_map import map_rows
from supquant.estimators.calibration import spread_rows
from supquant.metrics import average_precision, rank_codes
from supquant.model.item_rows import encode_items
from supquant.parallel import ordered_map

if TYPE_CHECKING:
    from supquant.inputs.labels import Labels
    from supquant.model.calibration import Trial
    from supquant.model.codec import SupervisedCodec
    from supquant.model.features import FittedRows

MAX_QUERIES = 300
"""At most this number of held-out rows are queries of the forecast."""

MAX_ITEMS = 4_000
"""At most this number of rows are items of the forecast."""

MIN_LABELS = 20
"""With fewer known classes than this, no MAP of new classes is expected: it comes from a fifth of them, and some are found far
better than others. With seven digits known, .24 and .56 were expected on two splits, and .59 and .58 measured."""

MIN_JUDGED = 50
"""With fewer held-out rows than this, there is no warning of labels that seem random."""

RARE_LABELS, RARE_ROWS = 100, 10
"""Of at most this many labels, those with the fewest rows, at most this many rows each are shown to the finished model."""

MIN_OF_PLAIN = 0.93
"""A model that recognises less than this fraction of what a plain classifier recognises gets a warning."""

MAX_SPREAD = 100.0
"""Where the standard deviations of columns differ more than this, the large columns are all that a distance sees."""

MAX_CHANCE = 0.9
"""If one label has a larger fraction of the rows, the number of rows that are recognised says nothing about the others."""

SEEN_ROWS, ASKED_ROWS = 1500, 500
"""The plain classifier learns from at most this many rows, and is asked for at most this many others."""

PLAIN_RIDGE = 0.1
"""Ridge of the scatter within classes, as a fraction of its mean diagonal."""

MIN_ROWS_PER_LABEL = 4
"""With fewer rows per label than this, few codes are no surprise. With fewer held-out rows of a label, nobody knows how well it
is recognised."""


@dataclass(frozen=True)
class ModelSummary:
    """What a fitted model is like. The forecasts come from rows that the classifier did not see.

    Attributes
    ----------
    n_rows : int
        Number of training rows.
    n_labels : int
        Number of labels.
    n_unlabelled : int
        Number of training rows without a label.
    n_codebooks : int
        Bytes of a code.
    n_codes : int
        Number of different codes of the training rows.
    accuracy : float or None, default=None
        Fraction of held-out rows whose label the classifier predicts; None if rows have several labels or few are held out.
    chance : float or None, default=None
        The fraction of the most frequent label among these rows.
    plain_accuracy : float or None, default=None
        The fraction of these rows that a linear classifier on standardised columns recognises.
    copied : float or None, default=None
        The fraction of these rows that are equal to one of at most 1,500 other rows.
    unlearned : float or None, default=None
        The fraction of labels that the model predicts for none of their own training rows, among the rarest labels of two rows.
    unjudged : float or None, default=None
        The fraction of labels that fewer than four held-out rows have.
    spread : float or None, default=None
        By how much the standard deviations of columns differ: the ninetieth percentile over the tenth, of those that vary.
    map_labelled, map_unlabelled : float or None, default=None
        Expected MAP for items with labels, and for items without labels of known classes.
    map_new : float or None, default=None
        Expected MAP of queries of new classes over items without labels; None if no new classes were found, or if fewer than 20
        labels are known.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from supquant import SupervisedQuantizer
    >>> sq = SupervisedQuantizer(4, random_state=0).fit(*load_digits(return_X_y=True))
    >>> sq.summary_.n_rows, sq.summary_.n_labels, sq.summary_.map_labelled > 0.9, sq.summary_.warnings
    (1797, 10, True, ())
    """

    n_rows: int
    n_labels: int
    n_unlabelled: int
    n_codebooks: int
    n_codes: int
    accuracy: float | None = None
    chance: float | None = None
    map_labelled: float | None = None
    map_unlabelled: float | None = None
    map_new: float | None = None
    plain_accuracy: float | None = None
    copied: float | None = None
    unlearned: float | None = None
    unjudged: float | None = None
    spread: float | None = None

    @classmethod
    def of(cls, codes: Codes, labels: Labels | None = None) -> ModelSummary:
        """Return the counts of codes (n, M) and of their labels, without forecasts."""
        distinct, _ = kernels.active().distinct(np.ascontiguousarray(codes))
        n_labels, n_unlabelled = (0, 0) if labels is None else (labels.n_labels, labels.n_unlabelled)
        return cls(len(codes), n_labels, n_unlabelled, codes.shape[1], len(distinct))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong, one sentence each; empty if nothing does."""
        found = []
        if self.codes_collapse:
            found.append(
                f"The codes collapse: {self.n_rows:,} rows have only {self.n_codes:,} different codes. "
                "Items with equal codes cannot be told apart; look for vectors that are all alike."
            )
        if self.labels_seem_random:
            found.append(
                f"The labels seem random: of rows that training did not see, {self.accuracy:.1%} are recognised, and the most "
                f"frequent label alone is right for {self.chance:.1%}. Are labels and vectors in the same order?"
            )
        if self.worse_than_plain:
            found.append(
                f"A plain linear classifier on standardised columns recognises {self.plain_accuracy:.1%} of rows that training "
                f"did not see, and this model {self.accuracy:.1%}. Divide every column by its standard deviation, and look for "
                "rows that lie far from all others."
            )
        if self.copied is not None and self.copied > 0.5:
            found.append(
                f"Of the rows that were held out, {self.copied:.0%} are copies of others. So the forecasts are too good, and the "
                "model may know rows by heart: leave copies out."
            )
        if self.unlearned is not None and self.unlearned > 0.1:
            found.append(
                f"Of the rarest labels, {self.unlearned:.0%} are recognised in none of the rows that the model has learned: they "
                "have too few rows, or other labels far more."
            )
        if self.chance is not None and self.chance > MAX_CHANCE and self.unjudged:
            found.append(
                f"One label has {self.chance:.1%} of the rows, and {self.unjudged:.0%} of the labels have too few to hold "
                f"{MIN_ROWS_PER_LABEL} out: how well these are recognised is not known. Leave out some rows of the frequent "
                "label, or collect more of the others."
            )
        if self.spread is not None and self.spread > MAX_SPREAD:
            found.append(
                f"The standard deviations of columns differ {self.spread:,.0f}-fold, so distances ignore the small ones. Unless "
                "all have the same unit, divide every column by its standard deviation."
            )
        return tuple(found)

    @property
    def codes_collapse(self) -> bool:
        """Whether there are no more different codes than labels, though codes have room for more."""
        if self.n_codebooks < 2 or self.n_rows < MIN_ROWS_PER_LABEL * max(self.n_labels, 2):
            return False
        return self.n_codes <= max(self.n_labels, 2)

    @property
    def labels_seem_random(self) -> bool:
        """Whether the classifier is not clearly better than the most frequent label, on rows that it did not see."""
        if self.accuracy is None or self.chance is None:
            return False
        return self.accuracy <= 1.2 * self.chance + 0.01 and self.chance < MAX_CHANCE

    @property
    def worse_than_plain(self) -> bool:
        """Whether a plain classifier recognises clearly more of the rows that training did not see."""
        if self.accuracy is None or self.chance is None or self.plain_accuracy is None:
            return False
        return self.plain_accuracy > self.chance + 0.05 and self.accuracy < MIN_OF_PLAIN * self.plain_accuracy

    def __str__(self) -> str:
        without = f", {self.n_unlabelled:,} of them without a label" if self.n_unlabelled else ""
        lines = [
            f"rows       {self.n_rows:,}{without}",
            f"labels     {self.n_labels:,}",
            f"codes      {self.n_codes:,} different ones of {self.n_codebooks} bytes",
        ]
        named = {
            "items with labels": self.map_labelled,
            "without labels": self.map_unlabelled,
            "new classes": self.map_new,
        }
        told = [f"{value:.3f} {name}" for name, value in named.items() if value is not None]
        if told:
            lines.append(f"MAP        about {', '.join(told)}")
        return "\n".join([*lines, *(f"Warning: {warning}" for warning in self.warnings)])


def summarize(rows: FittedRows, codec: SupervisedCodec, codes: Codes, trial: Trial | None) -> ModelSummary:
    """Return the summary of a fit, given its codec, the codes (n, M) of its rows, and a trial if rows are held out."""
    summary = ModelSummary.of(codes, rows.labels)
    held = rows.held_features
    if trial is None or len(held) < 2:
        return summary
    asking = rows.labels.take(rows.held_rows)
    queries = spread_rows(len(held), MAX_QUERIES)
    settled = held[queries]
    settled[:, rows.map.n_columns] = 0  # if all items have labels, no query is new
    seen = np.setdiff1d(np.flatnonzero(rows.labels.known), rows.held_rows)
    items = seen[spread_rows(len(seen), MAX_ITEMS)]
    tables = codec.tables_of(codec.prepare(settled, all_labelled=True))
    # One half of the held-out rows are queries, the other half are items without labels.
    odd, even = np.arange(1, len(held), 2), np.arange(0, len(held), 2)[:MAX_QUERIES]
    of_odd = encode_items(codec, codec.item_vectors(held[odd]), np.zeros(len(odd), dtype=bool), rows.n_jobs)
    of_even = codec.tables_of(codec.prepare(held[even]))
    parts: list[Callable[[], dict[str, Any]]] = [
        lambda: _recognised(rows, asking, seen),
        lambda: {"map_labelled": _map(tables, asking.take(queries), codes[items], rows.labels.take(items))},
        lambda: {"map_unlabelled": _map(of_even, asking.take(even), of_odd, asking.take(odd))},
        lambda: {"map_new": _map_of_new(codec, trial)},
    ]
    for found in ordered_map(lambda part: part(), parts, rows.n_jobs):
        summary = replace(summary, **found)
    return summary


def _recognised(rows: FittedRows, asking: Labels, seen: RowNumbers) -> dict[str, Any]:
    """Return the fractions of held-out rows that the model and others recognise, given numbers of other rows with labels."""
    if asking.indices is None or len(asking) < MIN_JUDGED:
        return {}
    every = replace(asking, indices=np.arange(asking.n_labels, dtype=np.int32))
    spelled = rows.map.spelling.of_labels(every, 0, asking.n_labels)

    def predicted(features: Float32) -> NDArray[np.intp]:
        found: NDArray[np.intp] = (features[:, : rows.map.n_columns] @ spelled.T).argmax(axis=1)
        return found

    rng = np.random.default_rng(0)
    asked = np.sort(rng.permutation(len(asking))[:ASKED_ROWS])

    def shown(numbers: RowNumbers) -> Float32:
        """Return the features of rows as queries are mapped."""
        return map_rows(rows.map, rows.X[numbers], rows.map.n_features, rows.n_jobs, rows.map.block_rows)

    # The finished model has seen these rows. If it recognises fewer of them, its arithmetic has lost them.
    asked_rows, answers = rows.X[rows.held_rows[asked]], asking.indices[asked]
    seen = np.sort(rng.permutation(seen)[:SEEN_ROWS])
    seen_rows, own = rows.X[seen], rows.labels.take(seen).indices
    assert own is not None
    of_all = rows.labels.indices
    assert of_all is not None
    n_rows = np.bincount(of_all[rows.labels.known], minlength=asking.n_labels)
    rare = np.argsort(n_rows, kind="stable")
    rare = rare[n_rows[rare] > 1][:RARE_LABELS]
    few = np.concatenate(
        [np.flatnonzero(of_all == label)[:RARE_ROWS] for label in rare] or [rows.held_rows[:0]]
    )
    recognised = np.bincount(of_all[few[predicted(shown(few)) == of_all[few]]], minlength=asking.n_labels)
    counts = np.bincount(asking.indices, minlength=asking.n_labels)
    return {
        "accuracy": float(
            min(
                (predicted(rows.held_features) == asking.indices).mean(),
                (predicted(shown(rows.held_rows[asked])) == answers).mean(),
            )
        ),
        "chance": float(counts.max() / len(asking)),
        "plain_accuracy": plain_accuracy(seen_rows, own, asked_rows, answers),
        "copied": copied_fraction(seen_rows, asked_rows),
        "unlearned": float((recognised[rare] == 0).mean()) if len(rare) else None,
        "unjudged": float((counts < MIN_ROWS_PER_LABEL).mean()),
        "spread": _spread(seen_rows),
    }


def _spread(x: NDArray[Any]) -> float | None:
    """Return by how much the standard deviations of the columns of x (n, p) differ; None if none varies."""
    varying = x.max(axis=0) > x.min(axis=0)  # rounding gives constant columns a deviation
    if not varying.any():
        return None
    deviations = x[:, varying].std(axis=0, dtype=np.float64)
    low = np.percentile(deviations, 10, method="lower")
    high = np.percentile(deviations, 90, method="higher")
    return float(high / max(low, np.finfo(np.float64).tiny))


def _map_of_new(codec: SupervisedCodec, trial: Trial) -> float | None:
    """Return the expected MAP of queries that look new over items without labels; None if there are none, or few labels.

    A precision counts as much as its item is probably relevant.
    """
    queries = np.arange(trial.n_known, len(trial.queries))[:MAX_QUERIES]
    if not len(queries) or codec.map.n_labels < MIN_LABELS:
        return None
    tables = codec.tables_of(codec.prepare(trial.queries[queries]))
    codes = np.ascontiguousarray(trial.codes[:MAX_ITEMS])
    numbers, precisions = np.arange(1, len(codes) + 1), []
    for query, table in zip(queries, tables, strict=True):  # likenesses of all pairs would take much memory
        order = np.argsort(kernels.active().table_sums(codes, table[None])[0], kind="stable")
        relevant = trial.judge(np.array([query]), order[None])[0]
        hits = 1 - relevant + np.cumsum(relevant)  # an item that counts is relevant itself
        precisions.append(relevant @ (hits / numbers) / max(float(relevant.sum()), 1e-12))
    return float(np.mean(precisions))


def _map(tables: Float32, asking: Labels, codes: Codes, labels: Labels) -> float | None:
    """Return the mean average precision of queries with tables (q, M, K) over codes (n, M)."""
    if not len(codes) or not len(tables):
        return None
    codes = np.ascontiguousarray(codes)

    def precision(number: int) -> float:
        _, relevant = rank_codes(tables[number], codes, asking.take(np.array([number])), labels)
        return float(average_precision(relevant[None])[0])

    return float(np.mean([precision(number) for number in range(len(tables))]))


# a plain classifier of the same rows -----------------------------------------------------------------------------------


def plain_accuracy(
    x: NDArray[Any], y: NDArray[np.int32], asked: NDArray[Any], answers: NDArray[np.int32]
) -> float:
    """Return the fraction of asked rows that a linear discriminant on standardised columns recognises.

    Parameters
    ----------
    x : ndarray of shape (n, p)
        The rows to learn from.
    y : ndarray of shape (n,)
        Numbers of their labels.
    asked : ndarray of shape (q, p)
        The rows whose labels are predicted.
    answers : ndarray of shape (q,)
        Numbers of their labels.

    Examples
    --------
    >>> y = np.arange(90) % 3
    >>> X = np.c_[y + np.random.default_rng(0).normal(scale=0.1, size=90), 1e6 * (np.arange(90) % 7)]
    >>> plain_accuracy(X[:60], y[:60], X[60:], y[60:])
    1.0
    """
    n = len(x)
    x = np.concatenate([x, asked]).astype(np.float64)
    mean, spread = x[:n].mean(axis=0), x[:n].std(axis=0)
    x = (x - mean) / np.where(spread > 1e-12 * np.abs(mean), spread, np.inf)  # a constant column becomes 0
    if x.shape[1] > len(x):  # other coordinates with the same products
        gram = x @ x.T
        gram.flat[:: len(x) + 1] += 1e-6 * np.trace(gram) / len(x) + 1e-30
        x = scipy.linalg.cholesky(gram, lower=True)
    classes, own, counts = np.unique(y, return_inverse=True, return_counts=True)
    means = (np.arange(len(classes))[:, None] == own) @ x[:n] / counts[:, None]  # (c, p)
    left = x[:n] - means[own]
    scatter = left.T @ left / n
    scatter.flat[:: len(scatter) + 1] += PLAIN_RIDGE * np.trace(scatter) / len(scatter) + 1e-12
    weights = scipy.linalg.solve(scatter, means.T, assume_a="pos")  # (p, c)
    scores = x[n:] @ weights - 0.5 * np.einsum("cp,pc->c", means, weights) + np.log(counts)
    return float((classes[scores.argmax(axis=1)] == answers).mean())


def copied_fraction(x: NDArray[Any], asked: NDArray[Any]) -> float:
    """Return the fraction of rows asked (q, p) that are equal to one of x (n, p).

    Examples
    --------
    >>> copied_fraction(np.array([[1, 2], [3, 4]]), np.array([[3, 4], [5, 6], [1, 2], [2, 1]]))
    0.5
    """
    seen = {row.tobytes() for row in x}
    return sum(row.tobytes() in seen for row in asked) / len(asked)
