"""Report: the cells of the default model, measured one by one, and what their figures depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import supquant
import supquant_lab
from supquant_lab.bench.fingerprints import fingerprint
from supquant_lab.bench.quality.measures import measure
from supquant_lab.bench.quality.plan import Case
from supquant_lab.bench.resumable import measure_missing, read_benchmark

Record = dict[str, Any]

SOURCES = (
    "algebra.py",
    "assignment.py",
    "clustering.py",
    "codec",
    "estimators",
    "kernels",
    "model",
    "row_sums.py",
)
"""Sources of the library that determine the figures. Compiled kernels do not count: all of them give the same bits."""

PROTOCOL = (
    "bench/quality/measures.py",
    "datasets",
    "methods/codes.py",
    "probabilities.py",
    "problem.py",
    "quality.py",
    "splits.py",
)
"""Sources of the lab that determine what is measured."""


def run_cases(
    cases: Sequence[Case],
    folder: Path,
    *,
    n_jobs: int | None = None,
    on_case: Callable[[int, str], None] | None = None,
) -> list[Record]:
    """Measure cells that have no record of the present code in a folder, and return the records of all of them.

    Parameters
    ----------
    cases : sequence of Case
    folder : Path
        Made if it is not there.
    n_jobs : int or None, default=None
        Number of threads; None uses all cores.
    on_case : callable, optional
        Gets the number, from 1, and the name of each cell before it is measured.
    """
    sources = fingerprints()

    def measured(case: Case) -> Record:
        own = {"benchmark": "quality", **case.line._asdict(), "seed": case.seed}
        return {**own, "figures": measure(case, n_jobs)}

    return measure_missing(cases, folder, measured, lambda _: sources, n_jobs=n_jobs, on_cell=on_case)


def read_folder(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    return read_benchmark(folder, "quality")


def fingerprints() -> dict[str, str]:
    """Return the fingerprints that records of the present code have."""
    return {
        "sources": fingerprint(Path(supquant.__file__).parent, SOURCES),
        "protocol": fingerprint(Path(supquant_lab.__file__).parent, PROTOCOL),
    }
