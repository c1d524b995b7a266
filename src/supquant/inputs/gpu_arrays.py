"""Arrays that lie in the memory of a GPU: which ones do, and their copies in the memory of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["copy_to_host", "is_on_gpu"]

_ON_GPU = (2, 13)
"""The devices of DLPack whose memory is that of a GPU of NVIDIA, or shared with one."""


def is_on_gpu(array: Any) -> bool:
    """Return whether an array lies in the memory of a GPU, such as one of CuPy or a tensor of torch.

    Examples
    --------
    >>> is_on_gpu([1.0]), is_on_gpu(np.zeros(3))
    (False, False)
    """
    place = getattr(array, "__dlpack_device__", None)
    return place is not None and place()[0] in _ON_GPU


def copy_to_host(array: Any) -> Any:
    """Return an array of NumPy with the numbers of one that lies on a GPU, and anything else as it is.

    Examples
    --------
    >>> copy_to_host([1.0])
    [1.0]
    """
    if not is_on_gpu(array):
        return array
    if hasattr(array, "get"):  # CuPy
        return array.get()
    if hasattr(array, "detach"):  # torch
        tensor = array.detach().cpu()
        return (tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy()
    import cupy  # noqa: PLC0415  # an extra

    copied: np.ndarray[Any, Any] = cupy.asnumpy(cupy.from_dlpack(array))
    return copied
