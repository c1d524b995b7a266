"""Requests to answers: the page, and operations for those who run a service."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from supquant.serve import schemas
from supquant.serve.calls import Answer, Call, Operation
from supquant.serve.limits import RefusalError
from supquant.serve.metrics import CONTENT_TYPE

__all__ = ["OPERATIONS"]

_PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""What a browser must not do with the page: load or send anything from or to elsewhere."""


async def page(_: Call) -> Answer:
    """Answer the page to search with."""
    return Answer(_page(), "text/html; charset=utf-8", headers=_PAGE_HEADERS)


@cache
def _page() -> bytes:
    """Return the page with its style and its script in it, so that it needs no other file."""
    folder = files("supquant.serve")
    text = (folder / "page.html").read_text(encoding="utf-8")
    for name in ("page.css", "page.js"):
        text = text.replace(f"/* {name} */", (folder / name).read_text(encoding="utf-8"))
    return text.encode()


async def healthz(_: Call) -> Any:
    """Answer that the service runs."""
    return {"status": "ok"}


async def readyz(call: Call) -> Any:
    """Answer whether the service takes requests."""
    if not call.service.ready:
        raise RefusalError(503, "the service is shutting down")
    return {"status": "ready"}


async def metrics(call: Call) -> Answer:
    """Answer counts and times."""
    return Answer(call.service.metrics.text(), CONTENT_TYPE)


async def openapi(call: Call) -> Any:
    """Answer what the service can do, as OpenAPI describes it."""
    return call.service.openapi


OPERATIONS = (
    Operation("GET", "/", page, "The page to search with.", access="open", media_type="text/html"),
    Operation(
        "GET",
        "/healthz",
        healthz,
        "Say that the service runs.",
        access="open",
        answer={"status": schemas.TEXT},
    ),
    Operation(
        "GET",
        "/readyz",
        readyz,
        "Say that the service takes requests.",
        access="open",
        answer={"status": schemas.TEXT},
    ),
    Operation("GET", "/metrics", metrics, "Counts and times for Prometheus.", media_type="text/plain"),
    Operation(
        "GET",
        "/openapi.json",
        openapi,
        "Describe all operations.",
        access="open",
        answer={"openapi": schemas.TEXT},
    ),
)
