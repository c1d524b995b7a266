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
    """The counts and times of a service: of `requests`, and by index of `scans`, `rows`, `saves` and `reloads`."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Requests()
        registry.register(self.requests)
        self.scans = Histogram(
            "supquant_scan_queries",
            "Queries that shared one scan.",
            ("index",),
            buckets=_QUERIES,
            registry=registry,
        )
        self.rows = Gauge("supquant_rows", "Rows of an index.", ("index",), registry=registry)
        self.saves = Counter(
            "supquant_saves", "Saves of an index by this service.", ("index",), registry=registry
        )
        self.reloads = Counter(
            "supquant_reloads", "Saves by other processes that were loaded.", ("index",), registry=registry
        )

    def text(self) -> bytes:
        """Return all counts and times in the text format of Prometheus."""
        return generate_latest(self._registry)


class Requests:
    """Counts and times of requests. Only the thread of the event loop counts them, so they need no locks.

    A counter and a histogram of Prometheus would take three times as long, a tenth of the time of a search in the event loop.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, int], int] = {}
        # By operation: the number in each bucket, and the sum of the times.
        self._times: dict[str, list[float]] = {}

    def add(self, operation: str, index: str, status: int, seconds: float) -> None:
        """Count an answered request. `index` is the name of a served index, or empty."""
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
