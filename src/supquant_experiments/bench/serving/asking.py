"""Report: clients that search one after the other, each in a thread of one process."""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import numpy as np

from supquant.client import Client
from supquant_experiments.bench.process import run_fresh
from supquant_experiments.bench.serving.process import bind

_WARM_SECONDS = 0.5
"""The time in seconds before searches are counted."""


def ask(url: str, n_clients: int, seconds: float, core: int) -> dict[str, Any]:
    """Search with some clients at the same time, in a fresh process on one core.

    Parameters
    ----------
    url : str
        The address of the service.
    n_clients : int
        The number of clients. Each waits for its answer before it asks again.
    seconds : float
        How long they are counted.
    core : int
        The core of the process.

    Returns
    -------
    dict
        ``per_second``, the searches of all clients, ``median_ms``, the median time of one search, and ``searches``, their number
        with those that were not counted.
    """
    found: dict[str, Any] = run_fresh(__name__, url, n_clients, seconds, core, purpose=f"search {url}")
    return found


def _main(url: str, n_clients: int, seconds: float, core: int) -> None:
    bind([core])
    width = Client(url).info()["inputs"]
    times: list[list[tuple[float, float]]] = [[] for _ in range(n_clients)]
    failures: list[BaseException] = []
    end = time.perf_counter() + _WARM_SECONDS + seconds

    def run(number: int) -> None:
        rng = np.random.default_rng(number)
        client = Client(url)
        queries = rng.normal(size=(64, 1, width)).astype(np.float32)
        try:
            for turn in range(sys.maxsize):
                began = time.perf_counter()
                client.search(queries[turn % len(queries)])
                now = time.perf_counter()
                times[number].append((now, now - began))
                if now > end:
                    break
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    counted = [took for own in times for when, took in own if end - seconds <= when <= end]
    record = {
        "searches": sum(map(len, times)),
        "per_second": len(counted) / seconds,
        "median_ms": 1000 * float(np.median(counted)),
    }
    sys.stdout.write(json.dumps(record))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
