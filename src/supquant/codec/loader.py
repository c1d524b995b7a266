"""Files to codecs: a file says which type of codec it holds."""

from __future__ import annotations

import os
from typing import Any

from supquant.codec.additive import AdditiveCodec
from supquant.codec.base import ProjectingCodec
from supquant.codec.binary import BinaryCodec
from supquant.codec.interface import AnyCodec
from supquant.codec.labels import LabelCodec
from supquant.codec.semantic import SemanticCodec
from supquant.errors import FileFormatError
from supquant.storage import ArrayFile, open_arrays, shorten

_TYPES: dict[str, type[AdditiveCodec | BinaryCodec | LabelCodec | SemanticCodec]] = {
    each.TYPE: each for each in (AdditiveCodec, BinaryCodec, LabelCodec, SemanticCodec)
}


def load_codec(path: str | os.PathLike[str]) -> AnyCodec:
    """Read a codec of any type from a file that its `save` wrote.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    AdditiveCodec, BinaryCodec, LabelCodec or SemanticCodec

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
    >>> from supquant.codec import BinaryCodec
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     BinaryCodec(None, np.zeros(16, dtype=np.float32)).save(f"{folder}/codec")
    ...     load_codec(f"{folder}/codec").rankings
    ('hamming',)
    """
    return load_codec_of(path, ProjectingCodec.KIND)[0]


def load_codec_of(path: str | os.PathLike[str], kind: str) -> tuple[AnyCodec, dict[str, Any]]:
    """Read the codec in a file of a kind, such as that of a model; return it and the settings saved beside it."""
    return codec_of_file(open_arrays(path, kind, mapped=False))


def codec_of_file(file: ArrayFile) -> tuple[AnyCodec, dict[str, Any]]:
    """Return the codec of any type that an open file holds, and the settings saved beside it."""
    own = file.settings.get("codec")
    name = own.get("type", AdditiveCodec.TYPE) if isinstance(own, dict) else None
    if not isinstance(name, str) or name not in _TYPES:
        raise FileFormatError(
            f"{os.fspath(file.path)}: holds no codec of this version of supquant: type {shorten(name)}"
        )
    return _TYPES[name].from_file(file)
