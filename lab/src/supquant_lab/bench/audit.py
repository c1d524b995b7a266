"""Report: what an audit finds of planted faults, compared with cleanlab on the same probabilities, and what it costs.

Some labels are changed at random, some rows are copied with a little noise, and two classes are merged. The audit must find
them. cleanlab and plain self-confidence get the out-of-fold probabilities of both classifiers of the audit, so that only what
is done with them differs. Labels may be made ambiguous first: some classes are merged, others are split at random, so that
nobody can tell their parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Array
from supquant.auditing import Audit, audit
from supquant.auditing.judgement import learn_out_of_fold
from supquant.auditing.logistic import learn_logistic
from supquant.inputs.labels import read_labels
from supquant.inputs.parameters import resolve_jobs
from supquant.parallel import single_blas
from supquant_lab.datasets import Dataset
from supquant_lab.machine import describe_machine

CHANGED = 0.03
"""Fraction of the labels that are changed."""

COPIES = 100
"""Number of rows that are copied."""

NOISES = (0.0, 0.01, 0.02)
"""Lengths of the noise that copies get, relative to the length of the row; each for a third of the copies."""

MERGED = 0.13
"""Fraction of the classes that become part of another, where labels are made ambiguous."""

SPLIT = 0.4
"""Fraction of the classes that are split at random, where labels are made ambiguous."""

SHARES = (0.5, 0.3, 0.1)
"""Share of the rows of a split class that get a new label; each for a third of the split classes."""

JOINED_ROWS = 10_000
"""Maximum number of rows of the audit in which two classes are merged."""

FIRST = 100
"""Number of findings whose precision is measured."""


def bench_audit(
    data: Dataset,
    *,
    ambiguous: bool = False,
    seeds: Sequence[int] = (0, 1, 2),
    n_rows: int | None = None,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Plant faults into a data set, and audit it.

    Parameters
    ----------
    data : Dataset
        It must have one label per row.
    ambiguous : bool, default=False
        Whether some classes are merged and others split at random before labels are changed.
    seeds : sequence of int
        One measurement for each.
    n_rows : int or None, default=None
        Number of random rows; None takes all.
    on_step : callable, optional
        Gets the name of each step when it begins.

    Returns
    -------
    dict
        A record for `json`.
    """
    X, y = data.prepare(data.X)(data.X), data.y
    tell = on_step or (lambda _: None)
    measured = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = np.sort(rng.permutation(len(X))[:n_rows])
        tell(f"{data.name}, seed {seed}")
        number = np.unique(y[rows], return_inverse=True)[1]
        given = merge_and_split(number, rng) if ambiguous else number
        measured.append(_measured(X[rows], given, rng) | {"seed": seed})
    return {
        "dataset": data.name,
        "ambiguous": ambiguous,
        "rows": measured[0]["rows"],
        "dimensions": X.shape[1],
        "measured": measured,
        "machine": describe_machine(),
    }


def merge_and_split(y: Array, rng: np.random.Generator) -> Array:
    """Return labels (n,) of which some stand for two classes, and others are one of two labels of the same class.

    Examples
    --------
    >>> y = np.repeat(np.arange(10), 100)
    >>> ambiguous = merge_and_split(y, np.random.default_rng(0))
    >>> np.bincount(ambiguous).tolist()
    [100, 100, 56, 88, 49, 200, 72, 100, 100, 44, 28, 12, 51]
    """
    L = int(y.max()) + 1
    order = rng.permutation(L)
    merged, split = order[: round(MERGED * L)], order[2 * round(MERGED * L) :][: round(SPLIT * L)]
    names = np.arange(L)
    names[merged] = order[len(merged) : 2 * len(merged)]
    found = names[y]
    for place, label in enumerate(split):
        rows = np.flatnonzero(y == label)
        found[rows[rng.random(len(rows)) < SHARES[place % len(SHARES)]]] = L + place
    return np.unique(found, return_inverse=True)[1]


