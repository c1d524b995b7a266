"""Report: the parameters of an opponent, chosen on the labelled training rows alone.

These rows are divided as the protocol divides a data set. Under `open` and `unseen`, the last 30% of the known classes stand in
for new ones, so an opponent is told which kind of queries it is for. The default model is not.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from supquant_lab.datasets import Dataset
from supquant_lab.datasets.dataset import unchanged
from supquant_lab.methods.interface import apply_steps
from supquant_lab.methods.opponents.methods import LabelsAndVectors
from supquant_lab.problem import pose
from supquant_lab.quality import evaluate_scores
from supquant_lab.splits import default_queries
from supquant_lab.tuning import GridPoint, Tuning

if TYPE_CHECKING:
    from supquant_lab.methods.interface import Fitted, Settings
    from supquant_lab.methods.opponents.methods import Opponent
    from supquant_lab.problem import Problem, Training

MAX_ROWS = 4000
"""Maximum number of labelled rows that a validation uses."""

MAX_QUERIES = 500
"""Maximum number of queries of a validation."""


def validated(
    kind: type[Opponent],
    training: Training,
    settings: Settings,
    bits: int,
    protocol: str,
    max_rows: int = MAX_ROWS,
) -> Tuning | None:
    """Return the MAP of every point of the grid, and of every weight; None for a method without parameters to tune.

    Under `open`, MAP is the harmonic mean over queries of both kinds.

    Examples
    --------
    >>> from supquant_lab.datasets import load
    >>> from supquant_lab.methods import OPPONENTS, Settings
    >>> problem = pose(load("digits"), protocol="open")
    >>> found = validated(OPPONENTS["binary"], problem.training, Settings(), 64, "open")
    >>> [point.parameters for point in found.points]
    [{'centred': False}, {'centred': True}]
    """
    kind = kind.tuned_as or kind
    if not kind.grid and not kind.weights:
        return None
    rows = Dataset("training rows", training.X, training.y, unchanged)
    rows = rows.sample(min(len(rows), max_rows), seed=settings.seed)
    n_queries = min(MAX_QUERIES, default_queries(len(rows)))
    problem = pose(rows, protocol=protocol, seed=settings.seed, n_queries=n_queries)
    points = []
    for values in product(*kind.grid.values()):
        parameters = dict(zip(kind.grid, values, strict=True))
        began = time.perf_counter()
        fitted = kind(problem.training, replace(settings, parameters=parameters)).fitted(bits)
        points += _points(kind, problem, fitted, parameters, settings.n_jobs, began)
    return Tuning(tuple(points))


def _points(
    kind: type[Opponent],
    problem: Problem,
    fitted: Fitted,
    parameters: dict[str, float],
    n_jobs: int | None,
    began: float,
) -> list[GridPoint]:
    """Return the points of one fit, one for each weight; the first of them has the seconds of the fit."""
    items = fitted.learned() if problem.learned else None
    items = fitted.encoded(problem.database) if items is None else items
    points = []
    for weight in kind.weights or (None,):
        told, tried = parameters, fitted
        if weight is not None:
            assert isinstance(fitted, LabelsAndVectors)
            told, tried = {**parameters, "weight": weight}, fitted.weighted(weight)
        quality = evaluate_scores(
            partial(apply_steps, tried.steps(items, kind.rankings[0])),
            problem.queries,
            problem.query_labels,
            problem.database_labels,
            new=problem.new,
            n_jobs=n_jobs,
        )
        now = time.perf_counter()
        points.append(GridPoint(told, (quality.open or quality).map, now - began))
        began = now
    return points
