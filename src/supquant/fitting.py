"""The loop of a fit: it records steps, reports progress, and keeps the last finished step when it is interrupted."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from supquant.interrupts import check_interrupt
from supquant.progress import Reporter

__all__ = ["FitStage", "FitStep", "Learned", "Record", "StepT", "learn"]

Record = dict[str, float | int | str]
"""The values that a step measured, by name; an entry of an estimator's `objective_`."""

StepT = TypeVar("StepT", bound="FitStep")
"""The type of a method's steps."""


@contextmanager
def learn(stages: Iterable[FitStage[StepT]], reporter: Reporter) -> Iterator[Learned[StepT]]:
    """Take all steps of all stages. The body of the ``with`` statement stores what was learned.

    The body also runs if the fit was interrupted, by Ctrl-C or by a callback that raised, after at least one step was
    finished. The exception is raised again after the body. If no step was finished, it is raised at once and the body does
    not run, so that an estimator keeps its old model. Ctrl-C is raised
    between two steps or two blocks of rows (`supquant.interrupts`).

    Parameters
    ----------
    stages : iterable of FitStage
        They have at least one step in all. The loop asks for a stage when the one before it has ended.
    reporter : Reporter
        Calls the callback and logs.

    Yields
    ------
    Learned
        The last finished step and the record of all steps. A step is recorded before it is reported, so that a callback
        that raises does not lose it.

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
    >>> steps = (Halved(2.0**-i) for i in range(3))
    >>> with learn([FitStage("halve", 3, steps)], Reporter(lambda progress: print(progress.step))) as learned:
    ...     print(learned.last.value, learned.n_iter, learned.record)
    1
    2
    3
    0.25 3 [{'value': 1.0}, {'value': 0.5}, {'value': 0.25}]
    """
    last: StepT | None = None
    record: list[Record] = []
    n_iter = 0
    try:
        with _closed(stages):
            for stage in stages:
                with reporter.stage(stage.name, stage.total) as reported, _closed(stage.steps):
                    for last in stage.steps:
                        record.append(last.as_record())
                        n_iter += last.counts_as_iteration
                        values = last.as_progress()
                        if values is not None:
                            reported.step(**values)
                        check_interrupt()
    finally:  # also after an interrupt, which is raised again when the body of the with statement has ended
        if last is not None:
            yield Learned(last, record, n_iter)


def _closed(steps: Iterable[object]) -> AbstractContextManager[object]:
    """Close a generator at the end of a `with` block, and not in its finaliser, which would swallow an interrupt."""
    return closing(steps) if isinstance(steps, Generator) else nullcontext()


@dataclass(frozen=True)
class FitStage(Generic[StepT]):
    """Steps that are reported under one name, such as the steps for one code length.

    Attributes
    ----------
    name : str
    total : int or None
        Expected number of reported steps; None if it is not known.
    steps : iterable of FitStep
        Usually a generator, which does its work when the loop asks for the next step.
    """

    name: str
    total: int | None
    steps: Iterable[StepT]


class FitStep(Protocol):
    """One finished step of a fit. Each step leaves a model that could be stored."""

    @property
    def counts_as_iteration(self) -> bool:
        """Whether the step counts in `n_iter_`."""

    def as_record(self) -> Record:
        """Return the entry of `objective_`."""

    def as_progress(self) -> Mapping[str, float] | None:
        """Return the values for the callback, or None if the step is not reported."""


@dataclass(frozen=True)
class Learned(Generic[StepT]):
    """What a fit has learned and the estimator stores; made by `learn`.

    Attributes
    ----------
    last : FitStep
        The last finished step, with its model.
    record : list of dict
        One entry for every finished step; the estimator's `objective_`.
    n_iter : int
        Number of finished steps that count as an iteration; the estimator's `n_iter_`.
    """

    last: StepT
    record: list[Record]
    n_iter: int
