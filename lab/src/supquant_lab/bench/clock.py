"""Report: the seconds that a call takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def seconds_of(call: Callable[[], object], repeats: int = 1) -> float:
    """Return the seconds of one call, as the mean over calls that follow each other.

    Examples
    --------
    >>> seconds_of(lambda: sum(range(1000)), repeats=3) > 0
    True
    """
    began = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - began) / repeats
