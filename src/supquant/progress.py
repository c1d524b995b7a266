"""Progress of long computations: events with the remaining time, sent to a callback.

The library itself prints nothing, unless ``verbose=1`` asks for it and logging is not configured.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Progress", "Reporter", "Stage"]

_logger = logging.getLogger("supquant")


@dataclass(frozen=True)
class Progress:
    """Some finished steps of a stage, or the beginning of a stage that has no steps.

    Parameters
    ----------
    stage : str
        Name of the stage, such as ``"joint"``.
    step : int
        Number of finished steps. 0 is the beginning of a stage that has no steps.
    total : int or None
        Number of expected steps, if known. An iteration may converge earlier.
    elapsed : float
        Time since the start of the stage, in seconds.
    remaining : float or None
        Estimated time until the stage is finished, in seconds; None as long as there is no good estimate.
    values : mapping of str to float
        Values that the step measured, such as the objective.

    Examples
    --------
    >>> print(Progress("encode", 3, 10, elapsed=1.5, remaining=3.5, values={"psi": 0.25}))
    encode 3/10, 1.5 s, 3.5 s left, psi=0.25
    >>> print(Progress("classifier", 0, 1, elapsed=0.0, remaining=None, values={}))
    classifier
    """

    stage: str
    step: int
    total: int | None
    elapsed: float
    remaining: float | None
    values: Mapping[str, float]

    def __str__(self) -> str:
        if not self.step:
            return self.stage
        count = str(self.step) if self.total is None else f"{self.step}/{self.total}"
        parts = [f"{self.stage} {count}", f"{self.elapsed:.1f} s"]
        if self.remaining:
            parts.append(f"{self.remaining:.1f} s left")
        parts.extend(f"{name}={value:.6g}" for name, value in self.values.items())
        return ", ".join(parts)


class Reporter:
    """Sends progress to a callback, to the logger ``"supquant"``, to both, or to neither.

    Parameters
    ----------
    callback : callable or None, default=None
        Called with a `Progress` after every step. An exception that it raises ends the computation, and it is not called again.
    verbose : int, default=0
        If above 0, every step is logged at level INFO. If logging is not configured to show that, it is printed on standard
        error.

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
    def stage(
        self, name: str, total: int | None = None, *, converges: bool = False, at_once: int = 1
    ) -> Iterator[Stage]:
        """Start a stage and its clock.

        Parameters
        ----------
        name : str
            Name of the stage.
        total : int or None, default=None
            Number of expected steps, if known.
        converges : bool, default=False
            Whether the stage may end before `total` steps. The time left is then unknown.
        at_once : int, default=1
            Number of reports that are prepared at the same time, such as the number of workers.

        Yields
        ------
        Stage
            Call its `step` after every step.
        """
        yield Stage(self._emit, name, total, converges, at_once)

    @contextmanager
    def task(self, name: str) -> Iterator[None]:
        """Report the beginning and the end of a stage that has no steps.

        Examples
        --------
        >>> with Reporter(print).task("classifier"):
        ...     print("...")
        classifier
        ...
        classifier 1/1, 0.0 s
        """
        with self.stage(name, 1) as stage:
            self._emit(Progress(name, 0, 1, elapsed=0.0, remaining=None, values={}))
            yield
            stage.step()

    def _emit(self, progress: Progress) -> None:
        if self._verbose > 0:
            if _logger.isEnabledFor(logging.INFO) and _logger.hasHandlers():
                _logger.info("%s", progress)
            else:
                sys.stderr.write(f"{progress}\n")
                sys.stderr.flush()
        if self._callback is not None:
            callback, self._callback = self._callback, None
            callback(progress)
            self._callback = callback


MIN_SECONDS = 0.5
"""Seconds over which the speed of a stage is measured before a time left is derived from it."""


class Stage:
    """A stage that has started; made by `Reporter.stage`.

    Examples
    --------
    >>> Stage(lambda progress: print(progress.stage, progress.step), "sweep").step()
    sweep 1
    """

    def __init__(
        self,
        emit: Callable[[Progress], None],
        name: str,
        total: int | None = None,
        converges: bool = False,
        at_once: int = 1,
    ) -> None:
        self._emit = emit
        self._name = name
        self._total = total
        self._converges = converges
        self._at_once = at_once
        self._step = self._n_reports = 0
        self._began = time.monotonic()
        self._speed_from = (0, 0.0)  # the step and the time after the first reports

    def step(self, n: int = 1, /, **values: float) -> None:
        """Report `n` more finished steps.

        Parameters
        ----------
        n : int, default=1
            Number of steps, such as the rows of a block.
        **values : float
            Values that the last step measured.
        """
        now = time.monotonic()
        self._step += n
        self._n_reports += 1
        if self._n_reports == self._at_once:
            self._speed_from = self._step, now
        elapsed, remaining = now - self._began, self._remaining(now)
        self._emit(Progress(self._name, self._step, self._total, elapsed, remaining, values))

    def _remaining(self, now: float) -> float | None:
        """Return the time left, by the speed of the steps after the first report, or None if that is not known well.

        The time of the first report includes all that is done once: imports, opening files, packing tables.
        """
        if self._total is None or self._converges:
            return None
        left = self._total - self._step
        if left <= 0:
            return 0.0
        first_step, first_time = self._speed_from
        if self._n_reports < 3 * self._at_once or now - first_time < MIN_SECONDS:
            return None
        return left * (now - first_time) / (self._step - first_step)
