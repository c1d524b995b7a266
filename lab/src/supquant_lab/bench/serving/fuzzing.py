"""Report: odd and hostile requests over pipelined connections, to a service and to one that reads by uvicorn's own protocol.

Both get the same bytes and must give the same answers: status, headers and body. They hold the same index.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from supquant import CodeIndex
from supquant_lab.bench.process import temporary_folder
from supquant_lab.bench.serving.checked import M, make_codec
from supquant_lab.bench.serving.comparing import SECRET, difference
from supquant_lab.bench.serving.exchange import Connection, talk
from supquant_lab.bench.serving.pipelines import Plan
from supquant_lab.bench.serving.process import ServiceProcess, failures_at_end, growth_of, write_tokens
from supquant_lab.machine import describe_machine

LANES = ("amber", "brine", "cedar", "delta")
"""The names of the indexes. Each is asked by one connection at a time, so that its changes come in one order."""

MAX_FAILURES = 20
"""The number of failures after which no further requests are sent."""


def bench_fuzzing(
    n_requests: int, seed: int = 0, on_progress: Callable[[int, list[str]], None] | None = None
) -> dict[str, Any]:
    """Send odd requests to a service and to one that reads by uvicorn's own protocol, and compare all answers.

    Parameters
    ----------
    n_requests : int
        Number of requests.
    seed : int, default=0
        Seed of all choices.
    on_progress : callable, optional
        Gets the number of requests that were sent, and the failures so far, now and then.

    Returns
    -------
    dict
        A record for `json`: how often each status came, the memory of the service in MB, and ``failures``, which should be empty.
    """
    began = time.monotonic()
    memory: list[float] = []
    with temporary_folder() as place, contextlib.ExitStack() as stack:
        services = []
        for part, module in (("ours", "supquant"), ("theirs", "supquant_lab.bench.serving.uvicorns_own")):
            (place / part).mkdir()
            named = write_folders(place / part)
            options = ("--token-file", write_tokens(place / part), "--max-body", 200_000, "--deadline", 10)
            folders = (f"{name}={folder}" for name, folder in named.items())
            services.append(stack.enter_context(ServiceProcess(*folders, *options, module=module)))

        def note(found: Found) -> None:
            memory.append(services[0].memory_mb())
            if on_progress is not None:
                on_progress(found.requests, found.failures)

        found = fuzz(services[0].url, services[1].url, n_requests, seed, note)
        ends = [service.end() for service in services]
    failures = found.failures
    failures += failures_at_end(*ends[0])
    failures += [f"that of uvicorn ended with {ends[1][0]}"] if ends[1][0] else []
    sizes, growth = growth_of(memory)
    failures += growth
    return {
        "benchmark": "serve-fuzzing",
        "requests": found.requests,
        "connections": found.connections,
        "seed": seed,
        "minutes": (time.monotonic() - began) / 60,
        "compared": found.compared,
        "statuses": {str(status): count for status, count in sorted(found.statuses.items())},
        "memory_mb": sizes,
        "failures": failures,
        "machine": describe_machine(),
    }


def write_folders(place: Path) -> dict[str, Path]:
    """Write an index for each lane and a hidden one; return the folders by name."""
    codes = np.random.default_rng(0).integers(0, 16, size=(50, M))
    for name in (*LANES, "hidden"):
        text = SECRET if name == "hidden" else "seen"
        CodeIndex(make_codec()).add_codes(codes, metadata={"text": [text] * 50}).save(place / name)
    return {name: place / name for name in (*LANES, "hidden")}


@dataclass
class Found:
    """What was sent and answered so far."""

    requests: int = 0
    connections: int = 0
    compared: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


def fuzz(
    url: str, other: str, n_requests: int, seed: int, on_progress: Callable[[Found], None] | None = None
) -> Found:
    """Send requests to two services with the folders of `write_folders`, and compare their answers.

    Parameters
    ----------
    url : str
        The address of the service.
    other : str
        The address of one that reads by uvicorn's own protocol.
    n_requests : int
    seed : int
    on_progress : callable, optional
        Gets what was found so far, now and then.
    """
    found = Found()

    async def run() -> None:
        lanes = [
            asyncio.ensure_future(
                _run_lane(url, other, name, n_requests, random.Random(f"{seed} {name}"), found)
            )
            for name in LANES
        ]
        while not all(lane.done() for lane in lanes):
            await asyncio.wait(lanes, timeout=1.0)
            if on_progress is not None:
                on_progress(found)
        await asyncio.gather(*lanes)

    uvloop.run(run())
    return found


async def _run_lane(
    url: str, other: str, name: str, n_requests: int, rng: random.Random, found: Found
) -> None:
    while found.requests < n_requests and len(found.failures) < MAX_FAILURES:
        plan = Plan.draw(rng, name)
        found.requests += plan.n_drawn
        found.connections += 1
        seed = rng.random()  # both get the same pieces
        ours = Connection(plan, random.Random(seed))
        theirs = Connection(plan, random.Random(seed))
        try:
            await asyncio.gather(ours.open(url), theirs.open(other))
            await talk(plan, ours, theirs)
        finally:
            ours.close()
            theirs.close()
        found.compared += min(len(ours.answers), len(theirs.answers))
        found.statuses.update(each.status for each in ours.answers)
        if (wrong := difference(plan, ours, theirs)) is not None:
            statuses = [[each.status for each in one.answers] for one in (ours, theirs)]
            found.failures.append(
                f"{name}: {wrong[:1500]}; {statuses[0]} instead of {statuses[1]}; "
                f"sent {plan.plain!r} and {'then' if plan.at_once else 'later'} {plan.last!r}"[:9000]
            )
