"""Report: malformed and hostile requests. Each gets the right kind of answer, on one line, and the service keeps running."""

from __future__ import annotations

import http.client
import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from supquant import CodeIndex
from supquant.serve.app import OPERATIONS
from supquant_lab.bench.process import temporary_folder
from supquant_lab.bench.serving.checked import M, R, make_codec
from supquant_lab.bench.serving.process import ServiceProcess
from supquant_lab.machine import describe_machine

READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"
"""The tokens of the service that is fuzzed."""

SECRET = "never-to-be-seen"
"""A value in an index that no request may read."""

REFUSED = {400, 401, 403, 404, 405, 409, 413, 415, 422, 429}
"""Statuses of requests that the service refuses."""

_NAMES = (
    *("items", "other", "..", "%2e%2e", "..%2fhidden", "/etc/passwd"),
    *("items%00", "ÿ", "", "items/../hidden", "hidden/"),
)
_PATHS = (
    *("/", "/v1", "/v1/items", "/metrics", "/openapi.json", "/healthz"),
    *("/nothing", "/v1/hidden/../items", "//", "/v1//search"),
)


def bench_fuzzing(n_requests: int, seed: int = 0) -> dict[str, Any]:
    """Send malformed and hostile requests, and check every answer.

    Parameters
    ----------
    n_requests : int
        Number of requests.
    seed : int, default=0
        Seed of all choices.

    Returns
    -------
    dict
        A record for `json`: how often each status came, and ``failures``, which should be empty.
    """
    with temporary_folder() as place:
        write_folders(place)
        options = ("--token-file", place / "tokens", "--max-body", 200_000, "--deadline", 10)
        with ServiceProcess(f"items={place}/items", f"hidden={place}/hidden", *options) as service:
            statuses, failures = fuzz(service.url, n_requests, seed)
            code, errors = service.end()
    failures += [f"the service ended with {code}"] if code else []
    failures += [errors[-2000:]] if "Traceback" in errors else []
    return {
        "benchmark": "serve-fuzzing",
        "requests": n_requests,
        "seed": seed,
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "failures": failures,
        "machine": describe_machine(),
    }


def write_folders(place: Path) -> None:
    """Write two indexes and a file of tokens."""
    codes = np.random.default_rng(0).integers(0, 16, size=(50, M))
    for name, text in (("items", "seen"), ("hidden", SECRET)):
        CodeIndex(make_codec()).add_codes(codes, metadata={"text": [text] * 50}).save(place / name)
    (place / "tokens").write_text(f"read: {READ}\nwrite: {WRITE}\n")


def fuzz(url: str, n_requests: int, seed: int) -> tuple[Counter[int], list[str]]:
    """Send requests; return how often each status came (0 for a closed connection), and what was wrong."""
    statuses: Counter[int] = Counter()
    failures: list[str] = []
    rng = np.random.default_rng(seed)
    host = urlsplit(url).netloc
    for number in range(n_requests):
        send = _send_raw if rng.random() < 0.05 else _send
        status, answer, sent = send(host, rng)
        statuses[status] += 1
        if (wrong := _flaw(status, answer)) is not None:
            failures.append(f"request {number}: {wrong}: {sent[:200]!r} got {status} {answer[:200]!r}")
        if len(failures) > 20:
            break
    return statuses, failures


def _flaw(status: int, answer: bytes) -> str | None:
    """Return what is wrong with an answer, or None."""
    if SECRET.encode() in answer:
        return "the data of another index"
    if b"Traceback" in answer or b'File "' in answer:
        return "a traceback"
    if status >= 500:
        return "an internal error"
    if status in REFUSED:
        if b"\n" in answer.strip() or len(answer) > 2000:
            return "more than one line"
        if not answer.startswith(b'{"error":"') and not answer.startswith(b"Invalid HTTP"):
            return "no error in JSON"
    elif status not in (0, 200):
        return "an unexpected status"
    return None


