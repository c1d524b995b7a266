"""Requests to answers: the connections of a client to a service."""

from __future__ import annotations

import json
import math
import select
import threading
import time
import weakref
from collections import deque
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from supquant.errors import InputError, SupquantError

__all__ = ["Connection", "ServiceError"]

ARROW = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow stream."""

_INPUT_ERRORS = (400, 404, 409, 413, 415, 422)
"""Statuses of requests that the user can correct."""

_UNCERTAIN = (502, 504, 507)
"""Statuses after which it may not be known whether a change was made."""

_RETRY_SECONDS: tuple[float, ...] = (0.1, 0.5, 2.0)
"""The times in seconds after which a change whose fate is not known is sent again."""

_MAX_IDLE = 64
"""The maximum number of connections that are kept open while no request uses them."""


class ServiceError(SupquantError):
    """A service that cannot be reached, is too busy, or failed.

    Parameters
    ----------
    message : str
    status : int or None, default=None
        The status of its answer. None if there was none.

    Examples
    --------
    >>> ServiceError("too many searches are waiting", 429).status
    429
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Connection:
    """Sends requests to a service. Connections are kept open, and any number of threads may send at the same time.

    Parameters
    ----------
    url : str
        The address of the service.
    token : str or None
        The token that is sent in a header.
    timeout : float
        The time after which a request is given up, in seconds.
    """

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise InputError(f"expected an address such as http://localhost:8000, got {url!r}")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._prefix = parts.hostname, parts.port, parts.path.rstrip("/")
        self._timeout = timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._idle: deque[HTTPConnection] = deque()
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._idle)

    def ask(
        self, method: str, path: str, body: Any = None, *, arrow: bool = False, key: str | None = None
    ) -> Any:
        """Send a request, and return the JSON of its answer, or its bytes if it is an Arrow stream.

        Parameters
        ----------
        method : {"GET", "POST"}
        path : str
            The path below the address of the service.
        body : bytes, or what JSON can hold, default=None
        arrow : bool, default=False
            Whether to ask for an Arrow stream.
        key : str, default=None
            Names a change. If it is not known whether it was made, it is sent again with this key, and the service makes it once.

        Raises
        ------
        InputError
            If the service refused the request for its content.
        ServiceError
            If the service cannot be reached, or answered with another error.
        """
        headers = dict(self._headers)
        if arrow:
            headers["Accept"] = ARROW
        if method == "POST":
            raw = isinstance(body, bytes)
            headers["Content-Type"] = "application/octet-stream" if raw else "application/json"
            body = body if raw else _to_json(body)
        if key is not None:
            headers["Idempotency-Key"] = key
        end = time.monotonic() + self._timeout
        for wait in (*_RETRY_SECONDS, math.inf):
            may_repeat = key is not None and time.monotonic() + wait < end
            try:
                status, media_type, answer = self._exchange(method, self._prefix + path, body, headers)
            except ServiceError:
                if not may_repeat:
                    raise
            else:
                if status not in _UNCERTAIN or not may_repeat:
                    break
            time.sleep(wait)
        if status != 200:
            message = _error_in(answer)
            raise InputError(message) if status in _INPUT_ERRORS else ServiceError(message, status)
        return answer if media_type == ARROW else json.loads(answer)

    def close(self) -> None:
        """Close all connections that no request uses."""
        with self._lock:
            _close_all(self._idle)

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        """Send a request; return status, media type and body of its answer."""
        connection = self._take()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, HTTPException) as error:
            connection.close()
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise ServiceError(f"{self.url} cannot be reached: {reason}") from error
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._give_back(connection)
        return response.status, response.headers.get_content_type(), answer

    def _take(self) -> HTTPConnection:
        """Return an open connection, or a new one. An idle connection with something to read was closed by the service."""
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._kind(self._host, self._port, timeout=self._timeout)
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()


def _close_all(connections: deque[HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def _to_json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"a value cannot be sent: {error}") from error


def _error_in(answer: bytes) -> str:
    """Return the line of a refused request. A proxy may have answered instead of the service."""
    try:
        return str(json.loads(answer)["error"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode("utf-8", "replace") or "the service gave no reason"
