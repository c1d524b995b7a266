"""The one door to compiled code: sums, searches and scans over codes.

    callers -> kernels.active()   -> native.py -> _native (C++, one object per instruction set)
                                  or reference.py (NumPy, if the extension cannot be imported)
    scans   -> kernels.scanning() -> the same, or cuda/ if `use_device` has chosen a GPU
    items   -> kernels.device     -> cuda/, or the same

`Kernels` says what the functions of these modules compute. `cuda/` has those that a GPU does well. The environment
variable ``SUPQUANT_ISA`` chooses an instruction set. ``SUPQUANT_REQUIRE_NATIVE=1`` makes an extension that cannot be imported an
`ImportError`.
"""

import os
import warnings

from supquant.kernels import device, reference
from supquant.kernels.device import use_device
from supquant.kernels.packing import GROUP, Packed, pack_rows
from supquant.kernels.protocol import Kernels, Scans
from supquant.kernels.queries import CompiledKernels, FeatureKernel, MeaningParts, QueryKernel, QueryRule
from supquant.kernels.scanned import BLOCK_ROWS, Cells, Scanned, blocks_of

__all__ = [
    "BLOCK_ROWS",
    "GROUP",
    "Cells",
    "CompiledKernels",
    "FeatureKernel",
    "Kernels",
    "MeaningParts",
    "Packed",
    "QueryKernel",
    "QueryRule",
    "Scanned",
    "active",
    "blocks_of",
    "compiled",
    "isa",
    "pack_rows",
    "reference",
    "scanning",
    "use_device",
]

_compiled: CompiledKernels | None
_failure = ""  # why there are no compiled kernels
try:
    from supquant.kernels import native
except ImportError as error:
    if os.environ.get("SUPQUANT_REQUIRE_NATIVE") == "1" or os.environ.get("SUPQUANT_ISA"):
        raise ImportError(
            "the compiled kernels of supquant cannot be imported, and SUPQUANT_REQUIRE_NATIVE or "
            f"SUPQUANT_ISA asks for them: install the package with a C++ compiler at hand ({error})"
        ) from error
    _compiled, _failure = None, str(error)
else:
    native.force_level(os.environ.get("SUPQUANT_ISA"))
    _compiled = native


def active() -> Kernels:
    """Return the kernels in use: the compiled ones or, with a warning, those in NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import kernels
    >>> codes = np.array([[0, 1], [0, 0]], dtype=np.uint8)
    >>> kernels.active().pair_counts(codes, 2)
    array([[2., 0., 1., 1.],
           [0., 0., 0., 0.],
           [1., 0., 1., 0.],
           [1., 0., 0., 1.]])
    """
    if _compiled is not None:
        return _compiled
    warnings.warn(
        "the compiled kernels of supquant cannot be imported, and slow ones in NumPy are used instead: "
        f"install the package with a C++ compiler at hand ({_failure})",
        RuntimeWarning,
        stacklevel=2,
    )
    return reference


def scanning() -> Scans:
    """Return the kernels that scan: those of a GPU if `use_device` has chosen one, else those in use.

    Examples
    --------
    >>> from supquant import kernels
    >>> kernels.scanning() is kernels.active()
    True
    """
    if device.device_name() == "cuda":
        scans: Scans = device.cuda()
        return scans
    return active()


def compiled() -> CompiledKernels | None:
    """Return the compiled kernels, which do more than `Kernels` asks for, or None where only those in NumPy are there."""
    return _compiled


def isa() -> str:
    """Return the name of the instruction set in use, or ``"numpy"`` without compiled kernels.

    Examples
    --------
    >>> from supquant import kernels
    >>> kernels.isa() in {"portable", "neon", "avx2", "avx512bw", "avx512", "numpy"}
    True
    """
    return native.level() if _compiled is not None else "numpy"
