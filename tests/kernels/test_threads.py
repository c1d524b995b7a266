"""Threads of the compiled kernels: many callers at once, more threads than a machine has, and tasks that throw."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import numpy as np
import pytest

from supquant import kernels

pytestmark = pytest.mark.skipif(kernels.isa() == "numpy", reason="the reference has no threads")


def draw(seed, n=20_000, M=4):
    rng = np.random.default_rng(seed)
    blocks = rng.integers(256, size=(-(-n // 64), M, 64), dtype=np.uint8)
    return blocks, n, rng.normal(size=(5, M, 256)).astype(np.float32)


def test_callers_that_share_the_pool_get_their_own_answers():
    scans = [draw(seed) for seed in range(8)]
    scan = kernels.active().scan

    def answer(scanned, n_threads):
        blocks, n, tables = scanned
        return scan(kernels.Scanned(blocks, n), tables, 7, n_threads=n_threads)

    expected = [answer(each, 1) for each in scans]
    with ThreadPoolExecutor(8) as callers:
        for turn in range(1, 30):
            got = list(callers.map(lambda each, t=turn: answer(each, 2 + t % 5), scans))
            for mine, wanted in zip(got, expected, strict=True):
                for one, other in zip(mine, wanted, strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_a_call_with_too_many_threads_leaves_few_of_them():
    child = """
        import os
        import numpy as np
        from supquant import kernels
        x = np.ones((5000, 8), dtype=np.float32)
        sums = kernels.active().products(x, kernels.pack_rows(x[:100]), n_threads=2000)
        assert (sums == 8).all()
        print(len(os.listdir("/proc/self/task")))
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(child)], capture_output=True, text=True, check=True, timeout=300
    )
    cores = os.cpu_count()
    assert int(done.stdout) <= max(64, 2 * cores) + 2 * cores + 8  # and those of BLAS
