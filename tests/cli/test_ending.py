"""Ctrl-C and SIGTERM end every command that may run for long: soon, in one line, and with nothing half done."""

import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interrupted_commands import MAX_SECONDS, STATUS, assert_ends_well

from supquant import CodeIndex, SupervisedQuantizer
from supquant.cli import main
from supquant.cli.commands import OWN_COMMANDS

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


def test_a_service_ends_when_it_is_interrupted(make_folder):
    assert_ends_well(
        main,
        ["serve", "index", "--port", "0"],
        make_folder,
        ["index"],
        seconds=1.5,
        ends_in_order=[signal.SIGTERM],
    )


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
