"""Report: measuring cells one by one, each into its own record, which a later run skips."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from threadpoolctl import threadpool_limits

from supquant_lab.machine import describe_machine
from supquant_lab.records import read_records, write_record

Record = dict[str, Any]


class Named(Protocol):
    """What is measured. Its name is that of its record."""

    @property
    def name(self) -> str:
        """A file name without a suffix."""


Cell = TypeVar("Cell", bound=Named)


def measure_missing(
    cells: Sequence[Cell],
    folder: Path,
    measure: Callable[[Cell], Record],
    sources_of: Callable[[Cell], Mapping[str, str]],
    *,
    n_jobs: int | None = None,
    on_cell: Callable[[int, str], None] | None = None,
) -> list[Record]:
    """Measure cells, and return the records of all of them.

    A cell is skipped if its record is in the folder and was made by the same sources.

    Parameters
    ----------
    cells : sequence
    folder : Path
        Made if it is not there.
    measure : callable
        Returns the fields of a record that are the cell's own.
    sources_of : callable
        Returns the fingerprints, by field, of what determines the figures of a cell.
    n_jobs : int or None, default=None
        Number of threads of BLAS and OpenMP; None uses all cores.
    on_cell : callable, optional
        Gets the number, from 1, and the name of each cell before it is measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    commit, machine = _commit(), describe_machine()
    records = []
    for number, cell in enumerate(cells, 1):
        sources = sources_of(cell)
        path = folder / f"{cell.name}.json"
        record = json.loads(path.read_text()) if path.is_file() else None
        if record is None or any(record.get(name) != value for name, value in sources.items()):
            if on_cell is not None:
                on_cell(number, cell.name)
            load, began = os.getloadavg()[0], time.perf_counter()
            with threadpool_limits(n_jobs):
                own = measure(cell)
            record = {
                **own,
                "seconds": time.perf_counter() - began,
                "load_before": load,
                "commit": commit,
                **sources,
                "machine": machine,
            }
            write_record(path, record)
        records.append(record)
    return records


def read_benchmark(folder: Path, benchmark: str) -> list[Record]:
    """Return the records of a benchmark in a folder."""
    found = [record.content for record in read_records(folder)]
    return [content for content in found if content.get("benchmark") == benchmark]


def _commit() -> str | None:
    """Return the commit of the checkout that the command runs in, marked if it has changes; None outside of one."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
