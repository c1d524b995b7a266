"""Where data files are looked for, and what is said when one is not there."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs

from supquant.errors import InputError

if TYPE_CHECKING:
    from supquant.datasets.dataset import Array


def data_folder() -> Path:
    """Give the folder of the data files: ``$SUPQUANT_DATA``, or the user's cache folder.

    Examples
    --------
    >>> data_folder().is_absolute()
    True
    """
    named = os.environ.get("SUPQUANT_DATA")
    return Path(named).absolute() if named else Path(platformdirs.user_cache_dir("supquant")) / "data"


def find(file_name: str, how_to_get_it: str) -> Path:
    """Give the path of a data file; if it is not there, say where it was looked for and how to get it.

    Examples
    --------
    >>> find("no-such-file.npz", "Make it.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: no-such-file.npz was not found in ...
    """
    path = data_folder() / file_name
    if not path.is_file():
        raise InputError(
            f"{file_name} was not found in {path.parent} "
            f"(the folder named by SUPQUANT_DATA, or else the cache folder). {how_to_get_it}"
        )
    return path


def read_arrays(path: Path, names: tuple[str, ...]) -> tuple[Array, ...]:
    """Read arrays by name from an .npz file, never unpickling anything.

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
