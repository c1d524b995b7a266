"""Files from the public address of a data set, fetched only on request and kept only with the known checksum."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from supquant.errors import InputError
from supquant_lab.datasets.files import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping


def download(base_url: str, known_hashes: Mapping[str, str]) -> None:
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
    try:
        pooch = importlib.import_module("pooch")
    except ModuleNotFoundError as error:
        raise InputError("downloads need the package pooch: pip install 'supquant[lab]'") from error
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
