"""Report: one fit in a fresh process, local or with workers, and what happens if a worker or a node is lost during it."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

from supquant.distributed import ProcessRows, ProcessWorkers, RayRows, RayWorkers
from supquant.model import LabelKernel, SupervisedQuantizer
from supquant.model.position import principal_directions
from supquant.sources import open_vectors
from supquant_lab.bench.process import anonymous_mb, run_watched

FAULT_SECONDS = 5.0
"""Seconds from the beginning of a fit to its fault."""


def measure_fit(
    folder: Path, kind: str, n_workers: int, *, bits: int, anchors: int, fault: str = "none"
) -> dict[str, Any]:
    """Fit to the files of a folder in a fresh process.

    Parameters
    ----------
    folder : Path
        Files with the columns `label` and `vector`.
    kind : {"local", "processes", "ray"}
        Where the rows are: in this process, or read by workers.
    n_workers : int
        Number of workers, and of threads of a local fit. A driver has one thread, with which it takes the least memory.
    bits : int
        Length of a code.
    anchors : int
        Anchors of the classifier.
    fault : {"none", "worker", "memory", "node"}, default="none"
        What is lost after `FAULT_SECONDS`: a worker that is killed, one that gets no more memory, or a node.

    Returns
    -------
    dict
        `seconds`, `digest` of model and codes, `driver_mb` above an empty process, `restarts`, and the bytes of one pass.
    """
    found, peak = run_watched(_fit, folder, kind, n_workers, bits, anchors, fault, purpose="measure a fit")
    found["driver_mb"] = peak - found.pop("empty_mb")
    return {"kind": kind, "workers": n_workers, "fault": fault, **found}


def _fit(folder: str, kind: str, n_workers: int, bits: int, anchors: int, fault: str) -> dict[str, Any]:
    empty = anonymous_mb(os.getpid())
    rows: Any = None
    nodes = _Nodes() if kind == "ray" else None
    if kind == "local":
        source = open_vectors(folder, "vector", "label", False)
        X, y = source.X, source.labels
    else:
        rows = (
            RayRows(folder, "vector", "label", num_actors=n_workers, actor_options={"num_cpus": 0.5})
            if nodes
            else ProcessRows(folder, "vector", "label", n_workers=n_workers)
        )
        X, y = rows, rows.labels
    quantizer = SupervisedQuantizer(
        bits // 8,
        features=LabelKernel(anchors),
        max_iter=3,
        random_state=0,
        n_jobs=n_workers if kind == "local" else 1,
    )
    if fault != "none":
        losses = {
            "worker": lambda: kill_worker(rows.workers, 0),
            "memory": lambda: _take_memory(rows.workers),
            "node": nodes.lose if nodes else None,
        }
        lose = losses[fault]
        assert lose is not None
        threading.Timer(FAULT_SECONDS, lose).start()
    began = time.perf_counter()
    quantizer.fit(X, y)
    seconds = time.perf_counter() - began
    codes = quantizer.training_codes_
    record: dict[str, Any] = {
        "empty_mb": empty,
        "seconds": seconds,
        "digest": quantizer.codec_.pack().digest + hashlib.sha256(codes.tobytes()).hexdigest()[:16],
    }
    if rows is not None:
        record["restarts"] = rows.workers.n_restarts
        record["bytes_of_fit"] = {"sent": rows.workers.bytes_sent, "received": rows.workers.bytes_received}
        record["bytes_of_pass"] = _bytes_of_pass(rows)
        rows.close()
    return record


def _bytes_of_pass(rows: Any) -> dict[str, float]:
    """Return the bytes that arrive in the pass for principal directions, and those of its sums alone."""
    before = rows.workers.bytes_received
    principal_directions(rows, 1)
    n_blocks, p = -(-len(rows) // 4096), rows.shape[1]
    whole_runs = n_blocks >= 32 * rows.workers.n_workers
    sums = -(-n_blocks // 16) * 8 * (p + p * p) if whole_runs else n_blocks * (8 * p + 4 * p * p)
    return {"received": rows.workers.bytes_received - before, "computed": sums}


def kill_worker(workers: ProcessWorkers | RayWorkers, number: int) -> None:
    """Kill a worker of either kind."""
    if isinstance(workers, ProcessWorkers):
        os.kill(workers.process_ids()[number], signal.SIGKILL)
    else:
        workers.kill_worker(number)


def _take_memory(workers: ProcessWorkers) -> None:
    """Let a process get no more memory than it has now."""
    process = workers.process_ids()[0]
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
    limit = pages * resource.getpagesize()
    resource.prlimit(process, resource.RLIMIT_AS, (limit, limit))


class _Nodes:
    """A simulated cluster of two nodes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster  # noqa: PLC0415  # an extra

        memory = 200 << 20
        self._cluster = Cluster(
            initialize_head=True,
            connect=False,
            head_node_args={"num_cpus": 2, "object_store_memory": memory, "include_dashboard": False},
        )
        self._second = self._cluster.add_node(num_cpus=2, object_store_memory=memory)
        import ray  # noqa: PLC0415

        ray.init(address=self._cluster.address, log_to_driver=False)

    def lose(self) -> None:
        self._cluster.remove_node(self._second, allow_graceful=False)
