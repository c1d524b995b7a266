"""Report: the seconds of several calls, measured in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from supquant_lab.bench.clock import seconds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPEATS = 7
"""Number of turns; the median is reported."""

TURN_SECONDS = 0.01
"""Calls that take less than this many seconds are made several times in a turn."""

BUDGET_SECONDS = 60.0
"""No further turn of a comparison begins after this many seconds."""


Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Timing:
    """The seconds of one call."""

    seconds: float
    best_seconds: float
    repeats: int


def time_in_turn(
    calls: Mapping[Name, Callable[[], Any]], *, repeats: int = REPEATS, budget: float = BUDGET_SECONDS
) -> dict[Name, Timing]:
    """Return the median seconds of each call over turns; in a turn every call is made, so that noise affects all of them.

    Parameters
    ----------
    calls : mapping of names to callables
        Each is called once before the clock starts.
    repeats : int
        Number of turns; fewer if they take longer than the budget, but at least one.
    budget : float
        Seconds for all turns.

    Examples
    --------
    >>> time_in_turn({"sum": lambda: sum(range(1000))}, repeats=3)["sum"].repeats
    3
    """
    loops = {}
    for name, call in calls.items():
        call()
        loops[name] = math.ceil(TURN_SECONDS / max(seconds_of(call), TURN_SECONDS / 1000))
    spent: dict[Name, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for turn in range(repeats):
        if turn and time.perf_counter() - began > budget:
            break
        for name, call in calls.items():
            spent[name].append(seconds_of(call, loops[name]))
    return {name: Timing(median(each), min(each), len(each)) for name, each in spent.items()}
