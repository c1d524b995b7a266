"""The files of data sets: their folders, how they are fetched and read, and the check of their contents."""

from __future__ import annotations

import gzip
import importlib
import io
import logging
import os
import pickle
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
import xxhash

from supquant.arrays import Array
from supquant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


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
        raise InputError(f"{path} is damaged or not a gzip file: {error}; download the file again") from error


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
            "Download the file again; other data are loaded by the path of an .npz file."
        )


def read_pickle(content: bytes, path: Path) -> Any:
    """Return the content of a pickle, also of Python 2: arrays, numbers, texts, and tuples, lists and dictionaries of them.

    Parameters
    ----------
    content : bytes
    path : Path
        The file, for the error.

    Examples
    --------
    >>> from pathlib import Path
    >>> read_pickle(pickle.dumps({"labels": [6, 9]}), Path("batch"))
    {'labels': [6, 9]}
    >>> read_pickle(pickle.dumps(print), Path("batch"))
    Traceback (most recent call last):
    ...
    supquant.errors.InputError: batch is not a pickle of plain arrays: it must not hold builtins.print
    """
    try:
        return _ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
    # a damaged pickle is a program with random instructions, which may raise nearly any error
    except Exception as error:
        raise InputError(f"{path} is not a pickle of plain arrays: {error}") from error


class _ArrayUnpickler(pickle.Unpickler):
    """Reads NumPy arrays and built-in types only: with other types a pickle could run any code."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module.endswith("core.multiarray"):
            return np.ndarray(0).__reduce__()[
                0
            ]  # the function itself, which versions of NumPy keep in different modules
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it must not hold {module}.{name}")


def fetch(base_url: str, known_hashes: Mapping[str, str]) -> None:
    """Fetch files into the data folder; a file is kept only if it is complete and has its known checksum.

    Parameters
    ----------
    base_url : str
        The address that file names are added to.
    known_hashes : mapping of str to str
        File names, and their checksums as ``"md5:..."`` or ``"sha256:..."``. Files that are there and right are not fetched.

    Raises
    ------
    InputError
        If a file cannot be fetched or has another checksum. Files that were fetched before are kept.
    """
    pooch = importlib.import_module("pooch")
    logger, folder = pooch.get_logger(), data_folder()
    level = logger.level
    logger.setLevel(logging.WARNING)  # it would write every address to the error stream
    try:
        for file_name, known_hash in known_hashes.items():
            pooch.retrieve(base_url + file_name, known_hash, fname=file_name, path=folder)
    except (OSError, ValueError) as error:  # what requests raises is an OSError
        raise InputError(
            f"{file_name} could not be downloaded from {base_url} to {folder}: {' '.join(str(error).split())}"
        ) from error
    finally:
        logger.setLevel(level)
