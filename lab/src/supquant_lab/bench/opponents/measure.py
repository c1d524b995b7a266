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
from supquant_lab.tuning import Tuning


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
    settings = Settings(seed=cell.seed, ranking=ranking, n_jobs=n_jobs)
    tuning, told = _tuning(cell, problem, settings), _told(cell, problem)
    found = {} if tuning is None else tuning.parameters
    fitted = kind(problem.training, replace(settings, parameters={**told, **found})).fitted(cell.bits)
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
        "tune_seconds": 0.0 if tuning is None else tuning.fit_seconds,
        "fit_seconds": fitted.fit_seconds,
        "encode_us": 1e6 * encode_seconds / len(problem.database),
    }
    return figures, {**told, **found}


@cache
def _dataset(name: str, rows: int | None) -> Dataset:
    data = load(name)
    return data if rows is None or rows >= len(data) else data.sample(rows)


_LAST_TUNING: dict[tuple[Any, ...], Tuning | None] = {}
"""The tuning of the last split, which methods that differ in the store alone have in common."""


def _tuning(cell: Cell, problem: Problem, settings: Settings) -> Tuning | None:
    """Return the tuning of an opponent; None for other methods, and for opponents without parameters to tune."""
    if cell.method not in OPPONENTS:
        return None
    kind = OPPONENTS[cell.method]
    key = (kind.tuned_as or kind, cell.protocol, cell.data, cell.rows, cell.bits, cell.seed)
    if key not in _LAST_TUNING:
        if any(other[1:] != key[1:] for other in _LAST_TUNING):
            _LAST_TUNING.clear()
        _LAST_TUNING[key] = validated(kind, problem.training, settings, cell.bits, cell.protocol)
    return _LAST_TUNING[key]


def _told(cell: Cell, problem: Problem) -> dict[str, Any]:
    """Return what a method is told without a validation: the true number of classes, if it finds clusters."""
    finds = cell.method in OPPONENTS and "n_clusters" in OPPONENTS[cell.method].defaults
    return {"n_clusters": len(problem.query_labels.classes)} if finds else {}
