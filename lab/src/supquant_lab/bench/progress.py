"""Report: how honest the progress of a fit is: when the first words come, and how right the time left is."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from supquant import SupervisedQuantizer
from supquant.inputs.parameters import resolve_jobs
from supquant_lab.machine import describe_machine
from supquant_lab.problem import pose

if TYPE_CHECKING:
    from collections.abc import Sequence

    from supquant.progress import Progress
    from supquant_lab.datasets import Dataset

JUDGED_FROM = 0.2
"""Forecasts are judged from this share of the time of a fit on."""

SLACK_SECONDS = 1.0
"""Seconds that are added to the forecast and to the time that was left: half a second may well be foretold as one."""

FIRST_LIMIT, RATIO_LIMIT = 1.0, 2.0
"""The first words should come within this number of seconds, and forecasts should be right within this factor."""


def bench_progress(
    dataset: Dataset, *, bits: int = 64, seed: int = 0, n_jobs: int | None = None
) -> dict[str, Any]:
    """Fit the default method to the training rows of a data set, and record every event of its progress.

    Parameters
    ----------
    dataset : Dataset
    bits : int
        Length of a code.
    seed : int
        Of the split and of the fit.
    n_jobs : int, optional
        Number of threads; all cores if None.

    Returns
    -------
    dict
        A record for `json`. `first_seconds` is the time of the first event. `worst_ratio` is the largest factor between the
        time left that was told and the one that was true, from `JUDGED_FROM` of the time on. `worst_ratio_of_work` is the same
        for the shares alone, in processor time: other programs do not disturb it. `longest_silence` is the longest
        time between two events. `stages` has the processor time of every stage, from which the costs of a plan can be set.

    Examples
    --------
    >>> from supquant_lab.datasets import load
    >>> record = bench_progress(load("digits").sample(400), bits=16)
    >>> record["events"][0]["stage"], record["first_seconds"] < record["seconds"]
    ('classifier', True)
    """
    problem = pose(dataset, seed=seed)
    load_before = os.getloadavg()[0]
    events: list[dict[str, Any]] = []
    cpu: list[float] = []
    began, cpu_began = time.perf_counter(), time.process_time()

    def note(progress: Progress) -> None:
        cpu.append(time.process_time() - cpu_began)
        events.append(
            {
                "at": round(time.perf_counter() - began, 3),
                "stage": progress.stage,
                "step": progress.step,
                "share": None if progress.share is None else round(progress.share, 4),
                "remaining": None if progress.remaining is None else round(progress.remaining, 3),
            }
        )

    SupervisedQuantizer(bits // 8, random_state=seed, n_jobs=n_jobs, callback=note).fit(problem.X, problem.y)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    times = [event["at"] for event in events]
    return {
        "benchmark": "progress",
        "dataset": dataset.name,
        "rows": len(problem.X),
        "dimensions": int(problem.X.shape[1]),
        "bits": bits,
        "seed": seed,
        "threads": resolve_jobs(n_jobs),
        "seconds": seconds,
        "processor_seconds": cpu_seconds,
        "load_average_before": load_before,
        "first_seconds": times[0],
        "first_limit": FIRST_LIMIT,
        "worst_ratio": worst_ratio(events, seconds),
        "worst_ratio_of_work": worst_ratio(_told_by_shares(events, cpu), cpu_seconds),
        "ratio_limit": RATIO_LIMIT,
        "longest_silence": max(
            later - earlier for earlier, later in zip([0, *times], [*times, seconds], strict=True)
        ),
        "stages": _cpu_of_stages(events, cpu, cpu_seconds),
        "events": events,
        "machine": describe_machine(),
    }


def worst_ratio(events: Sequence[dict[str, Any]], seconds: float) -> float:
    """Return the largest factor by which a time left was wrong, from `JUDGED_FROM` of all `seconds` on; 1 is right.

    Examples
    --------
    >>> worst_ratio([{"at": 1, "remaining": 90}, {"at": 4, "remaining": 2}, {"at": 9, "remaining": 1}], 10)
    2.3333333333333335
    """
    ratios = [1.0]
    for event in events:
        if event["at"] >= JUDGED_FROM * seconds and event["remaining"] is not None:
            told, true = event["remaining"] + SLACK_SECONDS, seconds - event["at"] + SLACK_SECONDS
            ratios.append(max(told / true, true / told))
    return max(ratios)


def _told_by_shares(events: Sequence[dict[str, Any]], cpu: Sequence[float]) -> list[dict[str, Any]]:
    """Return the processor time of each event, and the one left if the rest of the work goes on as fast."""
    return [
        {"at": at, "remaining": at / event["share"] * (1 - event["share"]) if event["share"] else None}
        for event, at in zip(events, cpu, strict=True)
    ]


def _cpu_of_stages(
    events: Sequence[dict[str, Any]], cpu: Sequence[float], cpu_seconds: float
) -> dict[str, float]:
    """Return the processor time of every stage, up to the beginning of the next one."""
    begun: dict[str, float] = {}
    for event, at in zip(events, cpu, strict=True):
        begun.setdefault(event["stage"], at)
    ends = [*list(begun.values())[1:], cpu_seconds]
    return {stage: round(end - at, 3) for (stage, at), end in zip(begun.items(), ends, strict=True)}
