"""Report: the time of a single query, step by step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from supquant.arrays import Array
from supquant_lab.methods import STEP_NAMES

if TYPE_CHECKING:
    from supquant_lab.methods import Steps

MOST_ROUNDS = 20
"""The same queries are timed at most this many times."""

MOST_SECONDS = 1.0
"""No further round begins after this many seconds."""


def time_queries(steps: Steps, queries: Array) -> dict[str, float]:
    """Return the milliseconds of each step of a single query on one thread, and their sum.

    A time is the median over queries, in the fastest of several rounds: other work of the machine can only make it longer.

    Examples
    --------
    >>> sorted(time_queries({"scan": lambda query: query @ np.ones((2, 3))}, np.ones((5, 2))))
    ['encode', 'features', 'projection', 'scan', 'tables', 'total']
    """
    rounds: list[dict[str, float]] = []
    until = time.perf_counter() + MOST_SECONDS
    with threadpool_limits(1):
        while not rounds or (len(rounds) < MOST_ROUNDS and time.perf_counter() < until):
            rounds.append(_time_once(steps, queries))
    least = {name: min(each.get(name, 0.0) for each in rounds) for name in STEP_NAMES}
    return {**least, "total": sum(least.values())}


def _time_once(steps: Steps, queries: Array) -> dict[str, float]:
    """Return the median milliseconds of each step over queries, one at a time."""
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for row in range(len(queries)):
        value = queries[row : row + 1]
        for name, step in steps.items():
            began = time.perf_counter()
            value = step(value)
            spent[name].append(1000 * (time.perf_counter() - began))
    return {name: float(np.median(times)) for name, times in spent.items()}