def _measured(X: Array, number: Array, rng: np.random.Generator) -> dict[str, Any]:
    """Plant faults, audit, and judge the findings."""
    n_labels = int(number.max()) + 1
    wrong = np.zeros(len(X) + COPIES, dtype=bool)
    wrong[rng.permutation(len(X))[: round(CHANGED * len(X))]] = True
    originals = rng.permutation(np.flatnonzero(~wrong[: len(X)]))[:COPIES]
    given = np.concatenate([number, number[originals]])
    given[wrong] = (given[wrong] + rng.integers(1, n_labels, int(wrong.sum()))) % n_labels
    vectors = np.concatenate([X, _copies(X[originals], rng)])

    began, used = time.perf_counter(), time.process_time()
    found = audit(vectors, given)
    seconds, processor_seconds = time.perf_counter() - began, time.process_time() - used

    few = np.sort(rng.permutation(len(X))[:JOINED_ROWS])
    joined = np.where(number == 1, 0, number)  # class 0 now holds two
    like_two = audit(X[few], joined[few]).of_kind("two").label.tolist()
    return {
        "rows": len(vectors),
        "changed": int(wrong.sum()),
        "labels": _quality(found.suspicious.row, wrong),
        "all_rows": _quality(np.argsort(-found.wrong, kind="stable"), wrong),
        "others": _others(vectors, given, wrong),
        "duplicates_planted": COPIES,
        "duplicates_found": _pairs_found(found, originals, len(X)),
        "duplicate_rows": len(found.duplicates),
        "joined_class_place": like_two.index(0) + 1 if 0 in like_two else None,
        "classes_listed_as_two": len(like_two),
        "strange_rows": len(found.of_kind("strange")),
        "seconds": seconds,
        "processor_seconds": processor_seconds,
    }


def _copies(rows: Array, rng: np.random.Generator) -> Array:
    """Return rows (c, p) with noise of the lengths `NOISES`."""
    noise = rng.normal(size=rows.shape).astype(np.float32)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    lengths = np.resize(NOISES, len(rows))[:, None]
    return (rows + lengths * np.linalg.norm(rows, axis=1, keepdims=True) * noise).astype(np.float32)


def _pairs_found(found: Audit, originals: NDArray[np.intp], first: int) -> int:
    """Return how many copies, which are the rows from number `first` on, are in the group of their original."""
    group = dict(zip(found.duplicates.row.tolist(), found.duplicates.group.tolist(), strict=True))
    return sum(
        row in group and group[row] == group.get(first + number)
        for number, row in enumerate(originals.tolist())
    )


def _quality(rows: Array, wrong: NDArray[np.bool_]) -> dict[str, float]:
    """Return the average precision of a list and the precision of its first rows; wrong rows that it lacks count as missed."""
    hits = wrong[rows]
    precisions = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return {
        "listed": len(rows),
        "average_precision": float((precisions * hits).sum() / wrong.sum()),
        "precision_of_first": float(hits[:FIRST].mean()),
        "precision": float(hits.mean()),
        "recall": float(hits.sum() / wrong.sum()),
    }


def _others(X: Array, given: Array, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the quality of other lists, given the out-of-fold probabilities of each classifier of the audit."""
    jobs = resolve_jobs(None)
    labels = read_labels(given)
    with single_blas():
        judge = learn_out_of_fold(X, labels, np.random.default_rng(0), jobs)
        kernel = np.concatenate([judge.probabilities(each) for each in judge.rows.blocks])
        folds = learn_logistic(X, given.astype(np.int64), labels.n_labels, np.random.default_rng(0), jobs)
        of_all = {"kernel ridge": kernel}
        if folds is not None:
            of_all["logistic regression"] = folds.probabilities((0, len(X)))
    return {
        f"{classifier}: {name}": _quality(rows, wrong)
        for classifier, p in of_all.items()
        for name, rows in _lists(given, p.astype(np.float64)).items()
    }


def _lists(given: Array, p: Array) -> dict[str, Array]:
    """Return rows in the order in which others doubt their labels (n,), by probabilities p (n, L)."""
    from cleanlab.filter import find_label_issues  # noqa: PLC0415  # an extra
    from cleanlab.rank import get_label_quality_scores  # noqa: PLC0415

    p /= p.sum(axis=1, keepdims=True)
    scores = {"self-confidence": p[np.arange(len(p)), given]}
    for by in ("normalized_margin", "confidence_weighted_entropy"):
        scores[f"cleanlab, {by}"] = get_label_quality_scores(given, p, method=by)
    scores["cleanlab, adjusted self_confidence"] = get_label_quality_scores(
        given, p, method="self_confidence", adjust_pred_probs=True
    )
    found = {name: np.argsort(each, kind="stable") for name, each in scores.items()}
    for by in ("self_confidence", "normalized_margin"):
        found[f"cleanlab, find_label_issues by {by}"] = np.asarray(
            find_label_issues(given, p, return_indices_ranked_by=by, n_jobs=1)
        )
    return found
