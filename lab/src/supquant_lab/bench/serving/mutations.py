"""Report: requests that are odd, malformed or hostile, as bytes.

`draw_request` writes a request of one of the operations with fields of odd values, and then damages most of them: headers that
come twice, other versions and framings, bytes that were changed, left out or put in.
"""

from __future__ import annotations

import json
import random
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

from supquant.serve.app import OPERATIONS
from supquant_lab.bench.serving.checked import M, R
from supquant_lab.bench.serving.process import READ, WRITE

MUTATED = 0.6
"""The fraction of requests that are damaged."""

_NAMES = (
    *("other", "..", "%2e%2e", "..%2fhidden", "/etc/passwd"),
    *("items%00", "ÿ", "", "items/../hidden", "hidden/"),
)
_PATHS = (
    *("/", "/v1", "/v1/items", "/metrics", "/openapi.json", "/healthz"),
    *("/nothing", "/v1/hidden/../items", "//", "/v1//search", "*", "http://localhost/healthz"),
)
_QUERIES = (
    *("k=1", "k=x", "k=-1&k=2", "ids=1,2", "%", "token=" + READ, "columns=text", "a&b=%ff", "k=3#k=1"),
    *(
        "where=text+%3D+'seen'",
        "k=2&ranking=euclidean",
        "novelty=0.5",
        "?",
        "k=1&state=none",
        "ÿ=1",
        "k=\x7f",
    ),
)
_KINDS = (
    *("application/json",) * 6,
    *("application/octet-stream", "text/plain", "application/json; charset=x", "", "image/png"),
)
_ODD_HEADERS = (
    *("Connection: close", "Connection: keep-alive", "Connection: Keep-Alive, close", "Connection:"),
    *("Content-Length: 3", "Content-Length: 0", "Content-Length: +3", "Content-Length: 99999999999999999999"),
    *("Content-Length: 0x3", "Content-Length : 2", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip"),
    *("Transfer-Encoding: chunked, identity", "Transfer-Encoding:\tchunked ", "Expect: 100-continue"),
    *("Expect: other", "Host: localhost", "Upgrade: h2c\r\nConnection: upgrade", "Upgrade: websocket"),
    *("Connection: upgrade\r\nUpgrade: websocket", "Accept: application/vnd.apache.arrow.stream", "X: ÿ\x01"),
    *("A: 1\r\n 2", "X" * 300 + ": 1", "A: " + "1" * 3000, ": 1", "A", "\x00: 1", "A: \x00", "a b: 1"),
    *("Content-Type: text/plain", "Authorization: Bearer " + READ, "Authorization: Bearer", "Date: now"),
    *("X-Forwarded-For: 1.2.3.4", "Forwarded: host=elsewhere", "Cookie: a=b", "Range: bytes=0-1"),
)
_ODD_BYTES = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b":", b"/", b"?", b"#", b"%", b"\xff", b"0", b"9", b"-"),
    *(b"\r\n\r\n", b"{", b"HTTP/1.1", b"GET ", b"\x0b", b";", b",", b"  "),
)
_TEXTS = ("", "text = 'seen'", "1=1", "select", "AAAA", "label", "\u0000", "euclidean", "a" * 500)
_NO_REQUESTS = (
    *(
        b"\x00\xff\x16\x03\x01",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"A" * 9000,
        b"Content-Length: -1\r\n\r\n",
    ),
    *(b"GET /\xff HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    *(b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\r\n\r\n", b" GET / HTTP/1.1\r\n\r\n"),
)


def draw_request(rng: random.Random, name: str) -> bytes:
    """Return a request about an index, mostly damaged."""
    if rng.random() < 0.01:
        return rng.choice(_NO_REQUESTS)
    lines, body = _draw_parts(rng, name)
    if rng.random() > MUTATED:
        return _joined(lines, body)
    kind = rng.random()
    if kind < 0.5:
        _mutate_lines(rng, lines)
    if kind > 0.4:
        body = _mutate_framing(rng, lines, body)
    whole = _joined(lines, body)
    return _mutate_bytes(rng, whole) if rng.random() < 0.3 else whole


def _joined(lines: Sequence[str], body: bytes) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


def _draw_parts(rng: random.Random, name: str) -> tuple[list[str], bytes]:
    """Return the lines of the head and the body of a request that is valid HTTP, but may be wrong in every other way."""
    if rng.random() < 0.1:
        name = rng.choice(_NAMES)
    # Searches take another way than the rest, so there are more of them.
    chosen = OPERATIONS[0] if rng.random() < 0.4 else rng.choice(OPERATIONS)
    path = chosen.path.replace("{index}", name)
    if rng.random() < 0.05:
        path = rng.choice(_PATHS)
    if rng.random() < 0.2:
        path += "?" + rng.choice(_QUERIES)
    method = chosen.method if rng.random() < 0.95 else rng.choice(["GET", "POST", "PUT", "DELETE", "HEAD"])
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    if rng.random() < 0.97:
        # Few requests may change rows: the index should stay small.
        token = READ if rng.random() < 0.9 else rng.choice([WRITE, "wrong", READ[:-1], ""])
        lines.append(f"Authorization: {'Bearer' if rng.random() < 0.97 else 'Basic'} {token}")
    kind = rng.choice(_KINDS)
    if kind:
        lines.append(f"Content-Type: {kind}")
    if method != "POST":
        return lines, b""
    if kind == "application/octet-stream" and rng.random() < 0.8:
        body = struct.pack(f"<{R}f", *_vector(rng)) * rng.randrange(1, 4)
    else:
        body = _draw_body(rng, tuple(chosen.body or ()))
    lines.append(f"Content-Length: {len(body)}")
    return lines, body


