"""Fixtures shared by all tests: small, seeded, read-only."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import forking
import numpy as np
import pytest
from hypothesis import settings

pytest.register_assert_rewrite("killed_saves", "scan_cases", "stored_arrays")

# Modules for other operating systems, and for packages that are not installed, cannot be imported here.
INTEGRATED = {"haystack": "haystack", "langchain": "langchain_core", "llama_index": "llama_index"}
collect_ignore_glob = [
    "*/supquant/system/posix.py" if sys.platform == "win32" else "*/supquant/system/windows.py",
    *(f"*/supquant/integrations/{module}.py" for module, name in INTEGRATED.items() if not find_spec(name)),
]

# Shared and slow machines make a deadline on single examples a source of noise, not of findings.
settings.register_profile("supquant", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("supquant")


def pytest_collection():
    """Search for no garbage while tests are collected: they stay, and there are millions of objects to search."""
    gc.disable()


def pytest_collection_finish():
    """Search for garbage again, but not among what was collected."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish():
    """Let the end of the process find everything: extension modules complain of what is left."""
    gc.unfreeze()


def _read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


@pytest.fixture(scope="session", autouse=True)
def no_wait_for_the_disk():
    """Let a sync return at once in this process and its forked children.

    Only a power cut shows what a sync did. Tests of syncs watch the calls, and commands in processes of their own sync.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)  # a descriptor that is not open is still an error
        yield


@pytest.fixture(scope="session")
def fork():
    """Return a function that runs `work` in a child and returns its process id, as `forking.fork` says."""
    return forking.fork


@pytest.fixture
def telling_child(fork):
    """Return a function that runs `work(tell)` in a child, and returns its process id and a file of the lines that it tells.

    What the child writes to stderr is among these lines: errors, also those that Python ignores. A child that still runs when
    the test ends is killed. A new Python would take much longer to start, because of its imports.
    """
    children, files = [], []

    def start(work):
        ours, theirs = os.pipe()

        def told():
            os.dup2(theirs, forking.STDERR)
            sys.stderr = os.fdopen(forking.STDERR, "w", buffering=1)
            sys.unraisablehook, threading.excepthook = sys.__unraisablehook__, threading.__excepthook__
            work(lambda line: os.write(theirs, f"{line}\n".encode()))

        child = fork(told)
        os.close(theirs)
        children.append(child)
        files.append(os.fdopen(ours))
        return child, files[-1]

    yield start
    for child, file in zip(children, files, strict=True):
        file.close()
        os.kill(child, signal.SIGKILL)  # not waited for yet, so its number is still its own
        os.waitpid(child, 0)


@pytest.fixture(scope="session")
def works_in_child(fork):
    """Return a function that runs `work` in a child, and returns whether it ended without an error."""

    def run(work):
        return os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1]) == 0

    return run


@pytest.fixture(scope="session")
def running_service(tmp_path_factory):
    """A service of one index in a thread: its address, and the index that it serves."""
    from serving import running

    from supquant import AdditiveCodec, CodeIndex

    folder = tmp_path_factory.mktemp("served") / "items"
    CodeIndex(AdditiveCodec(np.zeros((1, 1, 1), dtype=np.float32))).save(folder)
    with running({"items": folder}) as (url, service):
        yield url, service.indexes["items"]


@pytest.fixture
def serve_index(running_service):
    """Return a function that serves an index in place of the last one, and returns a client that has its methods."""
    from supquant.client import Client

    url, served = running_service
    clients = []

    def begin(index):
        index.save(served.folder, overwrite=True)
        served.reload()
        clients.append(Client(url))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


@pytest.fixture
def rng():
    """Return a generator that starts from the same state in every test."""
    return np.random.default_rng(20160627)


@pytest.fixture(scope="session")
def clusters():
    """Three hundred vectors of eight dimensions around six centres of three classes: X float32, y int64."""
    rng = np.random.default_rng(0)
    centres = rng.normal(scale=3.0, size=(6, 8))
    which = rng.integers(0, 6, size=300)
    X = (centres[which] + rng.normal(scale=0.7, size=(300, 8))).astype(np.float32)
    return _read_only(X, which % 3)


@pytest.fixture(scope="session")
def digits():
    """Return the handwritten digits of scikit-learn: X (1797, 64) float32 in 0..1, y (1797,) int64."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return _read_only((X / 16).astype(np.float32), y)


@pytest.fixture(scope="session")
def data_folder():
    """Return the folder of real data, or skip."""
    folder = os.environ.get("SUPQUANT_DATA")
    if not folder:
        pytest.skip("SUPQUANT_DATA is not set: no real data to test on")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"SUPQUANT_DATA names {folder}, which is no folder")
    return path


@pytest.fixture(scope="session")
def browse(tmp_path_factory):
    """Return a function that opens a file or an address in headless Chromium and gives its DOM and the lines of its console.

    Without the browser the test is skipped, or fails if SUPQUANT_REQUIRE_BROWSER is set.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("SUPQUANT_REQUIRE_BROWSER"):
            pytest.fail(
                "SUPQUANT_REQUIRE_BROWSER is set, but there is no chromium; `make browser` installs it"
            )
        pytest.skip("no chromium to open pages with; `make browser` installs it")

    def open_page(path, *options):
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ]
        command += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        command += [f"--user-data-dir={tmp_path_factory.mktemp('profile')}", "--enable-logging=stderr"]
        command += [
            "--virtual-time-budget=10000",
            "--dump-dom",
            *options,
            path if "://" in str(path) else Path(path).as_uri(),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return SimpleNamespace(
            dom=done.stdout, console=[line for line in done.stderr.splitlines() if ":CONSOLE" in line]
        )

    return open_page
