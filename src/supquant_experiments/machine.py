"""Report: the machine that a figure was measured on, and what it took there."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import supquant
from supquant import kernels
from supquant.validation import resolve_jobs

ARM_SERVERS = {
    "implementer 0x41 part 0xd0c": "Neoverse-N1",
    "implementer 0x41 part 0xd40": "Neoverse-V1",
    "implementer 0x41 part 0xd49": "Neoverse-N2",
    "implementer 0x41 part 0xd4f": "Neoverse-V2",
}
"""Linux tells numbers where x86 tells a name."""


def describe_machine() -> dict[str, Any]:
    """Name processor, cores, instruction set and the versions that speed depends on.

    Examples
    --------
    >>> sorted(describe_machine())[:3]
    ['blas', 'cores', 'instruction_set']
    """
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": resolve_jobs(None),
        "instruction_set": kernels.isa(),
        "blas": sorted({f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()}),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "supquant": supquant.__version__,
    }


def peak_memory_mb() -> float:
    """Give the most memory (resident, MB) that this process has held so far.

    Examples
    --------
    >>> peak_memory_mb() > 1
    True
    """
    told = _status_mb("VmHWM")  # what `getrusage` tells of a child process includes what its parent held
    if told is not None:
        return told
    unit = 1 if platform.system() == "Darwin" else 1024  # bytes there, kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def resident_memory_mb() -> float:
    """Return the memory (resident, MB) that this process holds now, or its peak where the system tells no more.

    Examples
    --------
    >>> 1 < resident_memory_mb() <= peak_memory_mb()
    True
    """
    told = _status_mb("VmRSS")
    return peak_memory_mb() if told is None else told


def _status_mb(field: str) -> float | None:
    """Read a field of /proc, where the system has it."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        return None


def _processor() -> str:
    """Give the processor's name where the system tells it."""
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    part = "implementer {CPU implementer} part {CPU part}".format_map(facts) if "CPU part" in facts else ""
    part = ARM_SERVERS.get(part, part)
    return facts.get("model name") or part or platform.processor() or os.uname().machine
