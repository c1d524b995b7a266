"""Report: what a few labelled rows of new classes gain, by `extend` and by fitting anew.

Known and new classes are mixed, as the protocol `open` has them. Some rows of each new class get their labels: `extend` learns
these classes from them and changes no code; fitting anew learns everything again, with these rows among the labelled ones, and
codes all items again.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from supquant import kernels
from supquant.arrays import Array
from supquant.evaluation import evaluate_scores
from supquant.quantizers import SupervisedQuantizer
from supquant_experiments.datasets import Dataset
from supquant_experiments.machine import describe_machine
from supquant_experiments.problem import Problem, pose


def bench_extend(
    data: Dataset,
    *,
    rows: Sequence[int] = (5, 20),
    bits: int = 64,
    seed: int = 0,
    n_queries: int | None = None,
    on_step: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Extend a model by rows of new classes, and fit it anew with them.

    Parameters
    ----------
    data : Dataset
        With one label a row.
    rows : sequence of int
        How many rows of each new class get their labels.
    bits : int
        Of a code.
    seed : int
        Of the split, the chosen rows and the fits.
    n_queries : int, optional
    on_step : callable, optional
        Is told what begins.

    Returns
    -------
    dict
        Ready for `json`. The part of the gain is that of the harmonic mean by `extend`, over that by fitting anew.
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
        tell(f"the fit with the labels of {few} rows a new class")
        told = list(y)
        for row, name in zip(chosen + len(problem.X), names.tolist(), strict=True):
            told[row] = name
        anew, anew_codes, fit_seconds = _fitted(X, told, problem, bits, seed)
        of_extended, of_anew = _quality(extended, codes, problem), _quality(anew, anew_codes, problem)
        gains = [each["harmonic"] - before["harmonic"] for each in (of_extended, of_anew)]
        measured.append(
            {
                "rows": few,
                "extended": of_extended,
                "fitted_anew": of_anew,
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
