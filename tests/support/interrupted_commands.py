"""Commands in forked children that get a signal at some moment, and how they end."""

import os
import signal
import sys
import threading
import time
import uuid
import warnings
from pathlib import Path
from types import SimpleNamespace

from threadpoolctl import threadpool_limits

MAX_SECONDS = 15
"""A command that goes on for longer after a signal does not end. It takes a second or two, and longer on a busy machine."""

HANGING_SECONDS = 120
"""A command that runs for longer hangs."""

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""The exit status after a signal."""


def run_command_in_child(main, arguments, folder, *, number=signal.SIGINT, after=None):
    """Run a command in a child with a folder as its current one, and send a signal after some seconds, if it still runs.

    Return its exit status, its lines on stderr, the seconds that it ran, those after the signal, and what it left running.
    """
    mark = uuid.uuid4().hex
    told = folder.parent / f"{mark}.stderr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn: there are threads
        child = os.fork()
    if child == 0:
        _be_command(main, list(map(str, arguments)), folder, told, mark)
    while not told.with_suffix(".begun").exists():
        time.sleep(0.002)
    began = time.monotonic()
    sent = None
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        now = time.monotonic()
        if after is not None and sent is None and now - began >= max(after, 0.03):
            os.kill(child, number)
            sent = now
        if now - began > HANGING_SECONDS or (sent is not None and now - sent > MAX_SECONDS):
            os.kill(child, signal.SIGKILL)
        time.sleep(0.002)
    now = time.monotonic()
    return SimpleNamespace(
        status=os.waitstatus_to_exitcode(ended[1]),
        lines=told.read_text().splitlines(),
        seconds=now - began,
        seconds_after=now - (sent or now),
        left=lambda: _marked(mark),
    )


def _be_command(main, arguments, folder, told, mark):
    """Run a command as a process of its own would, and end."""
    status = 1
    try:
        with told.open("w") as file:
            os.dup2(file.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        warnings.simplefilter("ignore", ResourceWarning)  # as outside of tests
        os.chdir(folder)
        os.environ["SUPQUANT_TEST_MARK"] = mark
        sys.argv = ["supquant", *arguments]
        threadpool_limits(
            1, "openmp"
        )  # the other threads of its pool were not forked: they would be waited for
        try:
            told.with_suffix(".begun").touch()
            main()
            status = 0
        except SystemExit as end:
            status = end.code or 0
        signal.pthread_sigmask(signal.SIG_BLOCK, STATUS)  # it has ended
        threading._shutdown()  # as at the end of a process: it waits for threads
    except BaseException:  # noqa: BLE001, the child must not return into its parent's work
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        os._exit(status)


def _marked(mark):
    """Return the commands of the processes that have a mark in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it has ended, or is not ours
    return found


def assert_ends_well(main, arguments, make_folder, outputs, *, seconds=None):
    """Assert that a command ends well, whenever it is interrupted: with all of its outputs, or with none and one line.

    `make_folder` makes the current folder, and `outputs` are what the command writes there. Without `seconds`, the command is
    first run to the end.
    """
    if seconds is None:
        whole = run_command_in_child(main, arguments, make_folder())
        assert whole.status == 0, whole.lines
        seconds = whole.seconds
    n_interrupted = 0
    for fraction, number in (
        (0.3, signal.SIGINT),
        (0.6, signal.SIGTERM),
        (0, signal.SIGINT),
        (0, signal.SIGTERM),
    ):
        if n_interrupted == 2:
            break
        folder = make_folder()
        before, names = content_of(folder, outputs), {path.name for path in folder.iterdir()}
        end = run_command_in_child(main, arguments, folder, number=number, after=fraction * seconds)
        assert end.seconds_after < MAX_SECONDS, (number, end.lines)
        if end.status == 0:  # it was faster, or is a service that ends in order
            continue
        said = [line for line in end.lines if "nterrupted" in line or "erminated" in line]
        assert (end.status, said) == (STATUS[number], end.lines[-1:]), end.lines
        assert not any("Traceback" in line or "ignored" in line for line in end.lines), end.lines
        assert content_of(folder, outputs) == before
        assert not set(outputs) & ({path.name for path in folder.iterdir()} - names)
        began = time.monotonic()
        while left := end.left():  # workers look once a second whether they are still needed
            assert time.monotonic() - began < MAX_SECONDS, left
            time.sleep(0.05)
        n_interrupted += 1
    assert n_interrupted


def content_of(folder, outputs):
    """Return the bytes of the files and of the files in the folders that a command writes, by their paths."""
    files = [
        path for each in outputs for path in (folder / each, *(folder / each).rglob("*")) if path.is_file()
    ]
    return {path: path.read_bytes() for path in files}
