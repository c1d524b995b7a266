"""Saves of an index that are killed. A small process forks the children that save: a fork of all tests takes far longer."""

import os
import resource
import signal
import sys
import time
import traceback
from functools import partial
from multiprocessing import get_context

from forking import fork

from supquant import CodeIndex
from supquant.index import ordering

STEPS = {  # what a save asks of the system, by the names Python has for it
    *("open", "write", "writelines", "flush", "close", "__exit__", "truncate", "fsync", "fdatasync"),
    *("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "listdir", "scandir", "mmap"),
}

SETTINGS = ("MIN_SORTED", "MIN_IN_CELL", "MAX_NEEDED")
"""The settings of `ordering` that tests change. The small process takes them over."""


def changed_index(folder, changes):
    """Load an index and make changes to it: names of methods, each with its arguments."""
    index = CodeIndex.load(folder)
    for name, arguments, options in changes:
        getattr(index, name)(*arguments, **options)
    return index


class Saves:
    """Saves of one changed index to any folder, in children. The methods are those of `Children`, for such a save."""

    def __init__(self, folder, changes):
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        settings = {name: getattr(ordering, name) for name in SETTINGS}
        self._process = context.Process(target=_serve, args=(theirs, folder, changes, settings))
        self._process.start()
        theirs.close()
        assert self._connection.recv() == "ready"

    def duration(self, folder):
        return self._ask("duration", folder)

    def killed_after(self, folder, delay):
        return self._ask("killed_after", folder, delay)

    def killed_at_step(self, folder, step):
        return self._ask("killed_at_step", folder, step)

    def killed_in_a_write(self, folder, n_bytes):
        return self._ask("killed_in_a_write", folder, n_bytes)

    def steps(self, folder):
        return self._ask("steps", folder)

    def _ask(self, *question):
        self._connection.send(question)
        failed, answer = self._connection.recv()
        assert not failed, answer
        return answer

    def close(self):
        self._connection.close()
        self._process.join()


def _serve(connection, folder, changes, settings):
    os.fsync = os.fstat  # as in all tests: only a power cut shows what a sync did
    for name, value in settings.items():
        setattr(ordering, name, value)
    index = changed_index(folder, changes)
    connection.send("ready")
    while True:
        try:
            way, target, *arguments = connection.recv()
        except EOFError:
            return
        # The folder is restored behind the index's back, and killed children commit to it.
        save = partial(index.save, target, overwrite=True)
        try:
            connection.send((False, getattr(Children, way)(save, *arguments)))
        except Exception:  # noqa: BLE001, the test tells what it was
            connection.send((True, traceback.format_exc()))


class Children:
    """Children that do some work and are killed over it. Each way says whether the kill came in time."""

    @staticmethod
    def duration(work):
        """Let a child do its work; return the seconds from its beginning to its end."""
        child = _begun(work)
        began = time.monotonic()
        assert not died(child, None)
        return time.monotonic() - began

    @staticmethod
    def killed_after(work, delay):
        """Kill a child `delay` seconds after it began."""
        child = _begun(work)
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
        return died(child, signal.SIGKILL)

    @staticmethod
    def killed_at_step(work, step):
        """Let a child kill itself at one of its `steps`."""

        def suicidal():
            _on_each_step(lambda i: os.kill(os.getpid(), signal.SIGKILL) if i == step else None)
            work()

        return died(fork(suicidal), signal.SIGKILL)

    @staticmethod
    def killed_in_a_write(work, n_bytes):
        """Let the system kill a child as soon as a file would grow past `n_bytes`."""

        def limited():
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            work()

        return died(fork(limited), signal.SIGXFSZ)

    @staticmethod
    def steps(work):
        """Let a child do its work; return the numbers of its steps."""
        reading, writing = os.pipe()

        def counted():
            seen = []
            _on_each_step(seen.append)
            work()
            sys.setprofile(None)
            os.write(writing, str(len(seen)).encode())

        assert not died(fork(counted), None)
        count = int(os.read(reading, 20))
        os.close(reading)
        os.close(writing)
        return range(1, count + 1)


def died(child, by):
    """Wait for a child; say whether it died by a signal. One that failed by itself is an error."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, -by if by else 0}, f"the child ended with {status}"
    return status != 0


def _begun(work):
    reading, writing = os.pipe()

    def announced():
        os.write(writing, b"!")
        work()

    child = fork(announced)
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return child


def _on_each_step(then):
    """Call ``then(i)`` before and after everything this process asks of the system from now on, counted from 1."""
    seen = 0

    def hook(_frame, event, function):
        nonlocal seen
        if event in {"c_call", "c_return", "c_exception"} and function.__name__ in STEPS:
            seen += 1
            then(seen)

    sys.setprofile(hook)
