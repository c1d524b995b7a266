"""Report: odd and hostile requests over pipelined connections, to a service and to one that reads by uvicorn's own protocol.

Both get the same bytes and must give the same answers: status, headers and body. They hold the same index. A third reading of the
bytes, by the parser alone, says what to wait for: how many requests there are, and which bytes are none.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httptools
import numpy as np
import uvloop

from supquant import CodeIndex
from supquant.serve.connections import SINGLE
from supquant_lab.bench.process import temporary_folder
from supquant_lab.bench.serving.checked import M, make_codec
from supquant_lab.bench.serving.mutations import READ, WRITE, draw_request, without_upgrade
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.machine import describe_machine

SECRET = "never-to-be-seen"
"""A value in an index that no request may read."""

LANES = ("amber", "brine", "cedar", "delta")
"""The names of the indexes. Each is asked by one connection at a time, so that its changes come in one order."""

MAX_PIPELINED = 16
"""The maximum number of requests that are sent over one connection."""

MAX_FAILURES = 20
"""The number of failures after which no further requests are sent."""

MAX_GROWTH_MB = 8.0
"""A service whose memory grows by more than this number of megabytes from the first third to the last has a leak."""

_PATIENCE = 20.0
"""Seconds that a service may take for an answer that the other one has given."""

_QUIET_SECONDS = 0.02
"""Seconds in which both services are silent when nothing more is expected."""

_REFUSED = {400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431}
"""Statuses of requests that the service refuses."""

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
"""The header with which uvicorn refuses what is no request. It may do so before it has answered what came earlier."""

_VARYING = re.compile(rb"/(metrics|map|audit|found|sample)\b")
"""Addresses whose answers differ from call to call. Their statuses are compared, unless one of the answers is `_UNREADY`."""

_UNREADY = b'"ready":false'
"""In the answer of a service that has not looked at all labels yet. It may later refuse what was asked."""


def bench_fuzzing(
    n_requests: int, seed: int = 0, on_progress: Callable[[int, list[str]], None] | None = None
) -> dict[str, Any]:
    """Send odd requests to a service and to one that reads by uvicorn's own protocol, and compare all answers.

    Parameters
    ----------
    n_requests : int
        Number of requests.
    seed : int, default=0
        Seed of all choices.
    on_progress : callable, optional
        Gets the number of requests that were sent, and the failures so far, now and then.

    Returns
    -------
    dict
        A record for `json`: how often each status came, the memory of the service in MB, and ``failures``, which should be empty.
    """
    began = time.monotonic()
    memory: list[float] = []
    with temporary_folder() as place, contextlib.ExitStack() as stack:
        services = []
        for part, module in (("ours", "supquant"), ("theirs", "supquant_lab.bench.serving.uvicorns_own")):
            (place / part).mkdir()
            named = write_folders(place / part)
            options = ("--token-file", place / part / "tokens", "--max-body", 200_000, "--deadline", 10)
            folders = (f"{name}={folder}" for name, folder in named.items())
            services.append(stack.enter_context(ServiceProcess(*folders, *options, module=module)))

        def note(found: Found) -> None:
            memory.append(services[0].memory_mb())
            if on_progress is not None:
                on_progress(found.requests, found.failures)

        found = fuzz(services[0].url, services[1].url, n_requests, seed, note)
        ends = [service.end() for service in services]
    failures = found.failures
    for who, (code, _) in zip(("the service", "that of uvicorn"), ends, strict=True):
        failures += [f"{who} ended with {code}"] if code else []
    failures += [ends[0][1][-2000:]] if "Traceback" in ends[0][1] else []
    sizes, growth = growth_of(memory)
    failures += growth
    return {
        "benchmark": "serve-fuzzing",
        "requests": found.requests,
        "connections": found.connections,
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "compared": found.compared,
        "statuses": {str(status): count for status, count in sorted(found.statuses.items())},
        "memory_mb": sizes,
        "failures": failures,
        "machine": describe_machine(),
    }


def growth_of(memory: Sequence[float]) -> tuple[dict[str, float], list[str]]:
    """Return the median of the first third and of the last third of sizes in MB, and the greatest, and whether they grow."""
    third = max(1, len(memory) // 3)
    # The first requests load what is loaded when it is first used.
    parts = {"first third": memory[third // 2 : third], "last third": memory[-third:]}
    sizes = {name: float(np.median(part)) if len(part) else 0.0 for name, part in parts.items()}
    first, last = sizes.values()
    failures = [f"the memory grew from {first:.0f} to {last:.0f} MB"] if last > first + MAX_GROWTH_MB else []
    return {**sizes, "most": max(memory, default=0.0)}, failures


def write_folders(place: Path) -> dict[str, Path]:
    """Write an index for each lane, a hidden one, and a file of tokens; return the folders by name."""
    codes = np.random.default_rng(0).integers(0, 16, size=(50, M))
    for name in (*LANES, "hidden"):
        text = SECRET if name == "hidden" else "seen"
        CodeIndex(make_codec()).add_codes(codes, metadata={"text": [text] * 50}).save(place / name)
    (place / "tokens").write_text(f"read: {READ}\nwrite: {WRITE}\n")
    (place / "tokens").chmod(0o600)
    return {name: place / name for name in (*LANES, "hidden")}


@dataclass
class Found:
    """What was sent and answered so far."""

    requests: int = 0
    connections: int = 0
    compared: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def fuzz(
    url: str, other: str, n_requests: int, seed: int, on_progress: Callable[[Found], None] | None = None
) -> Found:
    """Send requests to two services with the folders of `write_folders`, and compare their answers.

    Parameters
    ----------
    url : str
        The address of the service.
    other : str
        The address of one that reads by uvicorn's own protocol.
    n_requests : int
    seed : int
    on_progress : callable, optional
        Gets what was found so far, now and then.
    """
    found = Found()

    async def run() -> None:
        lanes = [
            asyncio.ensure_future(
                _run_lane(url, other, name, n_requests, random.Random(f"{seed} {name}"), found)
            )
            for name in LANES
        ]
        while not all(lane.done() for lane in lanes):
            await asyncio.wait(lanes, timeout=1.0)
            if on_progress is not None:
                on_progress(found)
        await asyncio.gather(*lanes)

    uvloop.run(run())
    return found


async def _run_lane(
    url: str, other: str, name: str, n_requests: int, rng: random.Random, found: Found
) -> None:
    while found.requests < n_requests and len(found.failures) < MAX_FAILURES:
        plan = Plan.draw(rng, name)
        found.requests += plan.n_drawn
        found.connections += 1
        seed = rng.random()  # both get the same pieces
        ours = _Connection(plan, random.Random(seed))
        theirs = _Connection(plan, random.Random(seed))
        try:
            await asyncio.gather(ours.open(url), theirs.open(other))
            await _talk(plan, ours, theirs)
        finally:
            ours.close()
            theirs.close()
        found.compared += min(len(ours.answers), len(theirs.answers))
        found.statuses.update(each.status for each in ours.answers)
        if (wrong := _difference(plan, ours, theirs)) is not None:
            statuses = [[each.status for each in one.answers] for one in (ours, theirs)]
            found.failures.append(
                f"{name}: {wrong[:1500]}; {statuses[0]} instead of {statuses[1]}; "
                f"sent {plan.plain!r} and {'then' if plan.at_once else 'later'} {plan.last!r}"[:9000]
            )


class Message(NamedTuple):
    """A request as the parser reads it."""

    method: bytes
    url: bytes
    closes: bool


@dataclass
class Plan:
    """What is sent over one connection.

    Attributes
    ----------
    n_drawn : int
        The number of requests that were drawn.
    stream : bytes
        Requests that the parser takes.
    plain : bytes
        The same without offers of other protocols, which uvicorn would not ignore.
    messages : list of Message
        The requests that a service sees in the stream, up to one that closes the connection.
    methods : list of bytes
        Their methods, and that of the bytes that are refused if they begin with a whole head.
    open : bool
        Whether the last one of them has no end.
    last : bytes
        Bytes behind the stream that the service refuses.
    refusal : int
        The status of that refusal: 400 for bytes that are no request.
    valid : bool
        Whether uvicorn takes these bytes. Then they are not sent there.
    closes : bool
        Whether they begin with a head that closes the connection. An answer to it may come before the refusal, and instead of it.
    at_once : bool
        Whether these bytes follow at once. Otherwise everything before is answered first.
    """

    n_drawn: int
    stream: bytes
    plain: bytes
    messages: list[Message]
    methods: list[bytes]
    open: bool
    last: bytes
    refusal: int
    valid: bool
    closes: bool
    at_once: bool

    @classmethod
    def draw(cls, rng: random.Random, name: str) -> Plan:
        """Draw requests for one connection."""
        stream, plain, last, n_drawn = b"", b"", b"", 0
        reading = after = _Reading(b"")
        for _ in range(rng.randrange(1, MAX_PIPELINED + 1)):
            drawn = draw_request(rng, name)
            n_drawn += 1
            own = without_upgrade(drawn)
            after = reading.continued(own)
            if after.refusal:
                whole = after.length_of_whole() - len(plain)
                if whole > 0:  # a request before the bytes that are none
                    stream, plain, reading = (
                        stream + own[:whole],
                        plain + own[:whole],
                        reading.continued(own[:whole]),
                    )
                    own = own[whole:]
                if not reading.closes:
                    last = own
                break
            stream, reading = stream + drawn, after
            if reading.closes and reading.whole:
                # What follows in the same bytes is nothing to a service, and uvicorn refuses it before it answers.
                own = own[: reading.length_of_whole() - len(plain)]
            plain += own
            if reading.closes:
                break
        return cls(
            n_drawn=n_drawn,
            stream=stream,
            plain=plain,
            messages=reading.messages,
            methods=[each.method for each in after.messages],
            open=not reading.whole,
            last=last,
            refusal=after.refusal,
            valid=after.valid,
            closes=bool(last) and after.closes,
            # uvicorn may then refuse before it has made a change that comes before, and the two indexes would differ.
            at_once=rng.random() < 0.3 and WRITE.encode() not in stream,
        )


class _Reading:
    """What the parser makes of a stream of bytes.

    Attributes
    ----------
    messages : list of Message
        The requests up to bytes that are refused.
    whole : bool
        Whether the last of them has its end.
    closes : bool
        Whether it closes the connection.
    refusal : int
        The status with which a service refuses what follows. 0 if there is nothing to refuse.
    valid : bool
        Whether that is a request, which uvicorn would take.
    """

    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self.messages: list[Message] = []
        self.n_whole = 0
        self.refusal, self.valid = 0, False
        self._names: list[bytes] = []
        self._url = b""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            self._parser.feed_data(stream)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.refusal = self.refusal or 400

    @property
    def whole(self) -> bool:
        return self.n_whole == len(self.messages)

    @property
    def closes(self) -> bool:
        return bool(self.messages) and self.messages[-1].closes

    def continued(self, more: bytes) -> _Reading:
        """Return the reading of the stream and what follows it."""
        return _Reading(self._stream + more)

    def length_of_whole(self) -> int:
        """Return the length of all requests that have their end."""
        low, high = 0, len(self._stream)
        while low < high:
            middle = (low + high) // 2
            if _Reading(self._stream[:middle]).n_whole < self.n_whole:
                low = middle + 1
            else:
                high = middle
        return low

    def on_message_begin(self) -> None:
        self._names, self._url = [], b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._names.append(name.lower())

    def on_headers_complete(self) -> None:
        method = self._parser.get_method()
        twice = any(self._names.count(each) > 1 for each in SINGLE)
        if twice or method == b"CONNECT":
            self.refusal, self.valid = 400 if twice else 405, True
            raise ValueError("the service refuses this")
        httptools.parse_url(self._url).path.decode("ascii")
        closes = self._parser.get_http_version() == "1.0" or not self._parser.should_keep_alive()
        self.messages.append(Message(method, self._url, closes))

    def on_message_complete(self) -> None:
        self.n_whole += 1


@dataclass(frozen=True)
class Answer:
    """One answer of a service."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class _Connection(asyncio.Protocol):
    """A connection that sends in pieces and keeps the answers.

    Parameters
    ----------
    plan : Plan
        Says which answers have no body.
    rng : Random
        Draws the sizes of the pieces.
    """

    def __init__(self, plan: Plan, rng: random.Random) -> None:
        self._methods = plan.methods
        self._rng = rng
        self._buffer = b""
        self.answers: list[Answer] = []
        self.ended = self.reset = False
        self.changed = asyncio.Event()
        self._transport: Any = None

    async def open(self, url: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        await asyncio.get_running_loop().create_connection(lambda: self, address.hostname, address.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended, self.reset = True, exc is not None
        self.changed.set()

    def eof_received(self) -> None:
        self.ended = True
        self.changed.set()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def send(self, data: bytes) -> None:
        """Send bytes, at once or in pieces that arrive separately."""
        while data and not self._transport.is_closing():
            size = len(data) if self._rng.random() < 0.7 else self._rng.randrange(1, len(data) + 1)
            self._transport.write(data[:size])
            data = data[size:]
            await asyncio.sleep(0)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._take_answer():
            self.changed.set()

    def _take_answer(self) -> bool:
        """Move a whole answer out of the buffer, if there is one."""
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        line, *lines = head.split(b"\r\n")
        status = int(line.split()[1])
        headers = tuple(sorted((name, value) for name, _, value in (each.partition(b": ") for each in lines)))
        final = sum(each.status >= 200 for each in self.answers)
        bodiless = status < 200 or (final < len(self._methods) and self._methods[final] == b"HEAD")
        size = 0 if bodiless else int(dict(headers).get(b"content-length", b"0"))
        if len(rest) < size:
            return False
        self.answers.append(Answer(status, headers, rest[:size]))
        self._buffer = rest[size:]
        return True

    @property
    def n_final(self) -> int:
        """The number of answers that are no interim ones."""
        return sum(each.status >= 200 for each in self.answers)


async def _talk(plan: Plan, ours: _Connection, theirs: _Connection) -> None:
    """Send everything, and wait until both services have answered what they answer."""
    both = (ours, theirs)
    await asyncio.gather(ours.send(plan.stream), theirs.send(plan.plain))
    if not (plan.last and plan.at_once):
        certain = len(plan.messages) - plan.open
        await _wait(lambda: all(each.ended or each.n_final >= certain for each in both), both)
        if plan.open:  # its head may be enough for an answer
            await asyncio.sleep(_QUIET_SECONDS)
            await _wait(lambda: (ours.n_final, ours.ended) == (theirs.n_final, theirs.ended), both)
    if plan.last:
        await ours.send(plan.last)
        if not plan.valid:
            await theirs.send(plan.last)
    if plan.last or (plan.messages and plan.messages[-1].closes and not plan.open):
        refused = (ours,) if plan.valid else both
        await _wait(lambda: all(each.ended for each in refused), refused)


async def _wait(done: Callable[[], bool], connections: Sequence[_Connection]) -> None:
    """Wait until something is true, or for as long as a service may take."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE
    while not done() and loop.time() < end:
        waiting = [asyncio.ensure_future(each.changed.wait()) for each in connections]
        await asyncio.wait(waiting, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        for each, task in zip(connections, waiting, strict=True):
            task.cancel()
            each.changed.clear()


def _difference(plan: Plan, ours: _Connection, theirs: _Connection) -> str | None:
    """Return what differs or is wrong, or None."""
    for answer in ours.answers:
        if (flaw := _flaw(answer)) is not None:
            return f"{flaw}: {answer}"
    mine, yours = list(ours.answers), list(theirs.answers)
    if plan.last:
        if not (ours.ended and (plan.valid or theirs.ended)):
            return f"the connection is open: ours is {'not ' * ours.ended}, theirs {'not ' * theirs.ended}"
        refusal = (
            mine.pop()
            if mine and (b"connection", b"close") in mine[-1].headers and mine[-1].status == plan.refusal
            else None
        )
        if not plan.valid and yours and _TEXT in yours[-1].headers and yours[-1].status == 400:
            yours.pop()
        count = min(len(mine), len(yours))
        # A head without a right body may have got an answer before the refusal. uvicorn may refuse before all is answered.
        if plan.at_once or count >= len(plan.messages) - plan.open:
            del mine[count:], yours[count:]
        if refusal is None and not plan.at_once and not plan.closes:
            return f"no refusal with {plan.refusal}: {ours.answers}"
    elif ours.ended != theirs.ended:
        return f"the connection is open: ours is {'not ' * ours.ended}, theirs {'not ' * theirs.ended}"
    if theirs.reset:
        # uvicorn closed before it had read all that came. The system then resets the connection, and drops its answer.
        del mine[len(yours) :]
    if len(mine) != len(yours):
        return f"{len(mine)} answers instead of {len(yours)}: {mine[len(yours) :]} {yours[len(mine) :]}"
    final = -1
    for one, other in zip(mine, yours, strict=True):
        final += one.status >= 200
        asked = plan.messages[final].url if final < len(plan.messages) else plan.last
        if not _may_differ(asked, one, other) and _comparable(one) != _comparable(other):
            return f"{asked!r} was answered with {one} instead of {other}"
    return None


def _may_differ(asked: bytes, one: Answer, other: Answer) -> bool:
    """Return whether the answers of two services to the same request may differ."""
    unready = _UNREADY in one.body or _UNREADY in other.body
    return _VARYING.search(asked) is not None and (one.status == other.status or unready)


def _comparable(answer: Answer) -> Answer:
    """Return an answer without the names of states and versions, which every process draws for itself."""
    body = re.sub(rb'"(state|version)":"[0-9a-f]{16}"', rb'"\1":""', answer.body)
    return Answer(answer.status, answer.headers, body)


def _flaw(answer: Answer) -> str | None:
    """Return what is wrong with an answer of the service, or None."""
    body = answer.body
    if SECRET.encode() in body:
        return "the data of another index"
    if b"Traceback" in body or b'File "' in body:
        return "a traceback"
    if answer.status >= 500:
        return "an internal error"
    if answer.status in _REFUSED:
        if b"\n" in body.strip() or len(body) > 2000:
            return "more than one line"
        if body and not body.startswith(b'{"error":"'):
            return "no error in JSON"
    elif answer.status not in (100, 200):
        return "an unexpected status"
    return None
