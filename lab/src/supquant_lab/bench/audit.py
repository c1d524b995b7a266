"""Report: what an audit finds of planted faults, compared with cleanlab on the same probabilities, and what it costs.

Some labels are changed at random, some rows are copied with a little noise, and two classes are merged. The audit must find them.
cleanlab gets the out-of-fold probabilities of the audit, so that only what is done with them differs.
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

JOINED_ROWS = 10_000
"""Maximum number of rows of the audit in which two classes are merged."""

FIRST = 100
"""Number of findings whose precision is measured."""


def bench_audit(
    data: Dataset,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    n_rows: int | None = None,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Plant faults into a data set, and audit it.

    Parameters
    ----------
    data : Dataset
        It must have one label per row.
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
        measured.append(_measured(X[rows], y[rows], rng) | {"seed": seed})
    return {
        "dataset": data.name,
        "rows": measured[0]["rows"],
        "dimensions": X.shape[1],
        "measured": measured,
        "machine": describe_machine(),
    }


def _measured(X: Array, y: Array, rng: np.random.Generator) -> dict[str, Any]:
    """Plant faults, audit, and judge the findings."""
    labels, number = np.unique(y, return_inverse=True)
    wrong = np.zeros(len(X) + COPIES, dtype=bool)
    wrong[rng.permutation(len(X))[: round(CHANGED * len(X))]] = True
    originals = rng.permutation(np.flatnonzero(~wrong[: len(X)]))[:COPIES]
    given = np.concatenate([number, number[originals]])
    given[wrong] = (given[wrong] + rng.integers(1, len(labels), int(wrong.sum()))) % len(labels)
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
        "cleanlab": _cleanlab(vectors, given, wrong),
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
        "recall": float(hits.sum() / wrong.sum()),
    }


def _cleanlab(X: Array, given: Array, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """Return the quality of cleanlab's lists, given the out-of-fold probabilities of the audit."""
    from cleanlab.filter import find_label_issues  # noqa: PLC0415  # an extra
    from cleanlab.rank import get_label_quality_scores  # noqa: PLC0415

    with single_blas():
        judge = learn_out_of_fold(X, read_labels(given), np.random.default_rng(0), resolve_jobs(None))
        p = np.concatenate([judge.probabilities(each) for each in judge.rows.blocks]).astype(np.float64)
    p /= p.sum(axis=1, keepdims=True)
    lists = {
        f"find_label_issues, {by}": find_label_issues(given, p, return_indices_ranked_by=by, n_jobs=1)
        for by in ("self_confidence", "normalized_margin")
    }
    lists["all rows by label quality"] = np.argsort(get_label_quality_scores(given, p), kind="stable")
    return {name: _quality(np.asarray(rows), wrong) for name, rows in lists.items()}
