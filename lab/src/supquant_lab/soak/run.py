"""Soak: several processes at once, each of which always tries the kind of disturbed work that is furthest behind."""

from __future__ import annotations

import faulthandler
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from supquant.inputs.parameters import check_integer, check_positive
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.machine import describe_machine
from supquant_lab.soak.trials import Trials


def run_soak(minutes: float, n_processes: int, seed: int = 0) -> dict[str, Any]:
    """Soak in several processes, and count what they did.

    Parameters
    ----------
    minutes : float
        How long to run.
    n_processes : int
        Number of processes; each has a folder and children of its own.
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

    def one(number: int) -> dict[str, Any]:
        return run_fresh(_soak_here, seed + number, 60 * minutes, purpose="continue a soak")

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
        "failures": [
            "{trial}, seed {seed}\n{error}".format_map(result["failure"])
            for result in results
            if result["failure"] is not None
        ],
        "machine": describe_machine(),
    }


def soak(seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Repeatedly try the kind of work that is furthest behind what is asked, until the time is over or a trial fails.

    Parameters
    ----------
    seed : int
        Seed of all choices. Moments of kills and interrupts still differ from run to run.
    seconds : float
        How long to run. The last trial may end a little later.
    folder : Path
        A folder for indexes and samples.

    Returns
    -------
    dict
        ``counts`` by name, and ``failure``, which is None or holds the trial and the error.
    """
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(sys.maxsize):
        if time.monotonic() >= end:
            break
        rng = np.random.default_rng([seed, number])
        kinds = Trials(folder, rng, counts).kinds()
        name = furthest_behind(counts, {kind: asked for kind, (asked, _) in kinds.items()})
        try:
            kinds[name][1]()
        except Exception:  # noqa: BLE001  # whatever it is, it goes into the record
            failure = {"seed": [seed, number], "trial": name, "error": traceback.format_exc()}
            return {"counts": counts, "failure": failure}
        counts["trials"] += 1
    return {"counts": counts, "failure": None}


def furthest_behind(counts: Mapping[str, int], asked: Mapping[str, int]) -> str:
    """Return the first name whose count is the smallest fraction of what is asked."""
    return min(asked, key=lambda name: counts.get(name, 0) / asked[name])


def _soak_here(seed: int, seconds: float) -> dict[str, Any]:
    """Soak in this process. Children write their errors to a file, whose end is added to that of a failure."""
    memory = Path("/dev/shm")  # where Linux has a folder in memory; a disk would be busy with syncs alone
    with (
        temporary_folder(memory if memory.is_dir() else None) as place,
        (place / "errors").open("w+") as errors,
    ):
        os.dup2(errors.fileno(), sys.stderr.fileno())
        faulthandler.enable()
        record = soak(seed, seconds, place)
        if record["failure"] is not None:
            record["failure"]["error"] += (place / "errors").read_text()[-10_000:]
        return record
