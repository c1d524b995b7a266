"""What runs inside a worker: tasks, one after the other, with a memory that outlives them.

A request names a task, an item of its work, and the fingerprint of what all items of a pass have in common, such as a model. A
worker keeps the common part of the last pass. It refuses a request with another fingerprint, and is then sent that common part.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import xxhash

from supquant.system import open_pipe, wait_for_end

__all__ = ["Answer", "Memory", "Packed", "Request", "Task", "Worker", "pack", "pack_message", "serve"]

Memory = dict[str, Any]
"""What a worker keeps between tasks. It is lost with the worker, so every task can restore what it needs."""

Task = Callable[[Memory, Any, Any], Any]
"""A function of a module: it takes the memory of the worker, the common part of the pass and an item, and returns a result."""


@dataclass(frozen=True)
class Request:
    """An item of work."""

    number: int
    task: Task
    fingerprint: str  # of the common part
    item: Any


@dataclass(frozen=True)
class Answer:
    """The result of a request, or what went wrong."""

    number: int
    fingerprint: str
    result: Any = None
    error: BaseException | None = None
    is_stale: bool = False  # whether the worker has a different common part than the request needs


@dataclass(frozen=True)
class Packed:
    """An object as bytes, and their fingerprint."""

    data: bytes
    fingerprint: str


def pack(value: object) -> Packed:
    """Pickle an object.

    Examples
    --------
    >>> pack(1).fingerprint == pack(1).fingerprint, pack(1).fingerprint == pack(2).fingerprint
    (True, False)
    """
    data = pickle.dumps(value, protocol=5)
    return Packed(data, xxhash.xxh3_128_hexdigest(data))


class Worker:
    """Runs the tasks that it is sent. The same class serves in a local process and in an actor of Ray."""

    def __init__(self) -> None:
        self._memory: Memory = {}
        self._common: Any = None
        self._fingerprint = ""

    def run(self, request: bytes | memoryview, common: bytes | memoryview | None = None) -> bytes:
        """Run one task and return its `Answer`.

        Parameters
        ----------
        request : bytes
            A pickled `Request`.
        common : bytes or None, default=None
            The pickled common part of the pass. None if the worker should have it.

        Returns
        -------
        bytes
            The pickled `Answer`. An exception of the task is part of the answer.
        """
        if common is not None:
            self._common, self._fingerprint = None, ""  # two common parts need not fit into memory
            self._common = pickle.loads(common)
            self._fingerprint = xxhash.xxh3_128_hexdigest(common)
        asked: Request = pickle.loads(request)
        if asked.fingerprint != self._fingerprint:
            return _packed_answer(Answer(asked.number, self._fingerprint, is_stale=True))
        try:
            result = asked.task(self._memory, self._common, asked.item)
        except Exception as error:  # noqa: BLE001  # it is raised where the answer is read
            return _packed_answer(Answer(asked.number, self._fingerprint, error=error))
        return _packed_answer(Answer(asked.number, self._fingerprint, result))


def _packed_answer(answer: Answer) -> bytes:
    try:
        return pickle.dumps(answer, protocol=5)
    except Exception as error:  # noqa: BLE001  # what cannot be pickled is described in words
        kind = MemoryError if isinstance(error, MemoryError) else RuntimeError
        told = kind(f"{answer.error or type(answer.result).__name__!r} cannot be sent back: {error}")
        return pickle.dumps(Answer(answer.number, answer.fingerprint, error=told), protocol=5)


def pack_message(request: bytes, common: bytes | None) -> bytes:
    """Return the arguments of `Worker.run` as one message, which costs less than several."""
    return b"".join((_SIZES.pack(len(request), common is not None), request, common or b""))


def _unpack_message(message: bytes) -> tuple[memoryview, memoryview | None]:
    n_bytes, has_common = _SIZES.unpack_from(message)
    rest = memoryview(message)[_SIZES.size :]
    return rest[:n_bytes], rest[n_bytes:] if has_common else None


_SIZES = struct.Struct("<Q?")
"""The number of bytes of a request, and whether a common part follows it."""


def serve(descriptor: int) -> None:
    """Run the tasks that come through a pipe, until its other end is closed. If the driver ends, so does this process."""
    connection = open_pipe(descriptor)
    threading.Thread(target=_end_without_driver, args=(os.getppid(),), daemon=True).start()
    worker = Worker()
    try:
        while True:
            connection.send_bytes(worker.run(*_unpack_message(connection.recv_bytes())))
    except (EOFError, ConnectionError):
        return  # the driver has ended or has given up the worker


def _end_without_driver(driver: int) -> None:
    """End this process when the driver has ended. Without this, a worker would finish a long task first."""
    wait_for_end(driver)
    os._exit(1)
