"""Report: the machine of a measurement, and the memory of this process."""

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
from supquant.inputs.parameters import resolve_jobs

ARM_SERVERS = {
    "implementer 0x41 part 0xd0c": "Neoverse-N1",
    "implementer 0x41 part 0xd40": "Neoverse-V1",
    "implementer 0x41 part 0xd49": "Neoverse-N2",
    "implementer 0x41 part 0xd4f": "Neoverse-V2",
}
"""Names of ARM processors, by the numbers that Linux gives in place of a name."""


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, instruction set, and the versions of packages that speed depends on.

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
    """Return the peak resident memory of this process so far, in MB.

    Examples
    --------
    >>> peak_memory_mb() > 1
    True
    """
    told = _status_mb("VmHWM")  # `getrusage` of a child process includes the memory of its parent
    if told is not None:
        return told
    unit = 1 if platform.system() == "Darwin" else 1024  # the value is in bytes there, in kilobytes elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def resident_memory_mb() -> float:
    """Return the resident memory of this process now, in MB; its peak on systems without /proc.

    Examples
    --------
    >>> 1 < resident_memory_mb() <= peak_memory_mb()
    True
    """
    told = _status_mb("VmRSS")
    return peak_memory_mb() if told is None else told


def _status_mb(field: str) -> float | None:
    """Return a field of /proc/self/status in MB; None on systems without it."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.partition(f"{field}:")[2].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        return None


def _processor() -> str:
    """Return the name of the processor as the system gives it."""
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
