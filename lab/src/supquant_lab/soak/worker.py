"""Soak: one process that tries the kind of disturbed work that is furthest behind, until its time is over."""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from supquant_lab.soak.trials import Trials


def soak(seed: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Try the kind of work that is furthest behind what is asked, again and again, until the time is over or one goes wrong.

    Parameters
    ----------
    seed : int
        Seed of all choices. Moments of kills and interrupts differ from run to run all the same.
    seconds : float
        How long to go on. The last trial may end a little later.
    folder : Path
        A folder for indexes and samples.

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
        kinds = Trials(folder, rng, counts).kinds()
        name = furthest_behind(counts, {kind: asked for kind, (asked, _) in kinds.items()})
        try:
            kinds[name][1]()
        except Exception:  # noqa: BLE001  # whatever it is, the record tells it
            failure = {"seed": [seed, number], "trial": name, "error": traceback.format_exc()}
            return {"counts": counts, "failure": failure}
        counts["trials"] += 1
    return {"counts": counts, "failure": None}


def furthest_behind(counts: Mapping[str, int], asked: Mapping[str, int]) -> str:
    """Return the name whose count is the smallest share of what is asked, and the first one of several."""
    return min(asked, key=lambda name: counts.get(name, 0) / asked[name])


def _memory_folder() -> Path | None:
    """Return a folder in memory if there is one: a disk would be busy with nothing but syncs."""
    folder = Path("/dev/shm")  # where Linux has it
    return folder if folder.is_dir() else None


def _main(seed: int, seconds: float) -> None:
    """Soak, and print the record as JSON. Children write their errors to a file, whose end is told with a failure."""
    with tempfile.TemporaryDirectory(prefix="supquant-soak-", dir=_memory_folder()) as place:
        with (Path(place) / "errors").open("w+") as errors:
            os.dup2(errors.fileno(), sys.stderr.fileno())
            faulthandler.enable()
            record = soak(seed, seconds, Path(place))
            if record["failure"] is not None:
                record["failure"]["error"] += (Path(place) / "errors").read_text()[-10_000:]
        json.dump(record, sys.stdout)


if __name__ == "__main__":
    _main(int(sys.argv[1]), float(sys.argv[2]))
