"""Grids of measurements that can be stopped and resumed: the tasks, and how they are run."""

from __future__ import annotations

from supquant_lab.grid.running import Outcome, run_grid
from supquant_lab.grid.tasks import CellsTask, SamplesTask, SweepTask, Task, Workplace

__all__ = ["CellsTask", "Outcome", "SamplesTask", "SweepTask", "Task", "Workplace", "run_grid"]


def __dir__() -> list[str]:
    return __all__
