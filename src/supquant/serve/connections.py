"""Requests to answers: connections whose clients send or read too slowly are cut."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["timed_protocol"]


def timed_protocol(seconds: float) -> type[HttpToolsProtocol]:
    """Return a protocol for uvicorn that cuts slow clients.

    uvicorn itself waits for ever for the rest of a request, and for a client that does not read its answer.

    Parameters
    ----------
    seconds : float
        The time in which a request must have come whole, and in which a client must go on reading.

    Returns
    -------
    type
    """

    class TimedProtocol(HttpToolsProtocol):
        """The protocol of one connection."""

        _request_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_request()

        def connection_lost(self, exc: Exception | None) -> None:
            _cancel(self._request_timer)
            _cancel(self._write_timer)
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            self._expect_request()
            super().on_message_begin()

        def on_message_complete(self) -> None:
            _cancel(self._request_timer)
            super().on_message_complete()

        def pause_writing(self) -> None:
            self._write_timer = self.loop.call_later(seconds, self.transport.abort)
            super().pause_writing()

        def resume_writing(self) -> None:
            _cancel(self._write_timer)
            super().resume_writing()

        def send_400_response(self, msg: str) -> None:
            super().send_400_response(msg)
            _cancel(self._request_timer)

        def _expect_request(self) -> None:
            _cancel(self._request_timer)
            # The operation itself gives up after the same time. A second more lets it answer.
            self._request_timer = self.loop.call_later(seconds + 1, self.transport.abort)

    return TimedProtocol


def _cancel(timer: Any) -> None:
    if timer is not None:
        timer.cancel()
