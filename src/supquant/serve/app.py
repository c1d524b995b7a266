"""Requests to answers: the ASGI application of a service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from supquant.serve import looking, reading, searching, writing
from supquant.serve.calls import Endpoint, error_answer, send_answer
from supquant.serve.limits import RefusalError
from supquant.serve.openapi import describe
from supquant.serve.service import Service

__all__ = ["OPERATIONS", "make_app"]

OPERATIONS = (*searching.OPERATIONS, *looking.OPERATIONS, *writing.OPERATIONS, *reading.OPERATIONS)
"""All operations of a service, most frequent first. A module with further operations adds its own here."""

WATCH_SECONDS = 0.5
"""The time between two checks of the folders, in seconds."""

_log = logging.getLogger("supquant.serve")


def make_app(service: Service, *, watched: bool = False) -> Router:
    """Return the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The indexes and their limits. The application closes it when it shuts down.
    watched : bool, default=False
        Whether to pick up what other processes save.

    Returns
    -------
    Router
    """
    service.openapi = describe(OPERATIONS)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        watching = asyncio.create_task(_watch(service)) if watched else None
        try:
            yield
        finally:
            service.ready = False
            if watching is not None:
                watching.cancel()
            await asyncio.to_thread(service.close)

    routes = [_Route(each.path, Endpoint(each, service), methods=[each.method]) for each in OPERATIONS]
    # A router alone: every endpoint handles its own errors, and middleware would take a fifth of the time of a request.
    return Router(routes, redirect_slashes=False, default=_not_found, lifespan=lifespan)


class _Route(Route):
    """A route that refuses other methods in one line of JSON."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.methods is not None
        if scope["method"] in self.methods:
            await self.app(scope, receive, send)
        else:
            allowed = {"allow": ", ".join(sorted(self.methods))}
            await send_answer(error_answer(405, "this address takes another method", allowed), send)


async def _not_found(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_answer(error_answer(404, "there is no such address"), send)


async def _watch(service: Service) -> None:
    """Check the folder of every index again and again, and load what others saved.

    A check is one call of `stat`. Requests that have begun read the old index, later ones the new one.
    """
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        for served in service.indexes.values():
            with suppress(RefusalError):  # it was logged; the old index stays in use
                try:
                    await served.refresh()
                except (ValueError, RuntimeError, MemoryError):
                    _log.exception("index %s cannot be reloaded", served.name)
