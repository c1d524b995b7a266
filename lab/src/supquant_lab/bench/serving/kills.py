"""Report: a service that is killed under changes. What was answered is there, and nothing else is but whole changes."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supquant import CodeIndex
from supquant_lab.bench.serving.checked import CheckedClient, make_codec, run_clients
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.machine import describe_machine

CLIENTS = 4
"""The number of clients that change the index at the same time."""

LONGEST = 1.0
"""The longest time in seconds from the first answer to the kill."""

_LONG = 600.0
"""More seconds than any service lives here."""


def bench_kills(n_kills: int, seed: int = 0, on_kill: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Kill a service with SIGKILL at random moments while clients change its index, and compare its folder.

    Parameters
    ----------
    n_kills : int
        How often.
    seed : int, default=0
        Seed of all choices.
    on_kill : callable, default=None
        Gets the number of each kill before the service starts.

    Returns
    -------
    dict
        A record for `json`: ``counts`` of changes that were answered, and of those that were made without an answer.
    """
    rng = np.random.default_rng(seed)
    clients = [CheckedClient(owner, seed) for owner in range(CLIENTS)]
    with tempfile.TemporaryDirectory(prefix="supquant-kills-") as place:
        folder = Path(place) / "items"
        index = CodeIndex(make_codec())
        clients[0].change(index)
        index.save(folder)
        for number in range(n_kills):
            if on_kill is not None:
                on_kill(number)
            with ServiceProcess(f"items={folder}") as service:
                killing = threading.Thread(
                    target=_kill_later, args=(service, clients, float(rng.uniform(0, LONGEST)))
                )
                killing.start()
                run_clients(clients, service.url, _LONG, writes=0.95)  # the kill ends them with an error
                killing.join()
            saved = CodeIndex.load(folder, verify="full")
            for client in clients:
                client.check_rows(saved)
    counts: Counter[str] = Counter()
    for client in clients:
        counts.update(client.counts)
    return {
        "benchmark": "serve-kills",
        "kills": n_kills,
        "clients": CLIENTS,
        "counts": dict(sorted(counts.items())),
        "time": time.strftime("%Y-%m-%d"),
        "machine": describe_machine(),
    }


def _kill_later(service: ServiceProcess, clients: list[CheckedClient], seconds: float) -> None:
    """Kill a service some time after it has answered once more."""
    before = sum(client.counts.total() for client in clients)
    while sum(client.counts.total() for client in clients) == before:
        time.sleep(0.005)
    time.sleep(seconds)
    service.kill()
