"""Report: searches, changes, and saves by another process, with every answer checked."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from supquant import CodeIndex
from supquant.cli.index import change_saved
from supquant_lab.bench.process import run_fresh
from supquant_lab.bench.serving.checked import CheckedClient, make_codec, run_clients
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.machine import describe_machine

CLIENTS = 6
"""The number of clients at the same time."""

STRANGER = 99
"""The owner whose rows another process changes, without the service."""

SAVE_SECONDS = 2.0
"""The time in seconds between two saves by the other process."""

MEMORY_SECONDS = 2.0
"""The time in seconds between two looks at the memory of the service."""


def bench_load(minutes: float, seed: int = 0) -> dict[str, Any]:
    """Load a service with searches, adds, updates and removes while another process saves to its folder.

    Parameters
    ----------
    minutes : float
        How long to go on.
    seed : int, default=0
        Seed of all choices.

    Returns
    -------
    dict
        A record for `json`: ``counts``, ``failures``, which should be empty, and the memory of the service in MB.
    """
    began, seconds = time.monotonic(), 60 * minutes
    memory: list[float] = []
    stranger: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="supquant-load-") as place:
        folder = Path(place) / "items"
        first = CheckedClient(CLIENTS, seed)
        index = CodeIndex(make_codec())
        first.change(index)  # the index has its kind of ids and its column
        index.save(folder)
        clients = [first, *(CheckedClient(owner, seed) for owner in range(CLIENTS))]
        with ServiceProcess(f"items={folder}", "--watch") as service:
            over = threading.Event()
            other = threading.Thread(
                target=lambda: stranger.update(
                    run_fresh(__name__, folder, seed, seconds, purpose="save from another process")
                )
            )
            looking = threading.Thread(target=_watch_memory, args=(service, memory, over))
            other.start()
            looking.start()
            failures = run_clients(clients, service.url, seconds, writes=0.3)
            other.join()
            over.set()
            looking.join()
            code, errors = service.end()
        failures += [f"the service ended with {code}"] if code else []
        failures += [errors[-2000:]] if errors else []
        saved = CodeIndex.load(folder, verify="full")
        counts: Counter[str] = Counter()
        for client in clients:
            client.check_rows(saved)
            counts.update(client.counts)
        held = sum(each // 10**9 == STRANGER for each in saved.ids.tolist())
        if held != stranger.get("rows"):
            failures.append(f"{held} rows of the other process are there, expected {stranger.get('rows')}")
    third = max(1, len(memory) // 3)
    return {
        "benchmark": "serve-load",
        "minutes": (time.monotonic() - began) / 60,
        "clients": CLIENTS + 1,
        "counts": dict(sorted(counts.items())) | {"saves by another process": stranger.get("saves", 0)},
        "failures": failures,
        "memory_mb": {
            "first third": float(np.median(memory[:third])) if memory else 0.0,
            "last third": float(np.median(memory[-third:])) if memory else 0.0,
            "most": max(memory, default=0.0),
        },
        "machine": describe_machine(),
    }


def _watch_memory(service: ServiceProcess, memory: list[float], over: threading.Event) -> None:
    while not over.wait(MEMORY_SECONDS):
        memory.append(service.memory_mb())


def _change_again(owner: CheckedClient, before: CheckedClient, index: CodeIndex) -> None:
    """Change an index as the owner would have before. After a conflict, the same change is made once more."""
    owner.__dict__.update(copy.deepcopy(before).__dict__)
    owner.change(index)


def _main(folder: Path, seed: int, seconds: float) -> None:
    """Change rows of an owner of its own again and again, and print how many there are."""
    owner = CheckedClient(STRANGER, seed)
    end = time.monotonic() + seconds
    saves = 0
    while time.monotonic() < end:
        change_saved(folder, partial(_change_again, owner, copy.deepcopy(owner)))
        owner.check_rows(CodeIndex.load(folder))
        saves += 1
        time.sleep(SAVE_SECONDS)
    sys.stdout.write(json.dumps({"rows": len(owner.rows), "saves": saves}))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
