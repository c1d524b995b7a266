"""Report: `ShardedIndex` compared with `CodeIndex`: the time of a call, and the time after which a lost shard answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.codec.additive import AdditiveCodec
from supquant.distributed import ProcessWorkers, RayWorkers, ShardedIndex
from supquant.index import CodeIndex
from supquant_lab.bench.cluster.fitting import kill_worker

SHARDS, BYTES, K, BATCH = 2, 8, 10, 64
"""Number of shards, bytes of a code, answers to a query, and queries of a batch."""

CALLS = 10
"""Single queries are timed this many times as often as batches: they take little time, and the first ones are slower."""

LOSSES = 5
"""How often a worker is killed to see when its shard answers again."""


def measure_shards(folder: Path, kind: str, small: int, large: int, rounds: int) -> dict[str, Any]:
    """Search random codes in one index and in shards, in turn.

    Parameters
    ----------
    folder : Path
        For the folders of the indexes.
    kind : {"processes", "ray"}
        What holds the shards: local processes, or actors of Ray on this machine.
    small : int
        Codes of the index that shows the overhead of a call.
    large : int
        Codes of the index that shows the overhead of a batch.
    rounds : int
        How often each side searches a batch, and a tenth of how often it searches a single query; medians count.

    Returns
    -------
    dict
        `call` and `batch`: the median and the best time of each side, processor time of this process, and the overhead of
        medians and of best times. `recovery_seconds` of each loss, and whether all answers were `equal`.
    """
    rng = np.random.default_rng(0)
    codec = AdditiveCodec(rng.normal(size=(BYTES, 256, 16)).astype(np.float32))
    Q = rng.normal(size=(BATCH, 16)).astype(np.float32)
    record: dict[str, Any] = {"shards": SHARDS, "bytes": BYTES}
    equal = True
    if kind == "ray":
        _start_ray()
    with ProcessWorkers(SHARDS) if kind == "processes" else RayWorkers(SHARDS) as workers:
        for name, n, queries, times in (("call", small, Q[:1], CALLS * rounds), ("batch", large, Q, rounds)):
            codes = rng.integers(256, size=(n, BYTES), dtype=np.uint8)
            whole = CodeIndex(codec).add_codes(codes)
            sharded = ShardedIndex(_write_shards(folder / name, codec, codes), workers=workers)
            sides: dict[str, Callable[[], Any]] = {
                "one": partial(whole.search, queries, K, n_jobs=SHARDS),
                "shards": partial(sharded.search, queries, K),
            }
            record[name], same = _compare(sides, times)
            record[name] |= {"codes": n, "queries": len(queries)}
            equal &= same
        expected = whole.search(Q, K)
        record["recovery_seconds"] = []
        for _ in range(LOSSES):
            kill_worker(workers, 1)
            began = time.perf_counter()
            found = sharded.search(Q, K)
            record["recovery_seconds"].append(time.perf_counter() - began)
            equal &= _are_equal(found, expected)
    return {**record, "equal": equal}


def _start_ray() -> None:
    """Start Ray on this machine. Without an address it would look for the cluster of a fit that has ended."""
    import ray  # noqa: PLC0415  # an extra

    if not ray.is_initialized():
        ray.init("local", num_cpus=SHARDS, include_dashboard=False, log_to_driver=False)


def _write_shards(folder: Path, codec: AdditiveCodec, codes: Array) -> list[Path]:
    folders = []
    for number, part in enumerate(np.array_split(codes, SHARDS)):
        folders.append(folder / str(number))
        folders[-1].mkdir(parents=True)
        CodeIndex(codec).add_codes(part).save(folders[-1])
    return folders


def _compare(sides: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, Any], bool]:
    """Time both sides in turn; return the figures, and whether all answers were equal."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    processor: dict[str, list[float]] = {side: [] for side in sides}
    equal = True
    for search in sides.values():
        search()  # the first search checks the files
    for _ in range(rounds):
        answers = {}
        for side, search in sides.items():
            began, worked = time.perf_counter(), time.process_time()
            answers[side] = search()
            times[side].append(time.perf_counter() - began)
            processor[side].append(time.process_time() - worked)
        equal &= _are_equal(answers["one"], answers["shards"])
    medians = {side: 1e3 * float(np.median(each)) for side, each in times.items()}
    best = {side: 1e3 * min(each) for side, each in times.items()}
    figures = {
        "ms": medians,
        "best_ms": best,
        "processor_ms": {side: 1e3 * float(np.median(each)) for side, each in processor.items()},
        "overhead_ms": medians["shards"] - medians["one"],
        "best_overhead_ms": best["shards"] - best["one"],
        "overhead_share": medians["shards"] / medians["one"] - 1,
        "best_overhead_share": best["shards"] / best["one"] - 1,
    }
    return figures, equal


def _are_equal(some: Any, others: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))
