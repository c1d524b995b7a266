"""Many measurements that can be stopped and gone on with: tasks, and the running of them."""

from __future__ import annotations

from supquant.experiments.grid.cells import CellsTask
from supquant.experiments.grid.running import Outcome, run_grid
from supquant.experiments.grid.samples import SamplesTask
from supquant.experiments.grid.sweep import SweepTask
from supquant.experiments.grid.task import Task, Workplace

__all__ = ["CellsTask", "Outcome", "SamplesTask", "SweepTask", "Task", "Workplace", "run_grid"]


def __dir__() -> list[str]:
    return __all__
