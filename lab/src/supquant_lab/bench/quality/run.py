"""Report: measuring cells one by one, each into its own record, which a later run skips."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

import supquant
import supquant_lab
from supquant_lab.bench.quality.measures import measure
from supquant_lab.bench.quality.plan import Case
from supquant_lab.machine import describe_machine
from supquant_lab.records import read_records, write_record

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

GPU_SOURCES = ("kernels/cuda", "model/on_device.py")
"""Sources among these that only run on a GPU. Figures are measured without one."""

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
    """Measure cells, and return the records of all of them.

    A cell is skipped if its record is in the folder and was made by the same sources.

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
    folder.mkdir(parents=True, exist_ok=True)
    sources = fingerprints()
    shared = {"commit": _commit(), **sources, "machine": describe_machine()}
    records = []
    for number, case in enumerate(cases, 1):
        path = folder / f"{case.name}.json"
        record = json.loads(path.read_text()) if path.is_file() else None
        if record is None or any(record[name] != value for name, value in sources.items()):
            if on_case is not None:
                on_case(number, case.name)
            load, began = os.getloadavg()[0], time.perf_counter()
            with threadpool_limits(n_jobs):
                figures = measure(case, n_jobs)
            record = {
                "benchmark": "quality",
                **case.line._asdict(),
                "seed": case.seed,
                "figures": figures,
                "seconds": time.perf_counter() - began,
                "load_before": load,
                **shared,
            }
            write_record(path, record)
        records.append(record)
    return records


def read_folder(folder: Path) -> list[Record]:
    """Return the records of a folder."""
    return [record.content for record in read_records(folder) if record.content.get("benchmark") == "quality"]


def fingerprints() -> dict[str, str]:
    """Return the fingerprints that records of the present code have."""
    return {
        "sources": fingerprint(Path(supquant.__file__).parent, SOURCES),
        "protocol": fingerprint(Path(supquant_lab.__file__).parent, PROTOCOL),
    }


def fingerprint(folder: Path, names: Sequence[str]) -> str:
    """Return a hash of files of a package, and of all files in folders of it. Comments and docstrings do not change it.

    Examples
    --------
    >>> lab = Path(supquant_lab.__file__).parent
    >>> fingerprint(lab, ["records.py"]) == fingerprint(lab, ["splits.py"])
    False
    """
    digest = hashlib.sha256()
    for name in names:
        found = folder / name
        files = sorted(found.rglob("*")) if found.is_dir() else [found]
        for file in files:
            own = file.relative_to(folder)
            if file.suffix == ".py" and not any(own.is_relative_to(each) for each in GPU_SOURCES):
                digest.update(own.as_posix().encode() + _statements(file))
    return digest.hexdigest()[:16]


def _statements(file: Path) -> bytes:
    """Return the statements of a Python file without comments and docstrings, the same in all versions of Python."""
    return repr(_nested(ast.parse(file.read_text(encoding="utf-8")))).encode()


def _nested(tree: Any) -> Any:
    """Return a syntax tree as nested lists. Later versions of Python have more fields, which are empty for older sources."""
    if isinstance(tree, list):
        return [_nested(each) for each in tree if not _is_text(each)]
    if not isinstance(tree, ast.AST):
        return tree
    fields = ((name, _nested(value)) for name, value in ast.iter_fields(tree))
    return [type(tree).__name__, *((name, value) for name, value in fields if value not in (None, []))]


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _commit() -> str | None:
    """Return the commit of the checkout that the command runs in, marked if it has changes; None outside of one."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
