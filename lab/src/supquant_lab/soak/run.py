"""Soak: several processes at once, and the record of what they did."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from supquant.inputs.parameters import check_integer, check_positive
from supquant_lab.bench.process import run_fresh
from supquant_lab.machine import describe_machine
from supquant_lab.soak.trials import Trials


def run_soak(minutes: float, n_processes: int, seed: int = 0) -> dict[str, Any]:
    """Soak in several processes, and count what they did.

    Parameters
    ----------
    minutes : float
        How long to go on.
    n_processes : int
        The number of processes; each has a folder of its own, and children.
    seed : int, default=0
        Seed of all choices.

    Returns
    -------
    dict
        A record for `json`: ``counts`` of everything that was done, ``asked_an_hour``, the counts that an hour should reach, and
        ``failures``, which should be empty.
    """
    check_positive(minutes, "minutes")
    check_integer(n_processes, "processes", 1)
    began = time.monotonic()

    def one(number: int) -> Any:
        return run_fresh("supquant_lab.soak.worker", seed + number, 60 * minutes, purpose="go on with a soak")

    with ThreadPoolExecutor(n_processes) as processes:
        results = list(processes.map(one, range(n_processes)))
    counts: Counter[str] = Counter()
    kinds = Trials(Path(), np.random.default_rng(seed), counts).kinds()
    for result in results:
        counts.update(result["counts"])
    return {
        "benchmark": "soak",
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "processes": n_processes,
        "counts": dict(sorted(counts.items())),
        "asked_an_hour": {name: asked for name, (asked, _) in kinds.items()},
        "failures": [result["failure"] for result in results if result["failure"] is not None],
        "machine": describe_machine(),
    }
