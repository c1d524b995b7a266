"""A limit of the time of a fit."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supquant.progress import Progress


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
    >>> from supquant.progress import Reporter
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
