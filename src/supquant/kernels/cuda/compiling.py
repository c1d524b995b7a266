"""CUDA C++ sources to kernels: they are compiled when they are first launched, for the numbers and the GPU at hand."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import cupy as cp

__all__ = ["THREADS", "blocks_for", "kernel", "largest_shared_memory", "n_multiprocessors", "name"]

THREADS = 256
"""Threads of a block of kernels that have no other reason for a number."""

_OPTIONS = "--std=c++17", "--fmad=false"
"""No multiply-adds are fused but those in the sources: so all machines give the same bits."""


def kernel(source: str, name: str, **numbers: int) -> Any:
    """Return a kernel of a source file, compiled for this GPU with numbers as macros.

    It is called with a grid, a block, its arguments and the bytes of shared memory. CuPy keeps what it has compiled on disk.
    """
    return _kernel(cp.cuda.Device().id, source, name, tuple(sorted(numbers.items())))


@cache
def _kernel(device: int, source: str, name: str, numbers: tuple[tuple[str, int], ...]) -> Any:
    found = _module(device, source, numbers).get_function(name)
    if (most := largest_shared_memory()) > found.max_dynamic_shared_size_bytes:
        found.max_dynamic_shared_size_bytes = most - found.shared_size_bytes
    return found


@cache
def _module(device: int, source: str, numbers: tuple[tuple[str, int], ...]) -> Any:
    """Return a source file, compiled: once for each GPU and all numbers."""
    del device
    text = files("supquant.kernels.cuda").joinpath(f"sources/{source}.cu").read_text(encoding="utf-8")
    macros = (f"-D{name}={value}" for name, value in numbers)
    return cp.RawModule(code=text, options=(*_OPTIONS, *macros))


def largest_shared_memory() -> int:
    """Return the most bytes of shared memory that a block may have on this GPU."""
    return int(cp.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def name() -> str:
    """Return what this GPU is called."""
    return str(cp.cuda.runtime.getDeviceProperties(cp.cuda.Device().id)["name"].decode())


def n_multiprocessors() -> int:
    """Return the number of multiprocessors of this GPU."""
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


def blocks_for(n: int, threads: int = THREADS) -> int:
    """Return the number of blocks that have a thread for each of n things.

    Examples
    --------
    >>> blocks_for(257)  # doctest: +SKIP
    2
    """
    return -(-n // threads)
