"""Report: a fit that is watched: how its objective fell, and whether its time ran out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from supquant.progress import TimeLimit

if TYPE_CHECKING:
    from supquant.progress import Progress
    from supquant_experiments.methods.interface import Callback


@dataclass
class Watch:
    """A callback that notes the objective after each step, and ends the fit when its time is up.

    Attributes
    ----------
    limit : float or None
        Seconds from the making of this watch on; at the first step after them the fit ends, unless it was its last.
    callback : callable or None
        Gets every event too.
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
        """Note a step, hand it on, and say when the time is up."""
        if progress.step == 1:
            self.convergence.clear()
        if "objective" in progress.values:
            self.convergence.append((progress.elapsed, float(progress.values["objective"])))
        if self.callback is not None:
            self.callback(progress)
        TimeLimit(self.limit, self.began)(progress)
