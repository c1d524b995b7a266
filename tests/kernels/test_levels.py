"""Instruction sets: chosen at run time, forced by SUPQUANT_ISA, the same answers; and the thread pool."""

import hashlib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from supquant.kernels import native

# Prints the level in use and a digest of what every kernel answers.
ANSWERS = """
import hashlib
import numpy as np
from supquant import kernels
k = kernels.active()
rng = np.random.default_rng(0)
digest = hashlib.sha256()
for M, K in ((1, 255), (2, 256), (3, 17), (8, 32)):
    codes = rng.integers(0, K, size=(70, M), dtype=np.uint8)
    words = rng.normal(size=(M * K, 5))
    gram = words @ words.T
    gram32 = gram.astype(np.float32)
    unary = rng.normal(size=(70, M * K)).astype(np.float32)
    tables = rng.normal(size=(3, M, K)).astype(np.float32)
    for answer in (
        k.code_sums(codes, unary[:, :33].copy(), K, n_threads=2),
        k.pair_counts(codes, K),
        k.interaction(codes, np.ones(70), gram, 0.5)[2],
        k.assign(unary, gram32, gram32, 0.5, 0.1, codes, 50, n_threads=2),
        k.assign(unary, gram32, gram32, 0.0, 0.0, codes, 50, n_threads=2),
        k.beam(unary, gram32, K, 5),
        k.table_sums(codes, tables),
        k.decode(codes, tables.transpose(1, 2, 0).copy()),
    ):
        digest.update(answer.tobytes())
    blocks = rng.integers(0, K, size=(40, M, 64), dtype=np.uint8)
    tables = rng.normal(size=(40, M, K)).astype(np.float32)
    mask = rng.random(2560) < 0.5
    for some in (tables[:1], tables[:13], np.round(tables)):
        for eligible in (None, k.pack_mask(mask)):
            space = kernels.Scanned(blocks, 2550 if eligible is None else 2560, eligible=eligible)
            found = k.scan(space, some, 20, n_threads=2)
            within = k.scan_within(space, some, found[0][:, 9].copy())
            for answer in (*found, *within):
                digest.update(answer.tobytes())
    rows = k.set_bits(k.pack_mask(mask))
    digest.update(k.take(blocks, rows).tobytes())
    digest.update(bytes([k.count_distinct(codes, 50)]))
    packed = kernels.pack_rows(unary[:33])
    digest.update(k.products(unary, packed, n_threads=2).tobytes())
    digest.update(k.gaussian(unary, packed, np.ones(48, np.float32), -0.01, n_threads=2).tobytes())
    counts = np.empty((len(unary), 32), dtype=np.uint16)
    k.counted_exponentials(np.ascontiguousarray(np.resize(unary, counts.shape)), counts)
    weights, sums = np.resize(unary, (9, 32)) / np.float32(2**15), np.zeros((9, 32), dtype=np.float32)
    digest.update(k.count_products(counts, weights).tobytes())
    k.count_slopes(counts, weights, np.zeros((len(unary), 9), np.float32), sums, several=False)
    digest.update(sums.tobytes())
    x = unary[:, :M].copy()
    nodes = rng.integers(0, M, size=(2, 4, 7)).astype(np.int32)
    leaves = rng.normal(size=(2, 4, 8)).astype(np.float32)
    digest.update(k.tree_sums(x, nodes, leaves[:, :, 1:].copy(), leaves).tobytes())
    rows, starts = np.arange(70, dtype=np.uint32), np.array([0, 30, 70], dtype=np.uint64)
    lists = np.tile(np.arange(M, dtype=np.int32), (2, 1))
    for answer in k.best_splits(codes.T.copy(), rows, rng.normal(size=70), starts, lists):
        digest.update(answer.tobytes())
print(kernels.isa(), digest.hexdigest())
"""


