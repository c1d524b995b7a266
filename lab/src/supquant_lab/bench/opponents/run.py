"""Report: the cells of all methods, measured one by one, and what their figures depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import supquant
import supquant_lab
from supquant_lab.bench.fingerprints import definition_fingerprint, fingerprint
from supquant_lab.bench.opponents.measure import measure
from supquant_lab.bench.opponents.plan import Cell
from supquant_lab.bench.quality.run import SOURCES as OUR_SOURCES
from supquant_lab.bench.resumable import measure_missing, read_benchmark
from supquant_lab.methods import find_method

Record = dict[str, Any]

OURS = "sq"
"""The default model. Cells of other methods do not change with it."""

OTHER_SOURCES = ("baselines/optimized_product.py", "baselines/product.py", "clustering.py")
"""Sources of the library that determine the figures of the other methods.

The codec is none of them: there is one nearest codeword and one sum of entries, and tests hold the codec to them.
"""

LAB_SOURCES = (
    "bench/opponents/measure.py",
    "datasets",
    "methods/opponents/validation.py",
    "problem.py",
    "quality.py",
    "splits.py",
)
"""Sources of the lab that determine what is measured, whatever the method."""

METHODS = "supquant_lab.methods"
"""The package of the methods. A cell depends on the class of its method there, and on what that names, but on no other method."""


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    *,
    n_jobs: int | None = None,
    on_cell: Callable[[int, str], None] | None = None,
) -> list[Record]:
    """Measure cells that have no record of the present code in a folder, and return the records of all of them.

    `n_jobs` and `on_cell` are as `n_jobs` and `on_case` of `supquant_lab.bench.quality.run.run_cases`.
    """
    sources = {method: fingerprints(method) for method in {cell.method for cell in cells}}

    def measured(cell: Cell) -> Record:
        figures, parameters = measure(cell, n_jobs)
        own = {"benchmark": "opponents", **cell._asdict(), "figures": figures}
        return {**own, "parameters": parameters, "threads": n_jobs}

    return measure_missing(
        cells, folder, measured, lambda cell: sources[cell.method], n_jobs=n_jobs, on_cell=on_cell
    )


def fingerprints(method: str) -> dict[str, str]:
    """Return the fingerprints that records of a method and of the present code have."""
    library, lab = Path(supquant.__file__).parent, Path(supquant_lab.__file__).parent
    kind = find_method(method)
    return {
        "sources": fingerprint(library, OUR_SOURCES if method == OURS else OTHER_SOURCES),
        "lab_sources": fingerprint(lab, LAB_SOURCES),
        "method_sources": definition_fingerprint(lab.parent, kind.__module__, kind.__name__, METHODS),
    }


def read_folder(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    return read_benchmark(folder, "opponents")
