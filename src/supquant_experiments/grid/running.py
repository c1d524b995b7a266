"""Report: the running of a grid: cheapest first, what is there is skipped, what fails is told and does not stop the rest."""

from __future__ import annotations

import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TYPE_CHECKING, Literal

from supquant.storage.json_file import write_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from supquant_experiments.grid.task import Task, Workplace


@dataclass(frozen=True)
class Outcome:
    """What became of a task.

    Attributes
    ----------
    task : Task
    status : {"there", "done", "failed"}
        Whether its files were there before, were made now, or could not be made.
    seconds : float
        That it took now.
    error : str
        Why it failed.
    seconds_left : float
        That the tasks still waiting take, if they are off by as much as those so far.
    """

    task: Task
    status: Literal["there", "done", "failed"]
    seconds: float
    error: str
    seconds_left: float


def run_grid(tasks: Iterable[Task], workplace: Workplace, *, workers: int = 1) -> Iterator[Outcome]:
    """Run what is not there yet, the cheapest task first.

    Parameters
    ----------
    tasks : iterable of Task
    workplace : Workplace
        `n_jobs` is the number of threads of each worker.
    workers : int
        Processes, each of which does one task and ends, so that no task inherits another's memory; 0 runs
        all tasks in this process, which is quicker for small ones.

    Yields
    ------
    Outcome
        One for each task, when it is finished. Of a task that failed the folder `failed` tells why; the next
        run tries it again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from supquant_experiments.grid import CellsTask, Workplace, run_grid
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     grid = [CellsTask("digits", "euclidean", rows=300)]
    ...     for run in range(2):
    ...         print([outcome.status for outcome in run_grid(grid, Workplace(Path(folder)), workers=0)])
    ['done']
    ['there']
    """
    waiting = []
    for task in sorted(tasks, key=lambda task: task.expected_seconds):
        if workplace.has(task):
            yield Outcome(task, "there", 0.0, "", 0.0)
        else:
            waiting.append(task)
    clock = _Clock(waiting, max(1, workers))
    for task, seconds, error in (
        _run_here(waiting, workplace) if workers == 0 else _run_in_processes(waiting, workplace, workers)
    ):
        left = clock.left_after(task, seconds)
        _note_failure(task, workplace, error)
        yield Outcome(task, "failed" if error else "done", seconds, error, left)


class _Clock:
    """How long the rest takes, from how far off the expectations were so far."""

    def __init__(self, tasks: Sequence[Task], workers: int) -> None:
        self._waiting = sum(task.expected_seconds for task in tasks)
        self._workers = workers
        self._expected = self._taken = 0.0

    def left_after(self, task: Task, seconds: float) -> float:
        self._waiting -= task.expected_seconds
        self._expected += task.expected_seconds
        self._taken += seconds
        off = self._taken / self._expected if self._expected else 1.0
        return max(0.0, self._waiting) * off / self._workers


def _run_here(tasks: Iterable[Task], workplace: Workplace) -> Iterator[tuple[Task, float, str]]:
    for task in tasks:
        yield task, *_attempt(task, workplace)


def _run_in_processes(
    tasks: Sequence[Task], workplace: Workplace, workers: int
) -> Iterator[tuple[Task, float, str]]:
    """Give every task a process of its own, `workers` of them at a time."""
    waiting = list(reversed(tasks))
    running: dict[Future[tuple[float, str]], tuple[Task, ProcessPoolExecutor]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                task = waiting.pop()
                process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
                running[process.submit(_attempt, task, workplace)] = (task, process)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                task, process = running.pop(future)
                try:
                    seconds, error = future.result()
                except BrokenProcessPool:
                    seconds, error = 0.0, "its process was killed; perhaps memory ran out"
                process.shutdown()
                yield task, seconds, error
    finally:
        for _, process in running.values():
            process.shutdown(wait=False, cancel_futures=True)


def _attempt(task: Task, workplace: Workplace) -> tuple[float, str]:
    """Run a task; give the seconds it took, and why it failed, if it did."""
    began = time.perf_counter()
    error = ""
    try:
        task.run(workplace)
    except Exception:  # noqa: BLE001  whatever it is, the other tasks go on
        error = traceback.format_exc()
    return time.perf_counter() - began, error


def _note_failure(task: Task, workplace: Workplace, error: str) -> None:
    """Write why a task failed, or forget that it did."""
    name = task.outputs()[0].replace("/", "-")
    path = workplace.folder / "failed" / name
    if error:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"name": task.name, "error": error.strip().splitlines()[-1], "traceback": error})
    else:
        path.unlink(missing_ok=True)
