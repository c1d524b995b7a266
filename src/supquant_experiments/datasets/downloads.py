"""Files from a data set's public address, only when asked for, and only if their checksum is the known one."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from supquant.errors import InputError
from supquant_experiments.datasets.files import data_folder

if TYPE_CHECKING:
    from collections.abc import Mapping


def download(base_url: str, known_hashes: Mapping[str, str]) -> None:
    """Fetch files into the data folder, each whole and with its known checksum, or not at all.

    Parameters
    ----------
    base_url : str
        The address that file names are added to.
    known_hashes : mapping of str to str
        File names, and their checksums as ``"md5:..."`` or ``"sha256:..."``. What is there already and
        right is kept.

    Raises
    ------
    InputError
        If a file cannot be fetched, or is not the one that was expected; files that came are kept.
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
