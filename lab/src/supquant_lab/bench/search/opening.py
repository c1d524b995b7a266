"""Report: time and memory of opening an index of one gigabyte, in a fresh process."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from statistics import median

import numpy as np

from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.index import CodeIndex
from supquant_lab.bench.clock import seconds_of
from supquant_lab.bench.process import run_fresh, temporary_folder
from supquant_lab.bench.search.figures import Figure

M = 16
"""Number of bytes of a code."""

ROWS = 10**9 // M
"""Number of codes: one gigabyte of them."""

REPEATS = 5
"""Number of timed openings; the median is reported."""


def opening_figures(rows: int = ROWS, *, folder: str | None = None) -> list[Figure]:
    """Return the milliseconds and the memory of opening an index of codes of 128 bits.

    Parameters
    ----------
    rows : int
    folder : path, optional
        The folder for the index, 16 bytes a row; the system's folder for temporary files by default.
    """
    if not Path("/proc/self/statm").exists():
        raise InputError("resident memory is read from /proc, which this system does not have")
    with temporary_folder(folder) as place:
        run_fresh(__name__, "make", place, rows, purpose="make an index")
        size = sum(file.stat().st_size for file in (place / "large").iterdir())
        found = run_fresh(__name__, "open", place, purpose="open an index")
    assert found["rows"] == rows
    name = f"opening an index of {size / 1e9:.2f} GB"
    return [
        Figure(name, found["ms"], at_most=50, unit=" ms"),
        Figure(f"memory of {name}", found["mb"], at_most=20, unit=" MB"),
    ]


def _make(folder: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    codec = AdditiveCodec(codebooks=rng.standard_normal((M, 256, 8), dtype=np.float32))
    for name, n in (("small", 1000), ("large", rows)):
        codes = rng.integers(256, size=(n, M), dtype=np.uint8)
        CodeIndex(codec).add_codes(codes).save(folder / name)


def _open(folder: Path) -> None:
    # A small index goes first: imports and other work that is done once do not count.
    CodeIndex.load(folder / "small")
    before = _resident_bytes()
    kept = CodeIndex.load(folder / "large")
    grown = _resident_bytes() - before
    spent = [seconds_of(lambda: CodeIndex.load(folder / "large")) for _ in range(REPEATS)]
    sys.stdout.write(json.dumps({"ms": 1e3 * median(spent), "mb": grown / 1e6, "rows": len(kept)}))


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        _make(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        _open(Path(sys.argv[2]))
