"""A file is replaced as a whole or not at all, and nothing of a failed or killed save stays."""

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from supquant.errors import InputError
from supquant.storage import load_arrays, pack_arrays, write_file_atomically
from supquant.storage.replacing import write_json


def test_bytes_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "manifest.json"
    write_file_atomically(path, b"old")
    write_file_atomically(path, b"ne", memoryview(b"w"))
    assert path.read_bytes() == b"new"

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="could not save, nothing was changed: No space left on device"):
        write_file_atomically(path, b"newer")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_file_and_folder_are_synced_around_the_renaming(tmp_path, monkeypatch):
    done = []
    sync, replace = os.fsync, Path.replace

    def record_sync(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def record_replace(self, target):
        done.append("rename")
        return replace(self, target)

    monkeypatch.setattr("os.fsync", record_sync)
    monkeypatch.setattr("pathlib.Path.replace", record_replace)
    write_file_atomically(tmp_path / "file", b"content")
    assert done == ["file", "rename", "folder"]


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_while_saving_leaves_the_old_file_and_nothing_else(saved, monkeypatch, failing, failure):
    before = saved.read_bytes()

    def fail(*args):
        raise failure

    monkeypatch.setattr(failing, fail)
    with pytest.raises(type(failure)) as raised:
        pack_arrays("model", {"other": np.zeros(3)}, {}).write(saved)
    if isinstance(failure, OSError):
        assert raised.value.errno == errno.ENOSPC
        assert "could not save, nothing was changed: No space left on device" in str(raised.value)
        assert str(saved) in str(raised.value)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_disk_that_fills_up_leaves_the_old_file_and_nothing_else(saved):
    """The system itself refuses to write on: a limit on file size stands in for the full disk."""
    before = saved.read_bytes()
    program = """
        import resource, sys
        import numpy as np
        from supquant.storage import pack_arrays
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            pack_arrays("model", {"big": np.ones(1_000_000)}, {}).write(sys.argv[1])
        except OSError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(saved)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "could not save, nothing was changed: File too large" in result.stdout
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


WRITE_AND_WAIT = """
    import os, sys, time
    from supquant.storage import write_file_atomically

    def wait(_):
        print("writing", flush=True)
        time.sleep(60)

    os.fsync = wait
    write_file_atomically(sys.argv[1], b"not synced")
"""


@pytest.fixture
def begin_writing(tmp_path):
    """Return a function that starts a process which writes a file and does not end. The process is killed after the test."""
    started = []

    def begin(path):
        command = [sys.executable, "-c", textwrap.dedent(WRITE_AND_WAIT), str(path)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "writing\n"
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_what_a_killed_save_left_is_deleted_by_the_next_save_of_the_same_file(tmp_path, begin_writing):
    path, other = tmp_path / "model", tmp_path / "other"
    killed, working = begin_writing(path), begin_writing(path)
    elsewhere = begin_writing(other)
    for process in (killed, elsewhere):
        process.kill()
        process.wait()
    assert len(list(tmp_path.glob(".supquant-*.tmp"))) == 3
    write_file_atomically(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert len(list(tmp_path.glob(".supquant-*.tmp"))) == 2, (
        "that of a writer at work, and that of another file"
    )
    working.kill()
    working.wait()
    write_file_atomically(path, b"again")
    write_file_atomically(other, b"other")
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_writers_of_one_file_never_take_each_others_for_abandoned(tmp_path):
    path = tmp_path / ("n" * 250)  # the longest name there may be

    def write(number):
        for _ in range(40):
            write_file_atomically(path, bytes([number]) * 1000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert path.read_bytes() in [bytes([number]) * 1000 for number in range(4)]
    assert list(path.parent.iterdir()) == [path]


def test_a_file_deleted_before_its_writer_locked_it_is_made_again(tmp_path, monkeypatch):
    lock, deleted = fcntl.flock, []

    def delete_and_lock(file, operation):
        if not deleted:
            deleted.append(Path(file.name))
            deleted[0].unlink()
        lock(file, operation)

    monkeypatch.setattr("fcntl.flock", delete_and_lock)
    write_file_atomically(tmp_path / "file", b"content")
    assert len(deleted) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_failed_sync_of_the_folder_says_that_the_file_was_replaced(tmp_path, monkeypatch):
    sync = os.fsync

    def fail_for_folders(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr("os.fsync", fail_for_folders)
    with pytest.raises(
        OSError, match="saved, but the sync failed, and a crash may undo it: Input/output error"
    ):
        write_file_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def device(path):
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 7))  # as /dev/full
    except PermissionError:
        pytest.skip("only root makes devices")


@pytest.mark.parametrize("make", [os.mkfifo, device, os.mkdir])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_regular_file_is_refused_and_stays(saved, make, linked):
    path = saved.with_name("other")
    make(path)
    kind = path.stat().st_mode
    if linked:
        path = saved.with_name("link")
        path.symlink_to("other")
    for write in (lambda: write_file_atomically(path, b"new"), lambda: write_json(path, {})):
        with pytest.raises(InputError, match=r"is a (device|folder).*; expected a file or a new name"):
            write()
    assert path.stat().st_mode == kind
    assert len(list(saved.parent.iterdir())) == 2 + linked


def test_a_saved_file_has_the_permissions_of_any_new_file(saved):
    plain = saved.with_name("plain")
    plain.touch()
    assert stat.S_IMODE(saved.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_saving_through_a_link_keeps_the_link(saved):
    link = saved.with_name("link")
    link.symlink_to(saved)
    pack_arrays("model", {}, {"replaced": True}).write(link)
    assert link.is_symlink()
    assert load_arrays(saved, "model") == ({}, {"replaced": True})


def test_json_behind_a_link_is_replaced_and_the_link_stays(tmp_path):
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    write_json(tmp_path / "link.json", {"map": 0.5})
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == {"map": 0.5}
    with pytest.raises(ZeroDivisionError):
        write_json(tmp_path / "link.json", {"map": Unwritable()})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.json", "real.json"]


class Unwritable:
    def __str__(self):
        raise ZeroDivisionError
