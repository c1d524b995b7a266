"""Requests to answers: counts and times of a service, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.process_collector import ProcessCollector

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text that Prometheus reads."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
"""Bounds of the groups of times in seconds."""

_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Bounds of the groups of numbers of queries in one scan."""


class Metrics:
    """The counts and times of one service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = Counter(
            "supquant_requests",
            "Answered requests, by operation, index and status.",
            ("operation", "index", "status"),
            registry=self._registry,
        )
        self._by_request: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._seconds = Histogram(
            "supquant_request_seconds",
            "Time from the head of a request to its answer.",
            ("operation",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._batches = Histogram(
            "supquant_scan_queries",
            "Queries that were joined into one scan.",
            ("index",),
            buckets=_QUERIES,
            registry=self._registry,
        )
        self._rows = Gauge("supquant_rows", "Rows of an index.", ("index",), registry=self._registry)
        self._saves = Counter(
            "supquant_saves", "Saves of an index by this service.", ("index",), registry=self._registry
        )
        self._reloads = Counter(
            "supquant_reloads",
            "Saves by other processes that were taken over.",
            ("index",),
            registry=self._registry,
        )

    def request(self, operation: str, index: str, status: int, seconds: float) -> None:
        """Count an answered request. `index` is the name of a served index, or empty."""
        key = operation, index, status
        if key not in self._by_request:  # to look labels up takes longer than to count
            self._by_request[key] = (
                self._requests.labels(operation, index, str(status)),
                self._seconds.labels(operation),
            )
        counter, histogram = self._by_request[key]
        counter.inc()
        histogram.observe(seconds)

    def scan(self, index: str, n_queries: int) -> None:
        """Count a scan."""
        self._batches.labels(index).observe(n_queries)

    def rows(self, index: str, n_rows: int) -> None:
        """Note the number of rows of an index."""
        self._rows.labels(index).set(n_rows)

    def save(self, index: str) -> None:
        """Count a save by this service."""
        self._saves.labels(index).inc()

    def reload(self, index: str) -> None:
        """Count a save by another process that was taken over."""
        self._reloads.labels(index).inc()

    def text(self) -> bytes:
        """Return all counts and times in the text format of Prometheus."""
        return generate_latest(self._registry)
