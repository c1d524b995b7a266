"""Requests to answers: what all requests of a service share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

from supquant.errors import InputError
from supquant.serve.deadlines import Deadlines
from supquant.serve.encoding import Encode
from supquant.serve.limits import Limits, RefusalError
from supquant.serve.metrics import Metrics
from supquant.serve.served import ServedIndex, check_name
from supquant.serve.tokens import Access, Tokens

__all__ = ["Service"]

_POOL_THREADS = 4
"""The number of threads for work other than scans: filters, columns, decoding."""

_LOCAL_NAMES = {"localhost", "127.0.0.1", "::1", "testserver"}
"""Names of this machine. Without tokens, requests to other names are refused, as a foreign page may have made them up."""


class Service:
    """Indexes by name, limits, tokens and metrics.

    Parameters
    ----------
    folders : mapping of str to Path
        The folders of the indexes, by name.
    limits : Limits, default=None
        None means `Limits()`.
    tokens : Tokens, default=None
        Without tokens, everybody on this machine may read and write.
    n_jobs : int, default=None
        The number of threads of a scan. None means all cores.
    encoders : mapping, default=None
        By the name of an index, functions that encode queries, by kind: ``"text"`` or ``"picture"``.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        limits: Limits | None = None,
        tokens: Tokens | None = None,
        n_jobs: int | None = None,
        encoders: Mapping[str, Mapping[str, Encode]] | None = None,
    ) -> None:
        if not folders:
            raise InputError("give at least one folder of an index")
        self.limits = limits or Limits()
        self.tokens = tokens
        self.metrics = Metrics()
        self.deadlines = Deadlines(self.limits.deadline)
        self.openapi: dict[str, Any] = {}  # what the application can do, as `describe` returns it
        self.ready = True
        self.indexes = {
            check_name(name): ServedIndex(
                name, folder, self.limits, self.metrics, n_jobs, (encoders or {}).get(name)
            )
            for name, folder in folders.items()
        }
        self._pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="serve")
        self._pending = 0

    def check_access(self, headers: Mapping[bytes, bytes], access: Access) -> None:
        """Raise a `RefusalError` unless the headers of a request allow an access."""
        if self.tokens is not None:
            self.tokens.check(headers.get(b"authorization"), access)
        elif _host_name(headers.get(b"host", b"localhost")) not in _LOCAL_NAMES:
            raise RefusalError(
                403, "without tokens, this service only answers requests to names of its own machine"
            )

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in another thread, and return what it returns.

        Raises
        ------
        RefusalError
            If too many calls are already waiting.
        """
        if self._pending >= self.limits.max_queue:
            raise RefusalError(429, "too many requests are waiting: try again later", {"retry-after": "1"})
        self._pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)
        future.add_done_callback(self._count_down)
        return await future

    def _count_down(self, _: object) -> None:
        self._pending -= 1

    def close(self) -> None:
        """Wait until all threads have finished their work."""
        self._pool.shutdown()
        for served in self.indexes.values():
            served.close()


@lru_cache(maxsize=256)
def _host_name(host: bytes) -> str:
    """Return a header ``Host`` without its port.

    Examples
    --------
    >>> _host_name(b"[::1]:8000"), _host_name(b"localhost:8000"), _host_name(b"example.org")
    ('::1', 'localhost', 'example.org')
    """
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if ":" in text else text
