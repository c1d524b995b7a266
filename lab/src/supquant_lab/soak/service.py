"""Soak: a service with hostile clients around innocent ones. It is killed again and again, and starts at the same address.

In the second half of the time it is killed no more, and its memory is followed. That of a service that began seconds ago only
says what it has already loaded.

Innocent clients search and change rows of their own, and compare every answer with a plain model. Hostile ones send conditions
that would take long, values that cannot be kept, heads without an end, and answers that they do not read. Only a kill may lose an
answer; the clients then send again, and no change may be lost or made twice.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from supquant import CodeIndex
from supquant.client import Client, ServiceError, connection
from supquant_lab.bench.process import temporary_folder
from supquant_lab.bench.serving.checked import CheckedClient, R
from supquant_lab.bench.serving.process import (
    READ,
    WRITE,
    ServiceProcess,
    failures_at_end,
    growth_of,
    write_tokens,
)
from supquant_lab.machine import describe_machine

INNOCENT, HOSTILE_READERS, HOSTILE_WRITERS, HOSTILE_SOCKETS = 3, 2, 2, 2
"""Numbers of clients of each kind. Each is a thread."""

DEADLINE = 10.0
"""The deadline of the service in seconds. No innocent request may take longer."""

KILL_SECONDS = (5.0, 25.0)
"""The least and the greatest time in seconds from one start of the service to its kill."""

FOLLOWED_SHARE = 0.5
"""The fraction of the time in which a service is no longer killed, and its memory is followed."""

WARM_SECONDS = 60.0
"""The time in seconds in which the memory of a service grows to what its requests need. Growth is judged after it."""

LOOK_SECONDS = 1.0
"""The time in seconds between two looks at the memory."""

SPAN = 10
"""The number of looks of which the least counts."""

RETRY_SECONDS = (0.1, 0.5, 2.0, 4.0, 8.0, 16.0)
"""The times in seconds after which innocent clients repeat a change. A service may take long to start among busy processes."""

MAX_SENT = 2 << 20
"""The maximum number of bytes that a client without a token sends over one connection."""

Result = TypeVar("Result")


def soak_service(minutes: float, seed: int = 0) -> dict[str, Any]:
    """Run a service among hostile clients, and kill it now and then.

    Parameters
    ----------
    minutes : float
        How long to run.
    seed : int, default=0
        Seed of all choices.

    Returns
    -------
    dict
        A record for `json`: ``counts``, ``seconds``, the times of innocent requests, and ``failures``, which should be empty.
    """
    began = time.monotonic()
    with temporary_folder() as place:
        soak = _ServiceSoak(place, seed)
        soak.run(60 * minutes)
        for client in soak.clients:
            try:
                client.check_rows(CodeIndex.load(soak.folder, verify="full"))
            except AssertionError as error:
                soak.failures.append(str(error))
    for client in soak.clients:
        soak.counts.update({f"innocent {name}": count for name, count in client.counts.items()})
    sizes, growth = lasting_growth(soak.memory)
    times = np.array(soak.times)
    return {
        "benchmark": "soak-service",
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "clients": {
            "innocent": INNOCENT,
            "readers": HOSTILE_READERS,
            "writers": HOSTILE_WRITERS,
            "sockets": HOSTILE_SOCKETS,
        },
        "counts": dict(sorted(soak.counts.items())),
        "seconds": {
            "median": float(np.median(times)),
            "99th percentile": float(np.quantile(times, 0.99)),
            "greatest": float(times.max()),
            "deadline": DEADLINE,
        },
        "memory_mb": sizes,
        "memory_mb_over_time": [min(soak.memory[at : at + SPAN]) for at in range(0, len(soak.memory), SPAN)],
        "failures": soak.failures + growth,
        "machine": describe_machine(),
    }


def lasting_growth(memory: list[float]) -> tuple[dict[str, float], list[str]]:
    """Return the memory of a service after `WARM_SECONDS`, as `growth_of`, and whether it grows.

    What one request needs for a moment does not count, so each size is the least of `SPAN` looks. Two sizes say nothing.

    Parameters
    ----------
    memory : list of float
        The memory of one service in MB, every `LOOK_SECONDS`.
    """
    warm = memory[round(WARM_SECONDS / LOOK_SECONDS) :]
    least = [min(warm[start : start + SPAN]) for start in range(0, len(warm) - SPAN + 1, SPAN)]
    sizes, growth = growth_of(least)
    return {**sizes, "most": max(memory, default=0.0)}, growth if len(least) >= 3 else []


class _ServiceSoak:
    """A service, its clients, and what they found.

    Attributes
    ----------
    counts : Counter
        How often each thing was done, by name. Refusals are counted by their status.
    times : list of float
        How long each innocent request took that no kill came into, in seconds.
    failures : list of str
    memory : list of float
        The memory in MB of the service that is followed, every `LOOK_SECONDS`.
    """

    def __init__(self, place: Path, seed: int) -> None:
        self.folder = place / "items"
        self.counts: Counter[str] = Counter()
        self.times: list[float] = []
        self.failures: list[str] = []
        self.memory: list[float] = []
        self.clients = [CheckedClient(owner, seed) for owner in range(INNOCENT)]
        self._asking: dict[int, Client] = {}  # by owner
        self._seed = seed
        self._n_starts = 0  # counts up before and after a kill, so that it is odd while there is no service
        self._over = threading.Event()
        self.clients[0].save_new(self.folder)
        self._tokens = write_tokens(place)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    def run(self, seconds: float) -> None:
        """Run all clients until the time is over or something failed."""
        works: list[Callable[[random.Random], None]] = [
            *(partial(self._be_innocent, client) for client in self.clients),
            *[self._be_hostile_reader] * HOSTILE_READERS,
            *[self._be_hostile_writer] * HOSTILE_WRITERS,
            *[self._be_hostile_socket] * HOSTILE_SOCKETS,
        ]
        connection._RETRY_SECONDS = RETRY_SECONDS
        rng, followed = random.Random(self._seed), FOLLOWED_SHARE * seconds
        service = self._start()
        threads = [threading.Thread(target=self._repeat, args=(work, n)) for n, work in enumerate(works)]
        for thread in threads:
            thread.start()
        try:
            end = time.monotonic() + seconds - followed
            while time.monotonic() < end and not self.failures:
                self._over.wait(min(rng.uniform(*KILL_SECONDS), max(0.0, end - time.monotonic())))
                if not self.failures:
                    self._n_starts += 1
                    service.kill()
                    self.counts["kills"] += 1
                    service = self._start()
                    self._n_starts += 1
            end = time.monotonic() + followed
            while time.monotonic() < end and not self._over.wait(LOOK_SECONDS):
                self.memory.append(service.memory_mb())
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
            ended = service.end()
        self.failures += failures_at_end(*ended)

    def _start(self) -> ServiceProcess:
        options = ("--token-file", self._tokens, "--deadline", DEADLINE, "--watch")
        return ServiceProcess(f"items={self.folder}", *options, port=self._port)

    def _repeat(self, work: Callable[[random.Random], None], number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        while not self._over.is_set():
            try:
                work(rng)
            except Exception as error:  # noqa: BLE001  # whatever it is, it goes into the record
                self.failures.append(f"client {number}: {type(error).__name__}: {error}"[:3000])
                self._over.set()

    # innocent clients ----------------------------------------------------------------------------------------------------

    def _be_innocent(self, client: CheckedClient, rng: random.Random) -> None:
        """Change, search or search all rows. After a kill, a search is asked again; a change the client repeats by itself."""
        kind = rng.choice([client.change, client.search, client.search, client.search_all])
        self._timed(partial(kind, self._client(client.owner)), repeated=kind != client.change)

    def _client(self, owner: int) -> Client:
        if owner not in self._asking:
            url = f"http://127.0.0.1:{self._port}"
            self._asking[owner] = self._timed(lambda: Client(url, WRITE, timeout=6 * DEADLINE), repeated=True)
        return self._asking[owner]

    def _timed(self, ask: Callable[[], Result], repeated: bool) -> Result:
        while True:
            before, began = self._n_starts, time.monotonic()
            try:
                answer = ask()
            except ServiceError as error:
                if error.status is not None or not repeated or (before == self._n_starts and before % 2 == 0):
                    raise
                self.counts["asked again after a kill"] += 1
                time.sleep(0.05)
                continue
            if before == self._n_starts and before % 2 == 0:
                taken = time.monotonic() - began
                self.times.append(taken)
                assert taken < DEADLINE, f"an innocent request took {taken:.1f} s"
            return answer

    # hostile clients -----------------------------------------------------------------------------------------------------

    def _ask(self, token: str, operation: str, body: Any, rng: random.Random) -> None:
        """Send a request that may be refused in every way but by an internal error."""
        given = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = (
            f"POST /v1/items/{operation} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(given)}\r\n"
        )
        if rng.random() < 0.1:
            head += f"Idempotency-Key: {rng.randrange(30)}\r\n"
        with suppress(OSError), self._connected() as own:
            own.settimeout(3 * DEADLINE)
            own.sendall(head.encode() + b"\r\n" + given)
            if rng.random() < 0.1:  # gone before the answer
                return
            answer = own.recv(65_536)
            if answer:
                status = answer[9:12].decode()
                self.counts[f"hostile {operation}: {status}"] += 1
                if status.startswith("5") and status not in ("503", "504"):
                    self.failures.append(f"{operation} {given[:500]!r} was answered with {answer[:500]!r}")

    def _connected(self) -> socket.socket:
        try:
            return socket.create_connection(("127.0.0.1", self._port), timeout=5)
        except OSError:  # there is no service at present
            self._over.wait(0.2)
            raise

    def _be_hostile_reader(self, rng: random.Random) -> None:
        where = rng.choice(_CONDITIONS)()
        kind = rng.random()
        if kind < 0.4:
            self._ask(READ, "select", {"where": where}, rng)
        elif kind < 0.7:
            self._ask(READ, "search", {"query": [0.0] * R, "where": where, "k": 10_000}, rng)
        else:
            operation, body = rng.choice(_SENSELESS)
            self._ask(READ, operation, body, rng)

    def _be_hostile_writer(self, rng: random.Random) -> None:
        """Try to add what cannot be kept, to change the model, or to change rows that are not there."""
        body = rng.choice(_CHANGES)
        operation = rng.choice(["add", "add", "upsert", "update", "remove", "extend"])
        if operation != "add":
            body = {"ids": [-1 - rng.randrange(5)], **body}
        self._ask(WRITE, operation, body, rng)
        if rng.random() < 0.05:  # what was kept nevertheless
            self._ask(WRITE, "remove", {"ids": [-1 - rng.randrange(5)]}, rng)
        time.sleep(0.02)

    def _be_hostile_socket(self, rng: random.Random) -> None:
        """Connect without a token: be silent, slow, endless, or do not read."""
        kind = rng.choice(["silent", "slow", "endless", "cut", "deaf", "many"])
        if kind == "many":
            with suppress(OSError), ExitStack() as idle:
                for _ in range(60):
                    idle.enter_context(self._connected())
                self._over.wait(rng.uniform(0, 1))
        else:
            with suppress(OSError), self._connected() as own:
                getattr(self, f"_be_{kind}")(own, rng)
        self.counts[f"sockets: {kind}"] += 1

    def _be_silent(self, own: socket.socket, rng: random.Random) -> None:
        del own
        self._over.wait(rng.uniform(0, 2))

    def _be_slow(self, own: socket.socket, rng: random.Random) -> None:
        request = b"POST /v1/items/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n{"
        for byte in request[: rng.randrange(len(request))]:
            own.sendall(bytes([byte]))
            if self._over.wait(0.01):
                return

    def _be_endless(self, own: socket.socket, rng: random.Random) -> None:
        begin = rng.choice([b"GET /healthz HTTP/1.1\r\n", b"GET /", b"GET / HTTP/1.1\r\nA: "])
        own.sendall(begin)
        for _ in range(MAX_SENT // 4000):
            own.sendall(b"A: 1\r\n" * 666 if begin.endswith(b"\r\n") else b"a" * 4000)

    def _be_cut(self, own: socket.socket, rng: random.Random) -> None:
        request = (
            b"GET /v1 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + READ.encode() + b"\r\n\r\n"
        )
        own.sendall(request * rng.randrange(3) + request[: rng.randrange(len(request))])
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset

    def _be_deaf(self, own: socket.socket, rng: random.Random) -> None:
        own.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * rng.randrange(1, 200))
        self._over.wait(rng.uniform(0, 1))


_CONDITIONS: list[Callable[[], str]] = [
    lambda: "pg_sleep(1) is null and 1=1",
    lambda: "(select count(*) from range(1000000000000)) > owner",
    lambda: "regexp_matches(owner::varchar, '((a*)*)*b')",
    lambda: "owner::varchar like '%" + "a%" * 100 + "'",
    lambda: " or ".join(f"owner = {each}" for each in range(800)),
    lambda: "not " * 3000 + "true",
    lambda: "(" * 4000 + "owner" + ")" * 4000 + " = 1",
    lambda: "owner = " + "-" * 5000 + "1",
    lambda: "repeat('a', 1000000000) = 'a'",
    lambda: "pow(owner, 1e300) > 1 and ln(-owner) is null",
    lambda: "owner::varchar || '%" * 50 + "' = ''",
    lambda: "length(" + " || ".join(["owner::varchar"] * 100) + ") > 0",
    lambda: f"concat({','.join(['owner::varchar'] * 1000)}) = ''",
    lambda: "owner::varchar like '" + "%_" * 20 + "b'",
    lambda: "read_text('/etc/passwd') is not null",
    lambda: "owner in (" + ",".join(map(str, range(3000))) + ")",
    lambda: f"owner = {random.randrange(10**9)}",  # a condition that nobody has asked yet
]

_SENSELESS: list[tuple[str, Any]] = [
    ("search", {"query": [0.0] * R, "novelty": [[1]]}),
    ("search", {"queries": [[0.0] * R] * 1024, "k": 10_000}),
    ("search", {"queries": [[0.0] * R] * 100, "k": 10_000, "columns": ["owner"]}),
    ("range_search", {"queries": [[0.0] * R] * 1024, "threshold": -1e30}),
    ("range_search", {"queries": [[0.0] * R] * 1024, "threshold": 1e30}),
    ("search_tables", {"tables": [[[0.0] * 16] * 3] * 1000, "k": 1000}),
    ("search", {"query": [1e38] * R}),
    ("search", b"[" * 100_000),
    ("search", {"queries": "A" * 1_000_000}),
    ("select", {"where": {"mask": [True] * 100_000}}),
    ("items", {"ids": list(range(100_000)), "columns": ["owner"]}),
    ("codes", {"ids": ["a", 1, None, 2**70]}),
    ("explain", {"query": 10**30, "ids": [1]}),
    ("shown", {"ids": [[]]}),
]


def _encoded(column: pa.Array) -> str:
    table = pa.table({"owner": column})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return b64encode(sink.getvalue().to_pybytes()).decode()


def _adding(metadata: Any) -> dict[str, Any]:
    return {"codes": [[0, 0, 0]], "metadata": metadata}


_CHANGES: list[dict[str, Any]] = [
    _adding({"owner": [2**64 - 1]}),
    _adding({"owner": [json.loads("[" * 200 + "1" + "]" * 200)]}),
    _adding({"owner": ["a"]}),
    _adding({"owner": [1, 2]}),
    _adding({"owner": [{}]}),
    _adding({"OWNER": [7]}),
    _adding({"__row__": [7]}),
    _adding(_encoded(pa.array([7.5], pa.float16()))),
    _adding(_encoded(pa.array([7], pa.decimal256(50)))),
    _adding(_encoded(pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([7])))),
    _adding(
        _encoded(pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array(["a" * 9999])))
    ),
    _adding({f"c{number}": [7] for number in range(2000)}),
    _adding(_encoded(pa.array([2**62], pa.timestamp("s")))),
    _adding(_encoded(pa.array([{"a": "b"}], pa.struct([("a", pa.string_view())])))),
    _adding("A" * 100_000),
    {"codes": [[99, 0, 0]]},
    {"codes": [[0, 0]]},
    {"codes": [[0, 0, 0]] * 3, "ids": [-1, -1, -2]},
    {"vectors": [[1e38] * R]},
    {"vectors": [[0.0] * (R + 1)]},
    {"codes": [[0, 0, 0]], "ids": ["a"]},
    {"labels": ["x"], "vectors": [[0.0] * R]},
]