def _send(host: str, rng: np.random.Generator) -> tuple[int, bytes, str]:
    """Send a request that is valid HTTP, but may be wrong in every other way."""
    name = "items" if rng.random() < 0.9 else str(rng.choice(_NAMES))
    chosen = OPERATIONS[int(rng.integers(len(OPERATIONS)))]
    path = chosen.path.replace("{index}", name)
    if rng.random() < 0.1:
        path = str(rng.choice(_PATHS))
    if rng.random() < 0.15:
        path += "?" + str(
            rng.choice(["k=1", "k=x", "k=-1&k=2", "ids=1,2", "%", "token=" + READ, "columns=text", "a&b=%ff"])
        )
    method = chosen.method if rng.random() < 0.95 else str(rng.choice(["GET", "POST", "PUT", "DELETE"]))
    headers = {}
    if rng.random() < 0.97:
        token = WRITE if rng.random() < 0.9 else str(rng.choice([READ, "wrong", READ[:-1], ""]))
        headers["Authorization"] = f"{'Bearer' if rng.random() < 0.97 else 'Basic'} {token}"
    kind = str(
        rng.choice(
            ["application/json"] * 6
            + ["application/octet-stream", "text/plain", "application/json; charset=x", ""]
        )
    )
    if kind:
        headers["Content-Type"] = kind
    body = _body(rng, tuple(chosen.body or ()))
    connection = http.client.HTTPConnection(host, timeout=30)
    sent = f"{method} {path} {headers} {body[:100]!r}"
    try:
        connection.putrequest(method, path.encode("utf-8").decode("latin-1"))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, response.read(), sent
    except (OSError, http.client.HTTPException, UnicodeError):
        return 0, b"", sent
    finally:
        connection.close()


def _send_raw(host: str, rng: np.random.Generator) -> tuple[int, bytes, str]:
    """Send bytes that are not a request, or only a fragment of one."""
    name, _, port = host.partition(":")
    parts = [b"GET / HTTP/1.1\r\n", b"POST /v1/items/search HTTP/1.1\r\nContent-Length: 99\r\n\r\n{", b"\x00\xff\x16\x03\x01",
             b"GET /\xff HTTP/1.1\r\n\r\n", b"A" * 9000, b"GET / HTTP/9.9\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"\r\n\r\n",
             b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"]  # fmt: skip
    data = b"".join(parts[each] for each in rng.integers(0, len(parts), size=int(rng.integers(1, 4))))
    with socket.create_connection((name, int(port)), timeout=30) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:
            return 0, b"", repr(data)
    if not answer.startswith(b"HTTP/1.1 "):
        return 0, answer, repr(data)
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head[9:12]), body.split(b"HTTP/1.1")[0], repr(data)


def _body(rng: np.random.Generator, fields: tuple[str, ...]) -> bytes:
    """Return a body: fields of an operation with odd values, broken JSON, or bytes."""
    kind = rng.random()
    if kind < 0.1:
        return rng.bytes(int(rng.integers(0, 300)))
    if kind < 0.12:
        return b"[" * 100_000
    if kind < 0.14:
        return b" " * 250_000
    names = [name for name in fields if rng.random() < 0.5]
    names += ["unknown"] if rng.random() < 0.03 else []
    text = json.dumps({name: _value(rng) for name in names})
    if kind < 0.2:
        return text[: int(rng.integers(0, len(text)))].encode()
    return text.encode()


def _value(rng: np.random.Generator, depth: int = 0) -> Any:
    """Return a value that a field may or may not be allowed to hold."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: bool(rng.random() < 0.5),
        lambda: int(rng.integers(-3, 60)),
        lambda: int(rng.choice([2**31, 2**63 - 1, -(2**63), 10**30])) if rng.random() < 0.5 else 10**30,
        lambda: float(rng.normal()),
        lambda: float(rng.choice([1e300, -1e300, 1e-300])),
        lambda: str(
            rng.choice(
                ["", "text = 'seen'", "1=1", "select", "AAAA", "label", "\u0000", "euclidean", "a" * 500]
            )
        ),
        lambda: [float(each) for each in rng.normal(size=int(rng.choice([R, R, 1, 0])))],
        lambda: [[float(each) for each in rng.normal(size=R)] for _ in range(int(rng.integers(0, 4)))],
        lambda: [int(each) for each in rng.integers(-1, 60, size=int(rng.integers(0, 5)))],
        lambda: [
            [int(each) for each in rng.integers(-1, 18, size=M)] for _ in range(int(rng.integers(0, 3)))
        ],
        lambda: {"ids": _value(rng, depth + 1)},
        lambda: {"mask": [True] * int(rng.choice([50, 3]))},
        lambda: {"text": _value(rng, depth + 1)},
        lambda: [_value(rng, depth + 1) for _ in range(int(rng.integers(0, 3)))],
    ]
    usable = makers if depth < 3 else makers[:7]
    return usable[int(rng.integers(len(usable)))]()
