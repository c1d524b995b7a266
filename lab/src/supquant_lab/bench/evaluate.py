"""Report: time and memory of judging rankings, after a comparison of some of them with plain loops."""

from __future__ import annotations

import itertools
import os
import time
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.errors import InputError
from supquant.evaluation.retrieval import PRECISION_CUTS
from supquant.inputs.labels import Labels, read_labels
from supquant.inputs.parameters import check_integer, resolve_jobs
from supquant_lab.bench import WrongAnswersError
from supquant_lab.bench.process import run_fresh
from supquant_lab.hashing.binary_codec import hamming_distances
from supquant_lab.machine import describe_machine, peak_memory_mb
from supquant_lab.quality import RECALL_LEVELS, RankingQuality, euclidean_scores, evaluate_scores, relevance

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from supquant_lab.quality import Score


KINDS = ("tables", "hamming", "vectors")
"""The kinds of scores: sums of look-up tables over codes, Hamming distances of codes, Euclidean distances of float vectors."""

SECONDS_LIMIT = 3.0
"""Judging 1,000 queries over 69,000 rows should take at most this many seconds."""

MEMORY_LIMIT_MB = 500.0
"""It should take at most this much memory, in MB."""

CLASSES = 10
"""Number of classes of the random labels."""

CHECKED_QUERIES = 5
"""Number of queries that are compared with plain loops."""

RUNS = 5
"""Number of timed runs; the median is reported."""

_TOLERANCE = 1e-12


