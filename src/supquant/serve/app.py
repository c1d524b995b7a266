"""Requests to answers: the ASGI application of a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from supquant.serve import reading, searching, upkeep, writing
from supquant.serve.calls import Endpoint, error_answer
from supquant.serve.openapi import describe
from supquant.serve.service import Service
from supquant.serve.watching import watch

__all__ = ["OPERATIONS", "make_app"]

OPERATIONS = (*upkeep.OPERATIONS, *reading.OPERATIONS, *searching.OPERATIONS, *writing.OPERATIONS)
"""All that a service does. A module with further operations adds its own here."""


def make_app(service: Service, *, watched: bool = False) -> Starlette:
    """Return the ASGI application of a service.

    Parameters
    ----------
    service : Service
        The indexes and their limits. The application closes it when it shuts down.
    watched : bool, default=False
        Whether saves by other processes are taken over.

    Returns
    -------
    Starlette
    """
    service.openapi = describe(OPERATIONS)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        watching = asyncio.create_task(watch(service)) if watched else None
        try:
            yield
        finally:
            service.ready = False
            if watching is not None:
                watching.cancel()
            await asyncio.to_thread(service.close)

    async def refuse(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        messages = {404: "there is no such address", 405: "this address takes another method"}
        answer = error_answer(error.status_code, messages.get(error.status_code, str(error.detail)))
        return Response(answer.body, error.status_code, dict(error.headers or {}), answer.media_type)

    routes: list[Any] = [
        Route(operation.path, Endpoint(operation, service), methods=[operation.method])
        for operation in OPERATIONS
    ]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: refuse})
