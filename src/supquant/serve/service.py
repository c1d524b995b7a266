"""Requests to answers: what all requests of a service share."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

from supquant.errors import InputError
from supquant.index.conditions import limit_time
from supquant.serve.deadlines import Deadlines
from supquant.serve.encoding import Encode
from supquant.serve.limits import Limits, RefusalError
from supquant.serve.metrics import Metrics
from supquant.serve.served import ServedIndex, check_name
from supquant.serve.tokens import Access, Tokens

__all__ = ["Service", "WorkKind"]

WorkKind = Literal["short", "condition", "view"]
"""Kinds of work other than scans and changes. However long one kind takes, the others go on."""

_THREADS: dict[WorkKind, int] = {"short": 4, "condition": 2, "view": 1}
"""The number of threads for each kind: columns and decoding, conditions, and maps and audits, which take seconds."""

_END_SECONDS = 0.7
"""The time that a service may take to end in addition to the deadline, in seconds. The process takes the rest of a second."""

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
        self._pools = {kind: ThreadPoolExecutor(n, thread_name_prefix=kind) for kind, n in _THREADS.items()}
        self._pending = 0
        self._end_by = math.inf
        self.closed = False  # whether all threads have ended

    def check_access(self, headers: Mapping[bytes, bytes], access: Access) -> None:
        """Raise a `RefusalError` unless the headers of a request allow an access."""
        if self.tokens is not None:
            self.tokens.check(headers.get(b"authorization"), access)
        elif _host_name(headers.get(b"host", b"localhost")) not in _LOCAL_NAMES:
            raise RefusalError(
                403, "without tokens, this service only answers requests to names of its own machine"
            )

    async def in_thread(self, work: Callable[..., Any], *arguments: Any, kind: WorkKind = "short") -> Any:
        """Run a function in another thread, and return what it returns. Its conditions end when the time of the request is over.

        Raises
        ------
        RefusalError
            If too many calls are already waiting.
        """
        if self._pending >= self.limits.max_queue:
            raise RefusalError(429, "too many requests are waiting: try again later", {"retry-after": "1"})
        self._pending += 1
        limited = partial(_run, work, arguments, time.monotonic() + self.deadlines.left())
        future = asyncio.get_running_loop().run_in_executor(self._pools[kind], limited)
        future.add_done_callback(self._count_down)
        return await future

    def _count_down(self, _: object) -> None:
        self._pending -= 1

    def begin_end(self) -> None:
        """Say that the service ends. It then has the time of one request, and a moment."""
        self._end_by = min(self._end_by, time.monotonic() + self.limits.deadline + _END_SECONDS)

    def close(self) -> None:
        """Wait until all threads have finished their work, or the time is over. `closed` says whether they have."""
        self.begin_end()
        closing = threading.Thread(target=self._close, name="close", daemon=True)
        closing.start()
        closing.join(max(0.0, self._end_by - time.monotonic()))
        self.closed = not closing.is_alive()

    def _close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)
        for served in self.indexes.values():
            served.close()


def _run(work: Callable[..., Any], arguments: Sequence[Any], until: float) -> Any:
    with limit_time(until - time.monotonic()):
        return work(*arguments)


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
