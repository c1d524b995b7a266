"""Memory that runs out in the midst of a threaded search: one `MemoryError`, and later searches are right."""

import subprocess
import sys
from textwrap import dedent

import pytest

CHILD = """
    import resource, sys
    import duckdb  # a nanobind module that turns std::bad_alloc into an error of its own
    import numpy as np
    from supquant import AdditiveCodec, CodeIndex

    rng = np.random.default_rng(0)
    codebooks = rng.normal(size=(4, 256, 2)).astype(np.float32)
    index = CodeIndex(AdditiveCodec(codebooks)).add_codes(rng.integers(256, size=(250_000, 4)))
    queries = rng.normal(size=(4, 2)).astype(np.float32)

    def answers():
        return index.search(queries, 5, n_jobs=2)[1].tolist(), index.range_search(queries, 0.1, n_jobs=2)[2].tolist()

    def used():
        return int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()

    expected = answers()
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    exhausted = 0
    for left in range(0, 40 << 20, 1 << 20):  # the answers below take 24 MB, and their parts as much again
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


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="RLIMIT_AS limits the memory of a process on Linux"
)
def test_a_search_that_runs_out_of_memory_raises_and_leaves_the_pool_whole():
    child = subprocess.run(
        [sys.executable, "-c", dedent(CHILD)], capture_output=True, text=True, timeout=600, check=False
    )
    assert child.returncode == 0, child.stderr[-2000:]
    assert int(child.stdout) > 20
