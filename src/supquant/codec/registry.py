"""Codecs and feature maps by the kind that a file names.

A module is imported when a file needs it. No codec knows another. Other packages add their own by an entry point.
"""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from supquant.errors import FileFormatError
from supquant.storage import ArrayFile, open_arrays, shorten

if TYPE_CHECKING:
    from supquant.codec.interface import AnyCodec, FeatureMap

__all__ = ["CODECS", "FEATURE_MAPS", "codec_of_file", "load_codec", "load_codec_of", "map_class", "plugins"]

CODECS = {
    "additive": "supquant.codec.additive:AdditiveCodec",
    "supervised": "supquant.model.codec:SupervisedCodec",
}
"""Every codec of the library, by the type that a file names. Packages add theirs in the group ``supquant.codecs``."""

FEATURE_MAPS = {
    "anchor-kernel": "supquant.codec.gaussian_map:GaussianMap",
    "supervised": "supquant.model.feature_map:SupervisedMap",
}
"""Every feature map of the library. Packages add theirs in the group ``supquant.feature_maps``."""


def load_codec(path: str | os.PathLike[str]) -> AnyCodec:
    """Read a codec of any type from a file that its `save` wrote.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    AnyCodec

    Raises
    ------
    FileFormatError
        If the file is damaged, foreign, or of another kind, such as a model.
    FileNotFoundError
        If there is no file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from supquant import AdditiveCodec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     AdditiveCodec(np.zeros((2, 4, 3), dtype=np.float32)).save(f"{folder}/codec")
    ...     load_codec(f"{folder}/codec").rankings
    ('euclidean',)
    """
    return load_codec_of(path, "codec")[0]


def load_codec_of(path: str | os.PathLike[str], kind: str) -> tuple[AnyCodec, dict[str, Any]]:
    """Read the codec in a file of a kind, such as that of a model; return it and the settings saved with it."""
    return codec_of_file(open_arrays(path, kind, mapped=False))


def codec_of_file(file: ArrayFile) -> tuple[AnyCodec, dict[str, Any]]:
    """Return the codec of any type that an open file holds, and the settings saved with it."""
    own = file.settings.get("codec")
    name = own.get("type") if isinstance(own, dict) else None
    found = _registered(name, CODECS, "supquant.codecs")
    if found is None:
        raise FileFormatError(
            f"{os.fspath(file.path)}: holds no codec of this version of supquant: type {shorten(name)}"
        )
    read: tuple[AnyCodec, dict[str, Any]] = found.from_file(file)
    return read


def map_class(kind: str) -> type[FeatureMap]:
    """Return the feature map of a kind; raise a KeyError for an unknown kind."""
    found: type[FeatureMap] | None = _registered(kind, FEATURE_MAPS, "supquant.feature_maps")
    if found is None:
        raise KeyError(kind)
    return found


def _registered(name: object, own: dict[str, str], group: str) -> Any:
    """Return what is registered under a name, by the library or by another package; None if nothing is."""
    if not isinstance(name, str):
        return None
    if name in own:
        module, attribute = own[name].split(":")
        return getattr(import_module(module), attribute)
    return plugins(group)[name].load() if name in plugins(group) else None


@cache  # to find them, the metadata of every installed package is read
def plugins(group: str) -> dict[str, EntryPoint]:
    """Return what other packages add to a group of entry points, by name."""
    return {each.name: each for each in entry_points(group=group)}
