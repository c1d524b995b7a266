"""Progress of long computations: events with the remaining time, sent to a callback. The library itself never prints."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Progress", "Reporter", "Stage", "TimeIsUpError", "TimeLimit"]

_logger = logging.getLogger("supquant")


@dataclass(frozen=True)
class Progress:
    """One finished step of a stage.

    Parameters
    ----------
    stage : str
        Name of the stage, such as ``"joint"``.
    step : int
        Number of finished steps, counted from 1.
    total : int or None
        Number of expected steps, if known. An iteration may converge earlier.
    elapsed : float
        Time since the start of the stage, in seconds.
    remaining : float or None
        Estimated time until `total` steps are finished, in seconds, from the mean time of a step; None if `total` is None.
    values : mapping of str to float
        Values that the step measured, such as the objective.

    Examples
    --------
    >>> print(Progress("joint", 3, 10, elapsed=1.5, remaining=3.5, values={"psi": 0.25}))
    joint 3/10, 1.5 s, 3.5 s left, psi=0.25
    """

    stage: str
    step: int
    total: int | None
    elapsed: float
    remaining: float | None
    values: Mapping[str, float]

    def __str__(self) -> str:
        count = f"{self.step}" if self.total is None else f"{self.step}/{self.total}"
        parts = [f"{self.stage} {count}", f"{self.elapsed:.1f} s"]
        if self.remaining is not None:
            parts.append(f"{self.remaining:.1f} s left")
        parts.extend(f"{name}={value:.6g}" for name, value in self.values.items())
        return ", ".join(parts)


class Reporter:
    """Sends progress to a callback, to the logger ``"supquant"``, to both, or to neither.

    Parameters
    ----------
    callback : callable or None, default=None
        Called with a `Progress` after every step. An exception that it raises ends the computation.
    verbose : int, default=0
        If above 0, every step is logged at level INFO; ``logging.basicConfig(level="INFO")`` shows it.

    Examples
    --------
    >>> steps = []
    >>> with Reporter(lambda progress: steps.append(progress)).stage("sweep", total=2) as stage:
    ...     stage.step(psi=4.0)
    ...     stage.step(psi=3.0)
    >>> [(progress.step, progress.values["psi"]) for progress in steps]
    [(1, 4.0), (2, 3.0)]
    """

    def __init__(self, callback: Callable[[Progress], None] | None = None, verbose: int = 0) -> None:
        self._callback = callback
        self._verbose = verbose

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Stage]:
        """Start a stage and its clock.

        Parameters
        ----------
        name : str
            Name of the stage.
        total : int or None, default=None
            Number of expected steps, if known.

        Yields
        ------
        Stage
            Call its `step` after every step.
        """
        yield Stage(self._emit, name, total)

    def _emit(self, progress: Progress) -> None:
        if self._verbose > 0:
            _logger.info("%s", progress)
        if self._callback is not None:
            self._callback(progress)


class Stage:
    """A stage that has started; made by `Reporter.stage`.

    Examples
    --------
    >>> Stage(lambda progress: print(progress.stage, progress.step), "sweep", None).step()
    sweep 1
    """

    def __init__(self, emit: Callable[[Progress], None], name: str, total: int | None) -> None:
        self._emit = emit
        self._name = name
        self._total = total
        self._step = 0
        self._began = time.monotonic()

    def step(self, **values: float) -> None:
        """Report one more finished step.

        Parameters
        ----------
        **values : float
            Values that the step measured.
        """
        self._step += 1
        elapsed = time.monotonic() - self._began
        remaining = None
        if self._total is not None:
            remaining = elapsed / self._step * max(self._total - self._step, 0)
        self._emit(Progress(self._name, self._step, self._total, elapsed, remaining, values))


class TimeIsUpError(Exception):
    """A callback raises this to end a fit; the estimator keeps the model of the last finished step."""


@dataclass(frozen=True)
class TimeLimit:
    """A callback that ends a fit at the first step after a time limit, unless this is the last step.

    Attributes
    ----------
    seconds : float or None, default=None
        Time from `began` on, in seconds; None for no limit.
    began : float
        Start by ``time.monotonic()``; by default the time when the limit was made.

    Examples
    --------
    >>> with Reporter(TimeLimit(60)).stage("sweep") as stage:
    ...     stage.step(psi=4.0)
    """

    seconds: float | None = None
    began: float = field(default_factory=time.monotonic)

    def __call__(self, progress: Progress) -> None:
        """Raise `TimeIsUpError` if the time is up."""
        if self.seconds is None or progress.step == progress.total:
            return
        if time.monotonic() - self.began > self.seconds:
            raise TimeIsUpError(f"{progress.stage} took more than {self.seconds:.0f} s")
