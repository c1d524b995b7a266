"""Report: what is measured of one method on one split. Opponents are tuned on its training rows before."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache, partial
from typing import Any

from supquant_lab.bench.opponents.plan import Cell
from supquant_lab.datasets import Dataset, load
from supquant_lab.methods import Settings, apply_steps, find_method
from supquant_lab.methods.opponents.methods import OPPONENTS
from supquant_lab.methods.opponents.validation import validated
from supquant_lab.problem import Problem, pose
from supquant_lab.quality import evaluate_scores


def measure(cell: Cell, n_jobs: int | None = None) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the figures of a cell, and the parameters that its validation chose.

    Figures are MAP, under `open` the harmonic mean of `map_known` and `map_new`, the bytes of an item, the seconds of the
    validation and of the fit, and the microseconds to encode an item.

    Examples
    --------
    >>> figures, parameters = measure(Cell("open", "digits", 900, "binary", 64, 0))
    >>> sorted(figures)
    ['bytes_per_item', 'encode_us', 'fit_seconds', 'map', 'map_known', 'map_new', 'tune_seconds']
    >>> parameters
    {'centred': True}
    """
    problem = pose(_dataset(cell.data, cell.rows), protocol=cell.protocol, seed=cell.seed)
    kind = find_method(cell.method)
    ranking = "label" if "label" in kind.rankings else kind.rankings[0]
    began = time.perf_counter()
    settings = Settings(seed=cell.seed, ranking=ranking, n_jobs=n_jobs)
    settings = replace(settings, parameters=_chosen(cell, problem, settings))
    tuned = time.perf_counter()
    fitted = kind(problem.training, settings).fitted(cell.bits)
    fit_seconds = time.perf_counter() - tuned
    encoding = time.perf_counter()
    items = fitted.encoded(problem.database)
    encode_seconds = time.perf_counter() - encoding
    learned = fitted.learned() if problem.learned else None
    items = items if learned is None else learned
    quality = evaluate_scores(
        partial(apply_steps, fitted.steps(items, ranking)),
        problem.queries,
        problem.query_labels,
        problem.database_labels,
        new=problem.new,
        n_jobs=n_jobs,
    )
    maps = {"map": quality.map}
    if quality.open is not None:
        maps = {
            "map": quality.open.map,
            "map_known": quality.open.known.map,
            "map_new": quality.open.new.map,
        }
    figures = {
        **maps,
        "bytes_per_item": fitted.bytes_per_item(items),
        "tune_seconds": tuned - began,
        "fit_seconds": fit_seconds,
        "encode_us": 1e6 * encode_seconds / len(problem.database),
    }
    return figures, dict(settings.parameters)


@cache
def _dataset(name: str, rows: int | None) -> Dataset:
    data = load(name)
    return data if rows is None or rows >= len(data) else data.sample(rows)


def _chosen(cell: Cell, problem: Problem, settings: Settings) -> dict[str, Any]:
    """Return the parameters of an opponent: those found by validation, or the number of classes that clusters are told."""
    if cell.method not in OPPONENTS:
        return {}
    kind = OPPONENTS[cell.method]
    found = validated(kind, problem.training, settings, cell.bits, cell.protocol)
    told = {"n_clusters": len(problem.query_labels.classes)} if "n_clusters" in kind.defaults else {}
    return told if found is None else {**told, **found.parameters}
