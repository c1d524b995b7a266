"""A worker that is this process: for tests of what tasks do, and of the driver's part of a pass."""

import os
import resource
import signal
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from supquant.distributed.pool import Workers
from supquant.distributed.worker import Worker


class InlineWorkers(Workers):
    """Runs a task when it is sent."""

    def __init__(self, n_workers=1, *, restarts=3):
        self._workers, self._answers = {}, {}
        super().__init__(n_workers, restarts)

    def free_bytes(self):
        return 1 << 27

    def _start(self, numbers):
        self._workers |= {number: Worker() for number in numbers}

    def _send(self, number, request, common):
        self._answers[number] = self._workers[number].run(request, common)

    def _receive(self, numbers, seconds):
        for number in numbers:
            yield number, self._answers.pop(number)

    def _stop(self, number):
        self._workers.pop(number, None)


# tasks ------------------------------------------------------------------------------------------------------------------


def add_common(memory, common, item):
    memory["n_tasks"] = memory.get("n_tasks", 0) + 1
    return common + item


def count_tasks(memory, common, item):
    del common, item
    return memory.get("n_tasks", 0)


def end_once(memory, common, item):
    """End the process at one item, if the file `common` is there; the first time deletes the file."""
    del memory
    if item == 3 and os.path.exists(common):  # noqa: PTH110
        os.unlink(common)  # noqa: PTH108
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def end_always(memory, common, item):
    del memory, common, item
    os.kill(os.getpid(), signal.SIGKILL)


def limit_memory(memory, common, item):
    """Let this process have `common` bytes of memory more than it has now, and no more."""
    del memory, item
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + common
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def hoard_memory(memory, common, item):
    """Keep `common` bytes for every item."""
    memory.setdefault("hoard", []).append(np.empty(common, dtype=np.uint8))
    return item


def wait_seconds(memory, common, item):
    del memory, item
    time.sleep(common)


def raise_key_error(memory, common, item):
    del memory, common
    raise KeyError(item)


def is_importable(memory, common, name):
    del memory, common
    return find_spec(name) is not None


def process_id(memory, common, item):
    del memory, common, item
    return os.getpid()
