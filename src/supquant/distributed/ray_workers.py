"""Workers that are actors of a Ray cluster. Only this module needs Ray, and of Ray only actors and object references."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from supquant.distributed.pool import Lost, Workers
from supquant.distributed.worker import Worker
from supquant.errors import InputError, WorkerError
from supquant.inputs.parameters import check_integer
from supquant.interrupts import check_interrupt

__all__ = ["RayWorkers"]

START_SECONDS = 60.0
"""An actor that has not started after this time is given up: the cluster has no room for it."""

LARGE_BYTES = 1 << 17
"""A common part of more bytes than this is put into the object store once, and every node fetches it once."""


class RayWorkers(Workers):
    """Actors of a Ray cluster that run tasks.

    If Ray is not connected, it is connected to the cluster that ``RAY_ADDRESS`` names, or started on this machine, without its
    dashboard and for this machine alone. If a program has imported Ray before, Ray listens to all addresses.

    Parameters
    ----------
    n_workers : int or None, default=None
        The number of actors. None takes one for each processor of the cluster, or for each GPU if `actor_options` ask for one.
    actor_options : mapping or None, default=None
        Options of the actors as Ray takes them, such as ``{"num_cpus": 4, "memory": 8e9}`` or ``{"num_gpus": 1}``. One processor
        for each actor by default, spread over the nodes.
    restarts : int, default=3
        How often lost actors are started again in one pass, all actors together.
    """

    def __init__(
        self,
        n_workers: int | None = None,
        *,
        actor_options: Mapping[str, Any] | None = None,
        restarts: int = 3,
    ) -> None:
        self._ray = _connected_ray()
        options: dict[str, Any] = {"num_cpus": 1, "scheduling_strategy": "SPREAD"} | dict(actor_options or {})
        if n_workers is None:
            there = self._ray.cluster_resources()
            n_workers = int(there.get("CPU", 1) / max(float(options["num_cpus"]), 1e-3))
            if gpus := float(options.get("num_gpus", 0)):
                n_workers = min(n_workers, int(there.get("GPU", 0) / gpus))
            n_workers = max(1, n_workers)
        self._memory = options.get("memory")
        self._actor = self._ray.remote(Worker).options(**options)
        self._actors: dict[int, Any] = {}
        self._answers: dict[int, Any] = {}  # references of the answers that are not read yet
        self._stored: tuple[bytes, Any] | None = None  # the last large common part, and its reference
        super().__init__(check_integer(n_workers, "n_workers", 1), restarts)

    def _start(self, numbers: list[int]) -> None:
        waiting = {self._begin(number): number for number in numbers}
        began = time.monotonic()
        reason = ""
        while waiting:
            check_interrupt()
            done, _ = self._ray.wait(list(waiting), timeout=0.2)
            for reference in done:
                number = waiting.pop(reference)
                try:
                    self._ray.get(reference)
                except self._ray.exceptions.RayError as error:
                    # The cluster may have placed it on a node that is gone, and not know it yet.
                    reason = f": {_in_one_line(error)}"
                    time.sleep(0.2)
                    waiting[self._begin(number)] = number
            if waiting and time.monotonic() - began > START_SECONDS:
                for number in numbers:
                    self._stop(number)
                resources = self._ray.available_resources()
                raise WorkerError(
                    f"{len(waiting)} of {self.n_workers} workers did not start in {START_SECONDS:.0f} s; free in the cluster: "
                    f"{resources.get('CPU', 0):g} processors, {resources.get('memory', 0) / 1e9:.1f} GB{reason}"
                )

    def _begin(self, number: int) -> Any:
        """Ask for an actor, and return the reference of the answer that says that it runs."""
        self._actors[number] = self._actor.remote()
        return self._actors[number].__ray_ready__.remote()

    def _send(self, number: int, request: bytes, common: bytes | None) -> None:
        sent: Any = common
        if common is not None and len(common) > LARGE_BYTES:
            if self._stored is None or self._stored[0] is not common:
                self._stored = common, self._ray.put(common)
            sent = self._stored[1]
        if number in self._actors:  # `_receive` reports one that could not be started
            self._answers[number] = self._actors[number].run.remote(request, sent)

    def _receive(self, numbers: list[int], seconds: float) -> Iterator[tuple[int, bytes | Lost]]:
        for number in set(numbers) - self._answers.keys():
            yield number, Lost("it could not be started")
        owners = {self._answers[number]: number for number in numbers if number in self._answers}
        if not owners:
            return
        done, _ = self._ray.wait(list(owners), num_returns=1, timeout=seconds)
        for reference in done:
            number = owners[reference]
            del self._answers[number]
            try:
                yield number, self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                yield number, Lost(_in_one_line(error))

    def _stop(self, number: int) -> None:
        self._answers.pop(number, None)
        if (actor := self._actors.pop(number, None)) is not None:
            self._ray.kill(actor)

    def free_bytes(self) -> int:
        """Return the number of bytes of memory for each actor: that of its options, or its share of the cluster's."""
        return int(self._memory or self._ray.cluster_resources().get("memory", 0) / self.n_workers)

    def kill_worker(self, number: int) -> None:
        """Kill an actor as a fault would. It is started again when it is next needed."""
        self._ray.kill(self._actors[number])

    def close(self) -> None:
        """End the actors. The cluster stays connected."""
        self._stored = None
        super().close()


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def _connected_ray() -> Any:
    """Return Ray, connected to the cluster that ``RAY_ADDRESS`` names, or to one that it starts here, for this machine alone."""
    is_own = not os.environ.get("RAY_ADDRESS")
    if is_own:  # Ray reads it when it is imported, and then listens to 127.0.0.1 and to no other address
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        ray = import_module("ray")
    except ModuleNotFoundError:
        raise InputError("pip install 'supquant[ray]' brings Ray, which is needed to use a cluster") from None
    if not ray.is_initialized():
        own: dict[str, Any] = {"address": "local", "include_dashboard": False} if is_own else {}
        ray.init(**own, log_to_driver=False, logging_level=logging.WARNING)
    return ray
