"""Requests to answers: the limits of a service, and how it refuses what exceeds them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from supquant.inputs.parameters import check_integer, check_positive

__all__ = ["Limits", "RefusalError"]


@dataclass(frozen=True)
class Limits:
    """The limits of a service. A request that exceeds one of them is refused with one line of JSON.

    Parameters
    ----------
    max_body : int, default=16 MiB
        Maximum number of bytes of a request's body. More are answered with 413.
    max_k : int, default=10_000
        Maximum number of answers to one query. More are answered with 422.
    max_queries : int, default=1024
        Maximum number of queries per request. More are answered with 422.
    max_rows : int, default=100_000
        Maximum number of rows that a request names, adds or changes. More are answered with 422.
    max_answers : int, default=1_000_000
        Maximum number of answers to all queries of a request. More are answered with 422.
    max_queue : int, default=1024
        Maximum number of waiting requests per index. Further ones are answered with 429.
    max_batch : int, default=64
        Maximum number of queries that share a scan.
    max_wait_ms : float, default=2.0
        A scan waits for clients that were just answered until no query has arrived for this time in milliseconds. A single client
        never waits.
    deadline : float, default=30.0
        The time in seconds after which a request is answered with 504, and a client that sends or reads too slowly is cut off.

    Examples
    --------
    >>> Limits(max_k=100).max_k
    100
    """

    max_body: int = 16 << 20
    max_k: int = 10_000
    max_queries: int = 1024
    max_rows: int = 100_000
    max_answers: int = 1_000_000
    max_queue: int = 1024
    max_batch: int = 64
    max_wait_ms: float = 2.0
    deadline: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "int":
                check_integer(getattr(self, field.name), field.name, 1)
            else:
                check_positive(getattr(self, field.name), field.name)


class RefusalError(Exception):
    """A request is refused.

    Parameters
    ----------
    status : int
        The status of the answer.
    message : str
        One line for the client.
    headers : dict of str to str, default=None
        Further headers of the answer.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = " ".join(message.split())
        self.headers = headers or {}
