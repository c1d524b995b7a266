"""Requests to answers: one request, from its head and body to the bytes of its answer."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from supquant.errors import FileFormatError, SupquantError
from supquant.serve.json_values import plain
from supquant.serve.limits import RefusalError
from supquant.serve.tokens import Access

if TYPE_CHECKING:
    from supquant.index import CodeIndex
    from supquant.serve.served import ServedIndex, Version
    from supquant.serve.service import Service

__all__ = ["JSON", "OCTETS", "Answer", "Call", "Endpoint", "Operation", "error_answer", "send_answer"]

JSON = "application/json"
OCTETS = "application/octet-stream"
"""The media types of bodies. A browser asks before it sends them to another site, so no foreign page can send them here."""

Headers = Mapping[bytes, bytes]
"""The headers of a request, by names in lower case."""

ReadBody = Callable[[], Awaitable[bytes]]
"""Returns the body of a request when all of it has come."""

_log = logging.getLogger("supquant.serve")


@dataclass(frozen=True, eq=False)
class Answer:
    """The bytes of an answer."""

    body: bytes
    media_type: str = JSON
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Operation:
    """One thing that a service does.

    Parameters
    ----------
    method : str
        ``"GET"`` or ``"POST"``.
    path : str
        The path, in which ``{index}`` stands for the name of an index.
    handle : callable
        Returns the answer to a `Call`: an `Answer`, or what is answered as JSON.
    summary : str
        What it does, in one sentence.
    access : {"open", "read", "write"}, default="read"
        Which token it needs.
    body : dict, default=None
        The fields of a JSON body, each with its JSON schema. None if there is no body.
    parameters : dict, default=None
        The parameters in the address, each with its JSON schema.
    answer : dict, default=None
        The fields of a JSON answer, each with its JSON schema. None if the answer is not JSON.
    media_type : str, default=JSON
        The media type of the answer.
    octets : str, default=None
        What a body of bytes means. None refuses such bodies.
    picture : str, default=None
        What a body of a content type such as ``image/png`` means. None refuses such bodies.
    example : dict, default=None
        A body that works with the demonstration.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]
    summary: str
    access: Access = "read"
    body: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] | None = None
    answer: Mapping[str, Any] | None = None
    media_type: str = JSON
    octets: str | None = None
    picture: str | None = None
    example: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the operation in metrics and in openapi.json."""
        return self.handle.__name__


class Call:
    """A request whose head and body were read.

    Parameters
    ----------
    service : Service
    operation : Operation
    served : ServedIndex or None
        The index that the request names.
    headers : mapping of bytes to bytes
    query_string : bytes
        The part of the address behind the question mark.
    body : bytes
    """

    def __init__(
        self,
        service: Service,
        operation: Operation,
        served: ServedIndex | None,
        headers: Headers,
        query_string: bytes,
        body: bytes,
    ) -> None:
        self.service = service
        self.operation = operation
        self.headers = headers
        self.body = body
        self.query_string = query_string
        self._served = served
        # Everything that a request reads comes from one version of the index.
        self.version: Version | None = None if served is None else served.version

    @property
    def served(self) -> ServedIndex:
        """The index that the request names."""
        assert self._served is not None
        return self._served

    @property
    def index(self) -> CodeIndex:
        """The index as it was when the request came. It does not change."""
        return self.served_version.index

    @property
    def served_version(self) -> Version:
        """The version of the index that the request reads."""
        assert self.version is not None
        return self.version

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters."""
        return _media_type(self.headers.get(b"content-type", b""))

    def accepts(self, media_type: str) -> bool:
        """Return whether the client asks for a media type by name."""
        return media_type.encode() in self.headers.get(b"accept", b"")

    def parameters(self) -> dict[str, str]:
        """Return the parameters in the address.

        Raises
        ------
        RefusalError
            If one is unknown or comes twice.
        """
        pairs = _read_parameters(self.query_string)
        _check_names([name for name, _ in pairs], self.operation.parameters or {}, "parameter")
        return dict(pairs)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON body.

        Raises
        ------
        RefusalError
            If the body is not a JSON object, or a field is unknown.
        """
        if self.media_type != JSON:
            expected = JSON if self.operation.octets is None else f"{JSON} or {OCTETS}"
            raise RefusalError(415, f"expected a body of content type {expected}")
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise RefusalError(400, f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise RefusalError(422, "the body must be a JSON object")
        _check_names(list(found), self.operation.body or {}, "field")
        return found

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns that takes longer than a moment."""
        return await self.service.in_thread(work, *arguments)


