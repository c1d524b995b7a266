"""Report: clients that search one after the other, in a process of their own.

Many clients are connections of one event loop, with httptools, the parser that the service has, too. Threads with the client of
the library would take longer to ask than the service takes to answer, and would measure themselves.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, cast
from urllib.parse import urlsplit

import httptools
import numpy as np
import uvloop

from supquant.client import Client
from supquant_lab.bench.process import run_fresh
from supquant_lab.bench.serving.process import bind

_WARM_SECONDS = 0.5
"""The time in seconds before searches are counted."""

_QUERIES = 64
"""The number of different queries of a client."""


def ask(url: str, n_clients: int, seconds: float, core: int, body: str = "octets") -> dict[str, Any]:
    """Search with some clients at the same time, in a fresh process on one core.

    Parameters
    ----------
    url : str
        The address of the service.
    n_clients : int
        The number of clients. Each waits for its answer before it asks again. One alone is a `Client` of the library.
    seconds : float
        How long they are counted.
    core : int
        The core of the process.
    body : {"octets", "json"}, default="octets"
        How many clients send their queries.

    Returns
    -------
    dict
        ``per_second``, the searches of all clients, ``median_ms``, the median time of one search, ``searches``, their number
        with those that were not counted, and ``processor_ms`` of the clients for a search.
    """
    found: dict[str, Any] = run_fresh(__name__, url, n_clients, seconds, core, body, purpose=f"search {url}")
    return found


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
        """Keep a part of the answer."""
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
        queries = np.random.default_rng(number).normal(size=(_QUERIES, 1, width)).astype("<f4")
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
    queries = np.random.default_rng(0).normal(size=(_QUERIES, 1, width)).astype(np.float32)
    times: list[tuple[float, float]] = []
    while not times or times[-1][0] <= end:
        began = time.perf_counter()
        client.search(queries[len(times) % _QUERIES])
        now = time.perf_counter()
        times.append((now, now - began))
    return times


def _main(url: str, n_clients: int, seconds: float, core: int, body: str) -> None:
    bind([core])
    width = Client(url).info()["inputs"]
    used = time.process_time()
    end = time.perf_counter() + _WARM_SECONDS + seconds
    alone = n_clients == 1
    times = _ask_alone(url, width, end) if alone else uvloop.run(_ask_many(url, width, n_clients, end, body))
    counted = [took for when, took in times if end - seconds <= when <= end]
    record = {
        "searches": len(times),
        "per_second": len(counted) / seconds,
        "median_ms": 1000 * float(np.median(counted)),
        "processor_ms": 1000 * (time.process_time() - used) / len(times),
    }
    sys.stdout.write(json.dumps(record))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
