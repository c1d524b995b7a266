"""Report: how a grid is run. Cheap tasks go first, finished ones are skipped, and one that fails does not stop the others."""

from __future__ import annotations

import os
import threading
import time
import traceback
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Literal

from supquant_lab.records import CELL_FOLDERS, fold_cells

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from supquant_lab.grid.tasks import Task, Workplace


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task.

    Attributes
    ----------
    task : Task
    status : {"there", "done", "failed"}
        Whether its files were there before, were written now, or could not be written.
    seconds : float
        The time that it took in this run.
    error : str
        Why it failed.
    seconds_left : float
        Estimated time of the tasks that are still waiting.
    """

    task: Task
    status: Literal["there", "done", "failed"]
    seconds: float
    error: str
    seconds_left: float


def run_grid(tasks: Iterable[Task], workplace: Workplace, *, workers: int = 1) -> Iterator[Outcome]:
    """Run the tasks whose outputs are missing, the cheapest first.

    Parameters
    ----------
    tasks : iterable of Task
    workplace : Workplace
        `n_jobs` is the number of threads of each worker.
    workers : int
        Number of concurrent processes. Each runs one task and ends, so that no task inherits the memory of another. 0 runs all
        tasks in this process, which is faster for small ones.

    Yields
    ------
    Outcome
        One for each task, when it is finished. The folder `failed` says why a task failed; the next run tries it again.

    Notes
    -----
    Every finished cell is written at once to a file of its own, so a run that is stopped or killed loses only the cells that it
    was measuring. At the end of a run these files become lines of one .jsonl.xz file per data set; those of a killed run do
    so at the end of the next one. Several runs may share a folder. Workers end when the process that started them ends.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from supquant_lab.grid import CellsTask, Workplace, run_grid
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
    run = _run_here(waiting, workplace) if workers == 0 else _run_in_processes(waiting, workplace, workers)
    try:
        with closing(run):
            for task, seconds, error in run:
                left = clock.left_after(task, seconds)
                _note_failure(task, workplace, error)
                yield Outcome(task, "failed" if error else "done", seconds, error, left)
    finally:
        for folder in (workplace.folder / name for name in CELL_FOLDERS):
            if folder.is_dir():
                fold_cells(folder)


class _Clock:
    """Estimates the time of the waiting tasks from the expected and the actual time of the finished ones."""

    def __init__(self, tasks: Sequence[Task], workers: int) -> None:
        self._waiting = sum(task.expected_seconds for task in tasks)
        self._workers = workers
        self._expected = self._taken = 0.0

    def left_after(self, task: Task, seconds: float) -> float:
        self._waiting -= task.expected_seconds
        self._expected += task.expected_seconds
        self._taken += seconds
        slowdown = self._taken / self._expected if self._expected else 1.0
        return max(0.0, self._waiting) * slowdown / self._workers


def _run_here(tasks: Iterable[Task], workplace: Workplace) -> Generator[tuple[Task, float, str], None, None]:
    for task in tasks:
        yield task, *_attempt(task, workplace)


def _run_in_processes(
    tasks: Sequence[Task], workplace: Workplace, workers: int
) -> Generator[tuple[Task, float, str], None, None]:
    """Run every task in a process of its own, `workers` of them at a time."""
    waiting = list(reversed(tasks))
    running: dict[Connection, tuple[Task, BaseProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                task = waiting.pop()
                receiver, process = _start(task, workplace)
                running[receiver] = (task, process)
            ready = wait(list(running))
            for receiver in [each for each in running if each in ready]:
                task, process = running.pop(receiver)
                try:
                    seconds, error = receiver.recv()
                except EOFError:
                    seconds, error = 0.0, "its process was killed; perhaps memory ran out"
                process.join()
                yield task, seconds, error
    finally:
        for _, process in running.values():
            process.terminate()


def _start(task: Task, workplace: Workplace) -> tuple[Connection, BaseProcess]:
    """Start a process for a task; return the connection that its outcome comes through, and the process.

    It is forked from a process that has only imported what tasks need, which takes most of the time of a small task.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["supquant_lab.cell"])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(task, workplace, sender, dict(os.environ)))
    process.start()
    sender.close()  # so that the end of the process closes the connection
    return receiver, process


def _work(task: Task, workplace: Workplace, sender: Connection, environment: dict[str, str]) -> None:
    """Run a task in a process with the environment of the one that started it, and end when that one ends."""
    os.environ.clear()
    os.environ.update(environment)
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()
    sender.send(_attempt(task, workplace))


def _end_after(sentinel: int) -> None:
    """End this process at once when the process of a sentinel has ended, even if that one was killed."""
    wait([sentinel])
    os._exit(1)


def _attempt(task: Task, workplace: Workplace) -> tuple[float, str]:
    """Run a task; return its seconds, and why it failed or an empty string."""
    began = time.perf_counter()
    error = ""
    try:
        task.run(workplace)
    except Exception:  # noqa: BLE001  # whatever it is, the other tasks continue
        error = traceback.format_exc()
    return time.perf_counter() - began, error


def _note_failure(task: Task, workplace: Workplace, error: str) -> None:
    """Write why a task failed, or remove that file if the task succeeded."""
    output = f"failed/{task.outputs()[0].replace('/', '-')}"
    if error:
        last_line = error.strip().splitlines()[-1]
        workplace.write(output, {"name": task.name, "error": last_line, "traceback": error})
    else:
        (workplace.folder / output).unlink(missing_ok=True)
