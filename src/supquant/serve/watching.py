"""Requests to answers: saves by other processes, which a service takes over."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from supquant.serve.limits import RefusalError
from supquant.serve.service import Service

__all__ = ["WATCH_SECONDS", "watch"]

WATCH_SECONDS = 0.5
"""The time in seconds between two looks at the folders."""

_log = logging.getLogger("supquant.serve")


async def watch(service: Service) -> None:
    """Look at the folder of every index again and again, and take over what others saved.

    A look is one call of `stat`. Requests that have begun read the old index, later ones the new one.
    """
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        for served in service.indexes.values():
            with suppress(RefusalError):  # it was logged; the old index goes on
                try:
                    await served.refresh()
                except (ValueError, RuntimeError, MemoryError):
                    _log.exception("index %s cannot be read anew", served.name)
