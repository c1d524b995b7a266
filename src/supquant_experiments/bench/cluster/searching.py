"""`ShardedIndex` beside `CodeIndex` over the same codes: the time of a call, and the time after which a lost shard answers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from supquant.codec import AdditiveCodec
from supquant.distributed import ProcessWorkers, ShardedIndex
from supquant.index import CodeIndex

SHARDS, BYTES, K, BATCH = 2, 8, 10, 64
"""Number of shards, bytes of a code, answers to a query, and queries of a batch."""


def measure_shards(folder: Path, small: int, large: int, rounds: int) -> dict[str, Any]:
    """Search random codes in one index and in shards of local processes, in turn.

    Parameters
    ----------
    folder : Path
        For the folders of the indexes.
    small : int
        Codes of the index that shows the overhead of a call.
    large : int
        Codes of the index that shows the overhead of a batch.
    rounds : int
        How often each side is measured; medians count.

    Returns
    -------
    dict
        `call` and `batch`: the median and the best time of each side, and the overhead of medians. `recovery_seconds`,
        and whether all answers were `equal`.
    """
    rng = np.random.default_rng(0)
    codec = AdditiveCodec(rng.normal(size=(BYTES, 256, 16)).astype(np.float32))
    Q = rng.normal(size=(BATCH, 16)).astype(np.float32)
    record: dict[str, Any] = {"shards": SHARDS, "bytes": BYTES}
    equal = True
    with ProcessWorkers(SHARDS) as workers:
        for name, n, queries in (("call", small, Q[:1]), ("batch", large, Q)):
            codes = rng.integers(256, size=(n, BYTES), dtype=np.uint8)
            folders = []
            for number, part in enumerate(np.array_split(codes, SHARDS)):
                folders.append(folder / f"{name}-{number}")
                CodeIndex(codec).add_codes(part).save(folders[-1])
            whole = CodeIndex(codec).add_codes(codes)
            sharded = ShardedIndex(folders, workers=workers)
            sides: dict[str, Callable[[], Any]] = {
                "one": partial(whole.search, queries, K, n_jobs=SHARDS),
                "shards": partial(sharded.search, queries, K),
            }
            times: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(rounds):
                answers = {}
                for side, search in sides.items():
                    began = time.perf_counter()
                    answers[side] = search()
                    times[side].append(time.perf_counter() - began)
                equal &= _are_equal(answers["one"], answers["shards"])
            medians = {side: 1e3 * float(np.median(each)) for side, each in times.items()}
            record[name] = {
                "codes": n,
                "queries": len(queries),
                "ms": medians,
                "best_ms": {side: 1e3 * min(each) for side, each in times.items()},
                "overhead_ms": medians["shards"] - medians["one"],
                "overhead_share": medians["shards"] / medians["one"] - 1,
            }
        expected = whole.search(Q, K)
        os.kill(workers.process_ids()[1], signal.SIGKILL)
        began = time.perf_counter()
        found = sharded.search(Q, K)
        record["recovery_seconds"] = time.perf_counter() - began
        equal &= _are_equal(found, expected)
    return {**record, "equal": equal}


def _are_equal(some: Any, others: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))
