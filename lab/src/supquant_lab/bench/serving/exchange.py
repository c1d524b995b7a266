"""Report: the exchange of requests and answers with two services over a connection to each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from supquant_lab.bench.serving.pipelines import Plan

PATIENCE = 20.0
"""Seconds that a service may take for an answer that the other one has given."""

_QUIET_SECONDS = 0.02
"""Seconds in which both services are silent when nothing more is expected."""


@dataclass(frozen=True)
class Answer:
    """One answer of a service."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class Connection(asyncio.Protocol):
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
        """Connect to a service."""
        address = urlsplit(url)
        assert address.hostname is not None
        assert address.port is not None
        await asyncio.get_running_loop().create_connection(lambda: self, address.hostname, address.port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what the connection is written to."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end, and whether it was a reset."""
        self.ended, self.reset = True, exc is not None
        self.changed.set()

    def eof_received(self) -> None:
        """Note that no more answers come."""
        self.ended = True
        self.changed.set()

    def close(self) -> None:
        """Close the connection at once."""
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
        """Take the answers that are whole by now."""
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


async def talk(plan: Plan, ours: Connection, theirs: Connection) -> None:
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


async def _wait(done: Callable[[], bool], connections: Sequence[Connection]) -> None:
    """Wait until something is true, or for as long as a service may take."""
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while not done() and loop.time() < end:
        waiting = [asyncio.ensure_future(each.changed.wait()) for each in connections]
        await asyncio.wait(waiting, timeout=end - loop.time(), return_when=asyncio.FIRST_COMPLETED)
        for each, task in zip(connections, waiting, strict=True):
            task.cancel()
            each.changed.clear()
