"""Report: the time that calls take, and figures with their limits."""

from __future__ import annotations

import math
import time
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from supquant import kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

REPEATS = 7
"""Number of turns; the median is reported."""

TURN_SECONDS = 0.01
"""Calls that take less than this many seconds are made several times per turn."""

BUDGET_SECONDS = 60.0
"""No further turn of a comparison begins after this many seconds."""

Name = TypeVar("Name", bound=Hashable)


def seconds_of(call: Callable[[], object], repeats: int = 1) -> float:
    """Return the seconds of one call, averaged over consecutive calls.

    Examples
    --------
    >>> seconds_of(lambda: sum(range(1000)), repeats=3) > 0
    True
    """
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats


def processor_seconds(call: Callable[[], object]) -> float:
    """Return the processor time of a call in seconds.

    Examples
    --------
    >>> processor_seconds(lambda: sum(range(100_000))) > 0
    True
    """
    began = time.process_time()
    call()
    return time.process_time() - began


@dataclass(frozen=True)
class Timing:
    """The seconds of one call."""

    seconds: float
    best_seconds: float
    repeats: int


def time_in_turn(
    calls: Mapping[Name, Callable[[], Any]], *, repeats: int = REPEATS, budget: float = BUDGET_SECONDS
) -> dict[Name, Timing]:
    """Return the median seconds of each call over turns. Each turn makes every call, so that noise affects all of them.

    Parameters
    ----------
    calls : mapping of names to callables
        Each is called once before the clock starts.
    repeats : int
        Number of turns; fewer if they exceed the budget, but at least one.
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


@dataclass(frozen=True)
class Figure:
    """One measured figure, with a floor, a ceiling or no limit.

    Examples
    --------
    >>> Figure("memory", 0.9, at_most=1.0).reached
    True
    """

    name: str
    measured: float
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""

    @property
    def asked(self) -> str | None:
        """The floor or the ceiling in words; None without a limit."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}{self.unit}"
        return None if self.at_most is None else f"at most {self.at_most:g}{self.unit}"

    @property
    def reached(self) -> bool | None:
        """Whether the figure keeps its limit; None without a limit."""
        if self.at_least is not None:
            return self.measured >= self.at_least
        return None if self.at_most is None else self.measured <= self.at_most

    def to_json(self) -> dict[str, Any]:
        """Return the entry of the record."""
        return {
            "name": self.name,
            "asked": self.asked,
            "measured": self.measured,
            "unit": self.unit.strip(),
            "instruction_set": kernels.isa(),
            "reached": self.reached,
        }
