"""The end of a process whose daemon threads still work: it exits as if they were idle."""

import json
import os
import re
import subprocess
import sys

import pytest

TRIES = 10
PROGRAM = """
import gc, json, os, sys, threading, time
import numpy as np
from supquant import AdditiveCodec, CodeIndex

X = np.random.default_rng(0).normal(size=(10_000, 8)).astype(np.float32)
codebooks = np.zeros((4, 16, 8), np.float32)  # of product quantization, which a fit would import much for
for m in range(4):
    codebooks[m, :, 2 * m : 2 * m + 2] = X[:16, 2 * m : 2 * m + 2]
codec = AdditiveCodec(codebooks, independent=True)
codes = np.tile(codec.encode(X, n_jobs=1), (5, 1))
index = CodeIndex(codec).add_codes(codes, metadata={"price": np.arange(len(codes))})

def repeat(call, begun):
    call()
    begun.wait()
    while True:
        call()

def exit_at_work(work, n_jobs, after):
    call = {
        "search": lambda: index.search(X[:16], 10, n_jobs=n_jobs),
        "condition": lambda: index.filter("price < 10"),
        "encode": lambda: codec.encode(X, n_jobs=n_jobs),
    }[work]
    begun = threading.Barrier(3)
    for _ in range(2):
        threading.Thread(target=repeat, args=[call, begun], daemon=True).start()
    begun.wait()
    time.sleep(after)
    sys.exit()

def end_of_child(work, n_jobs, after):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 2)
        os.close(writing)
        exit_at_work(work, n_jobs, after)
    os.close(writing)
    with open(reading, "rb") as said:  # up to the end of the child
        words = said.read().decode(errors="replace")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), words

# This process has no threads: a child is like a new process, without the time of the imports. Each child would also search
# everything that was imported for garbage as it ends, which takes most of its time, so that is set aside.
gc.freeze()
found = {
    f"{work} {n_jobs}": [end_of_child(work, n_jobs, each / 1000) for each in range(int(sys.argv[1]))]
    for work in ("search", "condition", "encode")
    for n_jobs in (1, 2)
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ends():
    """Return exit codes and what was written to stderr, for each kind of work and number of jobs."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(TRIES)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("work", ["search", "condition", "encode"])
def test_a_process_ends_quietly_while_daemon_threads_work(ends, work, n_jobs):
    assert [[code, without_leaks(words)] for code, words in ends[f"{work} {n_jobs}"]] == [[0, ""]] * TRIES


def without_leaks(words):
    """Leave out what the bindings of DuckDB say at the end of any process that has a daemon thread."""
    return "".join(
        each for each in words.splitlines(True) if not re.match(r"nanobind: | - |See https:", each)
    )