@lru_cache(maxsize=256)  # many clients send the same
def _media_type(header: bytes) -> str:
    return header.partition(b";")[0].strip().lower().decode("latin-1")


@lru_cache(maxsize=256)  # many clients ask with the same parameters
def _read_parameters(query: bytes) -> list[tuple[str, str]]:
    if not query:
        return []
    try:
        return parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict")
    except ValueError:
        raise RefusalError(400, "the parameters in the address cannot be read") from None


def _check_names(given: list[str], known: Mapping[str, Any], what: str) -> None:
    for name in given:
        if name not in known:
            raise RefusalError(422, f"unknown {what} {name[:40]!r}: known are {', '.join(known) or 'none'}")
    if len(set(given)) < len(given):
        raise RefusalError(422, f"a {what} is given twice")


class Endpoint:
    """Answers the requests of one operation: checks the token, reads the body, and lets the operation answer.

    Parameters
    ----------
    operation : Operation
    service : Service
    """

    def __init__(self, operation: Operation, service: Service) -> None:
        self._operation = operation
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as an ASGI application."""
        headers = dict(scope["headers"])
        read_body = partial(_read_body, headers, receive, self._service.limits.max_body)
        answer = await self.respond(
            scope["path_params"].get("index", ""), headers, scope["query_string"], read_body
        )
        await send_answer(answer, send)

    async def respond(self, name: str, headers: Headers, query_string: bytes, read_body: ReadBody) -> Answer:
        """Return the answer to one request, within the deadline.

        Parameters
        ----------
        name : str
            The name of an index, or empty.
        headers : mapping of bytes to bytes
        query_string : bytes
            The part of the address behind the question mark.
        read_body : coroutine function
            Returns the body. It is called if the operation has one and the token allows it.
        """
        began = time.perf_counter()
        served = self._service.indexes.get(name)
        try:
            answer = await self._service.deadlines.limit(
                self._answer(name, served, headers, query_string, read_body)
            )
        except TimeoutError:
            answer = error_answer(504, "the request took too long; if it was a change, it may still be made")
        except RefusalError as refusal:
            answer = error_answer(refusal.status, refusal.message, refusal.headers)
        except FileFormatError:
            _log.exception("a file of index %s is damaged", name)
            answer = error_answer(503, "a file of the index is damaged")
        except SupquantError as error:
            answer = error_answer(422, str(error))
        except MemoryError:
            answer = error_answer(503, "memory ran out")
        except Exception:  # noqa: BLE001  # no traceback may reach a client
            number = secrets.token_hex(4)
            _log.exception("request %s failed", number)
            answer = error_answer(500, f"an internal error: the log of the service has it as {number}")
        seconds = time.perf_counter() - began
        self._service.metrics.request(
            self._operation.name, "" if served is None else name, answer.status, seconds
        )
        return answer

    async def _answer(
        self,
        name: str,
        served: ServedIndex | None,
        headers: Headers,
        query_string: bytes,
        read_body: ReadBody,
    ) -> Answer:
        operation = self._operation
        self._service.check_access(headers, operation.access)
        if served is None and "{index}" in operation.path:
            raise RefusalError(404, f"no index is named {name[:40]!r}")
        body = await read_body() if operation.method == "POST" else b""
        found = await operation.handle(Call(self._service, operation, served, headers, query_string, body))
        return found if isinstance(found, Answer) else json_answer(found)


async def _read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """Return the body of a request; raise a `RefusalError` if it is longer than the limit."""
    told = headers.get(b"content-length", b"")
    if told.isdigit() and int(told[:20]) > limit:
        raise _too_long(limit)
    parts: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client has gone")
        part = message.get("body", b"")
        length += len(part)
        if length > limit:
            raise _too_long(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(limit: int) -> RefusalError:
    return RefusalError(413, f"the body must have at most {limit:,} bytes")


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return the answer that holds a value as JSON."""
    body = orjson.dumps(value, default=plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Answer(body, status=status, headers=headers or {})


def error_answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return the answer to a request that failed: one line."""
    return json_answer({"error": " ".join(message.split())}, status, headers)


async def send_answer(answer: Answer, send: Send) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.media_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *((name.encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
