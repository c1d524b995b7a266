"""Report: the objective of a fit after each step, and its time limit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from supquant.progress import TimeLimit

if TYPE_CHECKING:
    from supquant.progress import Progress
    from supquant_lab.methods.interface import Callback


@dataclass
class Watch:
    """A callback that records the objective after each step, and ends the fit when its time is up.

    Attributes
    ----------
    limit : float or None
        Seconds from when the watch was made. The fit ends at the first step after them, unless this is its last step.
    callback : callable or None
        Gets every event as well.
    convergence : list of (float, float)
        Seconds and objective of each step of the last stage.

    Examples
    --------
    >>> from supquant.progress import Reporter
    >>> watch = Watch(limit=60)
    >>> with Reporter(watch).stage("sweep") as stage:
    ...     stage.step(objective=4.0)
    >>> [objective for _, objective in watch.convergence]
    [4.0]
    """

    limit: float | None = None
    callback: Callback | None = None
    convergence: list[tuple[float, float]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __call__(self, progress: Progress) -> None:
        """Record a step and pass it on; raise `TimeIsUpError` when the time is up."""
        if progress.step == 1:
            self.convergence.clear()
        if "objective" in progress.values:
            self.convergence.append((progress.elapsed, float(progress.values["objective"])))
        if self.callback is not None:
            self.callback(progress)
        TimeLimit(self.limit, self.began)(progress)
