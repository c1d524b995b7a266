"""Report: the throughput of a service, compared with direct searches and with a service that joins no queries."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from supquant import AdditiveCodec, CodeIndex
from supquant_lab.bench.process import run_fresh
from supquant_lab.bench.serving.asking import ask
from supquant_lab.bench.serving.process import ServiceProcess, bind
from supquant_lab.machine import describe_machine

ROWS, BITS, DIMENSIONS = 1_000_000, 64, 64
"""Size of the index: rows, bits of a code, and the width of queries."""

CLIENTS = 32
"""The number of clients at the same time, and of queries of a direct search."""

K = 10
"""The number of answers to a query."""

SERVED_SHARE, JOINED_RATIO, ADDED_MS = 0.6, 5.0, 2.0
"""What is asked: the share of direct throughput, the ratio to a service that joins nothing, and the time added to one search."""


def bench_serve(
    *,
    rounds: int = 3,
    seconds: float = 4.0,
    quick: bool = False,
    on_round: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Compare a service on one core with direct searches on the same core. Clients have another core.

    Parameters
    ----------
    rounds : int, default=3
        How often all is measured. Ratios are taken within a round.
    seconds : float, default=4.0
        How long each load lasts.
    quick : bool, default=False
        Whether a small index is searched for a moment: to see that it runs, not for figures.
    on_round : callable, default=None
        Gets the number of each round before it begins.

    Returns
    -------
    dict
        A record for `json`.
    """
    rows, seconds = (20_000, 0.3) if quick else (ROWS, seconds)
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="supquant-serve-") as place:
        folder = Path(place) / "items"
        write_index(folder, rows)
        measured = []
        for number in range(1 if quick else rounds):
            if on_round is not None:
                on_round(number)
            measured.append(_measure(folder, seconds, cores[0], cores[-1]))
    return {
        "benchmark": "serve",
        "rows": rows,
        "bits": BITS,
        "dimensions": DIMENSIONS,
        "k": K,
        "clients": CLIENTS,
        "seconds": seconds,
        "rounds": measured,
        "medians": {name: float(np.median([each[name] for each in measured])) for name in measured[0]},
        "asked": {"served_share": SERVED_SHARE, "joined_ratio": JOINED_RATIO, "added_ms": ADDED_MS},
        "load": os.getloadavg()[0],
        "machine": describe_machine(),
    }


def write_index(folder: Path, rows: int) -> None:
    """Save an index of uniform codes, for which a scan excludes the fewest rows."""
    rng = np.random.default_rng(0)
    codebooks = rng.normal(size=(BITS // 8, 256, DIMENSIONS)).astype(np.float32)
    codes = rng.integers(0, 256, size=(rows, BITS // 8), dtype=np.uint8)
    CodeIndex(AdditiveCodec(codebooks)).add_codes(codes).save(folder)


def _measure(folder: Path, seconds: float, core: int, clients_core: int) -> dict[str, float]:
    """Return the figures of one round. A processor second is a second in which the process has its core."""
    direct = run_fresh(__name__, folder, seconds, core, purpose="search directly")
    with ServiceProcess(f"items={folder}", "--jobs", 1, core=core) as service:
        ask(service.url, 1, 0.1, clients_core)  # the first use of each file checks it
        before = service.processor_seconds()
        many = ask(service.url, CLIENTS, seconds, clients_core)
        busy = service.processor_seconds() - before
        scans, joined = _scans(service.url)
        as_json = ask(service.url, CLIENTS, seconds, clients_core, "json")
        one = ask(service.url, 1, seconds, clients_core)
    with ServiceProcess(f"items={folder}", "--jobs", 1, "--max-batch", 1, core=core) as service:
        single = ask(service.url, CLIENTS, seconds, clients_core)
    return {
        "direct_per_second": direct["per_second"],
        "direct_processor_ms": direct["processor_ms"],
        "direct_one_ms": direct["one_ms"],
        "served_per_second": many["per_second"],
        "served_processor_ms": 1000 * busy / many["searches"],
        "served_median_ms": many["median_ms"],
        "served_scan_queries": joined / scans,
        "client_processor_ms": many["processor_ms"],
        "json_per_second": as_json["per_second"],
        "unjoined_per_second": single["per_second"],
        "one_client_ms": one["median_ms"],
        "served_share": many["per_second"] / direct["per_second"],
        "served_processor_share": direct["processor_ms"] * many["searches"] / (1000 * busy),
        "joined_ratio": many["per_second"] / single["per_second"],
        # What joining saves of the scans alone: no service can have a greater ratio.
        "joined_bound": direct["per_second"] * direct["one_ms"] / 1000,
        "added_ms": one["median_ms"] - direct["one_ms"],
    }


def _scans(url: str) -> tuple[float, float]:
    """Return the number of scans of a service, and that of their queries."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    found = dict(re.findall(r"^supquant_scan_queries_(count|sum)\{.*\} (\S+)$", text, re.MULTILINE))
    return float(found["count"]), float(found["sum"])


def _main(folder: Path, seconds: float, core: int) -> None:
    """Search directly in batches and alone, and print the figures as JSON."""
    bind([core])
    index = CodeIndex.load(folder)
    queries = np.random.default_rng(1).normal(size=(CLIENTS, DIMENSIONS)).astype(np.float32)
    index.search(queries, K, n_jobs=1)
    began, used = time.perf_counter(), time.process_time()
    n_batches = 0
    while time.perf_counter() < began + seconds:
        index.search(queries, K, n_jobs=1)
        n_batches += 1
    taken, used = time.perf_counter() - began, time.process_time() - used
    alone = []
    for turn in range(max(5, int(20 * seconds))):
        now = time.perf_counter()
        index.search(queries[turn % CLIENTS][None], K, n_jobs=1)
        alone.append(time.perf_counter() - now)
    record = {
        "per_second": CLIENTS * n_batches / taken,
        "processor_ms": 1000 * used / (CLIENTS * n_batches),
        "one_ms": 1000 * float(np.median(alone)),
    }
    sys.stdout.write(json.dumps(record))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
