"""Requests to answers: the connections of a service. Slow clients are cut off, and searches take a shortcut.

uvicorn makes an ASGI request of what it reads, which takes a third of the time that a scan spends on one query. A search needs
none of it: its request is short, and its answer is written at once. `Endpoint.respond` answers in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from supquant.serve.calls import Answer, Endpoint, Headers
from supquant.serve.limits import RefusalError

__all__ = ["service_protocol"]

_LOOK_SECONDS = 0.5
"""The time between two checks for clients that are too slow, in seconds."""

_SHORT_BODY = 65_536
"""The maximum size of a body for the shortcut, in bytes. uvicorn pauses a connection for larger ones."""


def service_protocol(
    search: Endpoint, names: Iterable[str], seconds: float, max_body: int
) -> type[HttpToolsProtocol]:
    """Return the protocol of the connections of a service, for uvicorn.

    uvicorn itself waits forever for the rest of a request, and for a client that does not read its answer.

    Parameters
    ----------
    search : Endpoint
        Answers searches.
    names : iterable of str
        The names of the indexes.
    seconds : float
        The time in which a whole request must arrive, and in which a client must read on.
    max_body : int
        Maximum number of bytes of a body.

    Returns
    -------
    type
    """
    names_by_path = {f"/v1/{name}/search".encode(): name for name in names}
    short_body = min(_SHORT_BODY, max_body)
    looking = False

    class ServiceProtocol(HttpToolsProtocol):
        """The protocol of one connection."""

        _cut_at: float | None = None  # by the clock of the loop; None while a request is answered
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_request()
            if not looking:
                self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_write_timer()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._expect_request()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            path, _, query_string = self.url.partition(b"?")
            name = names_by_path.get(path)
            headers = dict(self.headers)
            if name is None or not self._is_short(headers) or b"#" in query_string:
                super().on_headers_complete()
                return
            cycle = _Search(self.loop, self.parser.should_keep_alive())
            self.cycle = cycle  # type: ignore[assignment]
            self.tasks.add(self.loop.create_task(self._search(cycle, name, headers, query_string)))

        def _is_short(self, headers: Headers) -> bool:
            """Return whether a request is a plain one with a short body while no other is under way."""
            length = headers.get(b"content-length", b"")
            return (
                self.parser.get_method() == b"POST"
                and self._answered()
                and len(length) < 10
                and length.isdigit()
                and int(length) <= short_body
                and self.parser.get_http_version() == "1.1"
                and not self.expect_100_continue
                and not self.parser.should_upgrade()
                and (self.limit_concurrency is None or len(self.connections) < self.limit_concurrency)
            )

        def _answered(self) -> bool:
            cycle: Any = self.cycle  # None before the first request
            return cycle is None or cycle.response_complete

        async def _search(self, cycle: _Search, name: str, headers: Headers, query_string: bytes) -> None:
            """Answer a search, and write its answer."""
            try:
                answer = await search.respond(name, headers, query_string, cycle.read_body)
                if self.transport.is_closing():
                    return
                self.transport.write(_response(answer, cycle.keep_alive))
                if self.flow.write_paused:
                    await self.flow.drain()
            finally:
                cycle.response_complete = True
                self.tasks.discard(asyncio.current_task())
            if not cycle.keep_alive:
                self.transport.close()
            if self.pipeline:
                self.on_response_complete()  # starts the request behind this one
            else:
                self.server_state.total_requests += 1
                self._cut_at = self.loop.time() + self.timeout_keep_alive

        def on_message_complete(self) -> None:
            super().on_message_complete()
            waits = self._answered()  # before all of it had arrived
            self._cut_at = self.loop.time() + self.timeout_keep_alive if waits else None

        def pause_writing(self) -> None:
            self._write_timer = self.loop.call_later(seconds, self.transport.abort)
            super().pause_writing()

        def resume_writing(self) -> None:
            self._cancel_write_timer()
            super().resume_writing()

        def _cancel_write_timer(self) -> None:
            if self._write_timer is not None:
                self._write_timer.cancel()

        def _expect_request(self) -> None:
            # The operation itself gives up after `seconds`. Another second lets it answer.
            self._cut_at = self.loop.time() + seconds + 1

        def _look(self) -> None:
            """Cut off all connections that are due, and check again later. One timer serves all of them."""
            nonlocal looking
            now = self.loop.time()
            for each in list(cast("set[ServiceProtocol]", self.connections)):
                if each._cut_at is not None and each._cut_at <= now:
                    each.transport.abort()
            looking = bool(self.connections)
            if looking:
                self.loop.call_later(_LOOK_SECONDS, self._look)

    return ServiceProtocol


class _Search:
    """A search under way, with what uvicorn's protocol needs to know about a request."""

    def __init__(self, loop: asyncio.AbstractEventLoop, keep_alive: bool) -> None:
        self.keep_alive = keep_alive
        self.response_complete = False
        self.disconnected = False
        self.body = bytearray()
        self.more_body = True
        self.message_event = self  # the protocol calls its `set` when more has arrived
        self._loop = loop
        self._more: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Go on reading."""
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def read_body(self) -> bytes:
        """Return the body when all of it has arrived. Usually it arrives with the head."""
        while self.more_body:
            if self.disconnected:
                raise RefusalError(400, "the client has gone")
            self._more = self._loop.create_future()
            await self._more
        return bytes(self.body)


def _response(answer: Answer, keep_alive: bool) -> bytes:
    """Return the bytes of an answer, including its head."""
    more = b"".join(f"{name}: {value}\r\n".encode() for name, value in answer.headers.items())
    if not keep_alive:
        more += b"connection: close\r\n"
    head = _head(answer.status, answer.media_type)
    return b"%scontent-length: %d\r\n%s\r\n%s" % (head, len(answer.body), more, answer.body)


@lru_cache(maxsize=64)
def _head(status: int, media_type: str) -> bytes:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: {media_type}\r\n".encode()
