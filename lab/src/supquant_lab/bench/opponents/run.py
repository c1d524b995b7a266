"""Report: measuring cells one by one, each into its own record, which a later run skips."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import supquant
import supquant_lab
from supquant_lab.bench.opponents.measure import measure
from supquant_lab.bench.opponents.plan import Cell
from supquant_lab.bench.quality.run import SOURCES as OUR_SOURCES
from supquant_lab.bench.quality.run import _commit, fingerprint
from supquant_lab.machine import describe_machine
from supquant_lab.records import read_records, write_record

Record = dict[str, Any]

OURS = "sq"
"""The default model. Cells of other methods do not change with it."""

OTHER_SOURCES = ("baselines", "clustering.py", "codec")
"""Sources of the library that determine the figures of the other methods."""

LAB_SOURCES = (
    "bench/opponents/measure.py",
    "datasets",
    "methods/opponents",
    "problem.py",
    "quality.py",
    "splits.py",
)
"""Sources of the lab that determine what is measured."""


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    *,
    n_jobs: int | None = None,
    on_cell: Callable[[int, str], None] | None = None,
) -> list[Record]:
    """Measure cells, and return the records of all of them.

    A cell is skipped if its record is in the folder and was made by the same sources. `n_jobs` and `on_cell` are as `n_jobs` and
    `on_case` of `supquant_lab.bench.quality.run.run_cases`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    library = Path(supquant.__file__).parent
    sources = {
        ours: {
            "sources": fingerprint(library, OUR_SOURCES if ours else OTHER_SOURCES),
            "lab_sources": fingerprint(Path(supquant_lab.__file__).parent, LAB_SOURCES),
        }
        for ours in (True, False)
    }
    shared = {"commit": _commit(), "threads": n_jobs, "machine": describe_machine()}
    records = []
    for number, cell in enumerate(cells, 1):
        made_by = sources[cell.method == OURS]
        path = folder / f"{cell.name}.json"
        record = json.loads(path.read_text()) if path.is_file() else None
        if record is None or any(record[name] != value for name, value in made_by.items()):
            if on_cell is not None:
                on_cell(number, cell.name)
            load, began = os.getloadavg()[0], time.perf_counter()
            with threadpool_limits(n_jobs):
                figures, parameters = measure(cell, n_jobs)
            record = {
                "benchmark": "opponents",
                **cell._asdict(),
                "figures": figures,
                "parameters": parameters,
                "seconds": time.perf_counter() - began,
                "load_before": load,
                **made_by,
                **shared,
            }
            write_record(path, record)
        records.append(record)
    return records


def read_folder(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    found = [record.content for record in read_records(folder)]
    return [content for content in found if content.get("benchmark") == "opponents"]
