"""Memory that runs out in the midst of a threaded search: one `MemoryError`, and later searches are right."""

import subprocess
import sys
from textwrap import dedent

import pytest

PREPARATION = """
    import os, resource
    import duckdb  # a nanobind module that turns std::bad_alloc into an error of its own
    import numpy as np
    from supquant import AdditiveCodec, CodeIndex

    rng = np.random.default_rng(0)
    codebooks = rng.normal(size=(4, 256, 2)).astype(np.float32)
    index = CodeIndex(AdditiveCodec(codebooks)).add_codes(rng.integers(256, size=(125_000, 4)))
    queries = rng.normal(size=(4, 2)).astype(np.float32)

    def answers():
        return index.search(queries, 5, n_jobs=2)[1].tolist(), index.range_search(queries, 0.1, n_jobs=2)[2].tolist()

    def used():
        return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

    expected = answers()
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
"""
SEARCHES = """
    exhausted = 0
    for left in range(0, 20 << 20, 1 << 19):  # the answers below take 12 MB, and their parts as much again
        try:
            resource.setrlimit(resource.RLIMIT_AS, (used() + left, unlimited[1]))
            index.range_search(queries, 1e9, n_jobs=2)
        except MemoryError:
            exhausted += 1
        finally:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)
        assert answers() == expected, left
    print(exhausted)
"""
THREADS = """
    def threads():
        return len(os.listdir("/proc/self/task"))

    few, stack = threads(), resource.getrlimit(resource.RLIMIT_STACK)[0]
    if stack == resource.RLIM_INFINITY:
        stack = 2 << 20  # what Linux gives then
    for n_jobs in range(3, 60):  # from too little for a stack to pages enough for what a thread has besides
        left = stack + (n_jobs - 20) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used() + left, unlimited[1]))
        try:
            index.search(queries, 5, n_jobs=n_jobs)
        except MemoryError:
            pass
        finally:
            resource.setrlimit(resource.RLIMIT_AS, unlimited)
    print(threads() - few)
    assert answers() == expected
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_AS limits the memory of a process on Linux"
)


def printed(code: str) -> int:
    """Run `code` after the preparation, and return the number that it prints."""
    child = subprocess.run(
        [sys.executable, "-c", dedent(PREPARATION) + dedent(code)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    return int(child.stdout)


def test_a_search_that_runs_out_of_memory_raises_and_leaves_the_pool_whole():
    assert printed(SEARCHES) > 20


def test_threads_start_only_where_there_is_memory_for_them():
    assert 0 < printed(THREADS) < 50