def run_python(program, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SUPQUANT_")}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_level_gives_the_same_answers():
    assert len(native.available_levels()) >= 1
    answers = {}
    for level in native.available_levels():
        done = run_python(ANSWERS, SUPQUANT_ISA=level)
        assert done.returncode == 0, done.stderr
        used, digest = done.stdout.split()
        assert used == level
        answers[level] = digest
    assert len(set(answers.values())) == 1, answers


def test_the_fastest_level_is_used_unless_another_is_asked_for():
    done = run_python("from supquant import kernels; print(kernels.isa())")
    assert done.stdout.strip() == native.available_levels()[-1]


NEEDED_FLAGS = {
    "avx2": {"avx2", "fma", "f16c"},
    "avx512bw": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"},
    "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512_vbmi"},
}
"""What Linux calls the instructions of each level."""


def test_linux_says_the_same_of_the_processor():
    cpus = Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*: (.*)", cpus.read_text(), re.MULTILINE) if cpus.exists() else None
    if found is None:
        pytest.skip("needs Linux on x86_64")
    flags = set(found[1].split())
    assert native.available_levels() == [
        "portable",
        *(level for level, needed in NEEDED_FLAGS.items() if needed <= flags),
    ]


FOREIGN = "avx512" if "neon" in native.available_levels() else "neon"


@pytest.mark.parametrize("name", ["sse9", "NEON", FOREIGN])
def test_a_level_that_is_not_there_is_a_clear_error_at_import(name):
    done = run_python("import supquant.kernels", SUPQUANT_ISA=name)
    assert done.returncode == 1
    assert f"RuntimeError: SUPQUANT_ISA asks for the instruction set {name!r}" in done.stderr
    assert f"available here: {', '.join(native.available_levels())}" in done.stderr


# The import of the extension fails, as it does where a library that it needs is missing.
BREAK_EXTENSION = """
import sys

class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "supquant.kernels._native":
            raise ImportError("libstdc++.so.6: version `GLIBCXX_9' not found")

sys.meta_path.insert(0, Broken())
"""
CAUSE = "(libstdc++.so.6: version `GLIBCXX_9' not found)"


@pytest.mark.parametrize("environment", [{"SUPQUANT_REQUIRE_NATIVE": "1"}, {"SUPQUANT_ISA": "portable"}])
def test_a_broken_extension_is_an_import_error_with_its_cause_where_it_is_required(environment):
    done = run_python(BREAK_EXTENSION + "import supquant.kernels", **environment)
    assert done.returncode == 1
    (last,) = done.stderr.splitlines()[-1:]
    assert last.startswith("ImportError: the compiled kernels of supquant cannot be imported")
    assert last.endswith(CAUSE)


def test_without_the_extension_the_twins_answer_with_a_warning_that_names_the_cause():
    done = run_python("import warnings; warnings.simplefilter('always')" + BREAK_EXTENSION + ANSWERS)
    assert done.returncode == 0, done.stderr
    used, digest = done.stdout.split()
    assert used == "numpy"
    assert "RuntimeWarning: the compiled kernels of supquant cannot be imported, and slow ones" in done.stderr
    assert CAUSE in done.stderr
    assert digest == run_python(ANSWERS).stdout.split()[1]


def test_a_missing_extension_is_named():
    hide = "import sys; sys.modules['supquant.kernels._native'] = None; import supquant.kernels"
    done = run_python(hide, SUPQUANT_REQUIRE_NATIVE="1")
    assert done.returncode == 1
    assert "import of supquant.kernels._native halted" in done.stderr.splitlines()[-1]


def busy_answer(n_threads=3):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, size=(500, 4), dtype=np.uint8)
    X = rng.normal(size=(500, 200)).astype(np.float32)
    sums = native.code_sums(codes, X, 16, n_threads=n_threads)
    return hashlib.sha256(sums.tobytes()).hexdigest()


def test_a_forked_child_can_call_kernels(works_in_child):
    want = busy_answer()  # the parent's pool has threads now, which the child does not inherit

    def answer():
        assert busy_answer() == want

    assert works_in_child(answer)
    answer()


def test_kernels_may_be_called_from_several_threads_at_once():
    want = busy_answer(1)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: busy_answer(), range(80)))
    assert answers == [want] * 80
