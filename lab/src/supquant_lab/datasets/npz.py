"""Arrays from .npz files that other programs wrote."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from supquant.arrays import Array
from supquant.errors import InputError


def read_arrays(path: Path, names: tuple[str, ...]) -> tuple[Array, ...]:
    """Read arrays from an .npz file. Pickled objects are refused.

    Parameters
    ----------
    path : Path
        The file.
    names : tuple of str
        The names of the arrays.

    Returns
    -------
    tuple of ndarray
        The arrays, in the order of `names`.

    Raises
    ------
    InputError
        If the file cannot be read or lacks an array.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "two.npz", X=np.eye(2), y=[0, 1])
    ...     read_arrays(Path(folder) / "two.npz", ("y",))
    (array([0, 1]),)
    """
    found: list[str] = []
    arrays: dict[str, Array] = {}
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.ndarray):
                found = archive.files
                arrays = {name: archive[name] for name in names if name in found}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} is not a readable .npz file of plain arrays: {error}") from error
    missing = [name for name in names if name not in arrays]
    if missing:
        raise InputError(
            f"{path} has no {' and no '.join(missing)}; it holds {', '.join(found) or 'no named array'}"
        )
    return tuple(arrays[name] for name in names)
