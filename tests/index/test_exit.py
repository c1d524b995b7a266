"""The end of a process whose daemon threads still work: it exits as if they were idle."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading, time
import numpy as np
from supquant import CodeIndex, ProductQuantizer

work, n_jobs, tries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = np.random.default_rng(0).normal(size=(10_000, 8)).astype(np.float32)
quantizer = ProductQuantizer(4, n_codewords=16, max_iter=2, random_state=0, n_jobs=1).fit(X)
index = CodeIndex(quantizer).add_codes(np.tile(quantizer.training_codes_, (5, 1)))
quantizer.n_jobs = n_jobs
calls = {
    "search": lambda: index.search(X[:16], 10, n_jobs=n_jobs),
    "encode": lambda: quantizer.encode(X),
}

def repeat(begun):
    calls[work]()
    begun.wait()
    while True:
        calls[work]()

def exit_at_work(after):
    begun = threading.Barrier(3)
    for _ in range(2):
        threading.Thread(target=repeat, args=[begun], daemon=True).start()
    begun.wait()
    time.sleep(after)
    sys.exit()

codes = []
for each in range(tries):  # this process has no threads: a child is like a new process, without the time of the imports
    child = os.fork()
    if child == 0:
        exit_at_work(each / 1000)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(codes)
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("work", ["search", "encode"])
def test_a_process_ends_quietly_while_daemon_threads_work(work, n_jobs):
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, work, str(n_jobs), "10"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.stdout, done.stderr) == (f"{[0] * 10}\n", "")
