"""Requests to answers: counts and times of a service, for Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.process_collector import ProcessCollector

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The media type of the text that Prometheus reads."""

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
"""Upper bounds of the buckets of times, in seconds."""

_QUERIES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Upper bounds of the buckets of the number of queries in one scan."""


class Metrics:
    """The counts and times of a service."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._requests = _Requests()
        self._registry.register(self._requests)
        self._batches = Histogram(
            "supquant_scan_queries",
            "Queries that shared one scan.",
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
            "Saves by other processes that were loaded.",
            ("index",),
            registry=self._registry,
        )

    def request(self, operation: str, index: str, status: int, seconds: float) -> None:
        """Count an answered request. `index` is the name of a served index, or empty."""
        self._requests.add(operation, index, status, seconds)

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
        """Count a save by another process that was loaded."""
        self._reloads.labels(index).inc()

    def text(self) -> bytes:
        """Return all counts and times in the text format of Prometheus."""
        return generate_latest(self._registry)


class _Requests:
    """Counts and times of requests. Only the thread of the event loop counts them, so they need no locks."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[
            str, list[float]
        ] = {}  # by operation: the number in each bucket, and the sum of the times

    def add(self, operation: str, index: str, status: int, seconds: float) -> None:
        """Count one request."""
        key = operation, index, status
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._times.get(operation)
        if times is None:
            times = self._times[operation] = [0.0] * (len(_SECONDS) + 2)
        times[bisect_left(_SECONDS, seconds)] += 1
        times[-1] += seconds

    def collect(self) -> Iterator[Any]:
        """Yield all counts, in the form that the registry of Prometheus expects."""
        requests = CounterMetricFamily(
            "supquant_requests",
            "Answered requests, by operation, index and status.",
            labels=("operation", "index", "status"),
        )
        for (operation, index, status), count in list(self._counts.items()):
            requests.add_metric((operation, index, str(status)), count)
        seconds = HistogramMetricFamily(
            "supquant_request_seconds",
            "Time from the head of a request to its answer.",
            labels=("operation",),
        )
        for operation, times in list(self._times.items()):
            bounds = [*map(str, map(float, _SECONDS)), "+Inf"]
            groups = list(zip(bounds, accumulate(times[:-1]), strict=True))
            seconds.add_metric((operation,), groups, times[-1])
        yield requests
        yield seconds
