"""Report: seconds of several calls, measured in turn."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPEATS = 7
TURN_SECONDS = 0.01  # quicker calls are made several times in a turn
BUDGET_SECONDS = 60.0  # for all repeats of one comparison, beyond the first


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
    """Time calls by the median of repeats, one of each after the other, so that noise hits all alike.

    Parameters
    ----------
    calls : mapping of names to callables
        Each is called once before the clock starts.
    repeats : int
        Turns of each call, fewer if they take longer than the budget, but at least one.
    budget : float
        Seconds.

    Examples
    --------
    >>> time_in_turn({"sum": lambda: sum(range(1000))}, repeats=3)["sum"].repeats
    3
    """
    loops = {}
    for name, call in calls.items():
        call()
        loops[name] = math.ceil(TURN_SECONDS / max(_seconds(call, 1), TURN_SECONDS / 1000))
    spent: dict[Name, list[float]] = {name: [] for name in calls}
    began = time.perf_counter()
    for turn in range(repeats):
        if turn and time.perf_counter() - began > budget:
            break
        for name, call in calls.items():
            spent[name].append(_seconds(call, loops[name]))
    return {name: Timing(median(each), min(each), len(each)) for name, each in spent.items()}


def _seconds(call: Callable[[], Any], loops: int) -> float:
    began = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - began) / loops
