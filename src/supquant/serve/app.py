"""Requests to answers: the ASGI application of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from supquant.serve import looking, reading, searching, upkeep, writing
from supquant.serve.calls import Endpoint, error_answer, send_answer
from supquant.serve.openapi import describe
from supquant.serve.service import Service
from supquant.serve.watching import watch

__all__ = ["OPERATIONS", "make_app"]

OPERATIONS = (
    *searching.OPERATIONS,
    *looking.OPERATIONS,
    *writing.OPERATIONS,
    *reading.OPERATIONS,
    *upkeep.OPERATIONS,
)
"""All that a service does, the most frequent first. A module with further operations adds its own here."""


def make_app(service: Service, *, watched: bool = False) -> Router:
    """Return the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The indexes and their limits. The application closes it when it shuts down.
    watched : bool, default=False
        Whether saves by other processes are taken over.

    Returns
    -------
    Router
    """
    service.openapi = describe(OPERATIONS)

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(service)) if watched else None
        try:
            yield
        finally:
            service.ready = False
            if watching is not None:
                watching.cancel()
            await asyncio.to_thread(service.close)

    routes = [
        _Route(operation.path, Endpoint(operation, service), methods=[operation.method])
        for operation in OPERATIONS
    ]
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


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    del scope, receive
    await send_answer(error_answer(404, "there is no such address"), send)
