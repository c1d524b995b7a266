"""Report: the throughput of a service, compared with direct searches and with a service that joins no queries.

Many clients are connections of one event loop, with httptools, the parser that the service uses as well. Threads with the client
of the library would take longer to ask than the service takes to answer, and would measure themselves.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import numpy as np
import uvloop

from supquant import AdditiveCodec, CodeIndex
from supquant.client import Client
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.bench.timing import seconds_of
from supquant_lab.machine import describe_machine

ROWS, BITS, DIMENSIONS = 1_000_000, 64, 64
"""Size of the index: rows, bits of a code, and the width of queries."""

CLIENTS = 32
"""Number of concurrent clients, and of queries of a direct search."""

K = 10
"""Number of answers to a query."""

QUERIES = 64
"""Number of different queries of a client."""

WARM_SECONDS = 0.5
"""Seconds before searches are counted."""

SERVED_SHARE, JOINED_RATIO, ADDED_MS = 0.6, 5.0, 2.0
"""What is asked: the fraction of direct throughput, the ratio to a service that joins nothing, and the milliseconds added to one
search."""


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
        How often everything is measured. Ratios are taken within a round.
    seconds : float, default=4.0
        How long each load lasts.
    quick : bool, default=False
        Whether to search a small index for a moment: to see that it runs, not for figures.
    on_round : callable, default=None
        Gets the number of each round before it begins.

    Returns
    -------
    dict
        A record for `json`.
    """
    rows, seconds = (20_000, 0.3) if quick else (ROWS, seconds)
    cores = sorted(os.sched_getaffinity(0))
    with temporary_folder() as place:
        folder = place / "items"
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
    direct = run_fresh(_search_directly, folder, seconds, core, purpose="search directly")
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
        # What joining saves of the scans alone. No service can have a greater ratio.
        "joined_bound": direct["per_second"] * direct["one_ms"] / 1000,
        "added_ms": one["median_ms"] - direct["one_ms"],
    }


def _scans(url: str) -> tuple[float, float]:
    """Return the number of scans of a service, and that of their queries."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
    found = dict(re.findall(r"^supquant_scan_queries_(count|sum)\{.*\} (\S+)$", text, re.MULTILINE))
    return float(found["count"]), float(found["sum"])


def _search_directly(folder: str, seconds: float, core: int) -> dict[str, float]:
    """Search an index directly from this process, in batches and alone; return the figures."""
    os.sched_setaffinity(0, {core})
    index = CodeIndex.load(folder)
    queries = np.random.default_rng(1).normal(size=(CLIENTS, DIMENSIONS)).astype(np.float32)
    index.search(queries, K, n_jobs=1)
    began, used = time.perf_counter(), time.process_time()
    n_batches = 0
    while time.perf_counter() < began + seconds:
        index.search(queries, K, n_jobs=1)
        n_batches += 1
    taken, used = time.perf_counter() - began, time.process_time() - used
    alone = [
        seconds_of(partial(index.search, queries[turn % CLIENTS][None], K, n_jobs=1))
        for turn in range(max(5, int(20 * seconds)))
    ]
    return {
        "per_second": CLIENTS * n_batches / taken,
        "processor_ms": 1000 * used / (CLIENTS * n_batches),
        "one_ms": 1000 * float(np.median(alone)),
    }


def ask(url: str, n_clients: int, seconds: float, core: int, body: str = "octets") -> dict[str, Any]:
    """Search with some concurrent clients, in a fresh process on one core.

    Parameters
    ----------
    url : str
        The address of the service.
    n_clients : int
        Number of clients. Each waits for its answer before it asks again. A single one is a `Client` of the library.
    seconds : float
        How long searches are counted.
    core : int
        The core of the process.
    body : {"octets", "json"}, default="octets"
        How many clients send their queries.

    Returns
    -------
    dict
        ``per_second``, the searches of all clients, ``median_ms``, the median time of one search, ``searches``, their number
        including those that were not counted, and ``processor_ms`` of the clients per search.
    """
    return run_fresh(_search_served, url, n_clients, seconds, core, body, purpose=f"search {url}")


class _Asker(asyncio.Protocol):
    """One connection, which asks again when it is answered."""

    def __init__(self, requests: list[bytes], times: list[tuple[float, float]], end: float) -> None:
        self._requests, self._times, self._end = requests, times, end
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is of no class of asyncio
        self._ask()

    def _ask(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(self._requests[len(self._times) % len(self._requests)])

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Keep a chunk of the answer."""
        self._body += body

    def on_message_complete(self) -> None:
        """Note the time of a search, and ask again."""
        now = time.perf_counter()
        self._times.append((now, now - self._began))
        if self._parser.get_status_code() != 200 or not self._body.startswith(b'{"ids":[['):
            self.done.set_exception(RuntimeError(f"a search was answered with {self._body[:200]!r}"))
        elif now > self._end:
            self._transport.close()
            self.done.set_result(None)
        else:
            self._body = b""
            self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("the service closed a connection"))


async def _ask_many(url: str, width: int, n_clients: int, end: float, body: str) -> list[tuple[float, float]]:
    """Return when each search was answered, and how long it took, in seconds."""
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    loop = asyncio.get_running_loop()
    times: list[list[tuple[float, float]]] = [[] for _ in range(n_clients)]
    name = Client(url).name
    askers = []
    for number in range(n_clients):
        queries = np.random.default_rng(number).normal(size=(QUERIES, 1, width)).astype("<f4")
        requests = [_request(f"/v1/{name}/search", address.netloc, each, body) for each in queries]
        _, asker = await loop.create_connection(
            lambda own=times[number], requests=requests: _Asker(requests, own, end),  # type: ignore[misc]
            address.hostname,
            address.port,
        )
        askers.append(asker.done)
    await asyncio.gather(*askers)
    return [each for own in times for each in own]


def _request(path: str, host: str, query: np.ndarray[Any, Any], body: str) -> bytes:
    """Return the bytes of a search for 10 answers."""
    if body == "octets":
        path, content = f"{path}?k=10", query.tobytes()
        kind = "application/octet-stream"
    else:
        content, kind = json.dumps({"queries": query.tolist(), "k": 10}).encode(), "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


def _ask_alone(url: str, width: int, end: float) -> list[tuple[float, float]]:
    """Search with one client of the library."""
    client = Client(url)
    queries = np.random.default_rng(0).normal(size=(QUERIES, 1, width)).astype(np.float32)
    times: list[tuple[float, float]] = []
    while not times or times[-1][0] <= end:
        began = time.perf_counter()
        client.search(queries[len(times) % QUERIES])
        now = time.perf_counter()
        times.append((now, now - began))
    return times


def _search_served(url: str, n_clients: int, seconds: float, core: int, body: str) -> dict[str, Any]:
    """Search a service with some clients from this process; return their figures."""
    os.sched_setaffinity(0, {core})
    width = Client(url).info()["inputs"]
    used = time.process_time()
    end = time.perf_counter() + WARM_SECONDS + seconds
    alone = n_clients == 1
    times = _ask_alone(url, width, end) if alone else uvloop.run(_ask_many(url, width, n_clients, end, body))
    counted = [took for when, took in times if end - seconds <= when <= end]
    return {
        "searches": len(times),
        "per_second": len(counted) / seconds,
        "median_ms": 1000 * float(np.median(counted)),
        "processor_ms": 1000 * (time.process_time() - used) / len(times),
    }