def _mutate_lines(rng: random.Random, lines: list[str]) -> None:
    """Damage the lines of a head."""
    for _ in range(rng.randrange(1, 3)):
        place = rng.randrange(1, len(lines) + 1)
        kind = rng.random()
        if kind < 0.5:
            lines.insert(place, rng.choice(_ODD_HEADERS))
        elif kind < 0.6 and len(lines) > 1:
            del lines[min(place, len(lines) - 1)]
        elif kind < 0.7:
            lines.insert(place, rng.choice(lines))
        elif kind < 0.8:
            lines[0] = lines[0].replace(
                "HTTP/1.1", rng.choice(["HTTP/1.0", "HTTP/2.0", "HTTP/1.2", "http/1.1", ""])
            )
        elif kind < 0.9:
            number = rng.randrange(len(lines))
            lines[number] = lines[number].upper() if rng.random() < 0.5 else lines[number].lower()
        else:
            method, _, rest = lines[0].partition(" ")
            other = rng.choice(
                ["HEAD", "OPTIONS", "post", "PATCH", "BREW", "TRACE", method + method, "M-SEARCH"]
            )
            lines[0] = f"{other} {rest}"


def _mutate_framing(rng: random.Random, lines: list[str], body: bytes) -> bytes:
    """Send the body of a request in chunks, or with another length."""
    number = next((n for n, line in enumerate(lines) if line.lower().startswith("content-length")), None)
    if number is None:
        return body
    if rng.random() < 0.8:
        lines[number] = "Transfer-Encoding: chunked"
        chunks = []
        while body:
            size = rng.randrange(1, len(body) + 1)
            extension = rng.choice(["", "", "", ";a=b", " ", ";"])
            chunks.append(f"{size:x}{extension}\r\n".encode() + body[:size] + b"\r\n")
            body = body[size:]
        trailer = rng.choice(
            ["", "", "", "A: 1\r\n", "Host: elsewhere\r\n", "Content-Length: 5\r\n", "A\r\n"]
        )
        return b"".join(chunks) + b"0\r\n" + trailer.encode() + b"\r\n"
    lines[number] = f"Content-Length: {max(0, len(body) + rng.randrange(-3, 4))}"
    return body


def _mutate_bytes(rng: random.Random, whole: bytes) -> bytes:
    """Change, leave out or put in a few bytes, mostly of the head."""
    content = bytearray(whole)
    for _ in range(rng.randrange(1, 4)):
        end = content.find(b"\r\n\r\n") if rng.random() < 0.8 else len(content)
        place = rng.randrange(max(1, end))
        kind = rng.random()
        if kind < 0.3:
            content[place] = rng.randrange(256)
        elif kind < 0.5:
            del content[place : place + rng.randrange(1, 4)]
        else:
            content[place:place] = rng.choice(_ODD_BYTES)
        if not content:
            break
    return bytes(content)


def without_upgrade(request: bytes) -> bytes:
    """Return a request without the headers that offer another protocol."""
    return re.sub(rb"(?i)\r\nupgrade:[\t -~\x80-\xff]*(?=\r\n)", b"", request)


def _draw_body(rng: random.Random, fields: tuple[str, ...]) -> bytes:
    """Return a body: fields of an operation with odd values, broken JSON, or bytes."""
    kind = rng.random()
    if kind < 0.1:
        return rng.randbytes(rng.randrange(300))
    if kind < 0.101:
        return b"[" * 100_000
    if kind < 0.102:
        return b" " * 250_000
    names = [name for name in fields if rng.random() < 0.5]
    names += ["unknown"] if rng.random() < 0.03 else []
    text = json.dumps({name: _value(rng) for name in names})
    if kind < 0.2:
        return text[: rng.randrange(len(text))].encode()
    return text.encode()


def _value(rng: random.Random, depth: int = 0) -> Any:
    """Return a value that a field may or may not be allowed to hold."""
    makers: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.random() < 0.5,
        lambda: rng.randrange(-3, 60),
        lambda: rng.choice([2**31, 2**63 - 1, -(2**63), 10**30]),
        rng.gauss,
        lambda: rng.choice([1e300, -1e300, 1e-300]),
        lambda: rng.choice(_TEXTS),
        lambda: _vector(rng, rng.choice([R, R, 1, 0])),
        lambda: [_vector(rng) for _ in range(rng.randrange(4))],
        lambda: [rng.randrange(-1, 60) for _ in range(rng.randrange(5))],
        lambda: [[rng.randrange(-1, 18) for _ in range(M)] for _ in range(rng.randrange(3))],
        lambda: {"ids": _value(rng, depth + 1)},
        lambda: {"mask": [True] * rng.choice([50, 3])},
        lambda: {"text": _value(rng, depth + 1)},
        lambda: [_value(rng, depth + 1) for _ in range(rng.randrange(3))],
    ]
    usable = makers if depth < 3 else makers[:7]
    return rng.choice(usable)()


def _vector(rng: random.Random, width: int = R) -> list[float]:
    return [rng.gauss() for _ in range(width)]
