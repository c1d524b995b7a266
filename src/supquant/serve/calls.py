"""Requests to answers: one request, from its head and body to the bytes of its answer."""

from __future__ import annotations

import base64
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import orjson
from starlette.types import Receive, Scope, Send

from supquant.errors import FileFormatError, SupquantError
from supquant.index import CodeIndex
from supquant.index.change_keys import key_of_change
from supquant.serve.fields import FIELDS, Schema
from supquant.serve.limits import RefusalError
from supquant.serve.served import ServedIndex, Version
from supquant.serve.service import Service, WorkKind
from supquant.serve.tokens import Access

__all__ = [
    "JSON",
    "MAX_KEY",
    "OCTETS",
    "Answer",
    "Call",
    "Endpoint",
    "Operation",
    "error_answer",
    "operation",
    "send_answer",
    "table_answer",
]

JSON = "application/json"
OCTETS = "application/octet-stream"
"""The media types of bodies. A browser asks before sending them to another site, so no foreign page can send them here."""

ARROW = "application/vnd.apache.arrow.stream"
"""The media type of an Arrow stream."""

MAX_KEY = 255
"""The maximum length of the key of a change in characters."""

Headers = Mapping[bytes, bytes]
"""The headers of a request, by names in lower case."""

ReadBody = Callable[[], Awaitable[bytes]]
"""Returns the body of a request when all of it has arrived."""

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
    """One thing that a service does. The decorator `operation` makes one of a function.

    Parameters
    ----------
    method : str
        ``"GET"`` or ``"POST"``.
    path : str
        The path, in which ``{index}`` is the name of an index.
    handle : coroutine function
        Returns the answer to a `Call`: an `Answer`, or what is answered as JSON. Its name is that of the operation, and the
        first line of its docstring is the summary in openapi.json.
    access : {"open", "read", "write"}, default="read"
        The token that it needs.
    body : sequence of str, default=None
        The names of the fields of a JSON body, from `FIELDS`. None if there is no body.
    parameters : sequence of str, default=()
        The names of the parameters in the address, from `FIELDS`.
    required : sequence of str, default=()
        The fields and parameters that must be given.
    other_bodies : dict, default={}
        What bodies of other media types mean, such as ``image/*``.
    answer : dict, default=None
        The fields of a JSON answer, each with its JSON schema. None if the answer is not JSON.
    media_type : str, default=JSON
        The media type of the answer.
    example : dict, default=None
        A body that works with the demonstration.
    """

    method: str
    path: str
    handle: Callable[[Call], Awaitable[Any]]
    access: Access = "read"
    body: Sequence[str] | None = None
    parameters: Sequence[str] = ()
    required: Sequence[str] = ()
    other_bodies: Mapping[str, str] = field(default_factory=dict)
    answer: Mapping[str, Schema] | None = None
    media_type: str = JSON
    example: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The name of the operation in metrics and in openapi.json."""
        return self.handle.__name__


def operation(
    method: str, path: str, **details: Any
) -> Callable[[Callable[[Call], Awaitable[Any]]], Operation]:
    """Make an `Operation` of a function; the details are its further parameters."""
    return lambda handle: Operation(method, path, handle, **details)


@dataclass(eq=False)
class Call:
    """A request whose head and body were read.

    Parameters
    ----------
    service : Service
    operation : Operation
    named : ServedIndex or None
        The index that the request names.
    headers : mapping of bytes to bytes
    query_string : bytes
        The part of the address after the question mark.
    body : bytes
    """

    service: Service
    operation: Operation
    named: ServedIndex | None
    headers: Headers
    query_string: bytes
    body: bytes

    def __post_init__(self) -> None:
        # Everything that a request reads comes from one version of the index.
        self._version = None if self.named is None else self.named.version

    @property
    def served(self) -> ServedIndex:
        """The index that the request names."""
        assert self.named is not None
        return self.named

    @property
    def version(self) -> Version:
        """The version of the index that the request reads."""
        assert self._version is not None
        return self._version

    @property
    def index(self) -> CodeIndex:
        """The index as it was when the request came. It does not change."""
        return self.version.index

    @property
    def media_type(self) -> str:
        """The media type of the body, without parameters."""
        return _media_type(self.headers.get(b"content-type", b""))

    def change_key(self) -> tuple[str, str] | None:
        """Return what names this change, so that it is made once however often it is sent; None if the client does not name it.

        Raises
        ------
        RefusalError
            If the header cannot be a key.
        """
        key = self.headers.get(b"idempotency-key")
        if key is None:
            return None
        if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.decode("ascii").isprintable():
            raise RefusalError(422, f"Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters")
        return key_of_change(key, self.operation.name.encode() + b" " + self.body)

    def accepts_arrow(self) -> bool:
        """Return whether the client asks for an Arrow stream."""
        return ARROW.encode() in self.headers.get(b"accept", b"")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters in the address, checked.

        Raises
        ------
        RefusalError
            If a parameter is unknown, comes twice, is missing, or has a value that cannot be used.
        """
        try:
            text = self.query_string.decode("ascii")
            pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict")
        except ValueError:
            raise RefusalError(400, "the parameters in the address cannot be read") from None
        given: dict[str, Any] = dict(pairs)
        if len(given) < len(pairs):
            raise RefusalError(422, "a parameter is given twice")
        self._check_names(given, self.operation.parameters, "parameter")
        for name, value in given.items():
            try:
                given[name] = FIELDS[name].parse(value)
            except ValueError:
                raise RefusalError(422, f"{name} must be a number, got {value[:40]!r}") from None
        return self._check_values(given)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON body that are not null, checked.

        Raises
        ------
        RefusalError
            If the body is not a JSON object, or if a field is unknown, is missing, or has a value that cannot be used.
        """
        if self.media_type != JSON:
            kinds = [JSON, *(each for each in self.operation.other_bodies if each == OCTETS)]
            raise RefusalError(415, f"expected a body of content type {' or '.join(kinds)}")
        if self.query_string:
            raise RefusalError(422, "fields belong into the JSON body, not into the address")
        try:
            given = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise RefusalError(400, f"the body is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise RefusalError(422, "the body must be a JSON object")
        self._check_names(given, self.operation.body or (), "field")
        return self._check_values(given)

    @staticmethod
    def _check_names(given: Iterable[str], known: Sequence[str], what: str) -> None:
        for name in given:
            if name not in known:
                raise RefusalError(
                    422, f"unknown {what} {name[:40]!r}: known are {', '.join(known) or 'none'}"
                )

    def _check_values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        for name in self.operation.required:
            if given.get(name) is None:
                raise RefusalError(422, f"give {name}")
        limits = self.service.limits
        return {
            name: FIELDS[name].check(value, name, limits)
            for name, value in given.items()
            if value is not None
        }

    async def in_thread(self, work: Callable[..., Any], *arguments: Any, kind: WorkKind = "short") -> Any:
        """Return what a function returns that takes longer than a moment."""
        return await self.service.in_thread(work, *arguments, kind=kind)


@lru_cache(maxsize=256)  # many clients send the same
def _media_type(header: bytes) -> str:
    return header.partition(b";")[0].strip().lower().decode("latin-1")


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
        name = scope["path_params"].get("index", "")
        await send_answer(await self.respond(name, headers, scope["query_string"], read_body), send)

    async def respond(self, name: str, headers: Headers, query_string: bytes, read_body: ReadBody) -> Answer:
        """Return the answer to one request, within the deadline.

        Parameters
        ----------
        name : str
            The name of an index, or empty.
        headers : mapping of bytes to bytes
        query_string : bytes
            The part of the address after the question mark.
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
        self._service.metrics.requests.add(
            self._operation.name,
            "" if served is None else name,
            answer.status,
            time.perf_counter() - began,
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
        return found if isinstance(found, Answer) else _json_answer(found)


async def _read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """Return the body of a request; raise a `RefusalError` if it is longer than the limit."""
    too_long = RefusalError(413, f"the body must have at most {limit:,} bytes")
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > limit:
        raise too_long
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RefusalError(400, "the client has gone")
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_long
        if not message.get("more_body", False):
            return bytes(body)


def _json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return the answer that holds a value as JSON."""
    body = orjson.dumps(value, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Answer(body, status=status, headers=headers or {})


def _plain(value: Any) -> Any:
    """Replace a value that JSON cannot hold: arrays by lists, bytes by base64, anything else by text."""
    if isinstance(value, np.ndarray) and not value.flags.c_contiguous:
        return np.ascontiguousarray(value)  # a list would have the digits of float64
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode("ascii")
    return str(value)


def error_answer(status: int, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return the answer to a request that failed: one line."""
    return _json_answer({"error": " ".join(message.split())}, status, headers)


def table_answer(table: Any) -> Answer:
    """Return the answer that holds a `pyarrow.Table` as an Arrow stream."""
    import pyarrow as pa  # noqa: PLC0415  # the table is one of its

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Answer(sink.getvalue().to_pybytes(), ARROW)


async def send_answer(answer: Answer, send: Send) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.media_type.encode()),
        (b"content-length", str(len(answer.body)).encode()),
        *((name.encode(), value.encode()) for name, value in answer.headers.items()),
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
