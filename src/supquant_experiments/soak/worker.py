"""Soak: one process that tries all kinds of disturbed work in turn until its time is over."""

from __future__ import annotations

import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from supquant_experiments.soak.trials import Trials


def soak(seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Try random kinds of work until the time is over or one goes wrong.

    Parameters
    ----------
    seed : int
        Seed of all choices. Moments of kills and interrupts differ from run to run all the same.
    seconds : float
        How long to go on. The last trial may end a little later.
    folder : Path
        A folder for indexes.

    Returns
    -------
    dict
        ``counts`` by name, and ``failure``, which is None or tells the trial and the error.
    """
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(sys.maxsize):
        if time.monotonic() >= end:
            break
        rng = np.random.default_rng([seed, number])
        trials = Trials(folder / "index", rng, counts)
        kinds = trials.kinds()
        weights = np.array([weight for weight, _ in kinds.values()])
        name = str(rng.choice(list(kinds), p=weights / weights.sum()))
        try:
            kinds[name][1]()
        except Exception:  # noqa: BLE001  # whatever it is, the record tells it
            failure = {"seed": [seed, number], "trial": name, "error": traceback.format_exc()}
            return {"counts": counts, "failure": failure}
        counts["trials"] += 1
    return {"counts": counts, "failure": None}


def _memory_folder() -> Path | None:
    """Return a folder in memory if there is one: a disk would be busy with nothing but syncs."""
    folder = Path("/dev/shm")  # where Linux has it
    return folder if folder.is_dir() else None


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="supquant-soak-", dir=_memory_folder()) as place:
        json.dump(soak(int(sys.argv[1]), float(sys.argv[2]), Path(place)), sys.stdout)
