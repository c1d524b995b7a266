"""Ctrl-C and SIGTERM end every command that may run for long: soon, in one line, and with nothing half done."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interrupted_commands import MAX_SECONDS, STATUS, assert_ends_well, content_of, run_command_in_child

from supquant import CodeIndex, SupervisedQuantizer
from supquant.cli import main
from supquant.cli.commands import OWN_COMMANDS
from supquant.index.manifest import MANIFEST
from supquant.storage import replacing

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

COMMANDS = {
    "fit": ("fit few.npz -o out --bits 16 --max-iter 1", []),  # it writes the best model, if there is one
    "fit another method": ("fit few.npz -o out --bits 16 --method pq", ["out"]),
    "index": ("index model items.npz -o out --keep-vectors int8", ["out"]),
    "index in place": ("index model items.npz -o index --replace", ["index"]),
    "add": ("add index more.npz --ids ids", ["index"]),
    "update": ("update index items.npz --ids ids", ["index"]),
    "remove": ("remove index --ids ids.npy", ["index"]),
    "extend": ("extend model new.npz -o out", ["out"]),
    "search": ("search index items.npz -o out.csv -k 20", ["out.csv"]),
    "encode": ("encode model items.npz -o out.npy", ["out.npy"]),
    "encode with workers": ("encode model parts -o out --workers 2", []),
    "evaluate": ("evaluate model --database items.npz --queries few.npz --json out.json", ["out.json"]),
    "audit": ("audit few.npz -o out.html", ["out.html"]),
    "discover": ("discover some.npz -o out.html -o out.csv", ["out.html", "out.csv"]),
    "demo": ("demo -o out.html", ["out.html"]),
}
"""What is run, and what it writes."""

SECONDS = dict.fromkeys(["fit", "search", "audit", "discover", "demo"], 1.0)
"""Commands that take longer than this, in seconds. The others are first run to the end, to know their time."""

SHORT = {"info", "serve"}
"""Commands that are not run for long, or have a test of their own."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory, digits):
    """A folder with a model, an index, vectors and files of vectors."""
    folder = tmp_path_factory.mktemp("prepared")
    X, y = digits
    rng = np.random.default_rng(0)
    known = y < 9
    many, labels = np.repeat(X[known], 6, axis=0), np.repeat(y[known], 6)
    many = many + rng.uniform(0, 0.1, many.shape).astype(np.float32)
    np.savez(folder / "items.npz", X=many, y=labels, ids=np.arange(len(many)))
    np.savez(folder / "more.npz", X=many, y=labels, ids=np.arange(len(many)) + len(many))
    np.savez(folder / "few.npz", X=X[known][:700], y=y[known][:700])
    np.savez(folder / "new.npz", X=np.repeat(X[y == 9], 30, axis=0), y=np.repeat(y[y == 9], 30))
    np.savez(folder / "some.npz", X=X[:900], y=np.where(y[:900] < 7, y[:900].astype(str), ""))
    np.save(folder / "ids.npy", np.arange(0, len(many), 2))
    model = SupervisedQuantizer(2, n_codewords=16, max_iter=1, random_state=0).fit(
        X[known][:400], y[known][:400]
    )
    model.save(folder / "model")
    CodeIndex(model).add(many, labels, np.arange(len(many))).save(folder / "index")
    (folder / "parts").mkdir()
    for part in range(3):
        pq.write_table(pa.table({"vector": list(many[part::3])}), folder / "parts" / f"{part}.parquet")
    return folder


@pytest.fixture
def make_folder(prepared, tmp_path):
    """Return a function that makes a copy of the folder."""
    made = []

    def make():
        made.append(shutil.copytree(prepared, tmp_path / str(len(made)) / "here"))
        return made[-1]

    return make


