"""The course of a fit: it takes steps, records and reports them, and keeps the last finished one."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing, nullcontext
from typing import Generic, Protocol, TypeVar

from supquant.interrupts import check_interrupt
from supquant.progress import Reporter

__all__ = ["Course", "FitStep", "NamedStep", "Record", "StepT"]

Record = dict[str, float | int | str]
"""The values that a step measured, by name; an entry of an estimator's `objective_`."""

StepT = TypeVar("StepT", bound="FitStep")
"""The type of a method's steps."""


class Course(Generic[StepT]):
    """The steps that a fit has taken so far.

    A fit may be interrupted between two steps, by Ctrl-C or by a callback that raises. The estimator stores `last` in a
    ``finally`` clause, and so keeps the model of the last finished step; without one it keeps its old model.

    Parameters
    ----------
    reporter : Reporter
        Calls the callback and logs.

    Attributes
    ----------
    last : FitStep or None
        The last finished step, with its model.
    record : list of dict
        One entry for every finished step; the estimator's `objective_`.
    n_iter : int
        Number of finished steps that count as an iteration; the estimator's `n_iter_`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halved:
    ...     value: float
    ...     counts_as_iteration = True
    ...
    ...     def as_record(self):
    ...         return {"value": self.value}
    ...
    ...     def as_progress(self):
    ...         return {"value": self.value}
    >>> course = Course(Reporter(lambda progress: print(progress.step)))
    >>> course.take("halve", 3, (Halved(2.0**-i) for i in range(3)))
    1
    2
    3
    >>> course.last.value, course.n_iter, course.record
    (0.25, 3, [{'value': 1.0}, {'value': 0.5}, {'value': 0.25}])
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.last: StepT | None = None
        self.record: list[Record] = []
        self.n_iter = 0

    def take(self, stage: str, total: int | None, steps: Iterable[StepT]) -> None:
        """Take all steps of a stage.

        Parameters
        ----------
        stage : str
            The name under which the steps are reported.
        total : int or None
            Expected number of reported steps; None if unknown.
        steps : iterable of FitStep
            Usually a generator, which does its work when it is asked for the next step. A step is recorded before it is
            reported, so a callback that raises does not lose it.
        """
        # A generator is closed here and not in its finaliser, which would swallow an interrupt.
        closed = closing(steps) if isinstance(steps, Generator) else nullcontext()
        with self._reporter.stage(stage, total, converges=True) as reported, closed:
            for step in steps:
                self.last = step
                self.record.append(step.as_record())
                self.n_iter += step.counts_as_iteration
                values = step.as_progress()
                if values is not None:
                    reported.step(**values)
                check_interrupt()


class FitStep(Protocol):
    """One finished step of a fit. Each step leaves a model that could be stored."""

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the step counts in `n_iter_`."""

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""

    def as_progress(self) -> Mapping[str, float] | None:
        """Return the values for the callback, or None if the step is not reported."""


class NamedStep:
    """What finished steps have in common: a name, the number of the iteration, and the number of recoded rows."""

    name: str
    iteration: int
    changed: int

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the rows took new codes in this step, which happens once per iteration."""
        return self.name == "codes"

    def record(self, terms: Mapping[str, float]) -> Record:
        """Return an entry of `objective_` with the terms of the objective."""
        return {"iteration": self.iteration, "step": self.name, **terms, "changed": self.changed}
