"""Report: the gain from a few labelled rows of new classes, by `extend` and by a new fit.

The database holds known and new classes, as under the protocol `open`. A few rows of each new class then get their labels.
`extend` learns the new classes from these rows and changes no code. A new fit has these rows among its labelled ones, and all
items are encoded again.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.model import SupervisedQuantizer
from supquant_lab.datasets import Dataset
from supquant_lab.machine import describe_machine
from supquant_lab.problem import Problem, pose
from supquant_lab.quality import evaluate_scores


def bench_extend(
    data: Dataset,
    *,
    rows: Sequence[int] = (5, 20),
    bits: int = 64,
    seed: int = 0,
    n_queries: int | None = None,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Extend a model by rows of new classes, and compare it with a new fit.

    Parameters
    ----------
    data : Dataset
        It must have one label per row.
    rows : sequence of int
        Numbers of rows of each new class that get their labels.
    bits : int
        Length of a code.
    seed : int
        Seed of the split, the chosen rows and the fits.
    n_queries : int, optional
    on_step : callable, optional
        Gets the name of each step when it begins.

    Returns
    -------
    dict
        A record for `json`. `part_of_gain` is the gain in the harmonic mean by `extend` as a fraction of that by the new fit.
    """
    problem = pose(data, protocol="open", seed=seed, n_queries=n_queries)
    labels, new = problem.database_labels.indices, problem.new_items
    assert labels is not None
    assert new is not None
    X = np.concatenate([problem.X, problem.unlabelled])
    y = [*np.asarray(problem.y).tolist(), *[None] * len(problem.unlabelled)]
    tell = on_step or (lambda _: None)
    tell("the fit without labels of new classes")
    base, codes, _ = _fitted(X, y, problem, bits, seed)
    before = _quality(base, codes, problem)
    measured = []
    for few in rows:
        rng = np.random.default_rng(seed)
        chosen = np.concatenate(
            [rng.permutation(np.flatnonzero(labels == label))[:few] for label in np.unique(labels[new])]
        )
        names = problem.database_labels.classes[labels[chosen]]
        extended = copy.copy(base)
        began = time.perf_counter()
        extended.extend(problem.database[chosen], names)
        extend_seconds = time.perf_counter() - began
        tell(f"the fit with the labels of {few} rows per new class")
        given = list(y)
        for row, name in zip(chosen + len(problem.X), names.tolist(), strict=True):
            given[row] = name
        refitted, refitted_codes, fit_seconds = _fitted(X, given, problem, bits, seed)
        of_extended = _quality(extended, codes, problem)
        of_refitted = _quality(refitted, refitted_codes, problem)
        gains = [each["harmonic"] - before["harmonic"] for each in (of_extended, of_refitted)]
        measured.append(
            {
                "rows": few,
                "extended": of_extended,
                "fitted_anew": of_refitted,
                "part_of_gain": gains[0] / gains[1] if gains[1] > 0 else None,
                "extend_seconds": extend_seconds,
                "fit_seconds": fit_seconds,
            }
        )
    return {
        "benchmark": "extend",
        "dataset": data.name,
        "bits": bits,
        "seed": seed,
        "new_classes": len(np.unique(labels[new])),
        "before": before,
        "measured": measured,
        "machine": describe_machine(),
    }


def _fitted(
    X: Array, y: list[Any], problem: Problem, bits: int, seed: int
) -> tuple[SupervisedQuantizer, Array, float]:
    """Return a fitted quantizer, the codes of the database without labels, and the seconds of the fit."""
    began = time.perf_counter()
    quantizer = SupervisedQuantizer(bits // 8, random_state=seed).fit(X, y)
    seconds = time.perf_counter() - began
    return quantizer, quantizer.encode(problem.database), seconds


def _quality(quantizer: SupervisedQuantizer, codes: Array, problem: Problem) -> dict[str, float]:
    """Return the MAP of known queries and of new ones, over the whole database, and their harmonic mean."""
    tables = quantizer.codec_.query_tables(problem.queries).tables
    quality = evaluate_scores(
        lambda block: kernels.active().table_sums(codes, block),
        tables,
        problem.query_labels,
        problem.database_labels,
        new=problem.new,
    ).open
    assert quality is not None
    return {"known": quality.known.map, "new": quality.new.map, "harmonic": quality.map}