def test_all_commands_are_tried():
    assert {name.split()[0] for name in COMMANDS} | SHORT == set(OWN_COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_ends_in_one_line_with_nothing_half_written(name, make_folder):
    arguments, outputs = COMMANDS[name]
    assert_ends_well(main, arguments.split(), make_folder, outputs, seconds=SECONDS.get(name))


WRITING = {
    **{name: command for name, command in COMMANDS.items() if command[1]},
    "fit": (COMMANDS["fit"][0], ["out"]),
    "extend in place": ("extend model new.npz", ["model"]),
    "extend an index": ("extend index new.npz -o out", ["out"]),
    "extend an index in place": ("extend index new.npz", ["index"]),
    "add to an index": ("index model more.npz -o index --append --ids ids", ["index"]),
    "search to a table": ("search index few.npz -o out.parquet", ["out.parquet"]),
    "audit to files": ("audit few.npz -o out.html -o out.csv", ["out.html", "out.csv"]),
}
"""Commands that write all of their outputs or none, and what they write."""


@pytest.fixture
def signal_itself(monkeypatch):
    """Return a function that lets a process signal itself before or after an output, or the manifest of one, takes its place."""

    def signal_at(moment, outputs, number):
        sync, rename, sent = replacing.sync_file, replacing.rename_open, []

        def send(path):
            if not sent and (path.name in outputs or (path.name == MANIFEST and path.parent.name in outputs)):
                sent.append(number)
                signal.raise_signal(number)

        def synced(file):
            sync(file)
            for name in (*outputs, MANIFEST):
                path = Path(file.name).with_name(name)
                if Path(file.name).name.startswith(replacing._temporary_prefix(path)):
                    send(path)

        def renamed(file, target):
            rename(file, target)
            send(target)

        if moment == "before":
            monkeypatch.setattr(replacing, "sync_file", synced)
        else:
            monkeypatch.setattr(replacing, "rename_open", renamed)

    return signal_at


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("name", WRITING)
def test_a_signal_before_an_output_takes_its_place_leaves_none(name, number, make_folder, signal_itself):
    arguments, outputs = WRITING[name]
    signal_itself("before", outputs, number)
    folder = make_folder()
    before, names = content_of(folder, outputs), {path.name for path in folder.iterdir()}
    end = run_command_in_child(main, arguments.split(), folder)
    assert (end.status, end.lines[-1]) == (
        STATUS[number],
        "Interrupted." if number == signal.SIGINT else "Terminated.",
    )
    assert content_of(folder, outputs) == before
    assert {path.name for path in folder.iterdir()} == names


@pytest.mark.parametrize("number", STATUS)
@pytest.mark.parametrize("name", WRITING)
def test_a_signal_after_an_output_took_its_place_comes_too_late(name, number, make_folder, signal_itself):
    arguments, outputs = WRITING[name]
    signal_itself("after", outputs, number)
    folder = make_folder()
    before = [content_of(folder, [each]) for each in outputs]
    end = run_command_in_child(main, arguments.split(), folder)
    assert end.status == 0, end.lines
    assert not [line for line in end.lines if "nterrupted" in line or "erminated" in line]
    after = [content_of(folder, [each]) for each in outputs]
    assert all(new and new != old for new, old in zip(after, before, strict=True))


LATE = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from supquant.cli import ending
from supquant.storage import replacing, write_file_atomically

NUMBER, WHEN = {!r}
ending.GRACE_SECONDS = 0.05

def rename(file, target, rename=replacing.rename_open):
    if WHEN == "while the disk is slow":
        os.kill(os.getpid(), NUMBER)
        time.sleep(0.5)
    rename(file, target)

class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=NUMBER):
        kill(process, number)

def write():
    with ending.writing(Path("out")):
        write_file_atomically("out", b"all")
    if WHEN == "while Python ends":
        sys.modules["last"] = Last()  # it is deleted when handlers of signals are gone

replacing.rename_open = rename
ending.run_command(write)
"""


@pytest.mark.parametrize("when", ["while the disk is slow", "while Python ends"])
@pytest.mark.parametrize("number", STATUS)
def test_a_signal_comes_too_late_until_the_process_is_gone(number, when, tmp_path):
    command = [sys.executable, "-c", LATE.format((int(number), when))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out").read_bytes() == b"all"


def test_a_service_ends_when_it_is_interrupted(make_folder):
    assert_ends_well(main, ["serve", "index", "--port", "0"], make_folder, ["index"], seconds=1.5)


def test_a_service_ends_in_order_from_the_moment_that_it_says_where_it_is(make_folder, monkeypatch):
    """uvicorn does not listen to signals yet."""
    monkeypatch.setattr("supquant.cli.serve.print_line", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    begun = time.monotonic()
    end = run_command_in_child(main, ["serve", "index", "--port", "0"], make_folder(), after=60)
    assert (end.status, end.lines) == (0, [])
    assert time.monotonic() - begun < 60


WAITING = {
    "for compiled code": "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
    "for a thread": "threading.Thread(target=time.sleep, args=[600]).start(); time.sleep(600)",
    "in a fit without a model": "defers_interrupts(time.sleep)(600)",
}

PROGRAM = """
import hashlib, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from supquant.cli.ending import run_command
from supquant.interrupts import defers_interrupts
def wait():
    print("ready", flush=True)
    {}
run_command(wait)
"""


@pytest.mark.parametrize(
    ("waiting", "number"),
    [*((each, signal.SIGINT) for each in WAITING), ("for compiled code", signal.SIGTERM)],
)
def test_a_command_ends_whatever_it_waits_for(waiting, number):
    command = [sys.executable, "-c", PROGRAM.format(WAITING[waiting])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=MAX_SECONDS)
        finally:
            process.kill()
    assert process.returncode == STATUS[number]
    assert errors == ("Interrupted.\n" if number == signal.SIGINT else "Terminated.\n")


STARTING = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from supquant.cli import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
main()
"""


@pytest.mark.parametrize("module", ["typer", "supquant.cli.console", "supquant.cli.demo", "sklearn"])
def test_a_command_may_be_interrupted_while_its_modules_are_imported(module):
    command = [sys.executable, "-c", STARTING.format(module), "demo", "-o", "page.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (130, "Interrupted.\n")
