"""Requests to answers: the connections of a service. Slow clients and long heads are cut off, and searches take a shortcut.

uvicorn makes an ASGI request of what it reads, which takes a third of the time that a scan spends on one query. A search needs
none of it: its request is short, and its answer is written at once. `Endpoint.respond` answers in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import lru_cache
from http import HTTPStatus
from itertools import count
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from supquant.serve.calls import Answer, Endpoint, Headers, error_answer
from supquant.serve.limits import RefusalError

__all__ = ["service_protocol"]

_LOOK_SECONDS = 0.5
"""The time between two checks for clients that are too slow, in seconds."""

_SHORT_BODY = 65_536
"""The maximum size of a body for the shortcut, in bytes. uvicorn pauses a connection for larger ones."""


MAX_HEAD = 65_536
"""The maximum size of the head and the trailers of a request, in bytes."""

_CHUNK_FRAME = 16
"""The bytes around a chunk of a body that are not counted as head."""

_FAREWELL_SECONDS = 1.0
"""The time in which a client can read why its request is refused, in seconds. What it still sends is dropped."""

SINGLE = (b"host", b"authorization", b"content-type", b"idempotency-key")
"""Headers of which a request has at most one: another program could take the other one."""


def service_protocol(
    search: Endpoint, names: Iterable[str], seconds: float, max_body: int, max_connections: int
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
    max_connections : int
        Maximum number of connections. A further one takes the place of one that waits for its client: one without any request
        before others, and of those the one that has been silent the longest.

    Returns
    -------
    type
    """
    names_by_path = {f"/v1/{name}/search".encode(): name for name in names}
    short_body = min(_SHORT_BODY, max_body)
    looking = False
    turns = count()

    class ServiceProtocol(HttpToolsProtocol):
        """The protocol of one connection."""

        _cut_at: float | None = None  # by the clock of the loop; None while a request is answered
        _write_timer: asyncio.TimerHandle | None = None
        _turn = (
            0  # greater if the client sent something later. The clock of the loop would be the same for many
        )
        _n_head = 0  # bytes of the present request that are not body. A few may be missing if it follows another one closely
        _plain_head = b""  # the head of a request that asked for another protocol, without that
        _running: Any = None  # the request whose answer is being made, or was made last
        _refused = False
        _refusal: RefusalError | None = None  # what is said behind the answers that are still to be made
        url = b""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._turn = next(turns)
            self._expect_request()
            if len(self.connections) > max_connections:
                self._make_room()
            if not looking:
                self._look()

        def _make_room(self) -> None:
            """Close a connection that waits for its client, or else this one."""
            others = cast("set[ServiceProtocol]", self.connections) - {self}
            waiting = [each for each in others if each._cut_at is not None or each._answered()]
            if not waiting:
                self._refuse(RefusalError(503, "all connections are in use: try again later"))
                return
            closed = min(waiting, key=lambda each: (each.cycle is not None, each._turn))
            closed._abort()
            self.connections.discard(closed)

        def data_received(self, data: bytes) -> None:
            if self._refused:
                return
            self._unset_keepalive_if_required()
            self._turn = next(turns)
            try:
                for start in range(0, len(data), MAX_HEAD):
                    self._feed(data[start : start + MAX_HEAD])
                    self._check_head(self._n_head)
            except RefusalError as refusal:
                self._refuse(refusal)
            except httptools.HttpParserError as error:
                cause = error.__context__  # what one of the methods below raised, if the parser called it
                unclear = RefusalError(400, "the request is not valid HTTP/1.1")
                self._refuse(cause if isinstance(cause, RefusalError) else unclear)

        def _feed(self, data: bytes) -> None:
            """Let the parser read on. A request that asks for another protocol is read again without that."""
            self._n_head += len(data)
            while data:
                try:
                    self.parser.feed_data(data)
                    data = b""
                except httptools.HttpParserUpgrade as upgrade:
                    data = self._plain_head + data[upgrade.args[0] :]
                    self._plain_head = b""
                    self.parser = httptools.HttpRequestParser(self)
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's

        def _check_head(self, size: int) -> None:
            if size > MAX_HEAD:
                long_url = len(self.url) > MAX_HEAD // 2
                what = (414, "address") if long_url else (431, "head")
                raise RefusalError(
                    what[0], f"the {what[1]} of a request must have at most {MAX_HEAD:,} bytes"
                )

        def _refuse(self, refusal: RefusalError) -> None:
            """Read no further request. Answer those that were read completely, and say why this one is refused."""
            self._refused = True
            present: Any = self.cycle
            if (
                present is not None and present.more_body and not present.response_complete
            ):  # its body is at fault
                if self.pipeline and self.pipeline[0][0] is present:
                    self.pipeline.popleft()
                elif getattr(present, "response_started", False):
                    self._abort()
                    return
                else:
                    self._give_up_answer()
                    self._running = None
            self._refusal = refusal
            self._say_refusal()

        def _say_refusal(self) -> None:
            """Say why a request is refused if all before it are answered."""
            if self._refusal is None or not self._answered() or self.transport.is_closing():
                return
            answer = error_answer(self._refusal.status, self._refusal.message)
            self._refusal = None
            self.transport.write(_response(answer, keep_alive=False))
            self.transport.write_eof()
            self._cut_at = self.loop.time() + _FAREWELL_SECONDS

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._say_refusal()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._running = cycle
            super()._start_asgi_task(cycle, app)

        def _give_up_answer(self) -> None:
            """Let the request whose answer is being made write nothing."""
            if self._running is not None and not self._running.response_complete:
                self._running.disconnected = True
                self._running.waiting_for_100_continue = False
                self._running.message_event.set()

        def _abort(self) -> None:
            self._give_up_answer()
            self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._cancel_write_timer()
            self._give_up_answer()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._expect_request()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            # What was read behind the head has been counted with it.
            self._check_head(sum(len(name) + len(value) + 4 for name, value in self.headers) + len(self.url))
            names = [name for name, _ in self.headers]
            for single in SINGLE:
                if names.count(single) > 1:
                    shown = single.decode().title()
                    raise RefusalError(400, f"the request has two headers {shown}: send one")
            if self.parser.should_upgrade():
                self._plain_head = self._head_without_upgrade()
                return
            path, _, query_string = self.url.partition(b"?")
            name = names_by_path.get(path)
            headers = dict(self.headers)
            if name is None or not self._is_short(headers) or b"#" in query_string:
                super().on_headers_complete()
                return
            cycle = _Search(self.loop, self.parser.should_keep_alive())
            self.cycle = self._running = cycle  # type: ignore[assignment]
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
            )

        def _head_without_upgrade(self) -> bytes:
            """Return the head of the present request as a client writes it that knows no other protocol, such as HTTP/2."""
            if self.parser.get_method() == b"CONNECT":
                raise RefusalError(405, "this service is not a proxy")
            kept = [
                each for each in self.headers if each[0] not in (b"connection", b"upgrade", b"http2-settings")
            ]
            if not self.parser.should_keep_alive():
                kept.append((b"connection", b"close"))
            lines = [
                b"%s %s HTTP/%s"
                % (self.parser.get_method(), self.url, self.parser.get_http_version().encode()),
                *(b"%s: %s" % each for each in kept),
            ]
            return b"\r\n".join([*lines, b"", b""])

        def on_body(self, body: bytes) -> None:
            self._n_head = max(0, self._n_head - len(body))
            super().on_body(body)

        def on_chunk_complete(self) -> None:
            """Do not count what is around a chunk. The parser calls this after each."""
            self._n_head = max(0, self._n_head - _CHUNK_FRAME)

        def _answered(self) -> bool:
            return not self.pipeline and (self._running is None or self._running.response_complete)

        async def _search(self, cycle: _Search, name: str, headers: Headers, query_string: bytes) -> None:
            """Answer a search, and write its answer."""
            try:
                answer = await search.respond(name, headers, query_string, cycle.read_body)
                if cycle.disconnected or self.transport.is_closing():
                    return
                self.transport.write(_response(answer, cycle.keep_alive))
                if self.flow.write_paused:
                    await self.flow.drain()
            finally:
                cycle.response_complete = True
                self.tasks.discard(asyncio.current_task())
            if not cycle.keep_alive:
                self.transport.close()
            if self.pipeline or self._refusal is not None:
                self.on_response_complete()  # starts the request behind this one
            else:
                self.server_state.total_requests += 1
                self._cut_at = self.loop.time() + self.timeout_keep_alive

        def on_message_complete(self) -> None:
            if self._plain_head:
                return
            self._n_head = 0
            super().on_message_complete()
            waits = self._answered()  # before all of it had arrived
            self._cut_at = self.loop.time() + self.timeout_keep_alive if waits else None

        def pause_writing(self) -> None:
            self._write_timer = self.loop.call_later(seconds, self._abort)
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
                    each._abort()
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
        self.waiting_for_100_continue = False
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