def bench_evaluate(
    *, queries: int = 1000, rows: int = 69_000, bits: int = 64, on_kind: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Judge the rankings of random items, each kind of scores in a fresh process.

    Parameters
    ----------
    queries, rows : int
        Number of queries, and of items.
    bits : int
        Length of a code, a multiple of 8; vectors have as many components.
    on_kind : callable, optional
        Gets the kind before it is checked and measured.

    Returns
    -------
    dict
        A record for `json`.

    Raises
    ------
    WrongAnswersError
        If the judgement of the first queries differs from that by plain loops. Then nothing is timed.
    """
    for value, name in ((queries, "queries"), (rows, "rows"), (bits, "bits")):
        check_integer(value, name, 1)
    if bits % 8:
        raise InputError(f"bits must be a multiple of 8, got {bits}")
    load = os.getloadavg()[0]
    measured = []
    for kind in KINDS:
        if on_kind is not None:
            on_kind(kind)
        check_quality(kind, *_random_arguments(kind, min(queries, CHECKED_QUERIES), rows, bits))
        purpose = f"judge the scores of {kind}"
        measured.append(run_fresh(_measure, kind, queries, rows, bits, purpose=purpose))
    return {
        "benchmark": "evaluate",
        "queries": queries,
        "rows": rows,
        "bits": bits,
        "classes": CLASSES,
        "threads": resolve_jobs(None),
        "checked_queries": min(queries, CHECKED_QUERIES),
        "kinds": measured,
        "seconds_limit": SECONDS_LIMIT,
        "memory_limit_mb": MEMORY_LIMIT_MB,
        "load_before": load,
        "machine": describe_machine(),
    }


def check_quality(
    case: str, score: Score, queries: Array, query_labels: Labels, database_labels: Labels
) -> None:
    """Raise an error if `evaluate_scores` differs from `plain_quality`.

    Examples
    --------
    >>> y = read_labels([0, 1])
    >>> check_quality("two rows", lambda block: 1 - block, np.eye(2), y, y)
    """
    found = _flat(evaluate_scores(score, queries, query_labels, database_labels))
    relevant = relevance(query_labels, database_labels, 0, len(query_labels))
    for name, expected in _flat(plain_quality(score(queries), relevant)).items():
        if not abs(found[name] - expected) <= _TOLERANCE:
            raise WrongAnswersError(f"{case}: {name} is {found[name]}, by plain loops {expected}")


def plain_quality(scores: Array, relevant: Array) -> RankingQuality:
    """Return the quality of scores (q, n) of items that are `relevant` (q, n) or not, by plain loops.

    Examples
    --------
    >>> quality = plain_quality(np.array([[0, 1, 1]]), np.array([[True, False, True]]))
    >>> round(quality.map, 4), round(quality.map_tie_aware, 4), quality.precision_at
    (0.8333, 0.9167, {1: 1.0})
    """
    each = [_plain(*row) for row in zip(scores.tolist(), relevant.tolist(), strict=True)]
    with_hits = [quality for quality in each if quality.precision_at_recall]

    def mean(values: list[float]) -> float:
        return sum(values) / max(len(values), 1)

    return RankingQuality(
        map=mean([quality.map for quality in each]),
        map_tie_aware=mean([quality.map_tie_aware for quality in each]),
        precision_at={k: mean([quality.precision_at[k] for quality in each]) for k in each[0].precision_at},
        precision_at_recall={
            level: mean([quality.precision_at_recall[level] for quality in with_hits])
            for level in RECALL_LEVELS
        },
    )


def _plain(scores: list[float], relevant: list[bool]) -> RankingQuality:
    """Return the quality of one query; without true neighbours it has no recall."""
    order = sorted(range(len(scores)), key=lambda item: (scores[item], item))
    hits = [relevant[item] for item in order]
    precisions: list[float] = []  # at the ranks of true neighbours
    for rank, hit in enumerate(hits, start=1):
        if hit:
            precisions.append((len(precisions) + 1) / rank)
    found = len(precisions)

    start, before, expected = 0, 0, 0.0
    for _, group in itertools.groupby(order, key=scores.__getitem__):
        ties = [relevant[item] for item in group]
        size, right = len(ties), sum(ties)
        for place in range(size):
            # the expected number among the ties before it
            others = right and (right - 1) * place / max(size - 1, 1)
            expected += right / size * (before + 1 + others) / (start + place + 1)
        start, before = start + size, before + right
    return RankingQuality(
        map=sum(precisions) / max(found, 1),
        map_tie_aware=expected / max(found, 1),
        precision_at={k: sum(hits[:k]) / k for k in PRECISION_CUTS if k <= len(hits)},
        precision_at_recall={
            level: next(precision for j, precision in enumerate(precisions, start=1) if j / found >= level)
            for level in RECALL_LEVELS
            if found
        },
    )


def _flat(quality: RankingQuality) -> Mapping[str, float]:
    """Return every figure of a quality by a name."""
    return {
        "map": quality.map,
        "map_tie_aware": quality.map_tie_aware,
        **{f"precision at {k}": value for k, value in quality.precision_at.items()},
        **{f"precision at recall {level}": value for level, value in quality.precision_at_recall.items()},
    }


def _random_arguments(kind: str, queries: int, rows: int, bits: int) -> tuple[Score, Array, Labels, Labels]:
    """Return random arguments of `evaluate_scores`: scores, queries, and the labels of queries and items."""
    rng = np.random.default_rng(0)
    labels = read_labels(rng.integers(CLASSES, size=queries + rows), classes=np.arange(CLASSES))
    split = labels.take(np.arange(queries)), labels.take(np.arange(queries, queries + rows))
    n_bytes = bits // 8
    if kind == "vectors":
        score = euclidean_scores(rng.standard_normal((rows, bits), dtype=np.float32))
        return score, rng.standard_normal((queries, bits), dtype=np.float32), *split
    codes = rng.integers(256, size=(rows, n_bytes), dtype=np.uint8)
    active = kernels.active()
    if kind == "hamming":
        asked = rng.integers(256, size=(queries, n_bytes), dtype=np.uint8)
        return lambda block: hamming_distances(codes, block), asked, *split
    tables = rng.standard_normal((queries, n_bytes, 256), dtype=np.float32)
    return lambda block: active.table_sums(codes, block), tables, *split


def _measure(kind: str, queries: int, rows: int, bits: int) -> dict[str, Any]:
    """Return the times of all runs with one kind of scores, and the peak memory of this process."""
    made = _random_arguments(kind, queries, rows, bits)
    spent, worked = [], []
    for _ in range(RUNS):
        began, began_work = time.perf_counter(), time.process_time()
        quality = evaluate_scores(*made)
        spent.append(time.perf_counter() - began)
        worked.append(time.process_time() - began_work)
    return {
        "kind": kind,
        "seconds": median(spent),
        "all_seconds": spent,
        "cpu_seconds": median(worked),  # of all threads; other processes change it less
        "peak_memory_mb": peak_memory_mb(),
        "map": quality.map,
        "map_tie_aware": quality.map_tie_aware,
    }
