"""Progress of long computations: events with the remaining time, sent to a callback.

The library itself prints nothing, unless ``verbose=1`` asks for it and logging is not configured.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Plan", "Progress", "Reporter", "Stage", "TimeIsUpError", "TimeLimit"]

_logger = logging.getLogger("supquant")


@dataclass(frozen=True)
class Progress:
    """One finished step of a stage, or the beginning of a stage.

    Parameters
    ----------
    stage : str
        Name of the stage, such as ``"joint"``.
    step : int
        Number of finished steps, counted from 1. A computation with a plan also reports step 0: the beginning of a stage, and
        parts of a stage that has no steps.
    total : int or None
        Number of expected steps, if known. An iteration may converge earlier.
    elapsed : float
        Time since the start of the stage, in seconds.
    remaining : float or None
        Estimated time left, in seconds. With a plan it is that of the whole computation. Without one it is the time until
        `total` steps are finished, from the mean time of a step; None if `total` is None.
    values : mapping of str to float
        Values that the step measured, such as the objective.
    share : float or None, default=None
        The finished share of the whole computation, from 0 to 1; None without a plan.

    Examples
    --------
    >>> print(Progress("joint", 3, 10, elapsed=1.5, remaining=3.5, values={"psi": 0.25}))
    joint 3/10, 1.5 s, 3.5 s left, psi=0.25
    >>> print(Progress("classifier", 0, 1, elapsed=0.0, remaining=60.0, values={}, share=0.25))
    25 %: classifier, 60.0 s left
    """

    stage: str
    step: int
    total: int | None
    elapsed: float
    remaining: float | None
    values: Mapping[str, float]
    share: float | None = None

    def __str__(self) -> str:
        count = f" {self.step}" if self.total is None else f" {self.step}/{self.total}"
        before = "" if self.share is None else f"{100 * self.share:.0f} %: "
        parts = [f"{before}{self.stage}{count if self.step else ''}"]
        if self.step:
            parts.append(f"{self.elapsed:.1f} s")
        if self.remaining is not None:
            parts.append(f"{self.remaining:.1f} s left")
        parts.extend(f"{name}={value:.6g}" for name, value in self.values.items())
        return ", ".join(parts)


PRIOR_SHARE = 0.02
"""The speed that was expected counts as much as the measured speed of this share of all work."""


class Plan:
    """The stages of a computation with their expected costs, from which the time left is estimated.

    The time left is the cost of the work that is left, at the speed of the work that is done. So it does not depend on the stage
    that happens to run, and a machine that is slower than expected is noticed after the first stage.

    Parameters
    ----------
    costs : mapping of str to float
        Expected time of every stage in seconds, in the order of the stages. Only the ratios matter in the long run.
    steps : mapping of str to int, optional
        Expected number of steps of stages that end when they have converged. A quarter more steps than are done, and one, are
        always expected.

    Examples
    --------
    >>> plan = Plan({"classifier": 30.0, "codes": 10.0})
    >>> plan.begin("classifier")
    >>> plan.share
    0.0
    >>> plan.begin("codes")
    >>> plan.advance(0.5)
    >>> plan.share
    0.875
    """

    def __init__(self, costs: Mapping[str, float], steps: Mapping[str, int] | None = None) -> None:
        self._costs = dict(costs)
        self._steps = dict(steps or {})
        self._total = sum(self._costs.values()) or 1.0
        self._stage = ""
        self._of_stage = 0.0
        self._began = time.monotonic()

    def begin(self, stage: str) -> None:
        """Note that the stages before this one are finished; a stage that is not planned costs nothing."""
        if stage in self._costs:
            self._stage, self._of_stage = stage, 0.0

    def advance(self, share: float) -> None:
        """Note that this share of the present stage is finished."""
        self._of_stage = min(1.0, max(self._of_stage, share))

    def count(self, step: int, total: int | None) -> None:
        """Note that this step of the present stage is finished, of `total` steps at the most."""
        expected = self._steps.get(self._stage)
        if expected is not None:
            self.advance(step / max(expected, 1.25 * step + 1))
        elif total:
            self.advance(step / total)

    @property
    def share(self) -> float:
        """The finished share of all work, from 0 to 1."""
        return self._done() / self._total

    def remaining(self) -> float:
        """Return the estimated time left, in seconds."""
        done, prior = self._done(), PRIOR_SHARE * self._total
        slowness = (time.monotonic() - self._began + prior) / (done + prior)
        return slowness * (self._total - done)

    def _done(self) -> float:
        done = 0.0
        for stage, cost in self._costs.items():
            if stage == self._stage:
                return done + cost * self._of_stage
            done += cost
        return 0.0


class Reporter:
    """Sends progress to a callback, to the logger ``"supquant"``, to both, or to neither.

    Parameters
    ----------
    callback : callable or None, default=None
        Called with a `Progress` after every step. An exception that it raises ends the computation, and it is not called again.
    verbose : int, default=0
        If above 0, every step is logged at level INFO. If logging is not configured to show that, it is printed on standard
        error.
    plan : Plan or None, default=None
        If there is one, the beginning of every stage is reported too, and the time left is that of the whole computation.

    Examples
    --------
    >>> steps = []
    >>> with Reporter(lambda progress: steps.append(progress)).stage("sweep", total=2) as stage:
    ...     stage.step(psi=4.0)
    ...     stage.step(psi=3.0)
    >>> [(progress.step, progress.values["psi"]) for progress in steps]
    [(1, 4.0), (2, 3.0)]
    """

    def __init__(
        self,
        callback: Callable[[Progress], None] | None = None,
        verbose: int = 0,
        plan: Plan | None = None,
    ) -> None:
        self._callback = callback
        self._verbose = verbose
        self._plan = plan

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
        yield Stage(self._emit, name, total, self._plan)

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


class Stage:
    """A stage that has started; made by `Reporter.stage`.

    Examples
    --------
    >>> Stage(lambda progress: print(progress.stage, progress.step), "sweep", None).step()
    sweep 1
    """

    def __init__(
        self, emit: Callable[[Progress], None], name: str, total: int | None, plan: Plan | None = None
    ) -> None:
        self._emit = emit
        self._name = name
        self._total = total
        self._plan = plan
        self._step = 0
        self._began = time.monotonic()
        if plan is not None:
            plan.begin(name)
            self._report({})

    def advance(self, share: float) -> None:
        """Report that this share of the stage is finished, in a computation with a plan.

        Parameters
        ----------
        share : float
            From 0 to 1.
        """
        if self._plan is not None:
            self._plan.advance(share)
            self._report({})

    def step(self, **values: float) -> None:
        """Report one more finished step.

        Parameters
        ----------
        **values : float
            Values that the step measured.
        """
        self._step += 1
        if self._plan is not None:
            self._plan.count(self._step, self._total)
        self._report(values)

    def _report(self, values: Mapping[str, float]) -> None:
        elapsed = time.monotonic() - self._began
        remaining = share = None
        if self._plan is not None:
            remaining, share = self._plan.remaining(), self._plan.share
        elif self._total is not None:
            remaining = elapsed / self._step * max(self._total - self._step, 0)
        self._emit(Progress(self._name, self._step, self._total, elapsed, remaining, values, share))


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
        if self.seconds is None or progress.step in (0, progress.total):  # at step 0 there is no model yet
            return
        if time.monotonic() - self.began > self.seconds:
            raise TimeIsUpError(f"{progress.stage} took more than {self.seconds:.0f} s")
