"""Children that are forked while threads of the parent search, save and check files."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import xxhash

from supquant import CodeIndex
from supquant.index import conditions


def test_a_forked_child_searches(works_in_child, real_codec, draw_codes, queries, rng, tmp_path, portrait):
    index = CodeIndex(real_codec).add_codes(draw_codes(real_codec, rng, 20_000))
    index.add_codes(draw_codes(real_codec, rng, 3000, 3))
    expected = portrait(index)
    index.search(queries, 100, n_jobs=2)  # the parent has its threads by now
    index.save(tmp_path / "index")
    lazy = CodeIndex.load(tmp_path / "index")

    def same(found):
        def check():
            assert portrait(found) == expected

        return check

    assert works_in_child(same(index))
    assert works_in_child(same(lazy))
    assert portrait(lazy) == expected


def test_a_child_forked_in_the_midst_of_searching_and_writing_searches(
    works_in_child, make_history, tied_codec, queries, tmp_path
):
    history = make_history(tied_codec, queries[:2], 60)
    index = CodeIndex(tied_codec)
    history.apply(index, history.changes[0])
    stop = threading.Event()

    def write():
        for change in history.changes[1:]:
            history.apply(index, change)
            index.save(tmp_path / "index")
            if stop.is_set():
                return

    def search():
        while not stop.is_set():
            index.search(queries, 10, n_jobs=2)

    def check():
        index.search(queries, 10, n_jobs=2)
        assert history.state_of(index) is not None

    threads = [threading.Thread(target=work) for work in (write, search)]
    for thread in threads:
        thread.start()
    good = [works_in_child(check) for _ in range(15)]
    stop.set()
    for thread in threads:
        thread.join()
    assert all(good)


def test_a_child_forked_while_a_file_is_being_checked_searches(
    works_in_child, monkeypatch, tied_codec, draw_codes, queries, rng, tmp_path
):
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 100))
    index.save(tmp_path / "index")
    expected = index.search(queries)[1].tolist()
    lazy = CodeIndex.load(tmp_path / "index")
    checking, go_on = threading.Event(), threading.Event()
    parent, checksum = os.getpid(), xxhash.xxh3_64_hexdigest

    def slow_checksum(*arguments):
        if os.getpid() == parent:
            checking.set()
            go_on.wait()
        return checksum(*arguments)

    def search():
        assert lazy.search(queries)[1].tolist() == expected

    monkeypatch.setattr(xxhash, "xxh3_64_hexdigest", slow_checksum)
    searcher = threading.Thread(target=search)
    searcher.start()
    assert checking.wait(10)
    good = works_in_child(search)
    go_on.set()
    searcher.join()
    assert good


@pytest.fixture
def begin_saving(monkeypatch):
    """Return a function that saves an index in a thread, and returns this thread and an event for which the save waits."""
    saving, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow_fsync(descriptor):
        saving.set()
        go_on.wait()
        fsync(descriptor)

    def begin(index, folder):
        folder.mkdir()  # otherwise the first sync would come before the folder is locked
        monkeypatch.setattr(os, "fsync", slow_fsync)
        thread = threading.Thread(target=index.save, args=(folder,))
        thread.start()
        assert saving.wait(10)
        return thread, go_on

    return begin


def can_save(index, folder):
    """Return whether a save ends within 10 seconds."""
    thread = threading.Thread(target=index.save, args=(folder,), daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


def test_a_child_forked_during_a_save_does_not_keep_the_folder_locked(
    fork, begin_saving, tied_codec, draw_codes, rng, tmp_path
):
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 100))
    first, go_on = begin_saving(index, tmp_path / "index")
    child = fork(signal.pause)  # a worker that lives on
    go_on.set()
    first.join()
    good = can_save(index, tmp_path / "index")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert good


@pytest.mark.parametrize("how", ["os.fork", "fork of the C library", "subprocess that inherits files"])
def test_no_child_of_a_process_that_was_killed_during_a_save_keeps_the_folder_locked(
    how, fork, begin_saving, tied_codec, draw_codes, rng, tmp_path
):
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 100))
    receiver, sender = os.pipe()

    def start_worker():
        if how == "os.fork":
            return fork(signal.pause)
        if how == "subprocess that inherits files":
            return subprocess.Popen(["sleep", "60"], close_fds=False).pid
        child = ctypes.CDLL(None).fork()  # Python does not know of it
        if child == 0:
            signal.pause()
        return child

    def save_fork_and_die():
        begin_saving(index, tmp_path / "index")
        os.write(sender, str(start_worker()).encode())
        os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(fork(save_fork_and_die), 0)
    worker = int(os.read(receiver, 100))
    good = can_save(index, tmp_path / "index")
    os.kill(worker, signal.SIGKILL)
    os.close(receiver)
    os.close(sender)
    assert good


FORKED_DURING_IMPORT = """
import os, sys, threading, time
from importlib.abc import MetaPathFinder
import numpy as np
from supquant import AdditiveCodec, CodeIndex
import supquant.index.conditions

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in slow:
            slow.remove(name)
            begun.set()
            time.sleep(0.5)

slow, begun = {sys.argv[2]}, threading.Event()
sys.meta_path.insert(0, Slow())
index = CodeIndex.load(sys.argv[1])
searching = threading.Thread(target=index.select, args=("price < 3",))
searching.start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(len(index.select("price < 3")))
end = time.monotonic() + 20
while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
    if time.monotonic() > end:
        os.kill(child, 9)
        sys.exit("the child hangs")
    time.sleep(0.01)
searching.join()
print(os.waitstatus_to_exitcode(ended[1]))
"""


@pytest.mark.parametrize("module", ["duckdb", "pyarrow", "pandas"])  # pyarrow looks for the last one
def test_a_child_forked_while_a_thread_imports_what_conditions_need_evaluates_them(
    tied_codec, tmp_path, module
):
    CodeIndex(tied_codec).add_codes(np.zeros((9, 3), np.uint8), metadata={"price": range(9)}).save(
        tmp_path / "index"
    )
    command = [sys.executable, "-W", "ignore", "-c", FORKED_DURING_IMPORT, tmp_path / "index", module]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "3\n"), ended.stderr


def test_a_fork_waits_until_no_thread_is_inside_the_database(fork):
    inside, left = threading.Event(), threading.Event()

    def evaluate():
        with conditions._connections.one():
            inside.set()
            time.sleep(0.3)
            left.set()

    thread = threading.Thread(target=evaluate)
    thread.start()
    inside.wait()
    child = fork(lambda: None)
    assert left.is_set()
    os.waitpid(child, 0)
    thread.join()
    with conditions._connections.one():  # threads are let in again
        pass
