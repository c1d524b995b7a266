"""The idx files of MNIST: a magic number, the dimensions, the bytes; plain or compressed with gzip."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError
from supquant_lab.datasets.files import read_bytes

if TYPE_CHECKING:
    from pathlib import Path


UNSIGNED_BYTES = 0x08
"""The third byte of the magic number, for unsigned bytes; the fourth byte is the number of dimensions."""


def read_idx(path: Path, n_dimensions: int) -> Array:
    """Return the array of a file of unsigned bytes; a file of another format or size is an error.

    Parameters
    ----------
    path : Path
        Compressed if its name ends in ``.gz``.
    n_dimensions : int
        3 for pictures, 1 for labels.

    Returns
    -------
    ndarray of uint8

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     labels = Path(folder) / "labels-idx1-ubyte"
    ...     labels.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]))
    ...     read_idx(labels, 1)
    10
    array([5, 7], dtype=uint8)
    """
    content = read_bytes(path)
    magic = UNSIGNED_BYTES << 8 | n_dimensions
    header = np.frombuffer(content[: 4 * (1 + n_dimensions)], dtype=np.uint8)
    if len(header) < 4 * (1 + n_dimensions):
        raise InputError(
            f"{path}: expected an idx header of {4 * (1 + n_dimensions)} bytes, got {len(content)}"
        )
    found, *shape = header.view(">u4").tolist()
    if found != magic:
        raise InputError(
            f"{path}: expected the magic number {magic} (idx file of bytes, {n_dimensions} dimensions), got {found}"
        )
    expected = len(header) + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise InputError(
            f"{path}: expected {expected} bytes for {' x '.join(map(str, shape))} items, got {len(content)}; "
            "get the file again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=len(header)).reshape(shape)
