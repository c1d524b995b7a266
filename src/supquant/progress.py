"""Progress of long work: events with the time left, handed to a callback; library code never prints."""

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
        What is being done, such as ``"joint"``.
    step : int
        Steps finished so far, counted from 1.
    total : int or None
        Steps expected, if known. An iteration may converge before it reaches them.
    elapsed : float
        Seconds since the stage began.
    remaining : float or None
        Seconds until `total` steps are finished, by the mean time of a step; None if `total` is unknown.
    values : mapping of str to float
        What the step measured, such as the objective.

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
    """Sends progress to a callback, to the standard logger ``"supquant"``, to both or to nobody.

    Parameters
    ----------
    callback : callable or None
        Called with a `Progress` after every step. What it raises ends the work.
    verbose : int
        Above 0, every step is logged at level INFO; show it with ``logging.basicConfig(level="INFO")``.

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
        """Begin a stage; its clock starts here.

        Parameters
        ----------
        name : str
            What is being done.
        total : int or None
            Steps expected, if known.

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
    """A stage under way; made by `Reporter.stage`.

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
            What the step measured.
        """
        self._step += 1
        elapsed = time.monotonic() - self._began
        remaining = None
        if self._total is not None:
            remaining = elapsed / self._step * max(self._total - self._step, 0)
        self._emit(Progress(self._name, self._step, self._total, elapsed, remaining, values))


class TimeIsUpError(Exception):
    """Raised from a callback to end a fit; the estimator keeps the model of its last step."""


@dataclass(frozen=True)
class TimeLimit:
    """A callback that ends a fit at the first step after so many seconds, unless it was its last.

    Attributes
    ----------
    seconds : float or None
        From the making of this limit on; None for no limit.

    Examples
    --------
    >>> with Reporter(TimeLimit(60)).stage("sweep") as stage:
    ...     stage.step(psi=4.0)
    """

    seconds: float | None = None
    began: float = field(default_factory=time.monotonic)

    def __call__(self, progress: Progress) -> None:
        """Say when the time is up."""
        if self.seconds is None or progress.step == progress.total:
            return
        if time.monotonic() - self.began > self.seconds:
            raise TimeIsUpError(f"{progress.stage} took more than {self.seconds:.0f} s")
