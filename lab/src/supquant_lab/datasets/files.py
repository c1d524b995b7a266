"""The folders of data files, the errors for missing ones, and the check of their contents."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import platformdirs
import xxhash

from supquant.arrays import Array
from supquant.errors import InputError


def cache_folder() -> Path:
    """Return the user's cache folder, for files that are made from data files and may be deleted.

    Examples
    --------
    >>> cache_folder().name
    'supquant'
    """
    return Path(platformdirs.user_cache_dir("supquant"))


def data_folder() -> Path:
    """Return the folder of the data files: ``$SUPQUANT_DATA``, or ``data`` in the cache folder by default.

    Examples
    --------
    >>> data_folder().is_absolute()
    True
    """
    named = os.environ.get("SUPQUANT_DATA")
    return Path(named).absolute() if named else cache_folder() / "data"


def find(file_name: str, how_to_get_it: str) -> Path:
    """Return the path of a data file; if it is missing, the error names the folder and how to get the file.

    Examples
    --------
    >>> find("no-such-file.npz", "Make it.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: no-such-file.npz was not found in ...
    """
    path = data_folder() / file_name
    if not path.is_file():
        raise not_found(file_name, how_to_get_it)
    return path


def not_found(what: str, how_to_get_it: str) -> InputError:
    """Return the error for missing data.

    Examples
    --------
    >>> raise not_found("mnist", "Ask for it.")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: mnist was not found in ...
    """
    return InputError(
        f"{what} was not found in {data_folder()} "
        f"(the folder named by SUPQUANT_DATA, or else the cache folder). {how_to_get_it}"
    )


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in ``.gz``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     packed = Path(folder) / "note.gz"
    ...     _ = packed.write_bytes(gzip.compress(b"seven"))
    ...     read_bytes(packed)
    b'seven'
    """
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or no gzip file: {error}; get the file again") from error


def checksum(*arrays: Array) -> str:
    """Return the xxh3 (128 bits, hexadecimal) of shapes, dtypes and values.

    Examples
    --------
    >>> checksum(np.arange(3, dtype=np.uint8))
    '3f739e52c8d77f2582d76017fb3fa26c'
    """
    hasher = xxhash.xxh3_128()
    for array in arrays:
        hasher.update(f"{array.dtype.str}{array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return hasher.hexdigest()


def check_published(path: Path, expected: str, *arrays: Array) -> None:
    """Raise an error if arrays are not the published ones.

    Examples
    --------
    >>> check_published(Path("two.npz"), "0" * 32, np.arange(2, dtype=np.uint8))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: two.npz does not hold the published data: checksum ..., expected 0000...
    """
    came = checksum(*arrays)
    if came != expected:
        shapes = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise InputError(
            f"{path} does not hold the published data: checksum {came}, expected {expected}; it holds {shapes}. "
            "Get the file again; other data are loaded by the path of an .npz file."
        )
