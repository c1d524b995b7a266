"""Where work is done: on the CPU, or on a GPU of NVIDIA that this process can use.

    use_device("cuda") -> scans, items that are encoded, and the heavy parts of fits go to kernels/cuda/
    arrays on a GPU    -> items are encoded there, whatever was chosen

CuPy is imported when a GPU is first asked for.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import ModuleType, TracebackType
from typing import Literal, get_args

from supquant.errors import DeviceError, InputError
from supquant.system import at_fork

__all__ = ["Device", "chosen_gpu", "cuda", "device_name", "use_device", "why_no_gpu"]

Device = Literal["cpu", "cuda", "auto"]
"""The CPU, a GPU, or a GPU where there is one and else the CPU."""

_chosen: Literal["cpu", "cuda"] = "cpu"
_lost = False  # whether this process was forked from one that had imported CuPy


class use_device:  # noqa: N801  # it is called like a function
    """Choose where models are fitted, items are encoded and scans are made, for the whole process.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        ``"auto"`` takes a GPU if there is one.

    Raises
    ------
    DeviceError
        If ``"cuda"`` is asked for, and there is no GPU, no driver or no CuPy. The error says what is missing.

    Notes
    -----
    In a ``with`` statement, the choice before it returns at its end. The choice is that of the process, so that threads of a
    service share it.

    Examples
    --------
    >>> from supquant import use_device
    >>> with use_device("cpu"):
    ...     pass  # fits, searches, and items that are encoded, take the CPU here
    """

    def __init__(self, device: Device) -> None:
        global _chosen  # noqa: PLW0603  # one choice for the process
        if device not in get_args(Device):
            raise InputError(f"device must be 'cpu', 'cuda' or 'auto', got {device!r}")
        self._before = _chosen
        if device == "auto":
            device = "cpu" if why_no_gpu() else "cuda"
        if device == "cuda" and (reason := why_no_gpu()):
            raise DeviceError(reason)
        _chosen = device

    def __enter__(self) -> None:
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _chosen  # noqa: PLW0603
        _chosen = self._before


def device_name() -> Literal["cpu", "cuda"]:
    """Return where work is done now.

    Examples
    --------
    >>> device_name()
    'cpu'
    """
    return _chosen


def cuda() -> ModuleType:
    """Return the kernels of the GPU, `supquant.kernels.cuda`; raise a `DeviceError` if this process can use none."""
    if reason := why_no_gpu():
        raise DeviceError(reason)
    from supquant.kernels import cuda as kernels  # noqa: PLC0415  # needs CuPy, an extra

    return kernels


def chosen_gpu() -> ModuleType | None:
    """Return the kernels of the GPU if `use_device` has chosen it, and None if work is done on the CPU.

    Examples
    --------
    >>> chosen_gpu() is None
    True
    """
    return cuda() if _chosen == "cuda" else None


@lru_cache(maxsize=1)
def why_no_gpu() -> str:
    """Return in one line why this process can use no GPU, and nothing if it can."""
    if _lost:
        return "a forked process cannot use a GPU after its parent has: start it anew (spawn)"
    try:
        import cupy  # noqa: PLC0415  # an extra
    except ImportError as error:
        return f"a GPU needs CuPy: pip install 'supquant[cuda13]', or [cuda12] for an older driver ({error})"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"there is no GPU that CUDA can use here ({error})"
    return "" if count else "there is no GPU that CUDA can use here"


def _forget_in_child() -> None:
    """Let a forked child work on the CPU: it cannot use a GPU that its parent uses."""
    global _chosen, _lost
    _chosen, _lost = "cpu", _lost or "cupy" in sys.modules
    why_no_gpu.cache_clear()


at_fork(after_in_child=_forget_in_child)
