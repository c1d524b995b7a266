"""Report: how long an index of a gigabyte takes to open, and how much memory, in a process of its own."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from supquant.codec import AdditiveCodec
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant_experiments.bench.search.figures import Figure

M = 16
ROWS = 10**9 // M
REPEATS = 5


def opening_figures(rows: int = ROWS, *, folder: str | None = None) -> list[Figure]:
    """Open an index of so many rows of 128 bits.

    Parameters
    ----------
    rows : int
    folder : path, optional
        Where the index is made, 16 bytes a row; the system's folder for temporary files by default.
    """
    if not Path("/proc/self/statm").exists():
        raise InputError("resident memory is read from /proc, which this system does not have")
    with tempfile.TemporaryDirectory(prefix="supquant-bench-", dir=folder) as place:
        _in_a_process("make", place, str(rows))
        size = sum(file.stat().st_size for file in Path(place, "large").iterdir())
        found = json.loads(_in_a_process("open", place))
    assert found["rows"] == rows
    name = f"opening an index of {size / 1e9:.2f} GB"
    return [
        Figure(name, found["ms"], at_most=50, unit=" ms"),
        Figure(f"memory of {name}", found["mb"], at_most=20, unit=" MB"),
    ]


def _in_a_process(*arguments: str) -> str:
    command = [sys.executable, "-m", __name__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"could not {arguments[0]} an index: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def _make(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    codec = AdditiveCodec(codebooks=rng.standard_normal((M, 256, 8), dtype=np.float32))
    for name, n in (("small", 1000), ("large", rows)):
        codes = rng.integers(256, size=(n, M), dtype=np.uint8)
        CodeIndex(codec).add_codes(codes).save(folder / name)


def _open(folder: Path) -> None:
    # What is imported or made once belongs to the process, not to the index that is measured.
    CodeIndex.load(folder / "small")
    before = _resident_bytes()
    kept = CodeIndex.load(folder / "large")
    grown = _resident_bytes() - before
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        CodeIndex.load(folder / "large")
        spent.append(time.perf_counter() - began)
    sys.stdout.write(json.dumps({"ms": 1e3 * median(spent), "mb": grown / 1e6, "rows": len(kept)}))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        _make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        _open(Path(sys.argv[2]))
