"""Report: what is sent over one connection to a service, and what the parser alone makes of it.

The parser says what to wait for: how many requests there are, and which bytes are none.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple

import httptools

from supquant.serve.connections import SINGLE
from supquant_lab.bench.serving.mutations import draw_request, without_upgrade
from supquant_lab.bench.serving.process import WRITE

MAX_PIPELINED = 16
"""The maximum number of requests that are sent over one connection."""


class Message(NamedTuple):
    """A request as the parser reads it."""

    method: bytes
    url: bytes
    closes: bool


@dataclass
class Plan:
    """What is sent over one connection.

    Attributes
    ----------
    n_drawn : int
        The number of requests that were drawn.
    stream : bytes
        Requests that the parser takes.
    plain : bytes
        The same without offers of other protocols, which uvicorn would not ignore.
    messages : list of Message
        The requests that a service sees in the stream, up to one that closes the connection.
    methods : list of bytes
        Their methods, and that of the bytes that are refused if they begin with a whole head.
    open : bool
        Whether the last one of them has no end.
    last : bytes
        Bytes behind the stream that the service refuses.
    refusal : int
        The status of that refusal: 400 for bytes that are no request.
    valid : bool
        Whether uvicorn takes these bytes. Then they are not sent there.
    closes : bool
        Whether they begin with a head that closes the connection. An answer to it may come before the refusal, and instead of it.
    at_once : bool
        Whether these bytes follow at once. Otherwise everything before is answered first.
    """

    n_drawn: int
    stream: bytes
    plain: bytes
    messages: list[Message]
    methods: list[bytes]
    open: bool
    last: bytes
    refusal: int
    valid: bool
    closes: bool
    at_once: bool

    @classmethod
    def draw(cls, rng: random.Random, name: str) -> Plan:
        """Draw requests for one connection."""
        stream, plain, last, n_drawn = b"", b"", b"", 0
        reading = after = _Reading(b"")
        for _ in range(rng.randrange(1, MAX_PIPELINED + 1)):
            drawn = draw_request(rng, name)
            n_drawn += 1
            own = without_upgrade(drawn)
            after = reading.continued(own)
            if after.refusal:
                whole = after.length_of_whole() - len(plain)
                if whole > 0:  # a request before the bytes that are none
                    stream, plain, reading = (
                        stream + own[:whole],
                        plain + own[:whole],
                        reading.continued(own[:whole]),
                    )
                    own = own[whole:]
                if not reading.closes:
                    last = own
                break
            stream, reading = stream + drawn, after
            if reading.closes and reading.whole:
                # What follows in the same bytes is nothing to a service, and uvicorn refuses it before it answers.
                own = own[: reading.length_of_whole() - len(plain)]
            plain += own
            if reading.closes:
                break
        return cls(
            n_drawn=n_drawn,
            stream=stream,
            plain=plain,
            messages=reading.messages,
            methods=[each.method for each in after.messages],
            open=not reading.whole,
            last=last,
            refusal=after.refusal,
            valid=after.valid,
            closes=bool(last) and after.closes,
            # uvicorn may then refuse before it has made a change that comes before, and the two indexes would differ.
            at_once=rng.random() < 0.3 and WRITE.encode() not in stream,
        )


class _Reading:
    """What the parser makes of a stream of bytes.

    Attributes
    ----------
    messages : list of Message
        The requests up to bytes that are refused.
    whole : bool
        Whether the last of them has its end.
    closes : bool
        Whether it closes the connection.
    refusal : int
        The status with which a service refuses what follows. 0 if there is nothing to refuse.
    valid : bool
        Whether that is a request, which uvicorn would take.
    """

    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self.messages: list[Message] = []
        self.n_whole = 0
        self.refusal, self.valid = 0, False
        self._names: list[bytes] = []
        self._url = b""
        self._parser = httptools.HttpRequestParser(self)
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        try:
            self._parser.feed_data(stream)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.refusal = self.refusal or 400

    @property
    def whole(self) -> bool:
        return self.n_whole == len(self.messages)

    @property
    def closes(self) -> bool:
        return bool(self.messages) and self.messages[-1].closes

    def continued(self, more: bytes) -> _Reading:
        """Return the reading of the stream and what follows it."""
        return _Reading(self._stream + more)

    def length_of_whole(self) -> int:
        """Return the length of all requests that have their end."""
        low, high = 0, len(self._stream)
        while low < high:
            middle = (low + high) // 2
            if _Reading(self._stream[:middle]).n_whole < self.n_whole:
                low = middle + 1
            else:
                high = middle
        return low

    def on_message_begin(self) -> None:
        self._names, self._url = [], b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._names.append(name.lower())

    def on_headers_complete(self) -> None:
        method = self._parser.get_method()
        twice = any(self._names.count(each) > 1 for each in SINGLE)
        if twice or method == b"CONNECT":
            self.refusal, self.valid = 400 if twice else 405, True
            raise ValueError("the service refuses this")
        httptools.parse_url(self._url).path.decode("ascii")
        closes = self._parser.get_http_version() == "1.0" or not self._parser.should_keep_alive()
        self.messages.append(Message(method, self._url, closes))

    def on_message_complete(self) -> None:
        self.n_whole += 1
